//! Walks every refusal and every reason.

use firstclaim_core::effect::{
    Content, EffectName, EffectUid, Findings, Journal, OpenCause, Settlement, Verdict, Work,
};
use firstclaim_core::outcome::Refusal;
use firstclaim_core::record::Logical;
use firstclaim_core::{Epoch, Etag, Expiry, Millis, RecordRef};

use super::*;

const SEEN: Timestamp = Timestamp(1_700_000_000_000);
const SEEN_TEXT: &str = "2023-11-14T22:13:20Z";
const LATER: Timestamp = Timestamp(1_700_000_060_000);
const LATER_TEXT: &str = "2023-11-14T22:14:20Z";

fn names() -> RecordRef {
    RecordRef {
        tenant: "acme".to_owned().try_into().expect("a name"),
        namespace: "payouts".to_owned().try_into().expect("a name"),
        key: "secret-key".to_owned().try_into().expect("a key"),
    }
}

fn open() -> Journal {
    let work = Work {
        epoch: Epoch(4711),
        attempt_id: "a".to_owned().try_into().expect("an attempt"),
        owner: "w".to_owned().try_into().expect("an owner"),
        cause: Some(OpenCause::Lapsed),
        since: SEEN,
        deadline: SEEN,
        settle_horizon: Millis(1),
        note: String::new(),
        findings: Findings::default(),
    };
    Journal { works: vec![work], effects: Vec::new() }
}

fn uid() -> EffectUid {
    let name = EffectName::Effect("mail".to_owned().try_into().expect("an id"));
    EffectUid { life: 42, name }
}

fn committed() -> Box<Findings> {
    let settlement = Settlement {
        verdict: Verdict::Committed,
        evidence: Content { digest: vec![0xbe, 0xef], ..Content::default() },
        time: SEEN,
        principal: "ann".to_owned().try_into().expect("a principal"),
    };
    Box::new(Findings { settlement: Some(settlement), ..Findings::default() })
}

/// One of each, with what its sentence must say; every such word must be in the metadata too.
fn refusals() -> Vec<(Refusal, Vec<&'static str>)> {
    let mut all = refusals_of_records();
    all.extend(refusals_of_effects());
    all
}

fn refusals_of_effects() -> Vec<(Refusal, Vec<&'static str>)> {
    let (uid, seen, named) = (uid(), SEEN_TEXT, "42/mail");
    let keys = vec!["order-1".to_owned().try_into().expect("a key")];
    vec![
        (Refusal::EffectNotFound { uid: uid.clone() }, vec![named]),
        (Refusal::EffectOpen { uid: uid.clone() }, vec![named]),
        (
            Refusal::EffectSettled { uid: uid.clone(), findings: committed() },
            vec![named, "COMMITTED", "beef", seen],
        ),
        (
            Refusal::EffectMismatch { uid: uid.clone(), field: "request".to_owned() },
            vec![named, "request"],
        ),
        (
            Refusal::RedispatchUnsafe { uid: uid.clone(), dedup_until: Some(Expiry::At(SEEN)) },
            vec![named, seen],
        ),
        (Refusal::EvidenceConflict { uid: uid.clone(), evidence_kept: true }, vec![named]),
        (Refusal::NotYetProvable { uid, provable_time: LATER }, vec![named, LATER_TEXT]),
        (Refusal::StillLive { until: SEEN }, vec![seen]),
        (
            Refusal::NotPurgeable { epoch: Epoch(4711), state: Logical::Unresolved },
            vec!["4711", "UNRESOLVED"],
        ),
        (Refusal::KeyNotReserved, vec![]),
        (Refusal::DuplicateIntent { similar_keys: keys }, vec!["1"]),
        (Refusal::RecordsExhausted { records_max: 5005 }, vec!["5005"]),
    ]
}

fn refusals_of_records() -> Vec<(Refusal, Vec<&'static str>)> {
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
        (Refusal::UnsettledEffects { life: 9, open: open() }, vec!["9@4711"]),
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
        assert_eq!(retry, refusal.reason().should_repeat(), "{refusal:?}");
        let fields = status.get_details_bad_request().is_some();
        assert_eq!(fields, matches!(refusal, Refusal::Invalid(_)), "{refusal:?}");
    }
    // A refusal that is not among the samples would have another reason than all of them.
    let mut reasons: Vec<Reason> = samples.iter().map(|(refusal, _)| refusal.reason()).collect();
    reasons.sort_unstable();
    reasons.dedup();
    assert_eq!(reasons.len(), samples.len());
    assert_eq!(reasons.len(), 34, "a new refusal needs a sample");
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
        assert_eq!(retry, expected.should_repeat());
        // What was only read cannot have been applied.
        let read = Failure::unread(&error).into_status();
        let info = read.get_details_error_info().expect("error info");
        assert_eq!(info.metadata["applied"], "no", "{error:?}");
    }
}

#[test]
fn another_dispatch_number_shares_a_reason_and_names_the_next_one() {
    let failure = Failure::refused(&Refusal::DispatchNumber { uid: uid(), next: 3 }, SEEN);
    assert_eq!(failure.reason(), Reason::EffectNotAllowed);
    assert_eq!(failure.metadata()["next_number"], "3");
    assert_eq!(failure.metadata()["uid"], "42/mail");
}

#[test]
fn what_is_not_yet_provable_says_when_it_will_be() {
    let refusal = Refusal::NotYetProvable { uid: uid(), provable_time: LATER };
    let status = Failure::refused(&refusal, SEEN).into_status();
    assert_eq!(status.code(), Code::FailedPrecondition);
    let retry = status.get_details_retry_info().expect("a time to come back");
    assert_eq!(retry.retry_delay, Some(Duration::from_secs(60)));
}

#[test]
fn a_rate_is_no_decision_of_the_log() {
    let failure = Failure::rate_limited(10, Duration::from_millis(80));
    let item = failure.clone().into_item();
    assert_eq!(item.code, Code::ResourceExhausted as u32);
    assert_eq!((item.reason.as_str(), item.metadata["applied"].as_str()), ("RATE_LIMITED", "no"));
    assert_eq!(item.retry_after.map(|wait| wait.nanos), Some(80_000_000));
    let status = failure.into_status();
    let retry = status.get_details_retry_info().expect("a time to come back");
    assert_eq!(retry.retry_delay, Some(Duration::from_millis(80)));
}

#[test]
fn keys_that_a_status_names_are_cut_where_a_header_would_be_too_large() {
    let keys = (0..8).map(|at| format!("{at}{}", "k".repeat(500)).try_into().expect("a key"));
    let failure =
        Failure::refused(&Refusal::DuplicateIntent { similar_keys: keys.collect() }, SEEN);
    let listed: Vec<String> =
        serde_json::from_str(&failure.metadata()["similar_keys"]).expect("a JSON array");
    assert_eq!(listed.len(), 4);
    assert_eq!(failure.metadata()["count"], "8");
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
