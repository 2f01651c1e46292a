//! The firstclaim server process: configuration, services, batching, forwarding, metrics.
//!
//! ```text
//! call ─▶ admission ─▶ decode ─▶ local replay ─▶ proposer ─▶ replica ─▶ encode ─▶ answer
//!                                     │ not the leader
//!                                     └─▶ forward, once
//! ```

#![recursion_limit = "256"]

mod admission;
mod call;
pub mod config;
pub mod dev;
mod forward;
mod listen;
mod local_replay;
mod members;
mod metrics;
mod node;
mod proposer;
mod readiness;
mod refusal;
mod server;
mod service;
mod status;
mod sweeper;
pub mod telemetry;
mod undecodable;
mod version;
mod web;

pub use config::Config;
pub use firstclaim_replica::Faults;
pub use listen::ListenError;
pub use metrics::NAMES as METRIC_NAMES;
pub use server::{RunningServer, Server, StartError, StopError};
pub use version::{VERSION, set_build_id};
