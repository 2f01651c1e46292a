//! Doors for a fuzzer to what reads bytes of the disk and of other replicas.
//!
//! Only the feature `fuzzing` has them. Each door takes any bytes, says whether they were accepted,
//! and panics if something else does not hold that must hold for all of them: what was read is
//! written and read back the same.

use std::fmt::Debug;
use std::path::Path;

use firstclaim_core::tenant::Cluster;
use firstclaim_core::{
    Command, History, Namespace, Record, Slot, Tenant, Timestamp, Usage, limits,
};
use firstclaim_proto::peer::v1 as proto;
use firstclaim_proto::weigh::{self, Shaped};

use crate::peer;
use crate::store::codec::{self, Decoded, Stored};
use crate::store::identity::Identity;
use crate::store::{schema, snapshot, v1};
use crate::wire;

/// A name, and what takes the bytes.
pub type Door = (&'static str, fn(&[u8]) -> bool);

/// All doors.
pub const DOORS: &[Door] = &[
    ("payload", payload),
    ("sealed", sealed),
    ("message", message),
    ("peer", peer_message),
    ("manifest", manifest),
    ("row_key", row_key),
    ("identity", identity),
];

/// The kinds of sealed values, in the order of the byte that chooses one. Seeds know the order.
const VALUES: [fn(u8, &[u8]) -> bool; 10] = [
    value::<Cluster>,
    value::<Slot<Tenant>>,
    value::<Slot<Namespace>>,
    value::<Record>,
    value::<History>,
    value::<Usage>,
    former::<v1::Cluster, Cluster>,
    former::<v1::Record, Record>,
    former::<v1::Slot<Tenant>, Slot<Tenant>>,
    former::<v1::Slot<v1::Namespace>, Slot<Namespace>>,
];

/// The commands in the payload of a log entry.
#[must_use]
pub fn commands(payload: &[u8]) -> Vec<Command> {
    codec::decode_payload(payload).map(|decoded| decoded.commands).unwrap_or_default()
}

/// Takes what a call of so many bytes became into the log, and says as what payload of an entry.
///
/// # Panics
///
/// If it grows by more than it may, so that an entry that is closed by the size of its calls could be
/// too long for the log; or if it comes out of the log as another command.
#[must_use]
pub fn log(command: &Command, call_bytes: usize) -> Vec<u8> {
    const GROWTH_MAX: usize =
        (codec::PAYLOAD_BYTES_MAX - limits::ENTRY_BYTES_MAX) / limits::ENTRY_COMMANDS_MAX;
    const _: () = assert!(limits::COMMAND_BYTES_MAX + GROWTH_MAX <= codec::PAYLOAD_BYTES_MAX);
    let time = Timestamp(1_800_000_000_123);
    let commands = std::slice::from_ref(command);
    let payload = codec::encode_payload(time, commands).expect("a command fits an entry");
    assert!(
        payload.len() <= call_bytes + GROWTH_MAX,
        "{call_bytes} bytes became {} in the log",
        payload.len()
    );
    let decoded = codec::decode_payload(&payload).expect("what was written can be read");
    assert_eq!((decoded.time, &*decoded.commands), (time, commands));
    payload.to_vec()
}

fn payload(bytes: &[u8]) -> bool {
    let Ok(decoded) = codec::decode_payload(bytes) else { return false };
    assert_eq!(decoded.former, codec::is_former_payload(bytes));
    assert!(decoded.former || decoded.is_applicable());
    // A former payload grows a little on the way, so a very long one may not fit any more.
    let Ok(written) = codec::encode_payload(decoded.time, &decoded.commands) else {
        assert!(bytes.len() > codec::PAYLOAD_BYTES_MAX / 2, "it was read and cannot be written");
        return true;
    };
    let again = codec::decode_payload(&written).expect("what was written can be read");
    assert_eq!(again, Decoded { former: false, ..decoded });
    true
}

/// A byte that chooses the kind of the value, its format, its body. The seal is put on here, as no
/// fuzzer finds a checksum.
fn sealed(bytes: &[u8]) -> bool {
    let _damaged = codec::decode_value::<Record>(bytes);
    let [kind, format, body @ ..] = bytes else { return false };
    VALUES.get(usize::from(*kind)).is_some_and(|value| value(*format, body))
}

fn value<T: Stored + Debug + PartialEq>(format: u8, body: &[u8]) -> bool {
    let Ok(read) = codec::decode_value::<T>(&codec::seal(format, body)) else { return false };
    holds(&read);
    true
}

/// A value of a former shape, and what it is today.
fn former<T, P>(format: u8, body: &[u8]) -> bool
where
    T: Stored + Debug + PartialEq,
    P: Stored + Debug + PartialEq + From<T>,
{
    let Ok(read) = codec::decode_value::<T>(&codec::seal(format, body)) else { return false };
    holds(&read);
    holds(&P::from(read));
    true
}

fn holds<T: Stored + Debug + PartialEq>(value: &T) {
    let written = codec::encode_value(value).expect("a value can be written");
    let again: T = codec::decode_value(&written).expect("what was written can be read");
    assert_eq!(&again, value);
}

/// A message that reads back the same.
///
/// # Panics
///
/// If it does not.
#[must_use]
pub fn decoded<M: Shaped + PartialEq + Debug>(bytes: &[u8]) -> Option<M> {
    let read: M = weigh::decode(bytes).ok()?;
    let again = M::decode(&*read.encode_to_vec()).expect("what was written can be read");
    assert_eq!(again, read);
    Some(read)
}

/// Reads a message into a structure of openraft and back. The way out is compared, because not all
/// of those structures can be.
fn there_and_back<M, T, E>(
    bytes: &[u8],
    from: impl Fn(M) -> Result<T, E>,
    to: impl Fn(&T) -> M,
) -> bool
where
    M: Shaped + PartialEq + Debug + Clone,
    E: std::fmt::Display,
{
    let Some(message) = decoded::<M>(bytes) else { return false };
    let read = match from(message) {
        Ok(read) => read,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return false;
        }
    };
    let written = to(&read);
    let again = from(written.clone()).ok().expect("what was written can be read");
    assert_eq!(to(&again), written);
    true
}

/// A byte that chooses the kind of the message on disk, its body.
fn message(bytes: &[u8]) -> bool {
    let Some((kind, body)) = bytes.split_first() else { return false };
    // Messages have had one format so far, and are sealed as values are.
    let sealed = codec::seal(1, body);
    let known = decoded::<proto::Entry>(body);
    assert_eq!(codec::decode_message::<proto::Entry>(&sealed).ok(), known);
    match kind {
        0 => there_and_back(body, wire::entry_from, |entry| {
            let _bytes = wire::entry_bytes(entry);
            wire::entry_to(entry)
        }),
        1 => there_and_back(body, sound(|vote| wire::vote_from(&vote)), wire::vote_to),
        2 => there_and_back(body, sound(|id| wire::log_id_from(&id)), wire::log_id_to),
        3 => there_and_back(body, wire::stored_membership_from, wire::stored_membership_to),
        _ => false,
    }
}

/// For what takes every message.
fn sound<M, T>(from: impl Fn(M) -> T) -> impl Fn(M) -> Result<T, String> {
    move |message| Ok(from(message))
}

/// A byte that chooses the call between replicas, its body.
fn peer_message(bytes: &[u8]) -> bool {
    let Some((kind, body)) = bytes.split_first() else { return false };
    match kind {
        0 => there_and_back(
            body,
            |request| peer::append_from(request).map_err(|status| status.message().to_owned()),
            wire::append_to,
        ),
        1 => there_and_back(body, wire::append_result_from, wire::append_result_to),
        2 => there_and_back(body, wire::append_response_from, |response| {
            wire::append_response_to(response, None)
        }),
        3 => {
            there_and_back(body, |request| wire::vote_request_from(&request), wire::vote_request_to)
        }
        4 => there_and_back(
            body,
            |response| wire::vote_response_from(&response),
            wire::vote_response_to,
        ),
        5 => decoded::<proto::SnapshotPart>(body).is_some(),
        6 => decoded::<proto::TransferLeaderRequest>(body)
            .is_some_and(|request| wire::required_vote(request.from_leader.as_ref()).is_ok()),
        7 => decoded::<proto::ReadIndexResponse>(body).is_some(),
        8 => decoded::<proto::ProbeResponse>(body).is_some(),
        _ => false,
    }
}

fn manifest(bytes: &[u8]) -> bool {
    let Some(manifest) = decoded::<proto::SnapshotManifest>(bytes) else { return false };
    let folder = Path::new("incoming");
    for file in &manifest.files {
        if snapshot::is_plain(&file.name) {
            let path = folder.join(&file.name);
            assert_eq!(path.parent(), Some(folder), "{:?} leaves its folder", file.name);
            assert!(path.file_name().is_some_and(|name| name == file.name.as_str()));
        }
    }
    let Ok(meta) = snapshot::meta_of(&manifest, folder) else { return false };
    let again = proto::SnapshotManifest {
        last_log_id: meta.last_log_id.as_ref().map(wire::log_id_to),
        last_membership: Some(wire::stored_membership_to(&meta.last_membership)),
        ..manifest
    };
    let again = snapshot::meta_of(&again, folder).expect("what was written can be read");
    assert_eq!(
        (again.last_log_id, again.last_membership),
        (meta.last_log_id, meta.last_membership)
    );
    true
}

/// The key of a row of any table.
fn row_key(bytes: &[u8]) -> bool {
    if let Some(index) = schema::log_index(bytes).filter(|_| bytes.len() == 12) {
        assert_eq!(schema::log_key(index)[4..], bytes[4..]);
    }
    if let Some(id) = schema::life_id(bytes) {
        assert_eq!(schema::life_key(id), bytes);
    }
    if let Some((revision, id)) = schema::changed_record(bytes) {
        let key = schema::changed_key(&schema::record_key(&id), revision);
        assert_eq!(key.as_deref(), Some(bytes));
    }
    if let Some(id) = schema::expiry_record_id(bytes) {
        assert_eq!(schema::record_key(&id), bytes[8..]);
    }
    for prefix in [0, 10, 26, 138] {
        let _similar = schema::similar_record_id(bytes, prefix);
    }
    let Some(id) = schema::record_id(bytes) else { return false };
    assert_eq!(schema::record_key(&id), bytes);
    assert_eq!(schema::namespace_id(bytes), Some(id.namespace));
    true
}

/// The file that says whose a folder is.
fn identity(bytes: &[u8]) -> bool {
    let Some(read) = Identity::read(bytes) else { return false };
    assert_eq!(Identity::read(read.to_string().as_bytes()), Some(read));
    true
}
