//! Data of format 1 is brought to format 2: what is refused, and that a crash at any point of it is made
//! good.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use firstclaim_core::Timestamp;

use super::formats::{fixture, rows};
use super::{apply, open_as};
use crate::error::{OpenError, StoreError};
use crate::raft::{Entry, EntryPayload, Payload, log_id};
use crate::store::codec;
use crate::store::disk::{Disk, MemoryDisk, Storage};
use crate::store::engine::{Batch, Durability, Engine, Read, Row, after_prefix};
use crate::store::machine::hash_rows;
use crate::store::memory::Memory;
use crate::store::migrate::{migrate, migrate_by};
use crate::store::schema::{FORMAT, FORMER_FORMAT, Table, log_key, meta, system};
use crate::wire;

pub(super) const CLUSTER: &str = "example";
const LAST_APPLIED: u64 = 1_000;

/// Makes bare rows those of a state of format 1 that has come to some entry.
pub(super) fn note_format(state: &Memory) {
    let mut batch = Batch::default();
    batch.put(Table::System, system::FORMAT.to_vec(), FORMER_FORMAT.to_be_bytes().to_vec());
    let applied = codec::encode_message(&wire::log_id_to(&log_id(3, LAST_APPLIED)));
    batch.put(Table::System, system::APPLIED.to_vec(), applied);
    state.write(batch, Durability::Synced).unwrap();
}

fn former_state() -> Memory {
    let state = rows("v1/rows");
    note_format(&state);
    state
}

/// A log of format 1 that ends with these payloads after the entries in the state.
fn former_log(payloads: &[Vec<u8>]) -> Memory {
    let log = Memory::new("memory/raftlog");
    let mut batch = Batch::default();
    batch.put(Table::Meta, meta::FORMAT.to_vec(), FORMER_FORMAT.to_be_bytes().to_vec());
    let applied = fixture("v1/payload_commands");
    for (index, payload) in (LAST_APPLIED - 2..).zip([&applied; 3].into_iter().chain(payloads)) {
        let payload = EntryPayload::Normal(Payload(payload.clone().into()));
        let entry = Entry { log_id: log_id(3, index), payload };
        let value = codec::encode_message(&wire::entry_to(&entry));
        batch.put(Table::Log, log_key(index), value);
    }
    log.write(batch, Durability::Synced).unwrap();
    log
}

fn all(engine: &dyn Read, table: Table) -> Vec<Row> {
    engine.scan(table, &[], &after_prefix(&[]), usize::MAX).unwrap()
}

/// All rows, the log's included.
fn everything(engine: &dyn Read) -> Vec<(Table, Vec<Row>)> {
    Table::LOG.iter().chain(Table::STATE).map(|table| (*table, all(engine, *table))).collect()
}

pub(super) fn identity(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("IDENTITY")).unwrap()
}

/// Fails the writes after so many.
struct Failing<'a> {
    engine: &'a Memory,
    left: &'a AtomicUsize,
}

impl Read for Failing<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Read::get(self.engine, table, key)
    }

    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Vec<Row>, StoreError> {
        self.engine.scan(table, from, to, limit)
    }

    fn last(&self, table: Table, from: &[u8], to: &[u8]) -> Result<Option<Row>, StoreError> {
        Read::last(self.engine, table, from, to)
    }
}

impl Engine for Failing<'_> {
    fn view(
        &self,
        f: &mut dyn FnMut(&dyn Read) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.engine.view(f)
    }

    fn write(&self, batch: Batch, durability: Durability) -> Result<(), StoreError> {
        let taken = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        match taken {
            Ok(_) => self.engine.write(batch, durability),
            Err(_) => Err(StoreError::Closed),
        }
    }

    fn checkpoint(&self, dir: &Path) -> Result<(), StoreError> {
        self.engine.checkpoint(dir)
    }

    fn path(&self) -> &Path {
        Engine::path(self.engine)
    }
}

/// A process that dies after any write of a migration, with or without the power: the next start goes
/// on, and comes to the same.
#[test]
fn a_crash_is_made_good() {
    let tick = fixture("v1/payload_ticks");
    let (log, state) = (former_log(std::slice::from_ref(&tick)), former_state());
    migrate_by(&log, &state, 2).unwrap();
    let expected = (everything(&log), everything(&state));
    let whole = (former_log(std::slice::from_ref(&tick)), former_state());
    migrate(&whole.0, &whole.1).unwrap();
    assert_eq!((everything(&whole.0), everything(&whole.1)), expected, "the batches show");

    for power_cut in [false, true] {
        let mut writes = 0;
        loop {
            let left = AtomicUsize::new(writes);
            let (log, state) = (former_log(std::slice::from_ref(&tick)), former_state());
            let failing = |engine| Failing { engine, left: &left };
            let done = migrate_by(&failing(&log), &failing(&state), 2).is_ok();
            let (log, state) =
                if power_cut { (log.durable(), state.durable()) } else { (log, state) };
            migrate_by(&log, &state, 2).unwrap();
            let found = (everything(&log), everything(&state));
            assert_eq!(found, expected, "after {writes} writes, power cut: {power_cut}");
            if done {
                break;
            }
            writes += 1;
        }
        assert!(writes > 5, "only {writes} writes");
    }
}

#[test]
fn a_migration_on_any_engine_is_the_same() {
    let state = former_state();
    migrate(&former_log(&[]), &state).unwrap();
    #[cfg(feature = "rocksdb")]
    {
        use crate::store::rocks::{Rocks, Use};
        let dir = tempfile::tempdir().unwrap();
        let rocks = Rocks::open(&dir.path().join("db"), Use::State).unwrap();
        let mut batch = Batch::default();
        for table in Table::STATE {
            for (key, value) in all(&former_state(), *table) {
                batch.put(*table, key, value);
            }
        }
        rocks.write(batch, Durability::Unsynced).unwrap();
        migrate_by(&former_log(&[]), &rocks, 3).unwrap();
        assert_eq!(hash_rows(&rocks).unwrap(), hash_rows(&state).unwrap());
    }
    assert!(all(&state, Table::Usage).len() > 1);
    assert_eq!(state.get(Table::System, system::MIGRATED).unwrap(), None);
    let format = Read::get(&state, Table::System, system::FORMAT).unwrap().unwrap();
    assert_eq!(format, FORMAT.to_be_bytes());
}

/// Entries that the state has not taken in were decided nowhere, or by other rules.
#[test]
fn a_log_with_unapplied_entries_is_left_as_it_is() {
    let (tick, commands) = (fixture("v1/payload_ticks"), fixture("v1/payload_commands"));
    let (log, state) = (former_log(&[tick, commands]), former_state());
    let before = (everything(&log), everything(&state));
    let error = migrate(&log, &state).unwrap_err();
    let StoreError::Unapplied { index, applied, .. } = error else { panic!("{error}") };
    assert_eq!((index, applied), (LAST_APPLIED + 2, LAST_APPLIED));
    let error = error.to_string();
    assert!(error.contains("start that version on all nodes again"), "{error}");
    assert_eq!((everything(&log), everything(&state)), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn ticks_of_the_version_before_are_applied_and_nothing_else_is() {
    let disk = MemoryDisk::default();
    let dir = tempfile::tempdir().unwrap();
    let mut open = open_as(dir.path(), Storage::Memory(disk), CLUSTER).unwrap();
    let entry = |index, name: &str| Entry {
        log_id: log_id(1, index),
        payload: EntryPayload::Normal(Payload(fixture(name).into())),
    };
    let ticks = entry(0, "v1/payload_ticks");
    super::append(&mut open.log, vec![ticks.clone(), entry(1, "v1/payload_commands")]).await;
    apply(&mut open.state_machine, vec![ticks]).await;
    assert_eq!(open.machine.store_time(), Timestamp(1_800_000_000_123));
    let stream = futures::stream::iter([Ok((entry(1, "v1/payload_commands"), None))]);
    let refused = openraft::storage::RaftStateMachine::apply(&mut open.state_machine, stream).await;
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("log entry 1") && error.contains("on all nodes"), "{error}");
    assert_eq!(open.machine.state_hash().unwrap().0, 0, "the state took the entry in");
}

/// A folder that stopped half-way is refused by the version before, and by this one if it is newer.
#[test]
fn a_newer_folder_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("IDENTITY"), "format 3\nnode 1\ncluster example\n").unwrap();
    let storage = Storage::Memory(MemoryDisk::default());
    let error = Disk::open(dir.path(), storage, CLUSTER, 1).err().unwrap();
    let OpenError::Store(StoreError::Format { found: 3, expected: FORMAT, .. }) = error else {
        panic!("{error}")
    };
    assert!(identity(dir.path()).starts_with("format 3\n"), "it was changed");
}

#[test]
fn a_snapshot_of_the_version_before_is_refused() {
    use crate::store::snapshot::Receiver;
    let dir = tempfile::tempdir().unwrap();
    let manifest = firstclaim_proto::peer::v1::SnapshotManifest {
        format: FORMER_FORMAT,
        cluster_id: CLUSTER.to_owned(),
        ..Default::default()
    };
    let error = Receiver::begin(dir.path(), manifest).err().unwrap().to_string();
    assert!(error.contains("data format 1") && error.contains("on all nodes"), "{error}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "something was written");
}
