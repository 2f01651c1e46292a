//! The guard of a claim: it renews, it knows when it is no longer safe, and it stops when dropped.

use std::time::Duration;

use crate::fake::{Running, Step, start};
use firstclaim_client::{
    Applied, Claim, ClaimOutcome, ClaimRequest, Client, ClientConfig, ExecuteError, Executed,
    Execution, Lost, NotSafe, Reason, Work, WorkError, execute_once, v1,
};
use tokio::time::{Instant, sleep, timeout};

const LEASE: Duration = Duration::from_millis(300);
const SOON: Duration = Duration::from_secs(10);

fn client(node: &Running) -> Client {
    Client::lazy(ClientConfig::new([node.endpoint()]).with_timeout(Duration::from_secs(5))).unwrap()
}

fn request() -> ClaimRequest {
    ClaimRequest::new("acme", "payouts", "payout:847")
}

fn grant(lease: Duration) -> Step {
    Step::Grant { epoch: 11, lease }
}

fn fail(reason: &'static str, applied: &'static str) -> Step {
    Step::Fail { reason, applied, leader: None }
}

async fn acquire(client: &Client) -> Claim {
    let outcome = client.claim(request()).await.unwrap();
    let ClaimOutcome::Acquired(claim) = outcome else { panic!("not acquired: {outcome:?}") };
    claim
}

#[tokio::test]
async fn a_lease_is_renewed_at_a_third_while_the_guard_lives() {
    let node = start([grant(LEASE), grant(LEASE), grant(LEASE)]).await;
    let claim = acquire(&client(&node)).await;
    let first = claim.deadline();
    sleep(LEASE * 3 / 2).await;
    assert!(node.node.calls("renew") >= 2, "{:?}", node.node.seen());
    assert!(claim.deadline() > first + LEASE);
    assert_eq!(claim.safe_to_dispatch(Duration::from_millis(1)), Ok(()));
    drop(claim);
    sleep(Duration::from_millis(50)).await;
    let renewals = node.node.calls("renew");
    sleep(LEASE).await;
    assert_eq!(node.node.calls("renew"), renewals, "it was renewed after it was dropped");
}

/// Reported elsewhere: case 31.
#[tokio::test]
async fn the_deadline_counts_from_the_send() {
    let node = start([Step::Held { epoch: 4, left: Duration::from_secs(20) }]).await;
    let before = Instant::now();
    let claim = acquire(&client(&node)).await;
    let after = Instant::now();
    assert!(claim.deadline() >= before + Duration::from_secs(20));
    assert!(claim.deadline() <= after + Duration::from_secs(20));
    assert_eq!(claim.kind(), v1::AcquiredKind::AlreadyHeld);
    assert_eq!(claim.safe_to_dispatch(Duration::from_secs(19)), Ok(()));
    let too_long = claim.safe_to_dispatch(Duration::from_secs(21));
    assert!(matches!(too_long, Err(NotSafe::TooLittleTime { .. })), "{too_long:?}");
}

#[tokio::test]
async fn a_refused_renewal_loses_the_claim_at_once() {
    let node = start([grant(LEASE), fail("STALE_EPOCH", "decided")]).await;
    let claim = acquire(&client(&node)).await;
    let lost = timeout(SOON, claim.lost()).await.unwrap();
    assert!(matches!(lost, Lost::Refused { reason: Reason::StaleEpoch, .. }), "{lost:?}");
    assert!(matches!(claim.safe_to_dispatch(Duration::ZERO), Err(NotSafe::Lost(_))));
}

#[tokio::test]
async fn a_renewal_that_never_gets_through_lets_the_claim_lapse() {
    let down = std::iter::repeat_n(fail("NO_QUORUM", "no"), 1000);
    let node = start([grant(LEASE)].into_iter().chain(down)).await;
    let claim = acquire(&client(&node)).await;
    assert_eq!(timeout(SOON, claim.lost()).await.unwrap(), Lost::Lapsed);
    assert!(claim.safe_to_dispatch(Duration::ZERO).is_err());
}

#[tokio::test]
async fn a_completed_claim_is_neither_lost_nor_safe() {
    let node = start([grant(LEASE)]).await;
    let claim = acquire(&client(&node)).await;
    claim.complete("text/plain", "tx").await.unwrap();
    assert_eq!(claim.safe_to_dispatch(Duration::ZERO), Err(NotSafe::Ended));
    assert!(timeout(LEASE * 2, claim.lost()).await.is_err());
    assert_eq!(node.node.calls("complete"), 1);
}

/// Work that must not run.
fn never() -> Work {
    panic!("it ran")
}

#[tokio::test]
async fn work_runs_once_and_its_result_is_stored() {
    let node = start([grant(SOON)]).await;
    let client = client(&node);
    let executed = execute_once(&client, request(), Execution::default(), |claim| async move {
        assert_eq!(claim.epoch(), 11);
        Work::done("text/plain", "tx")
    });
    assert!(matches!(executed.await.unwrap(), Executed::Completed(_)));
    assert_eq!(node.node.calls("complete"), 1);
}

#[tokio::test]
async fn what_the_work_says_decides_how_the_claim_ends() {
    for (said, call) in [
        (Work::failed("text/plain", "no such account"), "complete"),
        (Work::Retry { after: Duration::from_secs(1) }, "release retry"),
        (Work::Unknown { note: "the bank timed out".to_owned() }, "release unknown"),
    ] {
        let node = start([grant(SOON)]).await;
        let work = |_claim| async move { said };
        execute_once(&client(&node), request(), Execution::default(), work).await.unwrap();
        assert_eq!(node.node.calls(call), 1, "{call}: {:?}", node.node.seen());
    }
}

#[tokio::test]
async fn errors_of_the_work_decide_how_the_claim_ends() {
    for (error, call) in [
        (WorkError::http(422, "text/plain", b"no such account"), "complete"),
        (WorkError::http(429, "text/plain", b"slow down"), "release retry"),
        (WorkError::http(503, "text/plain", b""), "release unknown"),
    ] {
        let node = start([grant(SOON)]).await;
        let work = |_claim| async move { Err::<v1::Result, WorkError>(error) };
        execute_once(&client(&node), request(), Execution::default(), work).await.unwrap();
        assert_eq!(node.node.calls(call), 1, "{call}: {:?}", node.node.seen());
    }
}

/// Reported elsewhere: case 5, case 79.
#[tokio::test]
async fn what_is_done_or_unresolved_does_not_run() {
    let node = start([Step::Replay("tx"), Step::Unresolved]).await;
    let client = client(&node);
    let work = |_claim| async { never() };
    let replayed = execute_once(&client, request(), Execution::default(), work).await.unwrap();
    assert!(matches!(replayed, Executed::Replayed(_)));
    let unresolved =
        execute_once(&client, request(), Execution::default(), work).await.unwrap_err();
    assert!(matches!(unresolved, ExecuteError::Unresolved(found) if found.epoch == 9));
}

/// Reported elsewhere: case 5.
#[tokio::test]
async fn a_pending_claim_is_waited_for_no_longer_than_allowed() {
    let pause = Step::Pending(Duration::from_millis(30));
    let work = |_claim| async { never() };
    for patient in [SOON, Duration::MAX].map(Execution::waiting) {
        let node = start([pause.clone(), pause.clone(), Step::Replay("tx")]).await;
        let waited = execute_once(&client(&node), request(), patient, work).await.unwrap();
        assert!(matches!(waited, Executed::Replayed(_)));
    }

    let node = start([pause, Step::Replay("tx")]).await;
    let at_once =
        execute_once(&client(&node), request(), Execution::default(), work).await.unwrap();
    assert!(matches!(at_once, Executed::Pending(_)));
    assert_eq!(node.node.calls("claim"), 1);
}

#[tokio::test]
async fn a_result_that_cannot_be_stored_comes_back_with_its_claim() {
    let node = start([grant(SOON), fail("STALE_EPOCH", "decided")]).await;
    let work = |_claim| async { Work::done("text/plain", "tx") };
    let error =
        execute_once(&client(&node), request(), Execution::default(), work).await.unwrap_err();
    let ExecuteError::Report { claim, error } = error else { panic!("{error}") };
    assert_eq!((claim.epoch(), error.applied()), (11, Applied::Decided));
}
