//! The SDK against a node that answers from a script.

mod calls;
mod fake;
mod guard;
