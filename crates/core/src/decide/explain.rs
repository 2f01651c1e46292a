//! Explain: which rule of semantics §5 decided a claim, read off what it came to.

use crate::outcome::{AcquiredKind, Answer, PendingReason, Refusal};
use crate::record::Logical;

/// A rule of the table of claims, or a check before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The row of the table, 1 to 18; 0 for a check before it.
    pub row: u32,
    /// What the rule says.
    pub text: &'static str,
}

/// The rule by which a claim of a record came to `result`. `prior` is what the record was; none if
/// there was none, or it was forgotten. `open` says whether anything was open in it. None if the
/// result is not that of a claim.
#[must_use]
pub fn explain(
    prior: Option<Logical>,
    open: bool,
    result: Result<&Answer, &Refusal>,
) -> Option<Rule> {
    let row = match result {
        Ok(answer) => row_of_answer(prior, open, answer)?,
        Err(refusal) => match row_of_refusal(refusal) {
            Some(row) => row,
            None => return check(refusal).map(|text| Rule { row: 0, text }),
        },
    };
    Some(Rule { row, text: text(row) })
}

fn row_of_answer(prior: Option<Logical>, open: bool, answer: &Answer) -> Option<u32> {
    match answer {
        Answer::Replay(_) => Some(3),
        Answer::Pending(pending) => Some(match pending.reason {
            PendingReason::Held => 7,
            PendingReason::TakeoverDelayed => 8,
            PendingReason::Backoff => 11,
        }),
        Answer::Unresolved(_) => Some(10),
        Answer::Acquired(acquired) => Some(match acquired.kind {
            AcquiredKind::AlreadyHeld => 5,
            AcquiredKind::Recovery if open => 9,
            AcquiredKind::Recovery => 12,
            AcquiredKind::Takeover => 14,
            AcquiredKind::Retry => 15,
            AcquiredKind::Rebound => 16,
            AcquiredKind::First if prior == Some(Logical::Reserved) => 17,
            AcquiredKind::First => 18,
        }),
        Answer::Renewed(_)
        | Answer::Completed(_)
        | Answer::Released(_)
        | Answer::Tenant(_)
        | Answer::Namespace(_)
        | Answer::Deleted(_)
        | Answer::Swept(_)
        | Answer::Ticked
        | Answer::Permitted(_)
        | Answer::Settled(_)
        | Answer::Reserved(_)
        | Answer::Resolved(_)
        | Answer::Revoked(_)
        | Answer::Purged(_)
        | Answer::Extended(_)
        | Answer::Reported => None,
    }
}

fn row_of_refusal(refusal: &Refusal) -> Option<u32> {
    if matches!(refusal, Refusal::FingerprintMismatch { .. }) {
        Some(1)
    } else if matches!(refusal, Refusal::FingerprintIncomparable { .. }) {
        Some(2)
    } else if matches!(refusal, Refusal::AttemptIdReused { .. }) {
        Some(4)
    } else if matches!(refusal, Refusal::AttemptSpent { .. }) {
        Some(6)
    } else if matches!(refusal, Refusal::AttemptsExhausted { .. }) {
        Some(13)
    } else {
        None
    }
}

/// The check before the table that a claim did not pass.
fn check(refusal: &Refusal) -> Option<&'static str> {
    match refusal {
        Refusal::TenantNotFound => Some("tenant: it must exist"),
        Refusal::NamespaceNotFound => Some("namespace: it must exist"),
        Refusal::Invalid(_) => {
            Some("fields: the policy's requirements and bounds hold for every claim")
        }
        Refusal::RecordsExhausted { .. } => {
            Some("record quota: a new key needs room below the policy's records_max")
        }
        Refusal::IntentTimeInFuture { .. } => {
            Some("intent time: a new key's intent is not born later than store time plus the skew")
        }
        Refusal::LateReplay { .. } => Some(
            "replay horizon: a new key's intent is younger than all that can have been forgotten",
        ),
        Refusal::KeyNotReserved => {
            Some("reserve: a new key must have been reserved by its producer")
        }
        Refusal::DuplicateIntent { .. } => {
            Some("duplicate intent: the same request must not come under a second key")
        }
        Refusal::RecordNotFound
        | Refusal::AlreadyExists { .. }
        | Refusal::NameInDeletion { .. }
        | Refusal::EtagMismatch { .. }
        | Refusal::StillInUse { .. }
        | Refusal::FingerprintMismatch { .. }
        | Refusal::FingerprintIncomparable { .. }
        | Refusal::AttemptIdReused { .. }
        | Refusal::AttemptSpent { .. }
        | Refusal::AttemptsExhausted { .. }
        | Refusal::StaleEpoch { .. }
        | Refusal::LeaseExpired { .. }
        | Refusal::Revoked
        | Refusal::AlreadyCompleted { .. }
        | Refusal::ResultConflict { .. }
        | Refusal::UnsettledEffects { .. }
        | Refusal::EffectNotAllowed { .. }
        | Refusal::EffectNotFound { .. }
        | Refusal::EffectOpen { .. }
        | Refusal::EffectSettled { .. }
        | Refusal::EffectMismatch { .. }
        | Refusal::RedispatchUnsafe { .. }
        | Refusal::DispatchNumber { .. }
        | Refusal::EvidenceConflict { .. }
        | Refusal::NotYetProvable { .. }
        | Refusal::StillLive { .. }
        | Refusal::NotPurgeable { .. } => None,
    }
}

/// What a row of the table says.
const fn text(row: u32) -> &'static str {
    match row {
        1 => "the key is bound to another request",
        2 => "the key's request and this one cannot be compared",
        3 => "the intent is completed: every duplicate gets the stored result",
        4 => "the attempt id was used by another owner",
        5 => "the attempt holds the claim: it gets the same grant again",
        6 => "the attempt was granted the claim before, and never gets a second grant",
        7 => "another attempt holds a live claim",
        8 => "the claim lapsed, and the takeover delay is not over",
        9 => "something may have happened, and the caller accepts to find out",
        10 => "something may have happened, and the caller does not accept to find out",
        11 => "the last holder asked for a pause that is not over",
        12 => "the EXECUTE grants are used up; the caller may reconcile",
        13 => "the EXECUTE grants are used up",
        14 => "the claim lapsed or was left unresolved, and nothing is open: the caller takes over",
        15 => "the last holder released the claim for another try",
        16 => "the key was unbound: it is bound to this request now",
        17 => "a producer reserved the key, and nobody has claimed it yet",
        18 => "nothing is known about the key, and all checks of a new key passed",
        _ => "no row of the table",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Pending;
    use crate::record::Epoch;
    use crate::time::{Millis, Timestamp};

    #[test]
    fn every_row_has_a_text_of_its_own() {
        let texts: Vec<&str> = (1..=18).map(text).collect();
        for (at, one) in texts.iter().enumerate() {
            assert!(!texts[..at].contains(one) && *one != text(0), "row {}", at + 1);
        }
    }

    #[test]
    fn a_check_before_the_table_has_no_row() {
        let rule = explain(None, false, Err(&Refusal::KeyNotReserved)).unwrap();
        assert_eq!(rule.row, 0);
        assert!(rule.text.starts_with("reserve: "));
    }

    #[test]
    fn pending_is_explained_by_its_reason() {
        let pending = |reason| {
            Answer::Pending(Box::new(Pending {
                reason,
                holder: None,
                until: Timestamp(1),
                retry_after: Millis(1),
                epoch: Epoch(1),
            }))
        };
        for (reason, row) in [
            (PendingReason::Held, 7),
            (PendingReason::TakeoverDelayed, 8),
            (PendingReason::Backoff, 11),
        ] {
            let rule = explain(Some(Logical::Live), false, Ok(&pending(reason))).unwrap();
            assert_eq!(rule.row, row);
        }
        assert_eq!(explain(None, false, Ok(&Answer::Ticked)), None);
    }
}
