//! What a command decided: an answer, or a refusal. Both are replicated results.

use serde::{Deserialize, Serialize};

use crate::invalid::Invalid;
use crate::name::{OwnerLabel, RecordRef};
use crate::policy::{OnLapse, Policy, Retention};
use crate::record::{Completion, Epoch, Mode, OpenWork};
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
    /// What earlier holders left open.
    pub open: Vec<OpenWork>,
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
    pub open: Vec<OpenWork>,
    /// Since when the record is unresolved.
    pub since: Timestamp,
    /// The present epoch.
    pub epoch: Epoch,
    /// When this life of the key began.
    pub first_seen_time: Timestamp,
}

/// A lease that was made longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renewed {
    /// Its epoch.
    pub epoch: Epoch,
    /// What it allows.
    pub mode: Mode,
    /// The new deadline.
    pub lease_expire_time: Timestamp,
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
        /// What.
        open: Vec<OpenWork>,
    },
    /// The grant or the key does not allow it.
    EffectNotAllowed {
        /// Why.
        problem: String,
    },
}
