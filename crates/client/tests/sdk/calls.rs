//! When the client repeats a call, where it sends it, and what it says when it gives up.

use std::time::Duration;

use crate::fake::{Step, nobody, start};
use firstclaim_client::{
    Applied, ClaimOutcome, ClaimRequest, Client, ClientConfig, Error, Reason, v1,
};

const LEASE: Duration = Duration::from_secs(30);

fn client(endpoints: &[String]) -> Client {
    let config = ClientConfig {
        try_timeout: Duration::from_millis(300),
        connect_timeout: Duration::from_millis(300),
        ..ClientConfig::new(endpoints.iter().cloned())
    };
    Client::lazy(config.with_timeout(Duration::from_secs(10))).unwrap()
}

fn impatient(endpoints: &[String], overall: Duration) -> Client {
    let config = ClientConfig {
        try_timeout: Duration::from_millis(200),
        ..ClientConfig::new(endpoints.iter().cloned())
    };
    Client::lazy(config.with_timeout(overall)).unwrap()
}

fn request() -> ClaimRequest {
    ClaimRequest::new("acme", "payouts", "payout:847")
}

fn fail(reason: &'static str, applied: &'static str) -> Step {
    Step::Fail { reason, applied, leader: None }
}

async fn epoch(client: &Client, request: ClaimRequest) -> Result<u64, Error> {
    let outcome = client.claim(request).await?;
    let ClaimOutcome::Acquired(claim) = outcome else { panic!("not acquired: {outcome:?}") };
    Ok(claim.epoch())
}

#[tokio::test]
async fn what_did_not_apply_is_sent_to_the_next_endpoint() {
    let first = start([fail("NO_LEADER", "no")]).await;
    let second = start([Step::Grant { epoch: 7, lease: LEASE }]).await;
    let client = client(&[first.endpoint(), second.endpoint()]);
    let request = request();
    assert_eq!(epoch(&client, request.clone()).await.unwrap(), 7);
    for node in [&first.node, &second.node] {
        assert_eq!(node.seen()[0].attempt_id, request.attempt_id);
    }
}

#[tokio::test]
async fn an_endpoint_that_nobody_listens_at_is_passed_over() {
    let node = start([Step::Grant { epoch: 7, lease: LEASE }]).await;
    let client = client(&[nobody().await, node.endpoint()]);
    assert_eq!(epoch(&client, request()).await.unwrap(), 7);
}

/// Reported elsewhere: case 29.
#[tokio::test]
async fn a_lost_answer_is_asked_for_again_by_the_same_attempt() {
    let node = start([Step::Silence, Step::Held { epoch: 3, left: LEASE }]).await;
    let client = client(&[node.endpoint()]);
    let request = request();
    assert_eq!(epoch(&client, request.clone()).await.unwrap(), 3);
    let attempts: Vec<_> = node.node.seen().into_iter().map(|seen| seen.attempt_id).collect();
    assert_eq!(attempts, [request.attempt_id.clone(), request.attempt_id]);
}

#[tokio::test]
async fn a_transport_that_breaks_may_have_carried_the_call() {
    let node = start([Step::Garbled, fail("OUTCOME_UNKNOWN", "maybe"), Step::Replay("tx")]).await;
    let client = client(&[node.endpoint()]);
    let ClaimOutcome::Replay(replay) = client.claim(request()).await.unwrap() else {
        panic!("no replay");
    };
    let result = replay.completion.unwrap().result.unwrap();
    assert_eq!(result.body, Some(v1::result::Body::Inline(b"tx".to_vec())));
    assert_eq!(node.node.calls("claim"), 3);
}

#[tokio::test]
async fn a_hint_leads_to_an_endpoint_that_was_not_configured() {
    let leader = start([Step::Grant { epoch: 5, lease: LEASE }]).await;
    let hint = Step::Fail { reason: "NO_LEADER", applied: "no", leader: Some(leader.endpoint()) };
    let first = start([hint]).await;
    let other = start([]).await;
    let client = client(&[first.endpoint(), other.endpoint()]);
    assert_eq!(epoch(&client, request()).await.unwrap(), 5);
    assert_eq!(other.node.calls("claim"), 0);
    assert!(client.endpoints().contains(&leader.endpoint()));
}

#[tokio::test]
async fn what_the_log_refused_is_not_asked_again() {
    let node = start([fail("FINGERPRINT_MISMATCH", "decided")]).await;
    let client = client(&[node.endpoint(), nobody().await]);
    let error = client.claim(request()).await.unwrap_err();
    assert_eq!((error.reason(), error.applied()), (Reason::FingerprintMismatch, Applied::Decided));
    assert_eq!(node.node.calls("claim"), 1);
}

#[tokio::test]
async fn a_wrong_field_is_not_sent_to_another_node() {
    let node = start([fail("INVALID_ARGUMENT", "no")]).await;
    let other = start([]).await;
    let error = client(&[node.endpoint(), other.endpoint()]).claim(request()).await.unwrap_err();
    assert_eq!((error.reason(), error.applied()), (Reason::InvalidArgument, Applied::No));
    assert_eq!(other.node.calls("claim"), 0);
}

#[tokio::test]
async fn giving_up_after_a_lost_answer_is_an_unknown_outcome() {
    let never = std::iter::repeat_n(fail("NO_QUORUM", "no"), 100);
    let node = start([Step::Silence].into_iter().chain(never.clone())).await;
    let other = start(never).await;
    let client = impatient(&[node.endpoint(), other.endpoint()], Duration::from_millis(600));
    let error = client.claim(request()).await.unwrap_err();
    assert_eq!((error.reason(), error.applied()), (Reason::OutcomeUnknown, Applied::Maybe));
    assert_eq!(error.tries().len(), 2);
}

#[tokio::test]
async fn giving_up_on_what_never_applied_says_so() {
    let node = start(std::iter::repeat_n(fail("NO_QUORUM", "no"), 100)).await;
    let gone = nobody().await;
    let client = impatient(&[gone.clone(), node.endpoint()], Duration::from_millis(400));
    let error = client.claim(request()).await.unwrap_err();
    assert_eq!((error.reason(), error.applied()), (Reason::NoQuorum, Applied::No));
    let reached: Vec<_> =
        error.tries().iter().map(|tried| (tried.endpoint.clone(), tried.reached)).collect();
    assert!(reached.contains(&(gone, false)) && reached.contains(&(node.endpoint(), true)));
    assert!(node.node.calls("claim") > 1, "it was asked once only");
}

#[tokio::test]
async fn nobody_reached_means_nothing_was_sent() {
    let client = impatient(&[nobody().await, nobody().await], Duration::from_millis(300));
    let error = client.claim(request()).await.unwrap_err();
    assert_eq!((error.reason(), error.applied()), (Reason::Unreachable, Applied::No));
}

/// Reported elsewhere: case 26.
#[tokio::test]
async fn holder_calls_are_repeated_with_their_epoch() {
    let node = start([Step::Silence]).await;
    let client = client(&[node.endpoint()]);
    let holder = request().holder(42);
    client.renew(&holder, None).await.unwrap();
    client
        .release(&holder, v1::release_request::Intent::Unbind(v1::ReleaseUnbind {}))
        .await
        .unwrap();
    let seen = node.node.seen();
    assert_eq!(seen.len(), 3);
    assert!(seen.iter().all(|seen| seen.epoch == 42 && seen.attempt_id == holder.attempt_id));
}
