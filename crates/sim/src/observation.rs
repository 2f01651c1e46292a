//! What is compared of an answer: its kind, and all that decides what the caller may do.
//!
//! Left out are texts for people, the echo of what the caller sent, and the numbers that a life or a
//! version goes by.

use firstclaim_core::name::ProviderKey;
use firstclaim_core::outcome::{AcquiredKind, PendingReason, ReleasedState};
use firstclaim_core::policy::{OnLapse, Retention};
use firstclaim_core::record::{Disposition, Epoch, Logical, Mode};
use firstclaim_core::{
    AttemptId, EffectName, EffectUid, Expiry, IdempotencyKey, Millis, OwnerLabel, Policy, Timestamp,
};

/// An answer, as far as it is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// The right to act.
    Acquired(Box<Acquired>),
    /// It is done.
    Replay(Box<Replay>),
    /// Not now.
    Pending {
        /// Why.
        reason: PendingReason,
        /// Who holds or held it; not compared for a pause that a holder asked for.
        holder: Option<OwnerLabel>,
        /// Until when.
        until: Timestamp,
        /// Whether the hint when to come back lies in (0, remaining].
        sane_hint: bool,
        /// The present epoch.
        epoch: Epoch,
    },
    /// Something may have happened.
    Unresolved {
        /// What.
        open: Vec<Seen>,
        /// Since when the record is unresolved.
        since: Timestamp,
        /// The present epoch.
        epoch: Epoch,
        /// When the life began.
        first_seen_time: Timestamp,
    },
    /// A lease that was made longer.
    Renewed {
        /// Its epoch.
        epoch: Epoch,
        /// What it allows.
        mode: Mode,
        /// The new deadline.
        lease_expire_time: Timestamp,
        /// What a holder that may execute has to know of the grants before its own.
        inherited: Option<(OnLapse, Vec<Seen>)>,
    },
    /// A record that was completed.
    Completed {
        /// What is stored.
        completion: Completion,
        /// Whether it was stored before.
        repeated: bool,
    },
    /// A claim that was given back.
    Released {
        /// Its epoch.
        epoch: Epoch,
        /// What the record is now.
        state: ReleasedState,
    },
    /// A policy that was set, or would be.
    Policy {
        /// The one that holds now.
        effective: Box<Policy>,
        /// The one before.
        previous: Option<Box<Policy>>,
        /// Whether nothing was changed.
        validate_only: bool,
    },
    /// A tenant or namespace that was deleted.
    Deleted {
        /// Namespaces that went.
        namespaces: u32,
        /// Whether `force` was given.
        forced: bool,
    },
    /// A sweep: what it removed is no part of the contract.
    Swept,
    /// A tick.
    Ticked,
    /// A report: it changes no answer.
    Reported,
    /// Leave to send an effect.
    Permitted(Permitted),
    /// What a settlement changed.
    Settled(Box<Settled>),
    /// A key that is bound to its request.
    Reserved(Box<Reserved>),
    /// A record that was resolved.
    Resolved {
        /// The epoch that it was given.
        epoch: Epoch,
        /// What the record is.
        state: Logical,
        /// Whether it was resolved by the same call before.
        repeated: bool,
    },
    /// A claim that can neither renew nor dispatch.
    Revoked {
        /// Its epoch.
        epoch: Epoch,
        /// When its lease ends now.
        lease_expire_time: Timestamp,
        /// Whether it was revoked before.
        repeated: bool,
    },
    /// A record whose result is gone.
    Purged {
        /// Its epoch.
        epoch: Epoch,
        /// Whether it was gone before.
        repeated: bool,
    },
    /// Records that are kept longer.
    Extended {
        /// Records looked at.
        seen: u32,
        /// Records that are kept longer now.
        extended: u32,
        /// Where the next page starts.
        next: Option<IdempotencyKey>,
    },
    /// The log refused it.
    Refused(Refused),
}

impl Observation {
    /// Whether both say the same.
    #[must_use]
    pub fn agrees(&self, other: &Self) -> bool {
        self == other || self.bare() == other.bare()
    }

    /// An answer without what may be told in two ways. Since when work is open decides nothing, and a
    /// lapse that nobody wrote down before a release has two such times. Of several things that stand
    /// against a call any may be named.
    fn bare(&self) -> Self {
        let mut answer = self.clone();
        let forget = |seen: &mut Vec<Seen>| seen.iter_mut().for_each(|one| one.since = None);
        if let Self::Refused(Refused::EvidenceConflict { uid, evidence_kept: false }) = &mut answer
        {
            uid.name = EffectName::Work(Epoch::NONE);
        } else if let Self::Acquired(it) = &mut answer {
            forget(&mut it.journal);
        } else if let Self::Settled(it) = &mut answer {
            forget(&mut it.open);
        } else if let Self::Unresolved { open, since, .. } = &mut answer {
            *since = Timestamp(0);
            forget(open);
        }
        answer
    }
}

/// What is known about an effect or the work of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Nobody has said.
    Open,
    /// It happened.
    Committed,
    /// It did not.
    NotCommitted,
    /// It happened, although somebody had said that it did not; nobody has resolved that.
    Conflict,
}

/// One thing that happened or may have happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Which.
    pub uid: EffectUid,
    /// What is known.
    pub known: Known,
    /// The latest time at which an honest holder can have sent it; not compared for work that is
    /// settled.
    pub latest: Option<Timestamp>,
    /// How long after that a "not found" proves nothing; not compared for work that is settled.
    pub settle_horizon: Option<Millis>,
    /// Its permits: number, epoch, end.
    pub permits: Vec<(u32, Epoch, Timestamp)>,
    /// Who held the epoch of work.
    pub holder: Option<(AttemptId, OwnerLabel)>,
    /// Since when work is open; not compared once it is settled.
    pub since: Option<Timestamp>,
}

/// The right to act.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acquired {
    /// How it came.
    pub kind: AcquiredKind,
    /// The fencing token.
    pub epoch: Epoch,
    /// What it allows.
    pub mode: Mode,
    /// What a lapse of it means.
    pub on_lapse: OnLapse,
    /// How long the result is kept, as frozen.
    pub result_retention: Millis,
    /// How long the key is remembered, as frozen.
    pub identity_retention: Retention,
    /// When the lease ends.
    pub lease_expire_time: Timestamp,
    /// When the life began.
    pub first_seen_time: Timestamp,
    /// When the intent was born.
    pub intent_time: Option<Timestamp>,
    /// Whether the claim gave another one.
    pub intent_time_differs: bool,
    /// For a first claim: whether the intent time was checked.
    pub horizon_checked: bool,
    /// EXECUTE grants so far.
    pub execute_grants: u32,
    /// The life's name.
    pub life: u64,
    /// What happened or may have happened, by uid.
    pub journal: Vec<Seen>,
    /// What became of the effects that the claim carried.
    pub permits: Vec<Result<Permitted, Refused>>,
    /// The completion that the claim carried.
    pub completion: Option<Completion>,
    /// Other keys of the same request.
    pub similar_keys: Vec<IdempotencyKey>,
}

/// Leave to send one effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permitted {
    /// Which effect.
    pub uid: EffectUid,
    /// The key for the provider.
    pub provider_key: Option<ProviderKey>,
    /// Number of the dispatch.
    pub number: u32,
    /// To whom it was given.
    pub epoch: Epoch,
    /// Until when.
    pub not_after: Timestamp,
    /// Whether it was given before.
    pub repeated: bool,
}

/// How a record was completed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// How it ended.
    pub disposition: Disposition,
    /// Digest of the result.
    pub digest: Vec<u8>,
    /// Length of the result.
    pub length: u64,
    /// Whether the result was too large to be kept.
    pub oversize: bool,
    /// When.
    pub completed_time: Timestamp,
    /// By which epoch.
    pub epoch: Epoch,
    /// By which attempt.
    pub attempt_id: AttemptId,
    /// Who that was.
    pub owner: OwnerLabel,
    /// Whether the lease had ended by then.
    pub late: bool,
    /// Whether others said it.
    pub by_evidence: bool,
    /// When the bytes are gone.
    pub result_expire_time: Expiry,
    /// When the key is forgotten.
    pub identity_expire_time: Expiry,
}

/// It is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// How.
    pub completion: Completion,
    /// When the life began.
    pub first_seen_time: Timestamp,
    /// Whether the asking attempt completed it.
    pub by_this_attempt: bool,
    /// Whether the bytes are gone.
    pub result_dropped: bool,
    /// The bytes.
    pub bytes: Option<Vec<u8>>,
    /// How long ago it was completed.
    pub age: Millis,
}

/// What a settlement changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// Which effect.
    pub uid: EffectUid,
    /// What is known now.
    pub known: Known,
    /// Whether nothing changed.
    pub repeated: bool,
    /// What the record is now.
    pub state: Logical,
    /// The mode of a live claim.
    pub mode: Option<Mode>,
    /// What is still open.
    pub open: Vec<Seen>,
    /// Whether it completed the record.
    pub completed_record: bool,
    /// What a holder that may execute has to know of the grants before its own.
    pub inherited: Option<(OnLapse, Vec<Seen>)>,
}

/// A key that is bound to its request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// Whether this call did it.
    pub created: bool,
    /// What the record is.
    pub state: Logical,
    /// The present epoch.
    pub epoch: Epoch,
    /// When the life began.
    pub first_seen_time: Timestamp,
    /// When it is forgotten; compared only while it is reserved.
    pub identity_expire_time: Option<Expiry>,
    /// When the intent was born.
    pub intent_time: Option<Timestamp>,
    /// Whether this call gave another one.
    pub intent_time_differs: bool,
    /// Whether the intent time was checked; compared only if this call reserved the key.
    pub horizon_checked: bool,
    /// Other keys of the same request.
    pub similar_keys: Vec<IdempotencyKey>,
}

/// Why the log refused a command, with what the caller has to know about it.
#[expect(missing_docs, reason = "the same names as firstclaim_core::Refusal, which says it all")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    Invalid { fields: Vec<String> },
    IntentTimeInFuture { skew: Millis },
    TenantNotFound,
    NamespaceNotFound,
    RecordNotFound,
    AlreadyExists,
    NameInDeletion { free_time: Timestamp },
    EtagMismatch,
    StillInUse,
    FingerprintMismatch { scheme: String, parts: Vec<String>, first_seen_time: Timestamp },
    FingerprintIncomparable { first_seen_time: Timestamp },
    AttemptIdReused { owner: OwnerLabel },
    AttemptSpent { epoch: Epoch },
    AttemptsExhausted { execute_grants: u32, max_attempts: u32 },
    LateReplay { intent_time: Option<Timestamp> },
    StaleEpoch { epoch: Option<Epoch>, evidence_kept: bool, completed_record: bool },
    LeaseExpired { lease_expire_time: Timestamp },
    Revoked,
    AlreadyCompleted { epoch: Epoch, completed_time: Timestamp, evidence_kept: bool },
    ResultConflict { stored: Vec<u8>, sent: Vec<u8> },
    UnsettledEffects { open: Vec<EffectUid> },
    EffectNotAllowed,
    EffectNotFound { uid: EffectUid },
    EffectOpen { uid: EffectUid },
    EffectSettled { uid: EffectUid, known: Known },
    EffectMismatch { uid: EffectUid, field: String },
    RedispatchUnsafe { uid: EffectUid, dedup_until: Option<Expiry> },
    DispatchNumber { uid: EffectUid, next: u32 },
    EvidenceConflict { uid: EffectUid, evidence_kept: bool },
    NotYetProvable { uid: EffectUid, provable_time: Timestamp },
    StillLive { until: Timestamp },
    NotPurgeable { epoch: Epoch, state: Logical },
    KeyNotReserved,
    DuplicateIntent { similar_keys: Vec<IdempotencyKey> },
    RecordsExhausted { records_max: u64 },
}
