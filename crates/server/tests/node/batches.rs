//! Batches over real gRPC: decided in order, an answer or a refusal an item, by any node.

use crate::three::{Three, acquired, claim, complete, info};
use firstclaim_proto::v1;
use firstclaim_proto::v1::claim_response::Outcome;
use tonic::Code;

fn batch(items: Vec<v1::ClaimRequest>) -> v1::ClaimBatchRequest {
    v1::ClaimBatchRequest { tenant: "acme".to_owned(), items }
}

fn answer(item: &v1::ClaimBatchItem) -> &v1::ClaimResponse {
    match &item.outcome {
        Some(v1::claim_batch_item::Outcome::Answer(answer)) => answer,
        other => panic!("no answer: {other:?}"),
    }
}

fn failure(item: &v1::ClaimBatchItem) -> &v1::Failure {
    match &item.outcome {
        Some(v1::claim_batch_item::Outcome::Failure(failure)) => failure,
        other => panic!("no failure: {other:?}"),
    }
}

/// Reported elsewhere: case 71, case 80, case 85.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_is_decided_in_order_and_each_item_has_its_own_answer() {
    let three = Three::start().await;
    let (leader, follower) = (three.leader().await, three.follower().await);
    three.seed(leader).await;
    for node in [leader, follower] {
        in_order(&three, node).await;
        large(&three, node).await;
        refused_whole(&three, node).await;
    }
    three.stop().await;
}

async fn in_order(three: &Three, node: u64) {
    let mut claims = three.claims(node);
    let key = |name: &str| format!("{name}-{node}");
    // Something that is done already, to be replayed from within a batch.
    let granted =
        acquired(claims.claim(claim(&key("done"), "one")).await.expect("an answer").into_inner());
    claims.complete(complete(&key("done"), "one", granted.epoch, b"x")).await.expect("completed");

    let mut other = claim(&key("a"), "third");
    other.fingerprints[0].digest = vec![9; 32];
    let mut unnamed = claim(&key("b"), "one");
    unnamed.tenant = String::new();
    let items = vec![
        claim(&key("a"), "first"),
        claim(&key("a"), "second"),
        other,
        claim(" ", "one"),
        claim(&key("done"), "two"),
        unnamed,
    ];
    let answers = claims.claim_batch(batch(items.clone())).await.expect("answers").into_inner();
    let answers = answers.items;
    assert_eq!(answers.len(), 6);
    let first = acquired(answer(&answers[0]).clone());
    // Each item sees those before it.
    let Some(Outcome::Pending(pending)) = &answer(&answers[1]).outcome else {
        panic!("the second item does not see the first: {:?}", answers[1])
    };
    assert_eq!(pending.epoch, first.epoch);
    assert_eq!(failure(&answers[2]).reason, "FINGERPRINT_MISMATCH");
    assert_eq!(failure(&answers[2]).metadata["applied"], "decided");
    let blank = failure(&answers[3]);
    assert_eq!((blank.code, blank.reason.as_str()), (3, "INVALID_ARGUMENT"));
    assert_eq!(blank.metadata["applied"], "no");
    assert!(matches!(answer(&answers[4]).outcome, Some(Outcome::Replay(_))));
    let last = acquired(answer(&answers[5]).clone());
    assert!(last.epoch > first.epoch);

    // Repeated, it is answered the same way.
    let again = claims.claim_batch(batch(items)).await.expect("answers").into_inner().items;
    let held = acquired(answer(&again[0]).clone());
    assert_eq!((held.kind(), held.epoch), (v1::AcquiredKind::AlreadyHeld, first.epoch));

    let mut stale = complete(&key("b"), "one", 1, b"x");
    stale.tenant = String::new();
    let items = vec![complete(&key("a"), "first", first.epoch, b"one"), stale, {
        complete(&key("b"), "one", last.epoch, b"two")
    }];
    let request = v1::CompleteBatchRequest { tenant: "acme".to_owned(), items };
    let done = claims.complete_batch(request).await.expect("answers").into_inner().items;
    use v1::complete_batch_item::Outcome as Done;
    assert!(matches!(&done[0].outcome, Some(Done::Answer(answer)) if !answer.repeated), "{done:?}");
    assert!(
        matches!(&done[1].outcome, Some(Done::Failure(failure)) if failure.reason == "STALE_EPOCH"),
        "{done:?}"
    );
    assert!(matches!(&done[2].outcome, Some(Done::Answer(_))), "{done:?}");
}

/// The largest batch goes through several log entries, and still in order.
async fn large(three: &Three, node: u64) {
    let mut claims = three.claims(node);
    // Every key twice, far apart: the second one must see the first.
    let item = |at: usize| claim(&format!("bulk-{node}-{}", at % 250), &format!("a{at}"));
    let request = batch((0..500).map(item).collect());
    let answers = claims.claim_batch(request).await.expect("answers").into_inner().items;
    let mut epochs = Vec::new();
    for (at, item) in answers.iter().enumerate() {
        match &answer(item).outcome {
            Some(Outcome::Acquired(acquired)) if at < 250 => epochs.push(acquired.epoch),
            Some(Outcome::Pending(pending)) if at >= 250 => {
                assert_eq!(pending.epoch, epochs[at - 250]);
            }
            other => panic!("item {at}: {other:?}"),
        }
    }
    assert!(epochs.is_sorted(), "{epochs:?}");
}

async fn refused_whole(three: &Three, node: u64) {
    let mut claims = three.claims(node);
    let error = claims.claim_batch(batch(Vec::new())).await.expect_err("empty");
    assert_eq!(error.code(), Code::InvalidArgument);
    assert_eq!(info(&error).metadata["field"], "items");
    let items = vec![claim("k", "a"); 501];
    let error = claims.claim_batch(batch(items)).await.expect_err("too many");
    assert!(error.message().contains("items: has 501 entries"), "{}", error.message());
    let mut other = claim("k", "a");
    other.tenant = "globex".to_owned();
    let error = claims.claim_batch(batch(vec![other])).await.expect_err("another tenant");
    assert!(error.message().contains("items[0].tenant"), "{}", error.message());
}
