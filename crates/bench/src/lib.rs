//! The closed-loop load driver behind `firstclaim bench`.
//!
//! ```text
//! BenchConfig ─▶ Plan (checked) ─▶ N workers, each: next key ─▶ claim ─▶ complete ─▶ Tally
//!                                                                                     │
//!                                        Report (throughput, percentiles, outcomes) ◀─┘
//! ```
//!
//! Closed loop: a worker sends its next call when it has the answer to the last one. The figures
//! therefore say how long calls take at a given concurrency; they do not say what a queue in front
//! of an overloaded cluster would see.

mod config;
mod drive;
mod keys;
mod latency;
mod report;
mod tally;
mod worker;

pub use config::{BenchConfig, BenchError, Distribution, Journal, Work, Workload};
pub use drive::run;
pub use latency::Latencies;
pub use report::{CallReport, Report};
