//! Tests of the disk that look behind the doors of the crate.

pub(crate) mod crash_points;
mod damage;
mod engine_scripts;
mod formats;
mod former;
#[cfg(feature = "rocksdb")]
mod former_folder;
mod overlay;
mod pages;
mod power_cut;
mod random;
mod suite;

use std::path::Path;
use std::sync::Arc;

use firstclaim_core::Timestamp;
use openraft::storage::{RaftLogStorage as _, RaftStateMachine as _};
use openraft::type_config::TypeConfigExt as _;

use crate::error::StoreError;
use crate::raft::{Entry, EntryPayload, IoFlushed, Payload, TypeConfig, log_id};
use crate::store::disk::{Disk, Storage};
use crate::store::machine::{self, Machine};
use crate::store::{LogStore, StateMachine, codec};

pub(super) const CLUSTER: &str = "test";

/// An open store.
pub(super) struct Open {
    pub(super) log: LogStore,
    pub(super) state_machine: StateMachine,
    pub(super) machine: Arc<Machine>,
}

pub(super) fn open(dir: &Path, storage: Storage) -> Result<Open, StoreError> {
    open_as(dir, storage, CLUSTER)
}

pub(super) fn open_as(dir: &Path, storage: Storage, cluster: &str) -> Result<Open, StoreError> {
    let disk = Arc::new(Disk::open(dir, storage, cluster, 1).expect("the folder is free"));
    let log_disk = disk.open_log()?;
    let log_path = log_disk.engine.path().to_path_buf();
    let log = LogStore::open(log_disk)?;
    let (state_machine, machine) = machine::open(disk, &log, &log_path, cluster)?;
    Ok(Open { log, state_machine, machine })
}

/// An entry with a tick.
pub(super) fn tick(term: u64, index: u64) -> Entry {
    let time = Timestamp(1_700_000_000_000 + index);
    let payload = codec::encode_payload(time, &[firstclaim_core::Command::Tick]).unwrap();
    Entry { log_id: log_id(term, index), payload: EntryPayload::Normal(Payload(payload)) }
}

/// Appends entries and waits until they are acknowledged.
pub(super) async fn append(log: &mut LogStore, entries: Vec<Entry>) {
    let (done, flushed) = TypeConfig::oneshot();
    log.append(entries, IoFlushed::signal(done)).await.unwrap();
    flushed.await.unwrap().unwrap();
}

/// Applies entries that are in the log.
pub(super) async fn apply(state_machine: &mut StateMachine, entries: Vec<Entry>) {
    let stream = futures::stream::iter(entries.into_iter().map(|entry| Ok((entry, None))));
    state_machine.apply(stream).await.unwrap();
}

impl Open {
    /// Closes everything, so that the folder can be opened again.
    pub(super) async fn close(self) {
        let folder = self.machine.close();
        drop(self);
        // The writer closes the log when it sees that its senders are gone.
        while folder.strong_count() > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }
}
