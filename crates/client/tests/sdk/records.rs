//! Calls about records that the caller does not hold: which of them are repeated, batches, watches.

use std::time::Duration;

use crate::fake::{Running, Step, start};
use firstclaim_client::{
    Applied, ClaimRequest, Client, ClientConfig, Completion, Finding, Reason, RecordRef,
    Reservation, Resolution, Resolved, Settlement, Warrant, v1,
};

fn client(node: &Running) -> Client {
    let config = ClientConfig {
        try_timeout: Duration::from_millis(300),
        ..ClientConfig::new([node.endpoint()])
    };
    Client::lazy(config.with_timeout(Duration::from_secs(5))).unwrap()
}

fn record() -> RecordRef {
    RecordRef::new("acme", "payouts", "payout:847")
}

fn warrant() -> Warrant {
    Warrant::new("ada", "the bank has confirmed it")
}

#[tokio::test]
async fn a_resolution_is_repeated_as_the_same_attempt() {
    let node = start([Step::Silence]).await;
    let done = Resolved::Completed(Completion::succeeded("text/plain", "tx"));
    let resolution = Resolution::new(record(), 41, warrant(), done)
        .verdict("7/payment", Finding::Committed)
        .evidence("text/plain", "statement");
    let answer = client(&node).resolve(&resolution).await.unwrap();
    assert_eq!(answer.epoch, 42);
    let seen = node.node.seen();
    assert_eq!(seen.len(), 2);
    assert!(seen.iter().all(|seen| seen.attempt_id == resolution.attempt_id && seen.epoch == 41));
    let other = Resolution::new(record(), 41, warrant(), Resolved::Retryable(Duration::ZERO));
    assert_ne!(other.attempt_id, resolution.attempt_id);
}

#[tokio::test]
async fn whatever_finds_done_what_it_did_is_repeated() {
    let broken = || start([Step::Garbled]);
    let node = broken().await;
    client(&node).reserve(&Reservation::new(record())).await.unwrap();
    assert_eq!(node.node.calls("reserve"), 2);
    let node = broken().await;
    client(&node).admit(&Reservation::new(record()), warrant()).await.unwrap();
    assert_eq!(node.node.calls("admit"), 2);
    let node = broken().await;
    client(&node).revoke(&record(), 3, warrant()).await.unwrap();
    assert_eq!(node.node.calls("revoke"), 2);
    let node = broken().await;
    client(&node).purge(&record(), 3, warrant()).await.unwrap();
    assert_eq!(node.node.calls("purge"), 2);
    let node = broken().await;
    client(&node).extend_existing(v1::ExtendExistingRequest::default()).await.unwrap();
    assert_eq!(node.node.calls("extend existing"), 2);
    let node = broken().await;
    let settlement = Settlement::of(
        &v1::Effect { uid: "7@12".to_owned(), ..v1::Effect::default() },
        Finding::Committed,
    );
    client(&node).settle(&record(), &settlement, "ada").await.unwrap();
    assert_eq!(node.node.calls("settle"), 2);
}

#[tokio::test]
async fn reads_are_asked_for_again() {
    let node = start([Step::Garbled, Step::Garbled, Step::Garbled, Step::Garbled]).await;
    let client = client(&node);
    client.history(&record()).await.unwrap();
    client.explain(&ClaimRequest::new("acme", "payouts", "k")).await.unwrap();
    client.list_records(v1::ListRecordsRequest::default()).await.unwrap();
    client.list_unresolved(v1::ListUnresolvedRequest::default()).await.unwrap();
    assert_eq!(node.node.seen().len(), 8);
}

#[tokio::test]
async fn items_of_a_batch_have_fates_of_their_own() {
    let node = start([Step::Silence]).await;
    let client = client(&node);
    let claims: Vec<_> =
        (0..3).map(|number| ClaimRequest::new("acme", "payouts", format!("k{number}"))).collect();
    let answers = client.claim_batch("acme", &claims).await.unwrap();
    assert_eq!(answers.len(), 3);
    assert!(answers[0].is_ok());
    let error = answers[1].as_ref().unwrap_err();
    assert_eq!((error.reason(), error.applied()), (Reason::OutcomeUnknown, Applied::Maybe));
    assert_eq!(error.retry_after(), Some(Duration::from_millis(10)));
    // A batch whose answer is lost is sent again with the same attempts.
    let seen = node.node.seen();
    assert!(seen.len() == 2 && seen.iter().all(|seen| seen.attempt_id == claims[0].attempt_id));

    let completions: Vec<_> =
        claims.iter().map(|claim| (claim.holder(5), Completion::succeeded("t", "x"))).collect();
    let answers = client.complete_batch("acme", completions).await.unwrap();
    assert!(answers[0].is_ok() && answers[2].is_err());
}

#[tokio::test]
async fn a_batch_with_too_few_answers_is_a_fault() {
    let node = start([Step::Items(1)]).await;
    let claims = [ClaimRequest::new("a", "b", "c"), ClaimRequest::new("a", "b", "d")];
    let error = client(&node).claim_batch("a", &claims).await.unwrap_err();
    assert_eq!(error.reason(), Reason::Internal);
}

#[tokio::test]
async fn a_watch_goes_on_after_the_revision_that_it_showed_last() {
    let first = Step::Records { revisions: vec![4, 9], ends: false };
    let then = Step::Records { revisions: vec![12], ends: true };
    let node = start([first, then]).await;
    let mut watch = client(&node).watch_records("acme", "payouts", 3);
    let mut shown = Vec::new();
    while let Some(change) = watch.next().await.unwrap() {
        shown.push(change.revision);
    }
    assert_eq!((shown, watch.revision()), (vec![4, 9, 12], 12));
    let after: Vec<_> = node.node.seen().iter().map(|seen| seen.epoch).collect();
    assert_eq!(after, [3, 9]);
}

#[tokio::test]
async fn a_record_that_was_shown_is_not_shown_again_by_the_next_stream() {
    let first = Step::Records { revisions: vec![4], ends: false };
    let then = Step::Records { revisions: vec![4, 6], ends: true };
    let node = start([first, then]).await;
    let mut watch = client(&node).watch_record(record());
    let mut shown = Vec::new();
    while let Some(state) = watch.next().await.unwrap() {
        shown.push(state.record.unwrap().revision);
    }
    assert_eq!(shown, [4, 6]);
    assert_eq!(node.node.calls("watch record"), 2, "a stream has no deadline");
}

#[tokio::test]
async fn a_refused_watch_says_why() {
    let refused = Step::Fail { reason: "RECORD_NOT_FOUND", applied: "no", leader: None };
    let node = start([refused]).await;
    let error = client(&node).watch_record(record()).next().await.unwrap_err();
    assert_eq!(error.reason(), Reason::RecordNotFound);
}
