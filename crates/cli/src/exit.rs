//! What the exit code says. Scripts build on these numbers: they are never given another meaning.

use firstclaim_client::{Applied, Error, Reason};

pub(crate) const DONE: u8 = 0;
pub(crate) const OTHER: u8 = 1;
pub(crate) const USAGE: u8 = 2;
pub(crate) const UNAVAILABLE: u8 = 3;
pub(crate) const DENIED: u8 = 4;
pub(crate) const NOT_FOUND: u8 = 5;
pub(crate) const CONFLICT: u8 = 6;
pub(crate) const REPLAY: u8 = 10;
pub(crate) const PENDING: u8 = 11;
pub(crate) const UNRESOLVED: u8 = 12;
pub(crate) const FINGERPRINT: u8 = 13;
pub(crate) const SUPERSEDED: u8 = 14;
pub(crate) const UNKNOWN: u8 = 124;

/// The table of `firstclaim help exit-codes`.
pub(crate) const TABLE: &[(u8, &str)] = &[
    (DONE, "done; a claim was acquired"),
    (OTHER, "any other failure"),
    (USAGE, "wrong usage or configuration; a field of the request is wrong"),
    (
        UNAVAILABLE,
        "unavailable: no quorum, no leader, overloaded, a limit of the tenant, or no endpoint reached; nothing was stored",
    ),
    (DENIED, "not authenticated, or not allowed"),
    (NOT_FOUND, "no such tenant, namespace or record"),
    (
        CONFLICT,
        "conflict: another version (etag), a name that is taken, something still in use, another result, contradictory evidence, the same request under another key",
    ),
    (REPLAY, "claim: the intent is completed already; the stored result is printed"),
    (
        PENDING,
        "not now: another attempt holds it, a pause runs, or it is too early to prove; come back",
    ),
    (UNRESOLVED, "the intent may have happened, and nobody has said; find out first"),
    (FINGERPRINT, "the key is bound to another request"),
    (SUPERSEDED, "superseded: the epoch, the lease or the attempt is over"),
    (UNKNOWN, "timed out with unknown outcome: repeat the same call with the same attempt"),
];

/// The exit code of a failed call.
pub(crate) fn of_error(error: &Error) -> u8 {
    if error.is_denied() { DENIED } else { of_reason(error.reason(), error.applied()) }
}

fn of_reason(reason: Reason, applied: Applied) -> u8 {
    if applied == Applied::Maybe && reason != Reason::Internal {
        return UNKNOWN;
    }
    match reason {
        Reason::InvalidArgument | Reason::IntentTimeInFuture => USAGE,
        Reason::TenantNotFound
        | Reason::NamespaceNotFound
        | Reason::RecordNotFound
        | Reason::EffectNotFound => NOT_FOUND,
        Reason::AlreadyExists
        | Reason::NameInDeletion
        | Reason::EtagMismatch
        | Reason::StillInUse
        | Reason::ResultConflict
        | Reason::EffectSettled
        | Reason::EffectMismatch
        | Reason::EvidenceConflict
        | Reason::NotPurgeable
        | Reason::DuplicateIntent => CONFLICT,
        Reason::StillLive | Reason::NotYetProvable => PENDING,
        Reason::FingerprintMismatch | Reason::FingerprintIncomparable => FINGERPRINT,
        Reason::AttemptSpent
        | Reason::StaleEpoch
        | Reason::LeaseExpired
        | Reason::Revoked
        | Reason::AlreadyCompleted => SUPERSEDED,
        Reason::UnsettledEffects | Reason::EffectOpen | Reason::RedispatchUnsafe => UNRESOLVED,
        Reason::RateLimited
        | Reason::RecordsExhausted
        | Reason::Overloaded
        | Reason::StorageFull
        | Reason::NoQuorum
        | Reason::NoLeader
        | Reason::NodeDraining
        | Reason::DeadlineExceeded
        | Reason::Unreachable => UNAVAILABLE,
        Reason::OutcomeUnknown => UNKNOWN,
        Reason::AttemptIdReused
        | Reason::AttemptsExhausted
        | Reason::LateReplay
        | Reason::KeyNotReserved
        | Reason::EffectNotAllowed
        | Reason::Internal => OTHER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order_and_says_each_code_once() {
        assert!(TABLE.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert_eq!(TABLE.len(), 13);
    }

    #[test]
    fn reasons_have_the_codes_of_the_table() {
        for (reason, applied, code) in [
            (Reason::InvalidArgument, Applied::No, USAGE),
            (Reason::NoQuorum, Applied::No, UNAVAILABLE),
            (Reason::Unreachable, Applied::No, UNAVAILABLE),
            (Reason::RecordNotFound, Applied::No, NOT_FOUND),
            (Reason::EtagMismatch, Applied::Decided, CONFLICT),
            (Reason::FingerprintMismatch, Applied::Decided, FINGERPRINT),
            (Reason::StaleEpoch, Applied::Decided, SUPERSEDED),
            (Reason::LeaseExpired, Applied::Decided, SUPERSEDED),
            (Reason::OutcomeUnknown, Applied::Maybe, UNKNOWN),
            (Reason::NoQuorum, Applied::Maybe, UNKNOWN),
            (Reason::LateReplay, Applied::Decided, OTHER),
            (Reason::EffectOpen, Applied::Decided, UNRESOLVED),
            (Reason::EffectSettled, Applied::Decided, CONFLICT),
            (Reason::NotYetProvable, Applied::Decided, PENDING),
            (Reason::RateLimited, Applied::No, UNAVAILABLE),
            (Reason::Internal, Applied::Maybe, OTHER),
        ] {
            assert_eq!(of_reason(reason, applied), code, "{reason:?} {applied}");
        }
        for reason in Reason::ALL {
            let code = of_reason(*reason, Applied::Decided);
            assert!(code != DONE && TABLE.iter().any(|(listed, _)| *listed == code), "{reason:?}");
        }
    }
}
