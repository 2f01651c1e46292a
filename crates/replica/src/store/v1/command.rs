//! The commands of format 1. Only Claim and Complete have other fields today.

use firstclaim_core::command::{
    self, DeleteNamespace, DeleteTenant, Holder, PutNamespace, PutTenant, Release, Renew, Sweep,
};
use firstclaim_core::name::Region;
use firstclaim_core::record::{Disposition, ResultBody};
use firstclaim_core::{
    AttemptId, FingerprintSet, Labels, Millis, OwnerLabel, RecordRef, Timestamp,
};
use serde::{Deserialize, Serialize};

/// What a log entry asks for. The position is in the format.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Command {
    Claim(Claim),
    Renew(Renew),
    Complete(Complete),
    Release(Release),
    PutTenant(PutTenant),
    PutNamespace(PutNamespace),
    DeleteTenant(DeleteTenant),
    DeleteNamespace(DeleteNamespace),
    Sweep(Sweep),
    Tick,
}

/// A claim, before it said where it came in and could carry effects or a completion.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Claim {
    record: RecordRef,
    attempt_id: AttemptId,
    owner: OwnerLabel,
    fingerprints: FingerprintSet,
    lease: Option<Millis>,
    intent_time: Option<Timestamp>,
    labels: Labels,
    accept_recovery: bool,
}

/// A completion, before it could carry settlements.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Complete {
    holder: Holder,
    disposition: Disposition,
    result: ResultBody,
}

impl From<Claim> for command::Claim {
    fn from(claim: Claim) -> Self {
        Self {
            record: claim.record,
            attempt_id: claim.attempt_id,
            owner: claim.owner,
            fingerprints: claim.fingerprints,
            lease: claim.lease,
            intent_time: claim.intent_time,
            labels: claim.labels,
            accept_recovery: claim.accept_recovery,
            region: Region::unknown(),
            effects: Vec::new(),
            complete_with: None,
            allow_duplicate_intent: false,
        }
    }
}

impl From<Complete> for command::Complete {
    fn from(complete: Complete) -> Self {
        Self {
            holder: complete.holder,
            disposition: complete.disposition,
            result: complete.result,
            settlements: Vec::new(),
        }
    }
}

impl From<Command> for command::Command {
    fn from(command: Command) -> Self {
        match command {
            Command::Claim(it) => Self::Claim(it.into()),
            Command::Renew(it) => Self::Renew(it),
            Command::Complete(it) => Self::Complete(it.into()),
            Command::Release(it) => Self::Release(it),
            Command::PutTenant(it) => Self::PutTenant(it),
            Command::PutNamespace(it) => Self::PutNamespace(it),
            Command::DeleteTenant(it) => Self::DeleteTenant(it),
            Command::DeleteNamespace(it) => Self::DeleteNamespace(it),
            Command::Sweep(it) => Self::Sweep(it),
            Command::Tick => Self::Tick,
        }
    }
}
