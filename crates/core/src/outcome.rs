//! What a command decided: an answer, or a refusal. Both are replicated results.

use serde::{Deserialize, Serialize};

pub use crate::effect::Inherited;
use crate::effect::{EffectUid, Findings, Journal, Permit};
use crate::invalid::Invalid;
use crate::name::{IdempotencyKey, OwnerLabel, ProviderKey, RecordRef};
use crate::policy::{OnLapse, Policy, Retention};
use crate::record::{Completion, Epoch, Logical, Mode};
use crate::tenant::{Etag, Namespace, Tenant};
use crate::time::{Expiry, Millis, Timestamp};

/// The result of one command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Store time at which it was decided.
    pub store_time: Timestamp,
    /// What was decided.
    pub result: Result<Answer, Refusal>,
}

/// A command that was carried out, or a claim that got one of its four answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// To a claim: the right to act.
    Acquired(Box<Acquired>),
    /// To a claim: it is done; here is the result.
    Replay(Box<Replay>),
    /// To a claim: not now.
    Pending(Box<Pending>),
    /// To a claim: something may have happened, and the caller did not offer to find out.
    Unresolved(Box<Unresolved>),
    /// To a renewal.
    Renewed(Renewed),
    /// To a completion.
    Completed(Box<Completed>),
    /// To a release.
    Released(Released),
    /// To a put of a tenant.
    Tenant(Box<TenantPut>),
    /// To a put of a namespace.
    Namespace(Box<NamespacePut>),
    /// To a deletion.
    Deleted(Deleted),
    /// To a sweep.
    Swept(Swept),
    /// To a tick.
    Ticked,
    /// To a RecordEffect.
    Permitted(Box<Permitted>),
    /// To a SettleEffect.
    Settled(Box<Settled>),
    /// To a Reserve.
    Reserved(Box<Reserved>),
    /// To a Resolve.
    Resolved(ResolvedAnswer),
    /// To a Revoke.
    Revoked(RevokedAnswer),
    /// To a Purge.
    Purged(Purged),
    /// To an ExtendExisting.
    Extended(Extended),
    /// To a Report.
    Reported,
}

/// How a claim came to be acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum AcquiredKind {
    /// The first claim of this life of the key.
    First,
    /// The same attempt again: the same epoch.
    AlreadyHeld,
    /// Something is open: look it up and settle it.
    Recovery,
    /// The earlier holder lapsed, and nothing is open.
    Takeover,
    /// The earlier holder said that nothing happened.
    Retry,
    /// The key was unbound and stands for this request now.
    Rebound,
}

/// The right to act.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acquired {
    /// How it came.
    pub kind: AcquiredKind,
    /// The fencing token.
    pub epoch: Epoch,
    /// What it allows.
    pub mode: Mode,
    /// What a lapse of this grant means.
    pub on_lapse: OnLapse,
    /// How long the result will be kept, as frozen at this grant.
    pub result_retention: Millis,
    /// How long the key will be remembered, as frozen at this grant.
    pub identity_retention: Retention,
    /// When the lease ends.
    pub lease_expire_time: Timestamp,
    /// When this life of the key began.
    pub first_seen_time: Timestamp,
    /// When the intent was born, as its first claim said.
    pub intent_time: Option<Timestamp>,
    /// Whether this claim gave another intent time than the first.
    pub intent_time_differs: bool,
    /// For a first claim: whether its intent time was checked against all retentions.
    pub horizon_checked: bool,
    /// EXECUTE grants so far, this one included.
    pub execute_grants: u32,
    /// Names this life of the key: the first half of every effect's uid.
    pub life: u64,
    /// What happened, or may have happened, under earlier grants and this one, with its evidence.
    pub journal: Journal,
    /// What became of each effect that the claim carried, by position.
    pub permits: Vec<Result<Permitted, Refusal>>,
    /// The completion that the claim carried.
    pub completion: Option<Completion>,
    /// Other keys with the same fingerprint.
    pub similar_keys: Vec<IdempotencyKey>,
}

/// Leave to send one effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Permitted {
    /// Which effect.
    pub uid: EffectUid,
    /// The key to give to the provider.
    pub provider_key: Option<ProviderKey>,
    /// For which dispatch, and until when.
    pub permit: Permit,
    /// Whether it was given before.
    pub repeated: bool,
}

/// What a settlement changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settled {
    /// Which effect.
    pub uid: EffectUid,
    /// What is known about it now.
    pub findings: Findings,
    /// Whether it was known before, or there was nothing to settle.
    pub repeated: bool,
    /// What the record is now.
    pub state: Logical,
    /// The mode of a live claim now.
    pub mode: Option<Mode>,
    /// What is still open.
    pub open: Journal,
    /// Whether the settlement completed the record.
    pub completed_record: bool,
    /// What the holder of a live claim has to know if it may execute after others.
    pub inherited: Option<Inherited>,
}

/// A key that is bound to its request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reserved {
    /// Whether this call reserved it; else it was known before and is unchanged.
    pub created: bool,
    /// What the record is.
    pub state: Logical,
    /// The present epoch; 0 if nobody has claimed it.
    pub epoch: Epoch,
    /// When this life of the key began.
    pub first_seen_time: Timestamp,
    /// When it is forgotten, if nobody claims it.
    pub identity_expire_time: Option<Expiry>,
    /// When the intent was born, as it is bound.
    pub intent_time: Option<Timestamp>,
    /// Whether this call gave another intent time.
    pub intent_time_differs: bool,
    /// Whether its intent time was checked against all retentions.
    pub horizon_checked: bool,
    /// Other keys with the same fingerprint.
    pub similar_keys: Vec<IdempotencyKey>,
}

/// A record that was resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolvedAnswer {
    /// The epoch that fences all holders before out.
    pub epoch: Epoch,
    /// What the record is now.
    pub state: Logical,
    /// Whether the same call resolved it before.
    pub repeated: bool,
}

/// A claim that can neither be renewed nor dispatch any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevokedAnswer {
    /// Whose.
    pub epoch: Epoch,
    /// When its lease ends now.
    pub lease_expire_time: Timestamp,
    /// Whether it was revoked before.
    pub repeated: bool,
}

/// A record whose result is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Purged {
    /// The record's epoch.
    pub epoch: Epoch,
    /// Whether it was gone before.
    pub repeated: bool,
}

/// A page of records whose retention was made longer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extended {
    /// Records looked at.
    pub seen: u32,
    /// Records that are kept longer now.
    pub extended: u32,
    /// Where the next page starts; none after the last one.
    pub next: Option<IdempotencyKey>,
}

/// It is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replay {
    /// How, when, by whom, and what came out. Without bytes once they are gone.
    pub completion: Completion,
    /// When this life of the key began.
    pub first_seen_time: Timestamp,
    /// Whether the asking attempt completed it.
    pub by_this_attempt: bool,
    /// Whether the result's bytes are gone.
    pub result_dropped: bool,
    /// How long ago it was completed.
    pub age: Millis,
}

/// Why a claim has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum PendingReason {
    /// Another attempt holds the claim.
    Held,
    /// The holder lapsed; the takeover delay runs.
    TakeoverDelayed,
    /// The last holder asked for a pause.
    Backoff,
}

/// Not now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    /// Why.
    pub reason: PendingReason,
    /// Who holds or held it.
    pub holder: Option<OwnerLabel>,
    /// Until when.
    pub until: Timestamp,
    /// How long that is from now; never zero.
    pub retry_after: Millis,
    /// The present epoch.
    pub epoch: Epoch,
}

/// Something may have happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unresolved {
    /// What is open, since when, and who left it.
    pub open: Journal,
    /// Names this life of the key: the first half of every effect's uid.
    pub life: u64,
    /// Since when the record is unresolved.
    pub since: Timestamp,
    /// The present epoch.
    pub epoch: Epoch,
    /// When this life of the key began.
    pub first_seen_time: Timestamp,
}

/// A lease that was made longer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renewed {
    /// Its epoch.
    pub epoch: Epoch,
    /// What it allows.
    pub mode: Mode,
    /// The new deadline.
    pub lease_expire_time: Timestamp,
    /// What it has to know if it may execute after others.
    pub inherited: Option<Inherited>,
}

/// A record that was completed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completed {
    /// What is stored, without the bytes: the caller has them.
    pub completion: Completion,
    /// Whether the same completion was stored before.
    pub repeated: bool,
}

/// A claim that was given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Released {
    /// Its epoch.
    pub epoch: Epoch,
    /// What the record is now.
    pub state: ReleasedState,
}

/// What a released record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReleasedState {
    /// To be tried again.
    Retryable {
        /// Not before.
        not_before: Timestamp,
        /// When it is forgotten.
        identity_expire_time: Expiry,
    },
    /// Free for another request.
    Unbound {
        /// When it is forgotten.
        identity_expire_time: Expiry,
    },
    /// Unresolved until somebody settles it.
    Unresolved {
        /// Since when.
        since: Timestamp,
    },
}

/// What a change of policy may do to callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum PolicyWarning {
    /// New records forget their key earlier than records made before.
    IdentityRetentionShortened,
    /// New records drop their result earlier than records made before.
    ResultRetentionShortened,
    /// A lapsed claim is executed again although nobody knows whether its work happened.
    LapseRepeatsWork,
    /// Nothing says how old a legitimate repeat can be.
    NoReplayWindows,
}

/// A tenant that was created or changed, or would be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantPut {
    /// As it is now.
    pub tenant: Tenant,
    /// The policy that holds where a namespace sets nothing.
    pub effective: Policy,
    /// What held before.
    pub previous: Option<Policy>,
    /// What to think of.
    pub warnings: Vec<PolicyWarning>,
    /// Whether nothing was changed.
    pub validate_only: bool,
}

/// A namespace that was created or changed, or would be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespacePut {
    /// As it is now.
    pub namespace: Namespace,
    /// The policy that holds there.
    pub effective: Policy,
    /// What held before.
    pub previous: Option<Policy>,
    /// What to think of.
    pub warnings: Vec<PolicyWarning>,
    /// Whether nothing was changed.
    pub validate_only: bool,
}

/// A tenant or namespace that was deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deleted {
    /// Namespaces that went.
    pub namespaces: u32,
    /// Whether `force` was given.
    pub forced: bool,
}

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Swept {
    /// Records that were forgotten and are gone now.
    pub removed: u32,
    /// Results whose bytes are gone now.
    pub results_dropped: u32,
    /// Whether the limit was reached, so that there may be more.
    pub more: bool,
}

/// A command that the log refused. Nothing changed, but for what `kept` names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// A field does not fit the policy.
    Invalid(Vec<Invalid>),
    /// The intent was born in the future, more than the skew ahead of store time.
    IntentTimeInFuture {
        /// What the caller sent.
        intent_time: Timestamp,
        /// The policy's skew.
        skew: Millis,
    },
    /// No such tenant.
    TenantNotFound,
    /// No such namespace.
    NamespaceNotFound,
    /// No such record.
    RecordNotFound,
    /// The name is taken.
    AlreadyExists {
        /// The version that has it.
        etag: Etag,
    },
    /// The name was deleted, and not every member has forgotten it yet.
    NameInDeletion {
        /// Index of the deletion.
        deleted_index: u64,
        /// When the name is free at the latest.
        free_time: Timestamp,
    },
    /// Another version stands there.
    EtagMismatch {
        /// The version that stands there.
        etag: Etag,
    },
    /// Records are live or open.
    StillInUse {
        /// One of them.
        example: RecordRef,
    },
    /// The key is bound to another request.
    FingerprintMismatch {
        /// The scheme that was compared.
        scheme: String,
        /// Parts known to differ.
        parts: Vec<String>,
        /// When the key was first seen.
        first_seen_time: Timestamp,
    },
    /// The requests cannot be compared.
    FingerprintIncomparable {
        /// Schemes that the key is bound by.
        bound: Vec<String>,
        /// Schemes that the request carried.
        sent: Vec<String>,
        /// When the key was first seen.
        first_seen_time: Timestamp,
    },
    /// The attempt id belongs to another owner.
    AttemptIdReused {
        /// Whose it is.
        owner: OwnerLabel,
    },
    /// The attempt had its grant already.
    AttemptSpent {
        /// The epoch that it was granted.
        epoch: Epoch,
    },
    /// No more EXECUTE grants.
    AttemptsExhausted {
        /// How many there were.
        execute_grants: u32,
        /// The policy's cap.
        max_attempts: u32,
    },
    /// A record of that intent may have been forgotten.
    LateReplay {
        /// What the caller sent.
        intent_time: Option<Timestamp>,
    },
    /// The epoch was superseded, or the caller never held it.
    StaleEpoch {
        /// The present epoch; none if the record is forgotten.
        epoch: Option<Epoch>,
        /// Whether what the caller reported is kept.
        evidence_kept: bool,
        /// Whether that report completed the record.
        completed_record: bool,
    },
    /// The lease has ended.
    LeaseExpired {
        /// When.
        lease_expire_time: Timestamp,
    },
    /// An operator took the right to renew away.
    Revoked,
    /// The record is completed.
    AlreadyCompleted {
        /// By which epoch.
        epoch: Epoch,
        /// When.
        completed_time: Timestamp,
        /// Whether what the caller reported is kept.
        evidence_kept: bool,
    },
    /// The same epoch completed it with something else; the stored one stays.
    ResultConflict {
        /// Digest of the stored result.
        stored_digest: Vec<u8>,
        /// Digest of the one that was sent.
        sent_digest: Vec<u8>,
    },
    /// Something is open.
    UnsettledEffects {
        /// Names this life of the key.
        life: u64,
        /// What.
        open: Journal,
    },
    /// The grant or the key does not allow it.
    EffectNotAllowed {
        /// Why.
        problem: String,
    },
    /// No such effect in the record.
    EffectNotFound {
        /// Which.
        uid: EffectUid,
    },
    /// The slot has an effect that may have happened.
    EffectOpen {
        /// Which.
        uid: EffectUid,
    },
    /// The slot has an effect that happened, or the effect itself is settled.
    EffectSettled {
        /// Which.
        uid: EffectUid,
        /// What is known about it.
        findings: Box<Findings>,
    },
    /// The effect is known with other content.
    EffectMismatch {
        /// Which.
        uid: EffectUid,
        /// The field that differs.
        field: String,
    },
    /// The provider might take a repeat for another effect.
    RedispatchUnsafe {
        /// Which.
        uid: EffectUid,
        /// Until when the provider tells repeats; none if it has no key or no known window.
        dedup_until: Option<Expiry>,
    },
    /// Another dispatch number is next.
    DispatchNumber {
        /// Which effect.
        uid: EffectUid,
        /// The number that is next.
        next: u32,
    },
    /// The evidence contradicts what is known; it is kept.
    EvidenceConflict {
        /// Which effect.
        uid: EffectUid,
        /// Whether the new evidence is kept for people.
        evidence_kept: bool,
    },
    /// The look-up was too early to prove anything.
    NotYetProvable {
        /// Which effect.
        uid: EffectUid,
        /// From when on an answer of the provider proves it.
        provable_time: Timestamp,
    },
    /// A holder is at work, or may still take over.
    StillLive {
        /// Until when.
        until: Timestamp,
    },
    /// Only a completed record of the expected epoch can be purged.
    NotPurgeable {
        /// The present epoch.
        epoch: Epoch,
        /// What the record is.
        state: Logical,
    },
    /// The namespace serves only keys that a producer reserved.
    KeyNotReserved,
    /// The same request arrived under another key.
    DuplicateIntent {
        /// Those keys, newest first.
        similar_keys: Vec<IdempotencyKey>,
    },
    /// The namespace holds as many records as its policy allows.
    RecordsExhausted {
        /// The policy's bound.
        records_max: u64,
    },
}
