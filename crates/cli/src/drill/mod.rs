//! `firstclaim drill`: the failure table, run against a live cluster.
//!
//! ```text
//! scenario (what goes wrong in which delivery) ─▶ queue ─▶ worker ─▶ the cluster under test
//!                                          (at least once)   │
//!                                                            └────▶ provider (ledger = witness)
//! ```
//!
//! The queue and the provider are fakes of this process; the cluster is real. Nothing is concluded
//! from the cluster's own counters: what happened is read from the provider's ledger, and what the
//! cluster said from its answers. Deliveries, dispatch attempts, effects at the provider and
//! unresolved records are four different numbers and are counted apart.

mod act;
mod audit;
mod fault;
mod late;
mod ledger;
mod provider;
mod queue;
mod recover;
mod report;
mod run;
mod scenario;
mod scene;
mod seen;
mod stage;
mod worker;

pub(crate) use run::{DrillOptions, run_drill};
pub(crate) use scenario::names;
