//! A policy file: tenants and namespaces with their policies, as they are to be.
//!
//! ```yaml
//! apiVersion: firstclaim/v1
//! kind: Tenant
//! metadata: {name: acme}
//! spec:
//!   resultRetention: 24h
//! ---
//! apiVersion: firstclaim/v1
//! kind: Namespace
//! metadata: {tenant: acme, name: payouts}
//! spec:
//!   identityRetention: 90d          # or FOREVER
//!   replayWindows: {dlq_redrive: 14d, partner_resubmission: 60d}
//!   onLapse: RECOVER
//! ```
//!
//! A file says all: what it does not name goes back to what is inherited. [`document`] reads it,
//! [`fault`] says where it is wrong, [`plan`] compares it with the cluster and changes that.

mod document;
mod fault;
mod plan;

pub(crate) use document::{Document, Target, read};
pub(crate) use fault::{Fault, text as faults_text};
pub(crate) use plan::{Change, Stop, Verb, apply, diff};
