//! The commands on a running cluster: three regions in this process, the binary as a child.

#![cfg(feature = "server")]
#![expect(clippy::unwrap_used, reason = "what the tests call may fail only as a test does")]

mod effects;
mod records;
mod run;
mod shell;
