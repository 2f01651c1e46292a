//! Gives every kept input to its target, so that none of them rots.
//!
//! An input whose name begins with `ok-` must be accepted: a target that has come to refuse all that
//! it is given would hold everything. Such inputs are made from the frozen bytes of
//! `crates/replica/tests/formats`; `UPDATE_GOLDENFILES=1 make corpus` writes those that are missing.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use firstclaim_client::prost_types;
use firstclaim_fuzz::{requests, targets};
use firstclaim_proto::peer::v1 as peer;
use firstclaim_proto::v1;
use firstclaim_replica::fuzzing;
use prost::Message as _;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

#[test]
fn kept_inputs_hold() {
    let kept = corpus();
    make_up(&kept);
    let mut folders = BTreeSet::new();
    for target in targets() {
        let files = files(&kept.join(target.name));
        assert!(!files.is_empty(), "{} has no inputs", target.name);
        let mut accepted = 0;
        for file in files {
            let bytes = fs::read(&file).expect("read an input");
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            let path = file.display();
            assert!(bytes.len() <= INPUT_BYTES_MAX, "{path} is too long to be kept");
            println!("{path}");
            let ok = target.run(&bytes);
            assert!(ok || !name.starts_with("ok-"), "{path} is refused");
            accepted += usize::from(ok);
        }
        assert!(accepted > 0, "{} accepts none of its inputs", target.name);
        folders.insert(target.name.to_owned());
    }
    let present: BTreeSet<String> = files(&kept)
        .iter()
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    assert_eq!(present, folders, "every folder is a target's");
}

/// Kept inputs are part of every checkout.
const INPUT_BYTES_MAX: usize = 8 * 1024;

fn corpus() -> PathBuf {
    PathBuf::from("corpus")
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(folder).map(|all| all.map(|it| it.expect("list inputs").path()).collect());
    let mut files: Vec<PathBuf> = entries.unwrap_or_default();
    files.sort();
    files
}

/// Writes the inputs that are missing.
fn make_up(kept: &Path) {
    if env::var_os("UPDATE_GOLDENFILES").is_none() {
        return;
    }
    for (target, name, bytes) in seeds() {
        let path = kept.join(target).join(format!("ok-{name}"));
        fs::create_dir_all(kept.join(target)).expect("create a folder");
        if !path.exists() && bytes.len() <= INPUT_BYTES_MAX {
            fs::write(path, bytes).expect("write an input");
        }
    }
}

/// A target, a name, bytes.
type Seed = (&'static str, String, Vec<u8>);

fn seeds() -> Vec<Seed> {
    let mut seeds = vec![
        ("payload", "ticks".to_owned(), fixture("v2/payload_ticks")),
        ("payload", "former-ticks".to_owned(), fixture("v1/payload_ticks")),
        ("payload", "former-commands".to_owned(), fixture("v1/payload_commands")),
        ("payload", "commands".to_owned(), fixture("v2/payload_commands")),
    ];
    for (kind, name) in [
        (0, "v1/entry_blank"),
        (0, "v1/entry_normal"),
        (0, "v1/entry_membership"),
        (0, "v2/entry_normal"),
        (1, "v1/vote"),
        (2, "v1/log_id"),
        (3, "v1/stored_membership"),
    ] {
        let body = fixture(name)[SEAL_HEADER_BYTES..].to_vec();
        seeds.push(("message", name.replace('/', "-"), with(kind, &body)));
    }
    seeds.extend(request_seeds());
    seeds.extend(peer_seeds());
    seeds.extend(response_seeds());
    seeds.push(("status", "stale".to_owned(), status_seed()));
    seeds.push(("identity", "ours".to_owned(), b"format 2\nnode 1\ncluster example\n".to_vec()));
    for (rows, cluster, record, tenant, namespace) in [
        ("v1/rows", 6, 7, 8, 9),
        // Of the version before: their slots.
        ("v2/rows", 0, 3, 8, 9),
        ("v2/migrated_rows", 0, 3, 8, 9),
        ("v2/slots", 0, 3, 1, 2),
    ] {
        let kinds = [(3, cluster), (4, tenant), (5, namespace), (6, record), (12, 4), (13, 5)];
        seeds.extend(row_seeds(rows, &BTreeMap::from(kinds)));
    }
    seeds
}

/// The first two commands of each kind, as the calls that ask for them.
fn request_seeds() -> Vec<Seed> {
    let mut seeds = Vec::new();
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for command in fuzzing::commands(&fixture("v2/payload_commands")) {
        let Some((call, message)) = requests::message_of(command.clone()) else { continue };
        let payload = fuzzing::log(&command, message.len());
        let place = requests::names().position(|name| name == call).expect("a call");
        let bytes = with(u8::try_from(place).expect("few calls"), &message);
        let count = seen.entry(call).or_default();
        let target = targets().into_iter().find(|it| it.name == "request").expect("a target");
        if *count < 2 && target.run(&bytes) {
            *count += 1;
            let name = format!("{}-{count}", call.replace(' ', "-"));
            seeds.push(("request", name.clone(), bytes));
            seeds.push(("payload", name, payload));
        }
    }
    seeds
}

/// Calls between replicas, and the manifest of a snapshot.
fn peer_seeds() -> Vec<Seed> {
    let at = Some(peer::LogId { term: 7, index: 1_234 });
    let vote = Some(peer::Vote { term: 7, node_id: 2, committed: true });
    let body = |name| fixture(name)[SEAL_HEADER_BYTES..].to_vec();
    let entries = ["v1/entry_blank", "v1/entry_membership", "v2/entry_normal"];
    let append = peer::AppendRequest {
        vote,
        prev_log_id: at,
        entries: entries.map(|name| peer::Entry::decode(&*body(name)).expect("an entry")).into(),
        leader_commit: at,
    };
    let members = peer::StoredMembership::decode(&*body("v1/stored_membership")).expect("members");
    let file = |name: &str| peer::SnapshotFile { name: name.to_owned(), bytes: 9, crc32c: 7 };
    let manifest = peer::SnapshotManifest {
        format: 2,
        cluster_id: "example".to_owned(),
        last_log_id: at,
        last_membership: Some(members),
        files: vec![file("000007.sst"), file("../CURRENT"), file("a/b"), file("")],
    };
    let header = peer::SnapshotHeader { vote, manifest: Some(manifest.clone()) };
    let part = peer::SnapshotPart { part: Some(peer::snapshot_part::Part::Header(header)) };
    let result = peer::append_response::Result::Conflict(peer::LogId::default());
    let appended = peer::AppendResponse { result: Some(result) };
    let ask = peer::VoteRequest { vote, last_log_id: at, leadership_transfer: true };
    let voted = peer::VoteResponse { vote, granted: true, last_log_id: at };
    let transfer =
        peer::TransferLeaderRequest { from_leader: vote, to_node_id: 3, last_log_id: at };
    let read = peer::ReadIndexResponse { read_log_id: at, store_time_ms: 9, leader_id: 1 };
    let calls = [
        ("append", append.encode_to_vec()),
        ("append-result", appended.encode_to_vec()),
        ("heartbeat-result", appended.encode_to_vec()),
        ("vote", ask.encode_to_vec()),
        ("vote-result", voted.encode_to_vec()),
        ("snapshot", part.encode_to_vec()),
        ("transfer", transfer.encode_to_vec()),
        ("read-index", read.encode_to_vec()),
    ];
    let seed =
        |(kind, (name, body)): (u8, (&str, Vec<u8>))| ("peer", name.to_owned(), with(kind, &body));
    let mut seeds: Vec<Seed> = (0..).zip(calls).map(seed).collect();
    seeds.push(("manifest", "files".to_owned(), manifest.encode_to_vec()));
    seeds
}

/// Answers of a server.
fn response_seeds() -> Vec<Seed> {
    let time = Some(prost_types::Timestamp { seconds: 1_800_000_000, nanos: 123_000_000 });
    let renewed = v1::RenewResponse {
        epoch: 7,
        mode: v1::Mode::Execute.into(),
        lease_expire_time: time,
        store_time: time,
        ..Default::default()
    };
    let revoked =
        v1::RevokeResponse { epoch: 7, lease_expire_time: time, repeated: true, store_time: time };
    [(1, "renew", renewed.encode_to_vec()), (8, "revoke", revoked.encode_to_vec())]
        .map(|(kind, name, body)| ("response", name.to_owned(), with(kind, &body)))
        .into()
}

/// A refusal with all that one may say.
fn status_seed() -> Vec<u8> {
    let metadata =
        [("applied", "no"), ("tenant", "acme")].map(|(k, v)| (k.to_owned(), v.to_owned()));
    let mut details = ErrorDetails::with_error_info("STALE_EPOCH", "firstclaim", metadata);
    details.set_retry_info(Some(Duration::from_millis(1_500)));
    details.add_bad_request_violation("epoch", "is over");
    let status = Status::with_error_details(Code::FailedPrecondition, "words", details);
    with(9, status.details())
}

/// Sealed values without their checksums, and keys, two of each kind.
fn row_seeds(name: &str, kinds: &BTreeMap<u8, u8>) -> Vec<Seed> {
    let bytes = fixture(name);
    let mut seeds = Vec::new();
    let mut seen: BTreeMap<u8, usize> = BTreeMap::new();
    let mut rest = &bytes[..];
    while let [table, field @ ..] = rest {
        let (key, after) = take(field);
        let (value, after) = take(after);
        rest = after;
        let count = seen.entry(*table).or_default();
        *count += 1;
        let label = format!("{}-{table}-{count}", name.replace('/', "-"));
        // The table of the state's own rows holds messages, too.
        let chosen = kinds.get(table).filter(|_| *table != 3 || key == b"cluster");
        if let (Some(kind), [format, _, _, _, _, body @ ..]) = (chosen, value)
            && *count <= 4
        {
            seeds.push(("sealed", label.clone(), with(*kind, &with(*format, body))));
        }
        if *count == 1 && *table == 6 {
            seeds.push(("row_key", label, key.to_vec()));
        }
    }
    seeds
}

fn take(bytes: &[u8]) -> (&[u8], &[u8]) {
    let (length, rest) = bytes.split_first_chunk().expect("a length");
    rest.split_at(usize::try_from(u64::from_be_bytes(*length)).expect("a row"))
}

const SEAL_HEADER_BYTES: usize = 5;

fn with(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind], body].concat()
}

/// Frozen bytes of the replica.
fn fixture(name: &str) -> Vec<u8> {
    let root = Path::new("../replica/tests/formats");
    let text = fs::read_to_string(root.join(name).with_extension("hex")).expect("a fixture");
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|it| u8::try_from(it).ok());
    let byte = |pair: &[u8]| Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?);
    digits.chunks(2).map(|pair| byte(pair).expect("two digits")).collect()
}
