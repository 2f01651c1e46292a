//! openraft's own suite for storages, on both engines.

use openraft::StorageError;
use openraft::testing::log::{StoreBuilder, Suite};
use tempfile::TempDir;

use super::open;
use crate::raft::TypeConfig;
use crate::store::disk::{MemoryDisk, Storage};
use crate::store::{LogStore, StateMachine};

enum Kind {
    Memory,
    #[cfg(feature = "rocksdb")]
    RocksDb,
}

impl StoreBuilder<TypeConfig, LogStore, StateMachine, TempDir> for Kind {
    async fn build(&self) -> Result<(TempDir, LogStore, StateMachine), StorageError<TypeConfig>> {
        let dir = tempfile::tempdir().unwrap();
        let storage = match self {
            Self::Memory => Storage::Memory(MemoryDisk::default()),
            #[cfg(feature = "rocksdb")]
            Self::RocksDb => Storage::RocksDb,
        };
        let open = open(dir.path(), storage).unwrap();
        Ok((dir, open.log, open.state_machine))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_passes() {
    Suite::test_all(Kind::Memory).await.unwrap();
}

#[cfg(feature = "rocksdb")]
#[tokio::test(flavor = "multi_thread")]
async fn rocksdb_passes() {
    Suite::test_all(Kind::RocksDb).await.unwrap();
}
