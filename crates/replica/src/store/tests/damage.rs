//! Flipped bits and cut files: one clear error that names the place, no panic, nothing lost.

use openraft::storage::RaftLogReader as _;

use super::{append, apply, open, tick};
use crate::store::disk::{MemoryDisk, Storage};
use crate::store::engine::{Batch, Durability};
use crate::store::schema::{Table, log_key, meta};

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_bit_in_an_entry_is_named() {
    let disk = MemoryDisk::default();
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path(), Storage::Memory(disk.clone())).unwrap();
    append(&mut store.log, (0..10).map(|index| tick(1, index)).collect()).await;
    store.close().await;

    let store = open(dir.path(), Storage::Memory(disk)).unwrap();
    let engine = store.log.engine();
    let mut value = engine.get(Table::Log, &log_key(4)).unwrap().unwrap();
    let last = value.len() - 1;
    value[last] ^= 4;
    let mut batch = Batch::default();
    batch.put(Table::Log, log_key(4), value);
    batch.delete(Table::Log, log_key(7));
    engine.write(batch, Durability::Synced).unwrap();

    let mut reader = store.log.reader();
    let error = reader.try_get_log_entries(0..6).await.unwrap_err().to_string();
    assert!(error.contains("raftlog") && error.contains("log entry 4: the checksum"), "{error}");
    assert!(error.contains("restore this node"), "{error}");
    let error = reader.try_get_log_entries(5..10).await.unwrap_err().to_string();
    assert!(error.contains("log entry 7: it is missing"), "{error}");
    assert_eq!(reader.try_get_log_entries(0..4).await.unwrap().len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_format_is_named() {
    let disk = MemoryDisk::default();
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), Storage::Memory(disk.clone())).unwrap();
    let mut batch = Batch::default();
    batch.put(Table::Meta, meta::FORMAT.to_vec(), 3u32.to_be_bytes().to_vec());
    store.log.engine().write(batch, Durability::Synced).unwrap();
    store.close().await;
    let error = open(dir.path(), Storage::Memory(disk)).err().unwrap().to_string();
    assert!(error.contains("holds data format 3, and this program reads only format 2"), "{error}");
    assert!(error.contains("start a newer version"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_ends_before_the_state_is_refused() {
    let disk = MemoryDisk::default();
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path(), Storage::Memory(disk.clone())).unwrap();
    let entries: Vec<_> = (0..10).map(|index| tick(1, index)).collect();
    append(&mut store.log, entries.clone()).await;
    apply(&mut store.state_machine, entries).await;
    let mut batch = Batch::default();
    batch.delete_range(Table::Log, log_key(8), log_key(10));
    store.log.engine().write(batch, Durability::Synced).unwrap();
    store.close().await;
    let error = open(dir.path(), Storage::Memory(disk)).err().unwrap().to_string();
    assert!(error.contains("the log ends at entry 7"), "{error}");
    assert!(error.contains("already holds entry 9"), "{error}");
}

#[cfg(feature = "rocksdb")]
mod rocksdb {
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::error::StoreError;

    const ENTRIES: u64 = 200;

    /// A folder with entries in the log and the state.
    async fn written(dir: &Path) -> (u64, [u8; 32]) {
        let mut store = open(dir, Storage::RocksDb).unwrap();
        let entries: Vec<_> = (0..ENTRIES).map(|index| tick(1, index)).collect();
        for chunk in entries.chunks(10) {
            append(&mut store.log, chunk.to_vec()).await;
        }
        apply(&mut store.state_machine, entries).await;
        let hash = store.machine.state_hash().unwrap();
        store.close().await;
        hash
    }

    fn files(dir: &Path, extension: &str) -> Vec<PathBuf> {
        let mut found: Vec<_> = std::fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|ext| ext == extension))
            .filter(|path| std::fs::metadata(path).unwrap().len() > 0)
            .collect();
        found.sort();
        found
    }

    /// Opens the folder and reads everything: the entries, and the state after the log has
    /// repeated what the state lacks.
    async fn use_all(dir: &Path) -> Result<(u64, [u8; 32]), StoreError> {
        let mut store = open(dir, Storage::RocksDb)?;
        let (applied, _) = store.machine.state_hash()?;
        let all = store.log.reader().try_get_log_entries(..).await;
        let all = all.map_err(|error| error.downcast::<StoreError>().expect("a store error"))?;
        assert_eq!(all.len() as u64, ENTRIES, "entries were lost without a word");
        let rest: Vec<_> =
            all.into_iter().filter(|entry| applied == 0 || entry.log_id.index > applied).collect();
        apply(&mut store.state_machine, rest).await;
        let hash = store.machine.state_hash();
        store.close().await;
        hash
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_damaged_log_is_refused() {
        for damage in ["flip", "cut"] {
            let dir = tempfile::tempdir().unwrap();
            written(dir.path()).await;
            let log = dir.path().join("raftlog");
            for file in files(&log, "log") {
                let mut bytes = std::fs::read(&file).unwrap();
                let middle = bytes.len() / 2;
                match damage {
                    "flip" => bytes[middle] ^= 1,
                    _ => bytes.truncate(middle),
                }
                std::fs::write(&file, bytes).unwrap();
            }
            let error = use_all(dir.path()).await.unwrap_err().to_string();
            assert!(error.contains("raftlog"), "{damage}: {error}");
            assert!(error.contains("damaged"), "{damage}: {error}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_damaged_state_is_refused_or_mended_from_the_log() {
        for damage in ["flip", "cut"] {
            for extension in ["log", "sst"] {
                let dir = tempfile::tempdir().unwrap();
                let before = written(dir.path()).await;
                let state = dir.path().join("state/gen-0");
                let damaged = files(&state, extension);
                for file in &damaged {
                    let mut bytes = std::fs::read(file).unwrap();
                    let place = bytes.len() / 4;
                    match damage {
                        "flip" => bytes[place] ^= 1,
                        _ => bytes.truncate(place),
                    }
                    std::fs::write(file, bytes).unwrap();
                }
                match use_all(dir.path()).await {
                    Ok(after) => assert_eq!(after, before, "{damage} {extension}"),
                    Err(error) => {
                        let error = error.to_string();
                        assert!(error.contains("state/gen-0"), "{damage} {extension}: {error}");
                    }
                }
            }
        }
    }
}
