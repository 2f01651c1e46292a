//! Walks every refusal and every reason.

use firstclaim_core::outcome::Refusal;
use firstclaim_core::record::{OpenCause, OpenWork};
use firstclaim_core::{Epoch, Etag, Millis, RecordRef};

use super::*;

const SEEN: Timestamp = Timestamp(1_700_000_000_000);
const SEEN_TEXT: &str = "2023-11-14T22:13:20Z";

fn names() -> RecordRef {
    RecordRef {
        tenant: "acme".to_owned().try_into().expect("a name"),
        namespace: "payouts".to_owned().try_into().expect("a name"),
        key: "secret-key".to_owned().try_into().expect("a key"),
    }
}

fn open() -> OpenWork {
    OpenWork {
        epoch: Epoch(4711),
        attempt_id: "a".to_owned().try_into().expect("an attempt"),
        owner: "w".to_owned().try_into().expect("an owner"),
        cause: OpenCause::Lapsed,
        since: SEEN,
        deadline: SEEN,
        settle_horizon: Millis(1),
        note: String::new(),
    }
}

/// One of each, with what its sentence must say; every such word must be in the metadata too.
fn refusals() -> Vec<(Refusal, Vec<&'static str>)> {
    let seen = SEEN_TEXT;
    let etag = Etag { generation: 3, version: 99 };
    let schemes = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    vec![
        (Refusal::Invalid(vec![Invalid::new("lease", "is 0 ms", "use more")]), vec!["lease"]),
        (
            Refusal::IntentTimeInFuture { intent_time: SEEN, skew: Millis(61_000) },
            vec![seen, "61000"],
        ),
        (Refusal::TenantNotFound, vec![]),
        (Refusal::NamespaceNotFound, vec![]),
        (Refusal::RecordNotFound, vec![]),
        (Refusal::AlreadyExists { etag }, vec!["3-99"]),
        (Refusal::NameInDeletion { deleted_index: 812, free_time: SEEN }, vec!["812", seen]),
        (Refusal::EtagMismatch { etag }, vec!["3-99"]),
        (Refusal::StillInUse { example: names() }, vec!["payouts"]),
        (
            Refusal::FingerprintMismatch {
                scheme: "payout-v1".to_owned(),
                parts: schemes(&["amount"]),
                first_seen_time: SEEN,
            },
            vec!["payout-v1", "amount", seen],
        ),
        (
            Refusal::FingerprintIncomparable {
                bound: schemes(&["v1"]),
                sent: schemes(&["v2"]),
                first_seen_time: SEEN,
            },
            vec!["v1", "v2", seen],
        ),
        (
            Refusal::AttemptIdReused { owner: "worker-9".to_owned().try_into().expect("an owner") },
            vec!["worker-9"],
        ),
        (Refusal::AttemptSpent { epoch: Epoch(4711) }, vec!["4711"]),
        (Refusal::AttemptsExhausted { execute_grants: 55, max_attempts: 44 }, vec!["55", "44"]),
        (Refusal::LateReplay { intent_time: Some(SEEN) }, vec![seen]),
        (
            Refusal::StaleEpoch {
                epoch: Some(Epoch(4711)),
                evidence_kept: true,
                completed_record: true,
            },
            vec!["4711"],
        ),
        (Refusal::LeaseExpired { lease_expire_time: SEEN }, vec![seen]),
        (Refusal::Revoked, vec![]),
        (
            Refusal::AlreadyCompleted {
                epoch: Epoch(4711),
                completed_time: SEEN,
                evidence_kept: true,
            },
            vec!["4711", seen],
        ),
        (
            Refusal::ResultConflict { stored_digest: vec![0xab], sent_digest: vec![0xcd] },
            vec!["ab", "cd"],
        ),
        (Refusal::UnsettledEffects { open: vec![open()] }, vec!["4711"]),
        (
            Refusal::EffectNotAllowed { problem: "it is reserved".to_owned() },
            vec!["it is reserved"],
        ),
    ]
}

#[test]
fn every_refusal_says_what_happened_and_names_its_variables() {
    let samples = refusals();
    for (refusal, words) in &samples {
        let failure = Failure::refused(refusal, SEEN);
        let values: Vec<String> = failure.metadata().values().cloned().collect();
        for word in words {
            assert!(failure.message().contains(word), "{word}: {}", failure.message());
            assert!(values.iter().any(|value| value.contains(word)), "{word}: {values:?}");
        }
        assert!(failure.message().len() > 15, "{refusal:?}");
        assert!(!failure.message().contains("secret-key"), "a key in {}", failure.message());

        let status = failure.into_status();
        assert_eq!(status.code(), code(refusal.reason()));
        let info = status.get_details_error_info().expect("error info");
        assert_eq!(
            (info.reason.as_str(), info.domain.as_str()),
            (refusal.reason().as_str(), DOMAIN)
        );
        assert_eq!(info.metadata["applied"], "decided");
        assert_eq!(info.metadata["store_time"], SEEN_TEXT);
        let retry = status.get_details_retry_info().is_some();
        assert_eq!(retry, matches!(refusal, Refusal::NameInDeletion { .. }), "{refusal:?}");
        let fields = status.get_details_bad_request().is_some();
        assert_eq!(fields, matches!(refusal, Refusal::Invalid(_)), "{refusal:?}");
    }
    // A refusal that is not among the samples would have another reason than all of them.
    let mut reasons: Vec<Reason> = samples.iter().map(|(refusal, _)| refusal.reason()).collect();
    reasons.sort_unstable();
    reasons.dedup();
    assert_eq!(reasons.len(), samples.len());
    assert_eq!(reasons.len(), 22, "a new refusal needs a sample");
}

#[test]
fn a_proposal_without_an_answer_says_whether_it_may_have_happened() {
    let waited_ms = 10_000;
    let reason = || "r".to_owned();
    for (error, expected, applied) in [
        (ProposeError::NotLeader { leader: None }, Reason::NoLeader, "no"),
        (ProposeError::NoLeader, Reason::NoLeader, "no"),
        (ProposeError::NoQuorum, Reason::NoQuorum, "no"),
        (ProposeError::Overloaded, Reason::Overloaded, "no"),
        (ProposeError::TooLarge { reason: reason() }, Reason::InvalidArgument, "no"),
        (ProposeError::Stopping, Reason::NodeDraining, "no"),
        (ProposeError::TimedOut { waited_ms }, Reason::OutcomeUnknown, "maybe"),
        (ProposeError::LeadershipLost, Reason::OutcomeUnknown, "maybe"),
        (ProposeError::Failed { reason: reason() }, Reason::OutcomeUnknown, "maybe"),
    ] {
        assert_eq!(error.fate() == Fate::Unknown, applied == "maybe", "{error:?}");
        let status = Failure::unanswered(&error).into_status();
        let info = status.get_details_error_info().expect("error info");
        assert_eq!(info.reason, expected.as_str(), "{error:?}");
        assert_eq!(info.metadata["applied"], applied, "{error:?}");
        let retry = status.get_details_retry_info().is_some();
        assert_eq!(retry, retry_delay(expected).is_some());
        // What was only read cannot have been applied.
        let read = Failure::unread(&error).into_status();
        let info = read.get_details_error_info().expect("error info");
        assert_eq!(info.metadata["applied"], "no", "{error:?}");
    }
}

#[test]
fn every_reason_has_a_code_that_is_an_error() {
    for reason in Reason::ALL {
        assert_ne!(code(*reason), Code::Ok, "{reason:?}");
        assert_ne!(code(*reason), Code::Unknown, "{reason:?}");
    }
}

#[test]
fn a_status_stays_small_however_many_faults_there_are() {
    let faults: Vec<Invalid> =
        (0..500).map(|at| Invalid::new(format!("f[{at}]"), "is bad", "mend it")).collect();
    let status = Failure::invalid(&faults, Applied::No).into_status();
    let violations = status.get_details_bad_request().expect("violations").field_violations;
    assert_eq!(violations.len(), VIOLATIONS_MAX);
    assert!(status.details().len() + status.message().len() < 6000, "{}", status.message().len());
}
