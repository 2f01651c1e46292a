//! The firstclaim server process: configuration, services, batching, forwarding, metrics.
//!
//! ```text
//! call ─▶ admission ─▶ decode ─▶ local replay ─▶ proposer ─▶ replica ─▶ encode ─▶ answer
//!                                     │ not the leader
//!                                     └─▶ forward, once
//! ```

#![recursion_limit = "256"]

mod admission;
mod audit;
mod call;
mod claiming;
pub mod config;
pub mod dev;
mod duplicates;
mod edge;
mod forward;
mod listen;
mod members;
mod metrics;
mod node;
mod proposer;
mod rate;
mod readiness;
mod refusal;
mod sampler;
mod server;
mod service;
mod sightings;
mod status;
mod sweeper;
mod tally;
pub mod telemetry;
mod transport;
mod undecodable;
mod version;
mod waiting;
mod watching;
mod web;

pub use config::Config;
pub use firstclaim_replica::Faults;
pub use listen::ListenError;
pub use metrics::catalogue as metric_catalogue;
pub use server::{RunningServer, Server, StartError, StopError};
pub use version::{VERSION, set_build_id};
