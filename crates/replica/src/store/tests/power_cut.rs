//! The power fails: every write after the last sync is gone, and every entry and vote that was
//! acknowledged is still there.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use openraft::storage::{RaftLogReader as _, RaftLogStorage as _};
use openraft::type_config::TypeConfigExt as _;

use super::{CLUSTER, append, apply, open, tick};
use crate::raft::{IoFlushed, TypeConfig, Vote, log_id};
use crate::store::LogStore;
use crate::store::disk::{Disk, LogDisk, MemoryDisk, Storage};

fn reopen_log(disk: &MemoryDisk) -> LogDisk {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::open(dir.path(), Storage::Memory(disk.clone()), CLUSTER, 1).unwrap();
    disk.open_log().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_entries_survive() {
    const ROUNDS: u64 = 40;
    for round in 0..ROUNDS {
        let disk = MemoryDisk::default();
        let dir = tempfile::tempdir().unwrap();
        let mut store = open(dir.path(), Storage::Memory(disk.clone())).unwrap();
        store.log.save_vote(&Vote::new_committed(7, 1)).await.unwrap();

        // Appends pour in while the power fails at some moment.
        let acknowledged = Arc::new(AtomicU64::new(0));
        let appended = 50 + round * 17;
        for index in 0..appended {
            let (done, flushed) = TypeConfig::oneshot();
            store.log.append([tick(7, index)], IoFlushed::signal(done)).await.unwrap();
            let acknowledged = Arc::clone(&acknowledged);
            tokio::spawn(async move {
                if matches!(flushed.await, Ok(Ok(()))) {
                    acknowledged.fetch_max(index + 1, Ordering::SeqCst);
                }
            });
            if index % 7 == round % 7 {
                tokio::task::yield_now().await;
            }
        }
        let survivors = acknowledged.load(Ordering::SeqCst);
        let log = LogStore::open(reopen_log(&disk.after_power_cut())).unwrap();
        let mut reader = log.reader();
        let found = reader.try_get_log_entries(0..).await.unwrap();
        assert!(found.len() as u64 >= survivors, "round {round}: {} < {survivors}", found.len());
        for (index, entry) in (0..).zip(&found) {
            assert_eq!(entry, &tick(7, index));
        }
        assert_eq!(reader.read_vote().await.unwrap(), Some(Vote::new_committed(7, 1)));
    }
}

/// Reported elsewhere: case 65.
#[tokio::test(flavor = "multi_thread")]
async fn the_state_never_gets_ahead_of_the_log() {
    let disk = MemoryDisk::default();
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path(), Storage::Memory(disk.clone())).unwrap();
    let entries: Vec<_> = (0..100).map(|index| tick(1, index)).collect();
    append(&mut store.log, entries.clone()).await;
    apply(&mut store.state_machine, entries).await;
    let before = store.machine.state_hash().unwrap();
    assert_eq!(before.0, 99);
    store.close().await;

    // The state was never synced, so a power cut takes all of it. The log brings it back.
    let left = disk.after_power_cut();
    let mut store = open(dir.path(), Storage::Memory(left)).unwrap();
    assert_eq!(store.machine.state_hash().unwrap().0, 0);
    assert_eq!(store.log.bounds().0, Some(log_id(1, 99)));
    let entries = store.log.reader().try_get_log_entries(..).await.unwrap();
    apply(&mut store.state_machine, entries).await;
    assert_eq!(store.machine.state_hash().unwrap(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn truncation_and_appends_keep_their_order() {
    let disk = MemoryDisk::default();
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path(), Storage::Memory(disk.clone())).unwrap();
    append(&mut store.log, (0..10).map(|index| tick(1, index)).collect()).await;
    store.log.truncate_after(Some(log_id(1, 4))).await.unwrap();
    append(&mut store.log, (5..8).map(|index| tick(2, index)).collect()).await;
    store.log.purge(log_id(1, 2)).await.unwrap();
    let expected: Vec<_> =
        (3..5).map(|index| tick(1, index)).chain((5..8).map(|index| tick(2, index))).collect();
    assert_eq!(store.log.reader().try_get_log_entries(..).await.unwrap(), expected);
    store.close().await;
    let store = open(dir.path(), Storage::Memory(disk)).unwrap();
    assert_eq!(store.log.bounds(), (Some(log_id(2, 7)), Some(log_id(1, 2))));
    assert_eq!(store.log.reader().try_get_log_entries(..).await.unwrap(), expected);
}
