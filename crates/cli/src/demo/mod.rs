//! `firstclaim demo`: fifty workers, two hundred payouts, duplicated deliveries, a killed leader.
//!
//! ```text
//! schedule (seeded) ─▶ queue (at least once) ─▶ workers ─▶ firstclaim ─▶ bank (pays every call)
//!                                                             ▲             │
//!                                        director kills the leader       ledger = witness
//! ```
//!
//! All calls are real: a dev cluster of three nodes is started, and every worker is a client of it
//! over loopback. The verdict is read from the bank's ledger, not from the cluster's own counters.

mod bank;
mod queue;
mod report;
mod schedule;
mod story;
mod tally;
mod worker;

pub(crate) use story::{DemoOptions, run_demo};
