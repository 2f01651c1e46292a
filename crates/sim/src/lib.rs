//! What firstclaim shall answer, told a second time.
//!
//! [`Model`] was written from `docs/semantics.md` and the decisions beside it, not from the code that
//! serves. It keeps the history of everything and looks it up again for every answer: slow, and easy
//! to hold against the page. It shares the types of commands with `firstclaim-core` and no rule.
//!
//! ```text
//!                ┌─▶ core::apply ─▶ Outcome ─▶ observe ─┐
//! stamp, command ┤                                      ├─▶ equal?
//!                └─▶ Model::apply ────▶ Observation ────┘
//! ```

pub mod model;
mod observation;
mod observe;
mod random;
mod rows;

pub use model::Model;
pub use observation::{
    Acquired, Completion, Known, Observation, Permitted, Refused, Replay, Reserved, Seen, Settled,
};
pub use observe::observe;
pub use random::Random;
pub use rows::{ROWS, Row};
