//! What is on disk: the log, the state, snapshots of it, and whose they are.

pub(crate) mod codec;
pub(crate) mod disk;
pub(crate) mod engine;
pub(crate) mod file;
mod generation;
pub(crate) mod identity;
pub(crate) mod log;
mod log_end;
pub(crate) mod machine;
pub(crate) mod memory;
mod migrate;
#[cfg(feature = "rocksdb")]
pub(crate) mod rocks;
pub(crate) mod schema;
pub(crate) mod snapshot;
pub(crate) mod state;
mod tail;
pub(crate) mod v1;
mod writer;

pub(crate) use codec::PAYLOAD_BYTES_MAX;
pub use disk::{MemoryDisk, Storage};
pub(crate) use log::LogStore;
pub use machine::Progress;
pub(crate) use machine::StateMachine;
pub(crate) use snapshot::SnapshotDir;
pub use state::{Page, State};

#[cfg(test)]
mod tests;
