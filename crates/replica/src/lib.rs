//! The replicated log and the disk of firstclaim.
//!
//! ```text
//! propose ─▶ stamp ─▶ raft ─▶ log (synced) ─▶ quorum ─▶ apply ─▶ outcomes
//!                      │  ▲                              │
//!                      ▼  │                              ▼
//!                     peers                            state
//! ```
//!
//! [`Replica`] is all that the server sees of it. openraft, RocksDB and bincode are named nowhere
//! else in the workspace.

mod bootstrap;
mod clock;
mod config;
mod error;
mod faults;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod limits;
mod local;
mod member;
mod network;
mod peer;
mod raft;
mod reads;
mod replica;
#[cfg(not(feature = "simulated"))]
mod runtime;
#[cfg(feature = "simulated")]
#[path = "simulated/runtime.rs"]
mod runtime;
#[cfg(feature = "simulated")]
pub mod simulated;
mod status;
mod store;
#[cfg(not(feature = "simulated"))]
mod transport;
#[cfg(feature = "simulated")]
#[path = "simulated/transport.rs"]
mod transport;
mod wakes;
mod wire;

pub use clock::{Clock, SystemClock};
pub use config::{ReplicaConfig, SnapshotRule};
pub use error::{Fate, OpenError, ProposeError, StoreError};
pub use faults::Faults;
pub use local::Look;
pub use member::Member;
pub use replica::Replica;
pub use status::{MemberStatus, Role, Status};
pub use store::{MemoryDisk, Page, Progress, State, Storage};
pub use wakes::Changes;
