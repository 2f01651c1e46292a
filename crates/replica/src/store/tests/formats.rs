//! The bytes of every format ever written. A fixture is never changed; a new format gets new ones.

use std::fmt::Write as _;
use std::path::PathBuf;

use firstclaim_core::tenant::Cluster;
use firstclaim_core::{Command, Namespace, Record, Slot, Tenant, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::overlay;
use crate::Member;
use crate::raft::{Entry, EntryPayload, Membership, Payload, StoredMembership, Vote, log_id};
use crate::store::codec;
use crate::store::engine::{Engine as _, Read as _, after_prefix};
use crate::store::memory::{Memory, ROWS_FILE};
use crate::store::schema::Table;
use crate::wire;

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for line in bytes.chunks(32) {
        for byte in line {
            write!(text, "{byte:02x}").unwrap();
        }
        text.push('\n');
    }
    text
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let pairs = (0..digits.len()).step_by(2).map(|at| &digits[at..at + 2]);
    pairs.map(|pair| u8::from_str_radix(pair, 16).expect("two digits")).collect()
}

/// Compares with the fixture, or writes a new one with `UPDATE_GOLDENFILES=1`. Returns its bytes.
fn frozen(name: &str, bytes: &[u8]) -> Vec<u8> {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests/formats/v1", name].iter().collect();
    let path = path.with_extension("hex");
    if !path.exists() && std::env::var_os("UPDATE_GOLDENFILES").is_some() {
        std::fs::write(&path, hex(bytes)).unwrap();
    }
    let stored = std::fs::read_to_string(&path).expect("a fixture is missing");
    assert_eq!(stored, hex(bytes), "the format of {name} has changed: it needs a new version");
    unhex(&stored)
}

fn membership() -> Membership {
    let member = |id: u64| Member {
        region: format!("region-{id}"),
        peer_addr: format!("10.0.0.{id}:4362"),
        client_addr: format!("http://10.0.0.{id}:4360"),
    };
    let nodes: std::collections::BTreeMap<u64, Member> =
        (1..=3).map(|id| (id, member(id))).collect();
    Membership::new(vec![[1, 2, 3].into()], nodes).unwrap()
}

#[test]
fn entries() {
    let time = Timestamp(1_800_000_000_123);
    let payload = codec::encode_payload(time, &[Command::Tick, Command::Tick]).unwrap();
    let stored = frozen("payload_ticks", &payload);
    assert_eq!(codec::decode_payload(&stored).unwrap(), (time, vec![Command::Tick, Command::Tick]));

    let entries = [
        ("entry_blank", EntryPayload::Blank),
        ("entry_normal", EntryPayload::Normal(Payload(payload))),
        ("entry_membership", EntryPayload::Membership(membership())),
    ];
    for (name, payload) in entries {
        let entry = Entry { log_id: log_id(7, 1_234), payload };
        let stored = frozen(name, &codec::encode_message(&wire::entry_to(&entry)));
        let decoded = wire::entry_from(codec::decode_message(&stored).unwrap()).unwrap();
        assert_eq!(decoded, entry);
    }
}

#[test]
fn positions() {
    let vote = Vote::new_committed(7, 2);
    let stored = frozen("vote", &codec::encode_message(&wire::vote_to(&vote)));
    assert_eq!(wire::vote_from(&codec::decode_message(&stored).unwrap()), vote);

    let id = log_id(7, 1_234);
    let stored = frozen("log_id", &codec::encode_message(&wire::log_id_to(&id)));
    assert_eq!(wire::log_id_from(&codec::decode_message(&stored).unwrap()), id);

    let members = StoredMembership::new(Some(id), membership());
    let bytes = codec::encode_message(&wire::stored_membership_to(&members));
    let stored = frozen("stored_membership", &bytes);
    let decoded = wire::stored_membership_from(codec::decode_message(&stored).unwrap()).unwrap();
    assert_eq!(decoded, members);
}

/// Bytes that a fixture holds, whose content is only made up when it is first written.
fn kept(name: &str, make_up: impl FnOnce() -> Vec<u8>) -> Vec<u8> {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests/formats/v1", name].iter().collect();
    let path = path.with_extension("hex");
    if !path.exists() && std::env::var_os("UPDATE_GOLDENFILES").is_some() {
        std::fs::write(&path, hex(&make_up())).unwrap();
    }
    unhex(&std::fs::read_to_string(&path).expect("a fixture is missing"))
}

#[test]
fn commands() {
    let bytes = kept("payload_commands", || {
        let commands: Vec<_> = overlay::entries(0).into_iter().flat_map(|(_, all)| all).collect();
        codec::encode_payload(Timestamp(1_800_000_000_123), &commands[..60]).unwrap().to_vec()
    });
    let (time, commands) = codec::decode_payload(&bytes).unwrap();
    assert_eq!(codec::encode_payload(time, &commands).unwrap(), bytes);
}

#[test]
fn rows() {
    let dir = tempfile::tempdir().unwrap();
    let checkpoint = dir.path().join("checkpoint");
    let bytes = kept("rows", || {
        let engine = Memory::new("memory");
        overlay::run(&engine, &overlay::entries(0)[..60], 1);
        engine.checkpoint(&checkpoint).unwrap();
        std::fs::read(checkpoint.join(ROWS_FILE)).unwrap()
    });
    std::fs::create_dir_all(&checkpoint).unwrap();
    std::fs::write(checkpoint.join(ROWS_FILE), bytes).unwrap();
    let engine = Memory::from_checkpoint(&checkpoint, &checkpoint).unwrap();
    reads_back::<Cluster>(&engine, Table::System);
    reads_back::<Slot<Tenant>>(&engine, Table::Tenants);
    reads_back::<Slot<Namespace>>(&engine, Table::Namespaces);
    reads_back::<Record>(&engine, Table::Records);
}

/// Every value of the table decodes, and encodes to the same bytes.
fn reads_back<T: Serialize + DeserializeOwned>(engine: &Memory, table: Table) {
    let rows = engine.scan(table, &[], &after_prefix(&[]), usize::MAX).unwrap();
    assert!(!rows.is_empty(), "the fixture has no {}", table.name());
    for (_, value) in rows {
        let decoded: T = codec::decode_value(&value).unwrap();
        assert_eq!(codec::encode_value(&decoded).unwrap(), value);
    }
}
