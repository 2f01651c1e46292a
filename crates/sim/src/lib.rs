//! What firstclaim shall answer, told a second time, and a world that tries to make it answer wrongly.
//!
//! [`Model`] was written from `docs/semantics.md` and the decisions beside it, not from the code that
//! serves. It keeps the history of everything and looks it up again for every answer: slow, and easy
//! to hold against the page. It shares the types of commands with `firstclaim-core` and no rule.
//!
//! ```text
//!                          ┌─▶ core::apply ─▶ Outcome ─▶ observe ─┐
//! seed ─▶ World ─▶ command ┤                             │        ├─▶ equal?
//!         ▲                └─▶ Model::apply ────▶ Observation ────┘
//!         │                                              ▼
//!         └── answers, lost, late or in time ◀── invariants I1 to I13
//! ```
//!
//! A seed is one thread and one list of events; the same seed is the same run, bit for bit.

mod actors;
mod checks;
mod faults;
mod figures;
mod history;
mod judge;
#[path = "../../core/tests/support/mod.rs"]
mod memory;
pub mod model;
mod names;
mod observation;
mod observe;
mod random;
mod reach;
mod rows;
#[path = "../../core/tests/support/show.rs"]
mod show;
mod shrink;
mod tell;
mod world;

pub use checks::{Broken, Oracles, Property};
pub use faults::{Fault, FaultCounts, Plan};
pub use figures::Figures;
pub use model::Model;
pub use observation::{
    Acquired, Completion, Known, Observation, Permitted, Refused, Replay, Reserved, Seen, Settled,
};
pub use observe::observe;
pub use random::Random;
pub use reach::{Marker, Reach};
pub use rows::{ROWS, Row};
pub use shrink::{Shortest, shortest};
pub use tell::{Trace, trace};
pub use world::{Ended, Settings, run};
