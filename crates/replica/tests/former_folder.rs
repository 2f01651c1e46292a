//! A node is started on a folder that the version before has written: it answers what that one would have,
//! and goes on from there.

#![cfg(feature = "rocksdb")]
#![expect(clippy::panic, clippy::unwrap_used, reason = "a test ends where it finds something else")]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use firstclaim_core::command::Claim;
use firstclaim_core::name::Region;
use firstclaim_core::record::Disposition;
use firstclaim_core::{
    Answer, AttemptId, Command, Epoch, FingerprintSet, IdempotencyKey, Labels, Millis,
    NamespaceName, OwnerLabel, RecordId, RecordRef, Slot, Store as _, TenantName,
};
use firstclaim_replica::{
    Faults, Member, Replica, ReplicaConfig, SnapshotRule, Storage, SystemClock,
};

const PATIENCE: Duration = Duration::from_secs(20);
/// The last epoch that the version before has given.
const LAST_EPOCH: Epoch = Epoch(13);

/// Writes the files of the frozen folder.
fn unpack(to: &Path) {
    let path = "tests/formats/v1/folder.hex";
    for file in std::fs::read_to_string(path).unwrap().split("= ").skip(1) {
        let (name, content) = file.split_once('\n').unwrap();
        let digits: String = content.split_whitespace().collect();
        let pairs = (0..digits.len()).step_by(2).map(|at| &digits[at..at + 2]);
        let bytes: Vec<u8> = pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect();
        let path = to.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
}

async fn open(dir: &Path) -> Replica {
    let addr: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let member = Member {
        region: "eu-west".to_owned(),
        peer_addr: "127.0.0.1:1".to_owned(),
        client_addr: "http://127.0.0.1:1".to_owned(),
    };
    let config = ReplicaConfig {
        node_id: 1,
        cluster_id: "example".to_owned(),
        data_dir: dir.to_path_buf(),
        peer_listen: addr,
        members: [(1, member)].into(),
        expected_rtt: Millis(10),
        storage: Storage::RocksDb,
        snapshots: SnapshotRule { every_entries: 1_000_000, entries_kept: 0 },
    };
    let replica =
        Replica::open(config, Arc::new(SystemClock::new()), Faults::none()).await.unwrap();
    let leads = async {
        while !replica.is_leader() || replica.linearize().await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, leads).await.expect("the node does not lead");
    replica
}

fn id(replica: &Replica, key: &str) -> RecordId {
    let names = (TenantName::parse("acme").unwrap(), NamespaceName::parse("payouts").unwrap());
    let (_, namespace) = replica.read(|state| state.namespace(&names.0, &names.1)).unwrap();
    let namespace = namespace.and_then(Slot::live).unwrap().id;
    RecordId { namespace, key: IdempotencyKey::parse(key).unwrap() }
}

/// Claims a key with the request of another one.
async fn claim(replica: &Replica, key: &str, like: &str) -> Answer {
    let known = id(replica, like);
    let (_, known) = replica.read(|state| state.record(&known)).unwrap();
    let fingerprints: FingerprintSet = known.unwrap().fingerprints;
    let claim = Claim {
        record: RecordRef {
            tenant: TenantName::parse("acme").unwrap(),
            namespace: NamespaceName::parse("payouts").unwrap(),
            key: IdempotencyKey::parse(key).unwrap(),
        },
        attempt_id: AttemptId::parse("attempt-of-today").unwrap(),
        owner: OwnerLabel::parse("worker-9").unwrap(),
        fingerprints,
        lease: None,
        intent_time: None,
        labels: Labels::default(),
        accept_recovery: false,
        region: Region::parse("eu-west").unwrap(),
        effects: Vec::new(),
        complete_with: None,
        allow_duplicate_intent: false,
    };
    let mut outcomes = replica.propose(vec![Command::Claim(claim)]).await.unwrap();
    outcomes.remove(0).result.unwrap()
}

async fn check_old_records(replica: &Replica) {
    let Answer::Replay(replay) = claim(replica, "done-1", "done-1").await else { panic!() };
    assert_eq!(replay.completion.disposition, Disposition::Succeeded);
    assert_eq!(replay.completion.result.bytes.as_deref(), Some(&b"paid 847"[..]));
    assert_eq!(replay.completion.epoch, Epoch(1));
    assert!(!replay.result_dropped && !replay.by_this_attempt);
    let Answer::Replay(replay) = claim(replica, "failed-1", "failed-1").await else { panic!() };
    assert_eq!(replay.completion.disposition, Disposition::Failed);
    let Answer::Unresolved(open) = claim(replica, "unknown-1", "unknown-1").await else { panic!() };
    assert_eq!(open.open.works.len(), 1);
    assert_eq!(open.open.works[0].note, "connection reset");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_folder_is_opened_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    unpack(dir.path());
    let replica = open(dir.path()).await;
    check_old_records(&replica).await;

    // What is new goes on from there, and finds what is old.
    let mut changes = replica.watch_record(&id(&replica, "new-1"));
    let before = *replica.watch_applied().borrow();
    let Answer::Acquired(grant) = claim(&replica, "new-1", "done-1").await else { panic!() };
    assert!(grant.epoch > LAST_EPOCH, "{:?} was given before", grant.epoch);
    let told = tokio::time::timeout(PATIENCE, changes.changed()).await;
    assert_eq!(told, Ok(Some(())), "nobody was told of the new record");
    let after = *replica.watch_applied().borrow();
    assert!(after.applied_index > before.applied_index && after.store_time >= before.store_time);
    let new = id(&replica, "new-1");
    let (_, (usage, changed)) = replica
        .read(|state| {
            let usage = state.usage(new.namespace)?;
            Ok((usage.records, state.changed_page(new.namespace, 0, 10)?))
        })
        .unwrap();
    assert_eq!(usage, 9);
    assert_eq!(changed.iter().map(|(id, _)| id).collect::<Vec<_>>(), [&new]);
    replica.shutdown().await;
    assert_eq!(changes.changed().await, None, "the wait outlived the replica");
    drop(replica);

    let replica = open(dir.path()).await;
    check_old_records(&replica).await;
    let Answer::Acquired(again) = claim(&replica, "new-1", "done-1").await else { panic!() };
    assert_eq!(again.epoch, grant.epoch);
    replica.shutdown().await;
}
