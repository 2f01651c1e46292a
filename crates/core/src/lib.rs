//! What firstclaim's commands mean.
//!
//! ```text
//! stored record ─┐
//! command ───────┼─▶ decide ─▶ change + outcome
//! entry's stamp ─┘
//! ```
//!
//! This crate is the contract of `docs/semantics.md` as code. It is pure: no clock, no randomness,
//! no I/O, no hash order, no knowledge of who leads. [`apply()`] is the one door through which the
//! replicated log reaches it, and [`Store`] is all that it can see of the state.

mod apply;
pub mod catalogue;
pub mod command;
pub mod decide;
pub mod effect;
pub mod fingerprint;
pub mod history;
pub mod invalid;
pub mod limits;
pub mod name;
pub mod outcome;
pub mod planted;
pub mod policy;
pub mod reason;
pub mod record;
pub mod store;
pub mod tenant;
pub mod time;

pub use apply::apply;
pub use command::Command;
pub use effect::{Content, EffectName, EffectUid};
pub use fingerprint::{Fingerprint, FingerprintSet};
pub use history::{History, Sighting};
pub use invalid::Invalid;
pub use name::{
    AttemptId, IdempotencyKey, Labels, NamespaceName, OwnerLabel, RecordRef, Scheme, TenantName,
};
pub use outcome::{Answer, Outcome, Refusal};
pub use policy::{Policy, PolicyPatch};
pub use reason::Reason;
pub use record::{Epoch, Record};
pub use store::{RecordId, Store, Usage};
pub use tenant::{Etag, Namespace, Slot, Tenant};
pub use time::{Expiry, Millis, Stamp, StoreClock, Timestamp};
