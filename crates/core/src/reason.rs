//! The machine-readable name of every refusal and failure.

use crate::outcome::Refusal;

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident = $text:literal;)*) => {
        /// Why a call did not do what was asked: the `reason` of `google.rpc.ErrorInfo`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason { $($(#[$doc])* $variant,)* }

        impl Reason {
            /// Every reason.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// The reason of that name.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

reasons! {
    /// A field is wrong.
    InvalidArgument = "INVALID_ARGUMENT";
    /// The intent time is in the future.
    IntentTimeInFuture = "INTENT_TIME_IN_FUTURE";
    /// No such tenant.
    TenantNotFound = "TENANT_NOT_FOUND";
    /// No such namespace.
    NamespaceNotFound = "NAMESPACE_NOT_FOUND";
    /// No such record.
    RecordNotFound = "RECORD_NOT_FOUND";
    /// The name is taken.
    AlreadyExists = "ALREADY_EXISTS";
    /// The name was deleted and is not free yet.
    NameInDeletion = "NAME_IN_DELETION";
    /// Another version stands there.
    EtagMismatch = "ETAG_MISMATCH";
    /// Records are live or open.
    StillInUse = "STILL_IN_USE";
    /// The key is bound to another request.
    FingerprintMismatch = "FINGERPRINT_MISMATCH";
    /// The requests cannot be compared.
    FingerprintIncomparable = "FINGERPRINT_INCOMPARABLE";
    /// The attempt id belongs to another owner.
    AttemptIdReused = "ATTEMPT_ID_REUSED";
    /// The attempt had its grant already.
    AttemptSpent = "ATTEMPT_SPENT";
    /// No more EXECUTE grants.
    AttemptsExhausted = "ATTEMPTS_EXHAUSTED";
    /// A record of that intent may have been forgotten.
    LateReplay = "LATE_REPLAY";
    /// The epoch was superseded.
    StaleEpoch = "STALE_EPOCH";
    /// The lease has ended.
    LeaseExpired = "LEASE_EXPIRED";
    /// The right to renew was taken away.
    Revoked = "REVOKED";
    /// The record is completed.
    AlreadyCompleted = "ALREADY_COMPLETED";
    /// Another result is stored.
    ResultConflict = "RESULT_CONFLICT";
    /// Something is open.
    UnsettledEffects = "UNSETTLED_EFFECTS";
    /// The grant does not allow it.
    EffectNotAllowed = "EFFECT_NOT_ALLOWED";
    /// No such effect in the record.
    EffectNotFound = "EFFECT_NOT_FOUND";
    /// The slot has an effect that may have happened.
    EffectOpen = "EFFECT_OPEN";
    /// The effect, or one of its slot, is settled.
    EffectSettled = "EFFECT_SETTLED";
    /// The effect is known with other content.
    EffectMismatch = "EFFECT_MISMATCH";
    /// The provider might take a repeat for another effect.
    RedispatchUnsafe = "REDISPATCH_UNSAFE";
    /// The evidence contradicts what is known.
    EvidenceConflict = "EVIDENCE_CONFLICT";
    /// The look-up was too early.
    NotYetProvable = "NOT_YET_PROVABLE";
    /// A holder is at work.
    StillLive = "STILL_LIVE";
    /// Nothing that may be purged.
    NotPurgeable = "NOT_PURGEABLE";
    /// Only reserved keys may be claimed.
    KeyNotReserved = "KEY_NOT_RESERVED";
    /// The same request under another key.
    DuplicateIntent = "DUPLICATE_INTENT";
    /// The namespace is full.
    RecordsExhausted = "RECORDS_EXHAUSTED";
    /// The namespace gets more claims a second than its policy allows.
    RateLimited = "RATE_LIMITED";
    /// Too much is under way.
    Overloaded = "OVERLOADED";
    /// The disk is full.
    StorageFull = "STORAGE_FULL";
    /// No majority answers.
    NoQuorum = "NO_QUORUM";
    /// No leader is known.
    NoLeader = "NO_LEADER";
    /// The node is going down.
    NodeDraining = "NODE_DRAINING";
    /// The call may have taken effect.
    OutcomeUnknown = "OUTCOME_UNKNOWN";
    /// The call took longer than its deadline, and never reached the log.
    DeadlineExceeded = "DEADLINE_EXCEEDED";
    /// The node failed.
    Internal = "INTERNAL";
    /// No endpoint answered. Said by clients, never by a node.
    Unreachable = "UNREACHABLE";
}

impl Reason {
    /// Whether the same call should be repeated, here or at another node: exactly then its failure
    /// carries `google.rpc.RetryInfo`. Semantics §7.
    #[must_use]
    pub const fn should_repeat(self) -> bool {
        match self {
            Self::NameInDeletion
            | Self::NotYetProvable
            | Self::RateLimited
            | Self::Overloaded
            | Self::StorageFull
            | Self::NoQuorum
            | Self::NoLeader
            | Self::NodeDraining
            | Self::OutcomeUnknown
            | Self::DeadlineExceeded
            | Self::Unreachable => true,
            Self::InvalidArgument
            | Self::IntentTimeInFuture
            | Self::TenantNotFound
            | Self::NamespaceNotFound
            | Self::RecordNotFound
            | Self::AlreadyExists
            | Self::EtagMismatch
            | Self::StillInUse
            | Self::FingerprintMismatch
            | Self::FingerprintIncomparable
            | Self::AttemptIdReused
            | Self::AttemptSpent
            | Self::AttemptsExhausted
            | Self::LateReplay
            | Self::StaleEpoch
            | Self::LeaseExpired
            | Self::Revoked
            | Self::AlreadyCompleted
            | Self::ResultConflict
            | Self::UnsettledEffects
            | Self::EffectNotAllowed
            | Self::EffectNotFound
            | Self::EffectOpen
            | Self::EffectSettled
            | Self::EffectMismatch
            | Self::RedispatchUnsafe
            | Self::EvidenceConflict
            | Self::StillLive
            | Self::NotPurgeable
            | Self::KeyNotReserved
            | Self::DuplicateIntent
            | Self::RecordsExhausted
            | Self::Internal => false,
        }
    }
}

impl Refusal {
    /// The reason of this refusal.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        match self {
            Self::Invalid(_) => Reason::InvalidArgument,
            Self::IntentTimeInFuture { .. } => Reason::IntentTimeInFuture,
            Self::TenantNotFound => Reason::TenantNotFound,
            Self::NamespaceNotFound => Reason::NamespaceNotFound,
            Self::RecordNotFound => Reason::RecordNotFound,
            Self::AlreadyExists { .. } => Reason::AlreadyExists,
            Self::NameInDeletion { .. } => Reason::NameInDeletion,
            Self::EtagMismatch { .. } => Reason::EtagMismatch,
            Self::StillInUse { .. } => Reason::StillInUse,
            Self::FingerprintMismatch { .. } => Reason::FingerprintMismatch,
            Self::FingerprintIncomparable { .. } => Reason::FingerprintIncomparable,
            Self::AttemptIdReused { .. } => Reason::AttemptIdReused,
            Self::AttemptSpent { .. } => Reason::AttemptSpent,
            Self::AttemptsExhausted { .. } => Reason::AttemptsExhausted,
            Self::LateReplay { .. } => Reason::LateReplay,
            Self::StaleEpoch { .. } => Reason::StaleEpoch,
            Self::LeaseExpired { .. } => Reason::LeaseExpired,
            Self::Revoked => Reason::Revoked,
            Self::AlreadyCompleted { .. } => Reason::AlreadyCompleted,
            Self::ResultConflict { .. } => Reason::ResultConflict,
            Self::UnsettledEffects { .. } => Reason::UnsettledEffects,
            Self::EffectNotAllowed { .. } | Self::DispatchNumber { .. } => Reason::EffectNotAllowed,
            Self::EffectNotFound { .. } => Reason::EffectNotFound,
            Self::EffectOpen { .. } => Reason::EffectOpen,
            Self::EffectSettled { .. } => Reason::EffectSettled,
            Self::EffectMismatch { .. } => Reason::EffectMismatch,
            Self::RedispatchUnsafe { .. } => Reason::RedispatchUnsafe,
            Self::EvidenceConflict { .. } => Reason::EvidenceConflict,
            Self::NotYetProvable { .. } => Reason::NotYetProvable,
            Self::StillLive { .. } => Reason::StillLive,
            Self::NotPurgeable { .. } => Reason::NotPurgeable,
            Self::KeyNotReserved => Reason::KeyNotReserved,
            Self::DuplicateIntent { .. } => Reason::DuplicateIntent,
            Self::RecordsExhausted { .. } => Reason::RecordsExhausted,
        }
    }
}
