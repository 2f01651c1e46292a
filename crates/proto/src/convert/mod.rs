//! Between the wire and the domain: the only place where bytes from outside become domain types.
//!
//! * A request becomes a command, or every fault of it at once ([`Faults`]).
//! * What was decided becomes a response, whatever it is.
//! * For the client, the same backwards: a command becomes a request, a response what was decided.
//!
//! Text that is not UTF-8 never comes here: a proto3 `string` cannot hold it, and decoding the
//! message fails before.

pub mod batch;
pub mod claim;
pub mod dispatch;
pub mod effect;
pub mod enums;
pub mod faults;
pub mod fingerprint;
pub mod holder;
pub mod operator;
pub mod policy;
pub mod reads;
pub mod record;
pub mod reserve;
pub mod resolve;
pub mod result;
pub mod settle;
pub mod tenant;
pub mod time;

pub use faults::Faults;

use firstclaim_core::{Answer, IdempotencyKey, NamespaceName, RecordRef, TenantName};

/// An answer of another kind than the call can have: a fault of the server, never of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a {call} was answered as if it were a {answered}")]
pub struct WrongAnswer {
    /// What was asked.
    pub call: &'static str,
    /// What was answered.
    pub answered: &'static str,
}

impl WrongAnswer {
    fn to(call: &'static str, answer: &Answer) -> Self {
        let answered = match answer {
            Answer::Acquired(_)
            | Answer::Replay(_)
            | Answer::Pending(_)
            | Answer::Unresolved(_) => "claim",
            Answer::Renewed(_) => "renewal",
            Answer::Completed(_) => "completion",
            Answer::Released(_) => "release",
            Answer::Tenant(_) => "tenant put",
            Answer::Namespace(_) => "namespace put",
            Answer::Deleted(_) => "deletion",
            Answer::Swept(_) => "sweep",
            Answer::Ticked => "tick",
            Answer::Permitted(_) => "record effect",
            Answer::Settled(_) => "settlement",
            Answer::Reserved(_) => "reservation",
            Answer::Resolved(_) => "resolution",
            Answer::Revoked(_) => "revocation",
            Answer::Purged(_) => "purge",
            Answer::Extended(_) => "extension",
            Answer::Reported => "report",
        };
        Self { call, answered }
    }
}

impl Faults {
    /// Reads the three names of a record.
    fn record_ref(&mut self, tenant: String, namespace: String, key: String) -> Option<RecordRef> {
        let tenant = self.take(TenantName::parse(tenant));
        let namespace = self.take(NamespaceName::parse(namespace));
        let key = self.take(IdempotencyKey::parse(key));
        Some(RecordRef { tenant: tenant?, namespace: namespace?, key: key? })
    }
}
