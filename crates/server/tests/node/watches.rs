//! Streams of what happens to records, over real gRPC.

use std::time::Duration;

use crate::three::{Three, acquired, claim, complete, info};
use firstclaim_proto::v1;
use tonic::{Code, Streaming};

const SOON: Duration = Duration::from_secs(20);

async fn next<T>(stream: &mut Streaming<T>) -> Option<T> {
    let message = tokio::time::timeout(SOON, stream.message()).await.expect("in time");
    message.expect("no failure")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_happens_is_streamed_by_any_node() {
    let three = Three::start().await;
    let (leader, follower) = (three.leader().await, three.follower().await);
    three.seed(leader).await;
    one_record(&three, leader, follower).await;
    all_records(&three, leader, follower).await;
    ends_with_its_node(three, leader, follower).await;
}

async fn one_record(three: &Three, leader: u64, follower: u64) {
    let watch = v1::WatchRecordRequest {
        tenant: "acme".to_owned(),
        namespace: "payouts".to_owned(),
        key: "followed".to_owned(),
    };
    let error = three.records(follower).watch_record(watch.clone()).await.expect_err("absent");
    assert_eq!((error.code(), info(&error).reason.as_str()), (Code::NotFound, "RECORD_NOT_FOUND"));

    let mut claims = three.claims(leader);
    let granted = claims.claim(claim("followed", "one")).await.expect("an answer").into_inner();
    let granted = acquired(granted);
    let mut stream = three.records(follower).watch_record(watch).await.expect("open").into_inner();
    let seen = next(&mut stream).await.expect("the record").record.expect("a record");
    assert_eq!((seen.state(), seen.epoch), (v1::RecordState::Claimed, granted.epoch));
    claims.complete(complete("followed", "one", granted.epoch, b"paid")).await.expect("completed");
    let seen = next(&mut stream).await.expect("the record").record.expect("a record");
    assert_eq!(seen.state(), v1::RecordState::Completed);
    let result = seen.completion.expect("a completion").result.expect("a result");
    assert_eq!(result.body, Some(v1::result::Body::Inline(b"paid".to_vec())));
    assert!(next(&mut stream).await.is_none(), "a completed record has no end");
}

fn watch(after_revision: u64) -> v1::WatchRecordsRequest {
    v1::WatchRecordsRequest {
        tenant: "acme".to_owned(),
        namespace: "payouts".to_owned(),
        after_revision,
    }
}

async fn completed(three: &Three, node: u64, key: &str) {
    let mut claims = three.claims(node);
    let granted = acquired(claims.claim(claim(key, "one")).await.expect("an answer").into_inner());
    claims.complete(complete(key, "one", granted.epoch, b"x")).await.expect("completed");
}

/// Every completion comes, once, in the order of the log, and goes on at another node.
async fn all_records(three: &Three, leader: u64, follower: u64) {
    for at in 0..40 {
        completed(three, leader, &format!("before-{at:02}")).await;
    }
    let mut stream =
        three.records(follower).watch_records(watch(0)).await.expect("open").into_inner();
    let (mut keys, mut revision) = (Vec::new(), 0);
    while keys.len() < 41 {
        let change = next(&mut stream).await.expect("a change");
        let record = change.record.expect("a record");
        assert!(change.revision >= revision, "{} after {revision}", change.revision);
        revision = change.revision;
        if record.state() == v1::RecordState::Completed {
            keys.push(record.key);
        }
    }
    let expected: Vec<String> = std::iter::once("followed".to_owned())
        .chain((0..40).map(|at| format!("before-{at:02}")))
        .collect();
    assert_eq!(keys, expected);

    // What comes later comes to whoever already listens, and to whoever goes on from there.
    drop(stream);
    let mut stream =
        three.records(leader).watch_records(watch(revision)).await.expect("open").into_inner();
    completed(three, follower, "after").await;
    loop {
        let change = next(&mut stream).await.expect("a change");
        let record = change.record.expect("a record");
        assert_eq!(record.key, "after", "what was seen comes again");
        if record.state() == v1::RecordState::Completed {
            break;
        }
    }
    let mut nowhere = watch(0);
    nowhere.namespace = "nowhere".to_owned();
    let error = three.records(leader).watch_records(nowhere).await.expect_err("no namespace");
    assert_eq!(info(&error).reason, "NAMESPACE_NOT_FOUND");
}

/// A node that goes down says so to whoever listens, and does not wait for them.
async fn ends_with_its_node(mut three: Three, leader: u64, follower: u64) {
    let mut stream =
        three.records(follower).watch_records(watch(u64::MAX >> 1)).await.expect("open");
    let gone = three.nodes.remove(&follower).expect("the follower");
    let begun = tokio::time::Instant::now();
    let down = tokio::spawn(async move { gone.shutdown().await });
    let ended = tokio::time::timeout(SOON, stream.get_mut().message()).await.expect("in time");
    let error = ended.expect_err("the node goes down");
    assert_eq!(info(&error).reason, "NODE_DRAINING", "{error:?}");
    drop(stream);
    down.await.expect("joined");
    assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
    assert_ne!(leader, follower);
    three.stop().await;
}
