//! The Rust SDK of firstclaim: ask for the right to act on an intent, act, and say how it ended.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use firstclaim_client::{
//!     ClaimRequest, Client, ClientConfig, EffectRequest, Execution, Sent, execute_journaled,
//! };
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::lazy(ClientConfig::new(["127.0.0.1:4360", "127.0.0.1:4370"]))?;
//! let request = ClaimRequest::new("acme", "payouts", "payout:847")
//!     .fingerprint(firstclaim_client::fingerprint::sha256("payout-v1", b"847 120.00 EUR"));
//! // The payment is recorded before it is sent: whoever comes after a crash knows of it.
//! let payment = |n: u32| {
//!     EffectRequest::new(format!("payment-{n}"), "bank")
//!         .provider_key(format!("payout-847-{n}"), Duration::from_secs(24 * 3600))
//!         .request("application/json", br#"{"payout":847,"amount":"120.00 EUR"}"#)
//! };
//! let execution = Execution::default();
//! let executed = execute_journaled(&client, request, execution, payment, |_claim, permit| async move {
//!     match permit.check(Duration::from_secs(5)) {
//!         // Send once, with `permit.provider_key()`, and report what the bank said.
//!         Ok(()) => Sent::committed("application/json", br#"{"transfer":"tx_58123"}"#),
//!         Err(too_late) => Sent::unknown(too_late.to_string()),
//!     }
//! })
//! .await?;
//! # let _ = executed;
//! # Ok(())
//! # }
//! ```
//!
//! * [`Client`] finds a node that answers, follows hints to the leader, and repeats a call only
//!   where repeating is safe. Answers are the messages of [`v1`].
//! * [`Claim`] holds a grant, renews it, and tells when it is no longer safe to act on it.
//! * [`Permit`] is leave to send one effect that was recorded before; [`Settlement`] says what became
//!   of it.
//! * [`execute_journaled()`] is the whole round with one recorded effect: claim, send, complete.
//!   [`execute_once()`] is the same for work that leaves nothing behind at others.
//! * [`Error`] says why, and whether the call can still take effect.

mod batch;
mod claim;
mod client;
mod cluster;
mod config;
mod effects;
mod endpoints;
mod error;
mod execute;
pub mod fingerprint;
mod journaled;
pub mod key;
mod outcome;
mod records;
mod renew;
mod request;
mod retry;
mod tenants;
pub mod time;
mod watch;
mod work;

pub use claim::{Claim, Lost, NotSafe};
pub use client::Client;
pub use config::{ClientConfig, ConfigError};
pub use effects::{AsOf, EffectRequest, Finding, Permit, Settlement, TooLate};
pub use error::{Applied, Error, FieldViolation, TryFailure};
pub use execute::{ExecuteError, Executed, Execution, execute_once};
pub use firstclaim_core::{Invalid, Reason, catalogue, limits};
pub use firstclaim_proto::v1;
pub use journaled::{Sent, execute_journaled};
pub use outcome::{ClaimOutcome, Completion};
pub use prost_types;
pub use records::{Reservation, Resolution, Resolved, Warrant};
pub use request::{ClaimRequest, HolderRef, RecordRef, mint_attempt_id};
pub use watch::{RecordWatch, RecordsWatch};
pub use work::{Backoff, Work, WorkError};
