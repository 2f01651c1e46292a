//! Every command that goes through the log.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::effect::{Content, EffectUid, Verdict};
use crate::fingerprint::FingerprintSet;
use crate::history::Sighting;
use crate::name::{
    AttemptId, EffectId, IdempotencyKey, Labels, NamespaceName, OwnerLabel, Principal, ProviderKey,
    ProviderName, RecordRef, Region, SlotName, TenantName,
};
use crate::policy::{PolicyPatch, Retention};
use crate::record::{Disposition, Epoch, ResultBody};
use crate::tenant::Etag;
use crate::time::{Millis, Timestamp};

/// What a log entry asks for. New kinds are added at the end: the position is in the format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// Asks for the right to act on a key.
    Claim(Claim),
    /// Makes a lease longer.
    Renew(Renew),
    /// Stores how the work ended.
    Complete(Complete),
    /// Gives the claim back.
    Release(Release),
    /// Creates or changes a tenant.
    PutTenant(PutTenant),
    /// Creates or changes a namespace.
    PutNamespace(PutNamespace),
    /// Deletes a tenant with all its namespaces.
    DeleteTenant(DeleteTenant),
    /// Deletes a namespace.
    DeleteNamespace(DeleteNamespace),
    /// Removes what is past its retention.
    Sweep(Sweep),
    /// Carries a stamp and nothing else.
    Tick,
    /// Asks for leave to send an effect.
    RecordEffect(RecordEffect),
    /// Says what became of an effect.
    SettleEffect(SettleEffect),
    /// Binds a key to its request where the intent is born.
    Reserve(Reserve),
    /// Ends what nobody else could.
    Resolve(Resolve),
    /// Takes the right to renew and to dispatch away.
    Revoke(Revoke),
    /// Drops a result.
    Purge(Purge),
    /// Lets existing records profit from a longer retention.
    ExtendExisting(ExtendExisting),
    /// Tells of claims that were not granted.
    Report(Report),
}

/// Asks for the right to act on a key. Semantics §5.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// Which key.
    pub record: RecordRef,
    /// Which try.
    pub attempt_id: AttemptId,
    /// Whose try.
    pub owner: OwnerLabel,
    /// The request that the key stands for.
    pub fingerprints: FingerprintSet,
    /// How long a lease is wanted; the policy's default if none.
    pub lease: Option<Millis>,
    /// When the intent was born.
    pub intent_time: Option<Timestamp>,
    /// What the caller says about the attempt.
    pub labels: Labels,
    /// Whether the caller can look up and settle what an earlier holder left open.
    pub accept_recovery: bool,
    /// The region that the claim came in at.
    pub region: Region,
    /// Effects to be recorded with an EXECUTE grant, each by its first dispatch.
    pub effects: Vec<Dispatch>,
    /// How to complete the record at once with an EXECUTE grant.
    pub complete_with: Option<CompleteWith>,
    /// Whether the caller knows that the same request under another key is another intent.
    pub allow_duplicate_intent: bool,
}

/// How a claim completes the record in the same step: for work that commits with the consumer's own
/// transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompleteWith {
    /// How it ended.
    pub disposition: Disposition,
    /// What came out.
    pub result: ResultBody,
}

/// One effect, and the dispatch of it that is asked for. Semantics §6.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dispatch {
    /// The caller's name for the effect in this record.
    pub id: EffectId,
    /// The dispatch number, from 1.
    pub number: u32,
    /// Effects of one slot exclude each other.
    pub slot: SlotName,
    /// Where it is sent.
    pub provider: ProviderName,
    /// The key that the provider is given.
    pub provider_key: Option<ProviderKey>,
    /// For how long the provider tells repeats by that key; unknown if none.
    pub dedup_window: Option<Retention>,
    /// What is sent.
    pub request: Content,
    /// How long from now the permit is wanted for; as long as the lease if none.
    pub within: Option<Millis>,
}

/// Asks for leave to send an effect. Semantics §6.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordEffect {
    /// Who asks.
    pub holder: Holder,
    /// What for.
    pub dispatch: Dispatch,
}

/// What became of an effect, and what shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settle {
    /// Which effect.
    pub uid: EffectUid,
    /// Its provider; none for work.
    pub provider: Option<ProviderName>,
    /// Its provider key, if it has one.
    pub provider_key: Option<ProviderKey>,
    /// What was found.
    pub verdict: Verdict,
    /// What shows it.
    pub evidence: Content,
}

/// Says what became of an effect; needs no claim. Semantics §6.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettleEffect {
    /// Which key.
    pub record: RecordRef,
    /// What became of it.
    pub settle: Settle,
    /// Who says so.
    pub principal: Principal,
}

/// Why a key is reserved although a record of its intent may have been forgotten.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admission {
    /// Who answers for it.
    pub principal: Principal,
    /// How they know that it never ran.
    pub reason: String,
}

/// Binds a key to its request without claiming it. Semantics §5.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reserve {
    /// Which key.
    pub record: RecordRef,
    /// The request that the key stands for.
    pub fingerprints: FingerprintSet,
    /// When the intent was born.
    pub intent_time: Option<Timestamp>,
    /// What the producer says about it.
    pub labels: Labels,
    /// Whether the same request under another key is another intent.
    pub allow_duplicate_intent: bool,
    /// Set to reserve a key that LATE_REPLAY would refuse (Admit).
    pub admit: Option<Admission>,
}

/// What a resolved record becomes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Resolved {
    /// Done.
    Completed(CompleteWith),
    /// To be tried again.
    Retryable {
        /// How long nobody may try.
        retry_after: Millis,
    },
}

/// Ends what nobody else could: a verdict for everything open, and what becomes of the record.
/// Semantics §6.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolve {
    /// Which key.
    pub record: RecordRef,
    /// The epoch that the caller saw.
    pub expected_epoch: Epoch,
    /// This try; a repeat with the same one gets the same answer.
    pub attempt_id: AttemptId,
    /// A verdict for everything open.
    pub verdicts: Vec<(EffectUid, Verdict)>,
    /// What shows it.
    pub evidence: Content,
    /// Why.
    pub reason: String,
    /// Who.
    pub principal: Principal,
    /// What becomes of the record.
    pub state: Resolved,
}

/// Takes the right to renew and to dispatch from a live holder. Semantics §6.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revoke {
    /// Which key.
    pub record: RecordRef,
    /// Whose right.
    pub epoch: Epoch,
    /// Why.
    pub reason: String,
    /// Who.
    pub principal: Principal,
}

/// Drops the result of a completed record and all that is personal in it. Semantics §6.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Purge {
    /// Which key.
    pub record: RecordRef,
    /// The epoch that the caller saw.
    pub expected_epoch: Epoch,
    /// Why.
    pub reason: String,
    /// Who.
    pub principal: Principal,
}

/// Makes the retentions of existing records as long as the policy's, page by page. Never shortens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtendExisting {
    /// The tenant.
    pub tenant: TenantName,
    /// The namespace.
    pub namespace: NamespaceName,
    /// Keys above this one.
    pub after: Option<IdempotencyKey>,
    /// Most records to look at; at most [`crate::limits::SWEEP_RECORDS_MAX`].
    pub limit: u32,
    /// Who.
    pub principal: Principal,
}

/// Proves that the caller holds a grant: both must match.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Which key.
    pub record: RecordRef,
    /// The epoch that was granted.
    pub epoch: Epoch,
    /// The attempt that it was granted to.
    pub attempt_id: AttemptId,
}

/// Makes a lease longer. Semantics §6.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renew {
    /// Who asks.
    pub holder: Holder,
    /// Wanted length from now; the claim's own if none.
    pub lease: Option<Millis>,
}

/// Stores how the work ended. Semantics §6.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Complete {
    /// Who says so.
    pub holder: Holder,
    /// How it ended.
    pub disposition: Disposition,
    /// What came out.
    pub result: ResultBody,
    /// What became of effects; taken in before the rest is judged.
    pub settlements: Vec<Settle>,
}

/// What a holder knows when it gives its claim back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReleaseKind {
    /// Nothing happened; try again after a while.
    Retry {
        /// How long nobody may try.
        retry_after: Millis,
    },
    /// Nothing happened, and the key may be bound to another request.
    Unbind,
    /// Nobody knows whether it happened.
    Unknown {
        /// What the holder can say about it.
        note: String,
    },
}

/// Gives the claim back. Semantics §6.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// Who gives it back.
    pub holder: Holder,
    /// With what knowledge.
    pub kind: ReleaseKind,
}

/// Whether a put may create, and what it may replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PutMode {
    /// The name must be free.
    Create {
        /// The lowest log index that every member had applied when the command was proposed; a
        /// deleted name is free once that covers its deletion.
        members_applied: u64,
    },
    /// The name must exist, and have this etag if one is given.
    Update {
        /// The version that the caller saw.
        expected: Option<Etag>,
    },
}

/// Creates or changes a tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutTenant {
    /// Its name.
    pub tenant: TenantName,
    /// All that it sets itself from now on.
    pub policy: PolicyPatch,
    /// Create or update.
    pub mode: PutMode,
    /// Whether only to say what would happen.
    pub validate_only: bool,
}

/// Creates or changes a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutNamespace {
    /// Its tenant.
    pub tenant: TenantName,
    /// Its name.
    pub namespace: NamespaceName,
    /// All that it sets itself from now on.
    pub policy: PolicyPatch,
    /// Create or update.
    pub mode: PutMode,
    /// Whether only to say what would happen.
    pub validate_only: bool,
}

/// Deletes a tenant with all its namespaces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteTenant {
    /// Which.
    pub tenant: TenantName,
    /// The version that the caller saw.
    pub expected: Option<Etag>,
    /// Whether to delete records that are live or open, too.
    pub force: bool,
}

/// Deletes a namespace with all its records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteNamespace {
    /// Its tenant.
    pub tenant: TenantName,
    /// Which.
    pub namespace: NamespaceName,
    /// The version that the caller saw.
    pub expected: Option<Etag>,
    /// Whether to delete records that are live or open, too.
    pub force: bool,
}

/// Removes what is past its retention. Changes no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sweep {
    /// Most records to look at; at most [`crate::limits::SWEEP_RECORDS_MAX`].
    pub limit: u32,
}

/// Tells of claims that were not granted, so that the history knows them. Changes no answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// By record, at most [`crate::limits::REPORT_RECORDS_MAX`].
    pub records: Vec<RecordReport>,
}

/// Claims of one record that were not granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordReport {
    /// Which key.
    pub record: RecordRef,
    /// Some of them, the latest ones.
    pub sightings: Vec<Sighting>,
    /// How many there were, by outcome.
    pub counts: BTreeMap<String, u64>,
}
