//! What people see of records, over real gRPC: lists, histories, explanations.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::three::{Three, acquired, claim, complete, info, seconds};
use firstclaim_proto::v1;
use firstclaim_proto::v1::claim_response::Outcome;
use tokio::time::Instant;
use tonic::Code;

/// Reported elsewhere: case 10, case 11, case 94.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_are_listed_explained_and_their_history_is_told_by_any_node() {
    let three = Three::start().await;
    let (leader, follower) = (three.leader().await, three.follower().await);
    three.seed(leader).await;
    let policy = v1::Policy { max_attempts: Some(1), ..v1::Policy::default() };
    three.namespace(leader, "capped", policy).await;
    made(&three, leader).await;
    for node in [leader, follower] {
        listed(&three, node).await;
        unresolved(&three, node).await;
        explained(&three, node).await;
    }
    history(&three, leader, follower).await;
    three.stop().await;
}

async fn released(
    three: &Three,
    node: u64,
    (namespace, key): (&str, &str),
    intent: v1::release_request::Intent,
) -> v1::Acquired {
    let mut request = claim(key, "one");
    request.namespace = namespace.to_owned();
    let mut claims = three.claims(node);
    let granted = acquired(claims.claim(request).await.expect("an answer").into_inner());
    let release = v1::ReleaseRequest {
        tenant: "acme".to_owned(),
        namespace: namespace.to_owned(),
        key: key.to_owned(),
        attempt_id: "one".to_owned(),
        epoch: granted.epoch,
        intent: Some(intent),
    };
    claims.release(release).await.expect("released");
    granted
}

/// Twenty records that are done, one that is claimed, three that nobody knows about, one parked.
async fn made(three: &Three, node: u64) {
    use v1::release_request::Intent;
    let mut claims = three.claims(node);
    for at in 0..20 {
        let key = format!("order-{at:02}");
        let mut request = claim(&key, "one");
        request.labels = [("message".to_owned(), format!("m{}", at % 2))].into();
        request.fingerprints[0].digest = vec![at; 32];
        let granted = acquired(claims.claim(request).await.expect("an answer").into_inner());
        claims.complete(complete(&key, "one", granted.epoch, b"paid")).await.expect("completed");
    }
    claims.claim(claim("claimed", "one")).await.expect("an answer");
    for at in 0..3 {
        let unknown = Intent::Unknown(v1::ReleaseUnknown { note: "?".to_owned() });
        released(three, node, ("payouts", &format!("unknown-{at}")), unknown).await;
    }
    let retry = Intent::Retry(v1::ReleaseRetry::default());
    released(three, node, ("capped", "parked"), retry).await;
}

fn list(page_size: u32) -> v1::ListRecordsRequest {
    v1::ListRecordsRequest {
        tenant: "acme".to_owned(),
        namespace: "payouts".to_owned(),
        page_size,
        ..v1::ListRecordsRequest::default()
    }
}

async fn all(three: &Three, node: u64, mut request: v1::ListRecordsRequest) -> Vec<v1::Record> {
    let mut found = Vec::new();
    loop {
        let page = three.records(node).list_records(request.clone()).await.expect("a page");
        let page = page.into_inner();
        let most = usize::try_from(request.page_size).expect("small");
        assert!(page.records.len() <= most && page.store_time.is_some());
        found.extend(page.records);
        if page.next_page_token.is_empty() {
            return found;
        }
        request.page_token = page.next_page_token;
    }
}

async fn listed(three: &Three, node: u64) {
    let found = all(three, node, list(7)).await;
    let keys: Vec<&str> = found.iter().map(|record| record.key.as_str()).collect();
    assert_eq!(keys.len(), 24, "{keys:?}");
    assert!(keys.is_sorted());
    let done = found.iter().find(|record| record.key == "order-03").expect("listed");
    let result = done.completion.as_ref().and_then(|it| it.result.as_ref()).expect("a result");
    assert_eq!((result.body.clone(), result.length), (None, 4), "a list carries no bodies");
    assert_eq!(done.attempts.len(), 1);

    let mut by_state = list(500);
    by_state.states = vec![v1::RecordState::Unresolved.into(), v1::RecordState::Claimed.into()];
    assert_eq!(all(three, node, by_state).await.len(), 4);
    let mut by_label = list(3);
    by_label.labels = [("message".to_owned(), "m1".to_owned())].into();
    assert_eq!(all(three, node, by_label).await.len(), 10);
    let mut by_owner = list(500);
    by_owner.owner = "somebody".to_owned();
    assert_eq!(all(three, node, by_owner.clone()).await.len(), 0);
    by_owner.owner = "worker of one".to_owned();
    assert_eq!(all(three, node, by_owner).await.len(), 24);
    let mut by_prefix = list(500);
    by_prefix.key_prefix = "order-1".to_owned();
    assert_eq!(all(three, node, by_prefix).await.len(), 10);
    let mut by_age = list(500);
    by_age.older_than = seconds(3600);
    assert_eq!(all(three, node, by_age).await.len(), 0);

    let mut nowhere = list(1);
    nowhere.namespace = "nowhere".to_owned();
    let error = three.records(node).list_records(nowhere).await.expect_err("no namespace");
    assert_eq!(
        (error.code(), info(&error).reason.as_str()),
        (Code::NotFound, "NAMESPACE_NOT_FOUND")
    );
}

async fn unresolved(three: &Three, node: u64) {
    let mut request = v1::ListUnresolvedRequest {
        tenant: "acme".to_owned(),
        page_size: 2,
        ..v1::ListUnresolvedRequest::default()
    };
    let mut keys = Vec::new();
    loop {
        let page = three.records(node).list_unresolved(request.clone()).await.expect("a page");
        let page = page.into_inner();
        for record in page.records {
            assert_eq!(record.state(), v1::RecordState::Unresolved);
            assert_eq!(record.effects[0].state(), v1::EffectState::Open);
            keys.push(record.key);
        }
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    assert_eq!(keys, ["unknown-0", "unknown-1", "unknown-2"]);

    let parked = v1::ListUnresolvedRequest {
        tenant: "acme".to_owned(),
        parked: true,
        ..v1::ListUnresolvedRequest::default()
    };
    let page = three.records(node).list_unresolved(parked).await.expect("a page").into_inner();
    let keys: Vec<&str> = page.records.iter().map(|record| record.key.as_str()).collect();
    assert_eq!(keys, ["parked"]);
    assert_eq!(page.records[0].namespace, "capped");
}

async fn explained(three: &Three, node: u64) {
    let explain = |claim: v1::ClaimRequest| {
        let mut records = three.records(node);
        async move {
            let request = v1::ExplainRequest { claim: Some(claim) };
            records.explain(request).await.expect("explained").into_inner()
        }
    };
    let mut done = claim("order-03", "two");
    done.fingerprints[0].digest = vec![3; 32];
    let mut other = done.clone();
    other.fingerprints[0].digest = vec![4; 32];
    let mut uncapped = claim("parked", "two");
    uncapped.namespace = "capped".to_owned();
    let mut recovers = claim("unknown-1", "two");
    recovers.accept_recovery = true;
    let mut nowhere = claim("k", "two");
    nowhere.namespace = "nowhere".to_owned();
    let mut bare = claim("k", "two");
    bare.fingerprints.clear();
    let same_attempt = claim("claimed", "one");
    for (asked, row, outcome) in [
        (other, 1, "FINGERPRINT_MISMATCH"),
        (done, 3, "REPLAY"),
        (same_attempt, 5, "ACQUIRED ALREADY_HELD EXECUTE"),
        (claim("claimed", "two"), 7, "PENDING"),
        (recovers, 9, "ACQUIRED RECOVERY RECONCILE"),
        (claim("unknown-1", "two"), 10, "UNRESOLVED"),
        (uncapped, 13, "ATTEMPTS_EXHAUSTED"),
        (claim("brand-new", "two"), 18, "ACQUIRED FIRST EXECUTE"),
        (nowhere, 0, "NAMESPACE_NOT_FOUND"),
        (bare, 0, "INVALID_ARGUMENT"),
    ] {
        let told = explain(asked).await;
        assert_eq!((told.row, told.outcome.as_str()), (row, outcome), "{told:?}");
        assert!(told.rule.len() > 10 && told.inputs.contains_key("store_time"), "{told:?}");
    }
    let told = explain(claim("claimed", "two")).await;
    assert_eq!(told.inputs["state"], "CLAIMED");
    assert_eq!(told.inputs["owner"], "worker of one");
    assert_eq!(told.inputs["attempt"], "new");
    assert!(told.record.is_some());
    // It was only asked: nothing has become of it.
    let told = explain(claim("brand-new", "two")).await;
    assert_eq!((told.row, told.inputs["state"].as_str()), (18, "ABSENT"));
    let error = three.records(node).explain(v1::ExplainRequest { claim: None }).await;
    assert_eq!(error.expect_err("no claim").code(), Code::InvalidArgument);
}

/// Replays that a follower answers by itself reach the history, too, a little later.
async fn history(three: &Three, leader: u64, follower: u64) {
    let ask = v1::GetHistoryRequest {
        tenant: "acme".to_owned(),
        namespace: "payouts".to_owned(),
        key: "order-07".to_owned(),
    };
    let duplicate = |attempt: &str, labels: &[(&str, &str)]| {
        let mut request = claim("order-07", attempt);
        request.fingerprints[0].digest = vec![7; 32];
        request.labels = labels.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        request
    };
    for at in 0..3 {
        let request = duplicate(&format!("late-{at}"), &[("message", "m7")]);
        let answer = three.claims(follower).claim(request).await.expect("an answer");
        assert!(matches!(answer.into_inner().outcome, Some(Outcome::Replay(_))));
    }
    let mut other = duplicate("other", &[]);
    other.fingerprints[0].digest = vec![8; 32];
    three.claims(leader).claim(other).await.expect_err("another request");

    let give_up = Instant::now() + Duration::from_secs(20);
    let told = loop {
        let told = three.records(follower).get_history(ask.clone()).await.expect("told");
        let told = told.into_inner();
        let expected: BTreeMap<String, u64> =
            [("REPLAY".to_owned(), 3), ("FINGERPRINT_MISMATCH".to_owned(), 1)].into();
        if told.counts == expected {
            break told;
        }
        assert!(Instant::now() < give_up, "the history is not told: {:?}", told.counts);
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    assert_eq!(told.attempts.len(), 1);
    assert_eq!(told.attempts[0].ending(), v1::Ending::Succeeded);
    assert_eq!(told.sightings.len(), 4);
    let replay = told.sightings.iter().find(|one| one.outcome == "REPLAY").expect("a replay");
    assert_eq!(replay.labels["message"], "m7");
    assert!(["eu-west", "us-east", "ap-south"].contains(&replay.region.as_str()), "{replay:?}");
    let mut absent = ask;
    absent.key = "nothing".to_owned();
    let error = three.records(follower).get_history(absent).await.expect_err("absent");
    assert_eq!(info(&error).reason, "RECORD_NOT_FOUND");
}
