//! Where was idempotency lost? Told from the history of records and the labels of attempts.
//!
//! Pure: [`past`] is what is known about keys, [`analysis`] says what follows from it, and
//! [`finding`] is how that is told. What is asked of a cluster stands in `command/diagnose.rs`.
//!
//! The evidence is what callers say about themselves: the owner label names the instance, the labels
//! `message_id` and `delivery` name the message and which delivery of it this is.

mod analysis;
mod finding;
mod past;

pub(crate) use analysis::diagnose;
pub(crate) use finding::{Cause, Diagnosis, Evidence, Finding};
pub(crate) use past::{Past, fingerprint, millis};
