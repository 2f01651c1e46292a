//! A follower that was away while the others wrote, and purged their logs, is brought up to date by a
//! snapshot, and then says the same as they do, byte for byte.

use std::collections::BTreeSet;
use std::time::Duration;

use firstclaim_client::v1::claim_response::Outcome as Claimed;
use firstclaim_client::{ClaimRequest, Completion, v1};
use firstclaim_tests::cluster::{Cluster, Node};
use firstclaim_tests::race::{self, NAMESPACE, TENANT, fingerprint};
use firstclaim_tests::{Outcome, raw, readback, say};
use prost::Message as _;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tonic::Status;

const ENTRIES: u64 = 50_000;
/// With few callers nearly every command has an entry of its own.
const CALLERS: u64 = 8;
const SAMPLES: u64 = 1_000;
const CATCHES_UP_WITHIN: Duration = Duration::from_secs(60);

/// Reported elsewhere: case 38.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_catches_up_by_snapshot_and_says_the_same() {
    let mut cluster = Cluster::start("catch-up").await.unwrap_or_else(|fault| panic!("{fault}"));
    if let Err(fault) = story(&mut cluster).await {
        panic!("{}", cluster.explain(&fault));
    }
}

async fn story(cluster: &mut Cluster) -> Outcome<()> {
    race::set_up(cluster).await?;
    let leader = cluster.leader().await?;
    let away = (leader + 1) % cluster.nodes().len();
    let other = (leader + 2) % cluster.nodes().len();
    cluster.node_mut(away).stop().await?;

    let start = Instant::now();
    let from = cluster.node(leader).status().await?.last_log_index;
    let keys = write(cluster, leader, from + ENTRIES + 1).await?;
    let written = cluster.node(leader).status().await?.last_log_index - from;
    let took = start.elapsed().as_secs_f64();
    say(&format!("catch_up: {written} entries written, {keys} keys, {took:.1} s"));
    if written <= ENTRIES {
        return Err(format!("{written} entries were written, not more than {ENTRIES}").into());
    }

    for at in [leader, other] {
        let purged = purge(cluster.node(at)).await?;
        if purged <= from + ENTRIES {
            let id = cluster.node(at).id;
            return Err(format!("node {id} purged up to {purged} only, from {from}").into());
        }
    }

    let start = Instant::now();
    cluster.start_node(away)?;
    cluster.wait_ready().await?;
    let node = cluster.node(away);
    caught_up(node, cluster.node(leader)).await?;
    let installs = node.status().await?.snapshot_installs;
    let took = start.elapsed().as_millis();
    say(&format!("catch_up: caught up in {took} ms, snapshot installs {installs}"));
    if installs != 1 {
        return Err(format!("{installs} snapshots were installed, not 1").into());
    }
    let (index, _) = readback::same_state(cluster).await?;
    let compared = compare(cluster, keys).await?;
    say(&format!("catch_up: one state hash at index {index}; {compared} answers are byte-equal"));
    Ok(())
}

fn key(number: u64) -> String {
    format!("away-{number:06}")
}

/// Claims and completes until the log is that long. Returns how many keys were written.
async fn write(cluster: &Cluster, at: usize, until: u64) -> Outcome<u64> {
    let client = cluster.client()?;
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let client = client.clone();
        let leader = cluster.node(at).endpoint();
        callers.spawn(async move {
            let mut keys = 0;
            loop {
                for _ in 0..100 {
                    let key = key(keys * CALLERS + caller);
                    let request =
                        ClaimRequest::new(TENANT, NAMESPACE, &key).fingerprint(fingerprint(&key));
                    let answer = client.claim_once(&request).await?;
                    let Some(Claimed::Acquired(acquired)) = answer.outcome else {
                        return Err(format!("{key} was not acquired: {:?}", answer.outcome).into());
                    };
                    let result = Completion::succeeded("text/plain", format!("paid {key}"));
                    client.complete(&request.holder(acquired.epoch), result).await?;
                    keys += 1;
                }
                if client.status_at(&leader).await?.last_log_index >= until {
                    return Outcome::Ok(keys);
                }
            }
        });
    }
    let mut least = u64::MAX;
    while let Some(keys) = callers.join_next().await {
        least = least.min(keys??);
    }
    Ok(least * CALLERS)
}

fn reader(key: &str) -> v1::ClaimRequest {
    v1::ClaimRequest {
        tenant: TENANT.to_owned(),
        namespace: NAMESPACE.to_owned(),
        key: key.to_owned(),
        attempt_id: "reader".to_owned(),
        owner: "catch-up".to_owned(),
        fingerprints: vec![fingerprint(key)],
        ..v1::ClaimRequest::default()
    }
}

/// Builds a snapshot and drops what it covers from the log.
async fn purge(node: &Node) -> Outcome<u64> {
    let words = |status: Status| format!("node {}: {}", node.id, status.message());
    let mut operations = node.operations();
    operations.trigger_snapshot(v1::TriggerSnapshotRequest {}).await.map_err(words)?;
    let request = v1::PurgeLogRequest { up_to_index: 0 };
    Ok(operations.purge_log(request).await.map_err(words)?.into_inner().purged_index)
}

/// Waits until a node has applied what the leader has committed.
async fn caught_up(node: &Node, leader: &Node) -> Outcome<()> {
    let goal = leader.status().await?.committed_index;
    let start = Instant::now();
    loop {
        let status = node.status().await?;
        if status.applied_index >= goal {
            return Ok(());
        }
        if start.elapsed() > CATCHES_UP_WITHIN {
            let applied = status.applied_index;
            return Err(format!("node {} stands at {applied}, not at {goal}", node.id).into());
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// Reads a sample of the records, and claims them again, at every node. The bytes of a record are
/// compared as they came; those of a replay without its age, which is counted at each node.
async fn compare(cluster: &Cluster, keys: u64) -> Outcome<u64> {
    let mut compared = 0;
    for sample in 0..SAMPLES {
        let key = key(sample * keys / SAMPLES);
        let mut answers = BTreeSet::new();
        for node in cluster.nodes() {
            let record = record(node, &key).await?;
            let replay = replay(node, &key).await?;
            answers.insert((record, replay));
        }
        if answers.len() != 1 {
            return Err(format!("{key} is not the same everywhere: {answers:02x?}").into());
        }
        compared += 1;
    }
    Ok(compared)
}

async fn record(node: &Node, key: &str) -> Outcome<Vec<u8>> {
    let request = v1::GetRequest {
        tenant: TENANT.to_owned(),
        namespace: NAMESPACE.to_owned(),
        key: key.to_owned(),
        consistency: v1::Consistency::Local.into(),
    };
    let method = "firstclaim.v1.ClaimService/Get";
    let answer = raw::call(node.channel(), method, request.encode_to_vec()).await;
    let answer = answer.map_err(|status| format!("read {key}: {}", status.message()))?;
    let record = raw::first_field(&answer).ok_or("the answer does not begin with a record")?;
    Ok(record.to_vec())
}

async fn replay(node: &Node, key: &str) -> Outcome<Vec<u8>> {
    let answer = node.claims().claim(reader(key)).await;
    let answer =
        answer.map_err(|status| format!("claim {key}: {}", status.message()))?.into_inner();
    match answer.outcome {
        Some(Claimed::Replay(mut replay)) => {
            replay.age = None;
            Ok(replay.encode_to_vec())
        }
        other => Err(format!("{key} was not replayed: {other:?}").into()),
    }
}
