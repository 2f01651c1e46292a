//! Claims that wait: woken by what happens, ended by their own deadline, not by a change of leaders.

use std::time::Duration;

use crate::three::{Three, acquired, claim, complete, seconds};
use firstclaim_proto::v1;
use firstclaim_proto::v1::claim_response::Outcome;
use tokio::time::Instant;
use tonic::Request;

fn waiting(key: &str, attempt: &str, wait: i64) -> v1::ClaimRequest {
    v1::ClaimRequest { wait: seconds(wait), ..claim(key, attempt) }
}

/// Reported elsewhere: case 20, case 86, case 97.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_waits_has_its_answer_as_soon_as_there_is_one() {
    let three = Three::start().await;
    let (leader, follower) = (three.leader().await, three.follower().await);
    three.seed(leader).await;
    for node in [leader, follower] {
        completed_meanwhile(&three, node).await;
        released_meanwhile(&three, node).await;
        nothing_meanwhile(&three, node).await;
        lapsed_meanwhile(&three, node).await;
    }
    three.stop().await;
}

/// Starts a claim that waits at `node`, and gives it time to get there.
async fn wait_at(
    three: &Three,
    node: u64,
    request: v1::ClaimRequest,
) -> tokio::task::JoinHandle<(v1::ClaimResponse, Duration)> {
    let mut claims = three.claims(node);
    let begun = Instant::now();
    let call = tokio::spawn(async move {
        let answer = claims.claim(request).await.expect("an answer").into_inner();
        (answer, begun.elapsed())
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    call
}

async fn completed_meanwhile(three: &Three, node: u64) {
    let key = format!("done-{node}");
    let granted = three.claims(node).claim(claim(&key, "one")).await.expect("an answer");
    let granted = acquired(granted.into_inner());
    let call = wait_at(three, node, waiting(&key, "two", 20)).await;
    assert!(!call.is_finished(), "it did not wait");
    let done = complete(&key, "one", granted.epoch, b"paid");
    three.claims(three.leader().await).complete(done).await.expect("completed");
    let (answer, took) = call.await.expect("joined");
    assert!(matches!(answer.outcome, Some(Outcome::Replay(_))), "{answer:?}");
    assert!(took < Duration::from_secs(4), "woken after {took:?}");
}

async fn released_meanwhile(three: &Three, node: u64) {
    let key = format!("back-{node}");
    let granted = three.claims(node).claim(claim(&key, "one")).await.expect("an answer");
    let granted = acquired(granted.into_inner());
    let call = wait_at(three, node, waiting(&key, "two", 20)).await;
    let release = v1::ReleaseRequest {
        tenant: "acme".to_owned(),
        namespace: "payouts".to_owned(),
        key: key.clone(),
        attempt_id: "one".to_owned(),
        epoch: granted.epoch,
        intent: Some(v1::release_request::Intent::Retry(v1::ReleaseRetry::default())),
    };
    three.claims(node).release(release).await.expect("released");
    let (answer, took) = call.await.expect("joined");
    assert_eq!(acquired(answer).kind(), v1::AcquiredKind::Retry);
    assert!(took < Duration::from_secs(4), "woken after {took:?}");
}

/// Nothing happens: the wait ends in time, with Pending. A renewal is nothing.
async fn nothing_meanwhile(three: &Three, node: u64) {
    let key = format!("held-{node}");
    let granted = three.claims(node).claim(claim(&key, "one")).await.expect("an answer");
    let granted = acquired(granted.into_inner());
    let call = wait_at(three, node, waiting(&key, "two", 2)).await;
    let renew = v1::RenewRequest {
        tenant: "acme".to_owned(),
        namespace: "payouts".to_owned(),
        key: key.clone(),
        attempt_id: "one".to_owned(),
        epoch: granted.epoch,
        lease: None,
    };
    three.claims(node).renew(renew).await.expect("renewed");
    let (answer, took) = call.await.expect("joined");
    let Some(Outcome::Pending(pending)) = answer.outcome else { panic!("{:?}", answer.outcome) };
    let left = pending.retry_after.expect("a wait");
    assert!(left.seconds > 0 || left.nanos > 0, "{left:?}");
    assert!(took >= Duration::from_millis(1900) && took < Duration::from_secs(5), "{took:?}");

    // A deadline that is shorter than the wait is the caller's last word.
    let mut request = Request::new(waiting(&key, "three", 20));
    request.set_timeout(Duration::from_secs(2));
    let begun = Instant::now();
    let answer = three.claims(node).claim(request).await.expect("an answer").into_inner();
    assert!(matches!(answer.outcome, Some(Outcome::Pending(_))), "{answer:?}");
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(1700) && took < Duration::from_secs(2), "{took:?}");

    // Who stopped waiting is granted nothing later: the record comes free, and stays so for the next.
    let release = v1::ReleaseRequest {
        tenant: "acme".to_owned(),
        namespace: "payouts".to_owned(),
        key: key.clone(),
        attempt_id: "one".to_owned(),
        epoch: granted.epoch,
        intent: Some(v1::release_request::Intent::Retry(v1::ReleaseRetry::default())),
    };
    three.claims(node).release(release).await.expect("released");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let next = three.claims(node).claim(claim(&key, "four")).await.expect("an answer");
    let next = acquired(next.into_inner());
    assert_eq!((next.kind(), next.execute_grants), (v1::AcquiredKind::Retry, 2));
}

/// Nobody writes anything when a lease runs out, and still the wait ends.
async fn lapsed_meanwhile(three: &Three, node: u64) {
    let key = format!("lapsed-{node}");
    let short = v1::ClaimRequest { lease: seconds(1), ..claim(&key, "one") };
    acquired(three.claims(node).claim(short).await.expect("an answer").into_inner());
    let begun = Instant::now();
    let answer = three.claims(node).claim(waiting(&key, "two", 25)).await.expect("an answer");
    let answer = answer.into_inner();
    assert!(matches!(answer.outcome, Some(Outcome::Unresolved(_))), "{answer:?}");
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_waits_at_a_follower_survives_the_leader() {
    let mut three = Three::start().await;
    let (leader, follower) = (three.leader().await, three.follower().await);
    three.seed(leader).await;
    let granted = three.claims(leader).claim(claim("kept", "one")).await.expect("an answer");
    let granted = acquired(granted.into_inner());
    let call = wait_at(&three, follower, waiting("kept", "two", 30)).await;

    let gone = three.nodes.remove(&leader).expect("the leader");
    gone.shutdown().await;
    drop(gone);
    three.channels.remove(&leader);
    let next = three.leader().await;
    assert_ne!(next, leader);
    assert!(!call.is_finished(), "the wait ended with its leader");
    let done = complete("kept", "one", granted.epoch, b"done");
    three.claims(next).complete(done).await.expect("completed");
    let (answer, _) = call.await.expect("joined");
    assert!(matches!(answer.outcome, Some(Outcome::Replay(_))), "{answer:?}");
    three.stop().await;
}
