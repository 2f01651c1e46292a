//! The SDK against a node that answers from a script.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "what the tests call may fail only as a test does"
)]

mod calls;
mod effects;
mod fake;
mod guard;
mod records;
