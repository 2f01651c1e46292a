//! Whole nodes, in this process: what they read, what they refuse, what they answer.
//!
//! One binary: each one links the storage engine, and that takes its time.

#![expect(clippy::panic, reason = "a test ends where it finds something else")]

mod bad_input;
mod batches;
mod cases;
mod config;
mod effects;
mod end_to_end;
mod observed;
mod port_in_use;
mod records;
mod three;
mod waits;
mod watches;
