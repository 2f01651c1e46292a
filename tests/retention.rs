//! Two tenants with different retentions: every answer says until when things are kept, results go
//! first and keys later, a shorter retention leaves existing records alone, and all of it outlives
//! the leader.

use std::time::Duration;

use firstclaim_client::v1::claim_response::Outcome as Claimed;
use firstclaim_client::v1::identity_retention::Kind;
use firstclaim_client::{ClaimRequest, Client, Completion, time, v1};
use firstclaim_tests::cluster::Cluster;
use firstclaim_tests::process::{self, command};
use firstclaim_tests::race::{NAMESPACE, fingerprint};
use firstclaim_tests::{Outcome, say};
use prost_types::Timestamp;
use tokio::time::{Instant, sleep_until};

const COMMAND_WITHIN: Duration = Duration::from_secs(30);
/// How far behind a wait the clocks of one machine may be.
const MARGIN: Duration = Duration::from_millis(400);

/// What a tenant is set to.
#[derive(Clone, Copy, Debug)]
struct Policy {
    tenant: &'static str,
    lease: Duration,
    result: Duration,
    identity: Duration,
}

const QUICK: Policy = Policy {
    tenant: "quick",
    lease: Duration::from_secs(7),
    result: Duration::from_secs(4),
    identity: Duration::from_secs(9),
};
const SLOW: Policy = Policy {
    tenant: "slow",
    lease: Duration::from_secs(45),
    result: Duration::from_secs(3_600),
    identity: Duration::from_secs(86_400),
};
/// What the slow tenant is shortened to.
const SHORTER: Policy = Policy {
    tenant: "slow",
    lease: Duration::from_secs(11),
    result: Duration::from_secs(1),
    identity: Duration::from_secs(2),
};

/// A completed record, as its answers said.
struct Done {
    key: String,
    epoch: u64,
    completion: v1::Completion,
    at: Instant,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retentions_are_told_kept_and_outlive_the_leader() {
    let mut cluster = Cluster::start("retention").await.unwrap_or_else(|fault| panic!("{fault}"));
    if let Err(fault) = story(&mut cluster).await {
        panic!("{}", cluster.explain(&fault));
    }
}

async fn story(cluster: &mut Cluster) -> Outcome<()> {
    let client = cluster.client()?;
    for policy in [QUICK, SLOW] {
        firstclaim(cluster, &["tenant", "create", policy.tenant]).await?;
        firstclaim(cluster, &["namespace", "create", NAMESPACE, "-t", policy.tenant]).await?;
        set(cluster, policy).await?;
    }

    // All of it under the first leader.
    let long_kept = done(&client, SLOW, "kept-from-the-start").await?;
    lapse_of_both_tiers(&client, "first", SLOW).await?;

    // Shortening leaves alone what is there.
    set(cluster, SHORTER).await?;
    let short_kept = done(&client, SHORTER, "kept-after-shortening").await?;
    unchanged(&client, &long_kept).await?;

    // The leader dies.
    let leader = cluster.leader().await?;
    cluster.node_mut(leader).kill();
    let next = cluster.leader().await?;
    say(&format!("retention: leader {} killed, {} leads", leader + 1, next + 1));
    unchanged(&client, &long_kept).await?;
    sleep_until(short_kept.at + SHORTER.identity + MARGIN).await;
    first_again(&client, SHORTER, &short_kept).await?;
    unchanged(&client, &long_kept).await?;
    lapse_of_both_tiers(&client, "second", SHORTER).await?;
    cluster.start_node(leader)?;
    cluster.wait_ready().await?;
    say("retention: two tenants, two leaders, both tiers ran out as they were told");
    Ok(())
}

/// A record of the quick tenant loses its result, then its key, while one of the other tenant goes by
/// its own times.
async fn lapse_of_both_tiers(client: &Client, name: &str, other: Policy) -> Outcome<()> {
    let slow = done(client, other, &format!("{name}-slow")).await?;
    let quick = done(client, QUICK, &format!("{name}-quick")).await?;
    let replay = replayed(client, QUICK, &quick.key).await?;
    whole(&replay, &quick)?;

    sleep_until(quick.at + QUICK.result + MARGIN).await;
    let replay = replayed(client, QUICK, &quick.key).await?;
    let result = replay.completion.clone().and_then(|completion| completion.result);
    let result = result.ok_or("a replay without a completion")?;
    let digest = digest(&quick.completion);
    if !replay.result_dropped || result.body.is_some() || result.digest != digest {
        return Err(format!("the result should be gone, its digest not: {replay:?}").into());
    }

    sleep_until(quick.at + QUICK.identity + MARGIN).await;
    first_again(client, QUICK, &quick).await?;
    if other.identity > QUICK.identity {
        whole(&replayed(client, other, &slow.key).await?, &slow)
    } else {
        first_again(client, other, &slow).await
    }
}

/// Claims and completes, and checks every time that the answers give.
async fn done(client: &Client, policy: Policy, key: &str) -> Outcome<Done> {
    let request = request(policy, key);
    let answer = client.claim_once(&request).await?;
    let now = answer.store_time.ok_or("a claim without a store time")?;
    let Some(Claimed::Acquired(acquired)) = answer.outcome else {
        return Err(format!("{key} was not acquired: {:?}", answer.outcome).into());
    };
    same("kind", &acquired.kind(), &v1::AcquiredKind::First)?;
    same("lease", &length(now, acquired.lease_expire_time), &Some(policy.lease))?;
    let result = acquired.result_retention.as_ref().and_then(time::from_wire);
    same("result retention", &result, &Some(policy.result))?;
    let identity = acquired.identity_retention.and_then(|retention| retention.kind);
    same("identity retention", &identity, &Some(Kind::Duration(time::to_wire(policy.identity))))?;

    let completion = Completion::succeeded("text/plain", format!("result of {key}"));
    let answer = client.complete(&request.holder(acquired.epoch), completion).await?;
    let at = Instant::now();
    let completion = answer.completion.ok_or("a completion without one")?;
    expire_times(&completion, policy)?;
    let read = get(client, policy, key).await?;
    same("state", &read.state(), &v1::RecordState::Completed)?;
    same("identity_expire_time", &read.identity_expire_time, &completion.identity_expire_time)?;
    Ok(Done { key: key.to_owned(), epoch: acquired.epoch, completion, at })
}

fn expire_times(completion: &v1::Completion, policy: Policy) -> Outcome<()> {
    let from = completion.complete_time.ok_or("a completion without a time")?;
    same("result_expire_time", &length(from, completion.result_expire_time), &Some(policy.result))?;
    let identity = length(from, completion.identity_expire_time);
    same("identity_expire_time", &identity, &Some(policy.identity))
}

/// The record has the times that it was completed with, and its result.
async fn unchanged(client: &Client, done: &Done) -> Outcome<()> {
    whole(&replayed(client, SLOW, &done.key).await?, done)?;
    let record = get(client, SLOW, &done.key).await?;
    let completion = record.completion.ok_or("a record without a completion")?;
    expire_times(&completion, SLOW)
}

/// The replay shows the result, and the times that were told at the completion.
fn whole(replay: &v1::Replay, done: &Done) -> Outcome<()> {
    let mut completion = replay.completion.clone().ok_or("a replay without a completion")?;
    let result = completion.result.as_mut().ok_or("a replay without a result")?;
    let body = result.body.take();
    let expected = v1::result::Body::Inline(format!("result of {}", done.key).into_bytes());
    same("result", &body, &Some(expected))?;
    same("result_dropped", &replay.result_dropped, &false)?;
    same("completion", &completion, &done.completion)
}

/// The key is forgotten: it is claimed first again, under a higher epoch.
async fn first_again(client: &Client, policy: Policy, done: &Done) -> Outcome<()> {
    let answer = client.claim_once(&request(policy, &done.key)).await?;
    match answer.outcome {
        Some(Claimed::Acquired(acquired))
            if acquired.kind() == v1::AcquiredKind::First && acquired.epoch > done.epoch =>
        {
            Ok(())
        }
        other => Err(format!("{} should be forgotten: {other:?}", done.key).into()),
    }
}

async fn replayed(client: &Client, policy: Policy, key: &str) -> Outcome<v1::Replay> {
    match client.claim_once(&request(policy, key)).await?.outcome {
        Some(Claimed::Replay(replay)) => Ok(replay),
        other => Err(format!("{key} should be replayed: {other:?}").into()),
    }
}

async fn get(client: &Client, policy: Policy, key: &str) -> Outcome<v1::Record> {
    let name = (policy.tenant, NAMESPACE, key);
    let answer = client.get(name, v1::Consistency::Linearizable).await?;
    Ok(answer.record.ok_or("an answer without a record")?)
}

fn request(policy: Policy, key: &str) -> ClaimRequest {
    ClaimRequest::new(policy.tenant, NAMESPACE, key).fingerprint(fingerprint(key))
}

fn digest(completion: &v1::Completion) -> Vec<u8> {
    completion.result.as_ref().map(|result| result.digest.clone()).unwrap_or_default()
}

fn length(from: Timestamp, to: Option<Timestamp>) -> Option<Duration> {
    to.map(|to| time::between(&from, &to))
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: &T, expected: &T) -> Outcome<()> {
    if found == expected {
        return Ok(());
    }
    Err(format!("{what} is {found:?}, not {expected:?}").into())
}

/// Sets a tenant's policy as an operator does.
async fn set(cluster: &Cluster, policy: Policy) -> Outcome<()> {
    let [lease, result, identity] = [policy.lease, policy.result, policy.identity]
        .map(|duration| format!("{}s", duration.as_secs()));
    let line = [
        &["tenant", "set", policy.tenant, "--lease-default", &lease][..],
        &["--result-retention", &result, "--identity-retention", &identity],
    ];
    firstclaim(cluster, &line.concat()).await
}

async fn firstclaim(cluster: &Cluster, arguments: &[&str]) -> Outcome<()> {
    let mut command = command(cluster.binary());
    command.arg("-E").arg(cluster.endpoints().join(",")).args(arguments);
    let finished = process::run(command, COMMAND_WITHIN).await?;
    if finished.status.success() {
        return Ok(());
    }
    let (shown, said) = (arguments.join(" "), finished.stderr);
    Err(format!("firstclaim {shown}: {}:\n{said}", finished.status).into())
}
