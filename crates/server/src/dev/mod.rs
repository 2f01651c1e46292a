//! A whole cluster in one process, for a first look, for the demo and for benchmarks.
//!
//! Three full nodes, each with its own data folder, its own listeners and its own async runtime,
//! talk to each other over real loopback connections. A fault layer in the peer transport, shared
//! by the three, can delay or cut each direction. Killing a node drops its runtime in the middle of
//! whatever it does: nothing is drained and no leadership is handed over.

mod cluster;
mod command;
mod console;
mod node;
mod options;
mod probe;
mod region;
mod text;

pub use cluster::{Addresses, DevCluster};
pub use console::{Input, run};
pub use options::{DevError, DevOptions, LinkDelay, Ports};
pub use probe::NodeStatus;
pub use region::Region;
