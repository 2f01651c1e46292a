//! The Rust SDK of firstclaim: ask for the right to act on an intent, act, and say how it ended.
//!
//! ```no_run
//! use firstclaim_client::{ClaimRequest, Client, ClientConfig, Execution, Work, execute_once};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::lazy(ClientConfig::new(["127.0.0.1:4360", "127.0.0.1:4370"]))?;
//! let request = ClaimRequest::new("acme", "payouts", "payout:847")
//!     .fingerprint(firstclaim_client::fingerprint::sha256("payout-v1", b"847 120.00 EUR"));
//! let executed = execute_once(&client, request, Execution::default(), |claim| async move {
//!     match claim.safe_to_dispatch(std::time::Duration::from_secs(5)) {
//!         Ok(()) => Work::done("application/json", br#"{"transfer":"tx_58123"}"#),
//!         Err(not_safe) => Work::Unknown { note: not_safe.to_string() },
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
//! * [`execute_once()`] is the whole round: claim, work, complete. [`execute_journaled()`] is the
//!   same for one recorded effect.
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
