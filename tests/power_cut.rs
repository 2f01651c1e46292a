//! The power fails, on all machines at once or on one, in the midst of a race: nothing that was
//! acknowledged is lost, and no key is claimed first twice. Each node's data is on a disk that forgets what
//! was not synced.
//!
//! It needs FUSE and the right to mount; where there is none, it says so and checks nothing.
//! `FIRSTCLAIM_POWER_CUTS` sets how often the power fails.

use std::env;
use std::time::Duration;

use firstclaim_client::v1::claim_response::Outcome as Claimed;
use firstclaim_client::{ClaimRequest, Completion};
use firstclaim_tests::cluster::Cluster;
use firstclaim_tests::disks::Disks;
use firstclaim_tests::forgetful::{Mood, Mounted};
use firstclaim_tests::race::{self, NAMESPACE, Race, TENANT};
use firstclaim_tests::{Outcome, say, seed, verdict};
use rand::Rng as _;
use tokio::time::sleep;

const CUTS: u64 = 4;
const CUTS_MAX: u64 = 10_000;
const LANES: u64 = 8;
const RECOVERS_WITHIN: Duration = Duration::from_secs(40);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_power_cut_takes_nothing_that_was_acknowledged() {
    if let Err(reason) = Mounted::is_possible() {
        say(&format!("power_cut: SKIPPED, nothing was checked: {reason}"));
        return;
    }
    let seed = seed::take("power_cut").expect("take a seed");
    let cuts = cuts().expect("FIRSTCLAIM_POWER_CUTS is a number");
    let mut cluster = Cluster::prepare("power-cut").unwrap_or_else(|fault| panic!("{fault}"));
    let mut disks = Disks::give(&cluster).unwrap_or_else(|fault| panic!("{fault}"));
    let raced = match story(&mut cluster, &mut disks, seed, cuts).await {
        Ok(raced) => raced,
        Err(fault) => panic!("{}", cluster.explain(&fault)),
    };
    cluster.kill_all();
    let counts = disks.counts();
    say(&format!("power_cut: {cuts} power cuts, {counts:?}"));
    assert!(raced >= 100, "only {raced} keys were raced for");
    assert!(counts.forgotten > 0, "the disks forgot nothing: {counts:?}");
}

fn cuts() -> Outcome<u64> {
    match env::var("FIRSTCLAIM_POWER_CUTS") {
        Ok(text) => Ok(text.parse::<u64>()?.min(CUTS_MAX)),
        Err(_) => Ok(CUTS),
    }
}

async fn story(cluster: &mut Cluster, disks: &mut Disks, seed: u64, cuts: u64) -> Outcome<usize> {
    let mut chance = seed::chance(seed, 0);
    let all: Vec<usize> = (0..cluster.nodes().len()).collect();
    for at in &all {
        cluster.start_node(*at)?;
    }
    cluster.wait_ready().await?;
    race::set_up(cluster).await?;
    let race = Race::start(cluster, seed, LANES);
    for _ in 0..cuts {
        race.progress(50, RECOVERS_WITHIN).await?;
        sleep(Duration::from_millis(chance.random_range(0..500))).await;
        // One machine has to come to what the others have meanwhile.
        let dark = if chance.random_bool(0.3) {
            vec![chance.random_range(0..all.len())]
        } else {
            all.clone()
        };
        disks.cut_power(cluster, &dark, Some(&mut chance))?;
        for at in dark {
            cluster.start_node(at)?;
        }
        cluster.wait_ready().await?;
    }
    race.progress(50, RECOVERS_WITHIN).await?;
    verdict::judge("power_cut", cluster, race).await
}

/// So the test above would see a sync that is missing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_lies_about_its_syncs_is_found_out() {
    if let Err(reason) = Mounted::is_possible() {
        say(&format!("power_cut: SKIPPED, nothing was checked: {reason}"));
        return;
    }
    let mut cluster = Cluster::prepare("liars").unwrap_or_else(|fault| panic!("{fault}"));
    let mut disks = Disks::give(&cluster).unwrap_or_else(|fault| panic!("{fault}"));
    let lost = match lie(&mut cluster, &mut disks).await {
        Ok(lost) => lost,
        Err(fault) => panic!("{}", cluster.explain(&fault)),
    };
    cluster.kill_all();
    assert!(lost > 0, "the disks forgot what they had acknowledged, and nobody noticed");
    say(&format!("power_cut: disks that lied have lost {lost} of {KEYS} acknowledged keys"));
}

const KEYS: usize = 20;

/// Returns how many acknowledged keys were lost; all of them if a node refuses what its disk has left.
async fn lie(cluster: &mut Cluster, disks: &mut Disks) -> Outcome<usize> {
    let all: Vec<usize> = (0..cluster.nodes().len()).collect();
    for at in &all {
        cluster.start_node(*at)?;
    }
    cluster.wait_ready().await?;
    race::set_up(cluster).await?;
    let client = cluster.client()?;
    all.iter().for_each(|at| disks.set_mood(*at, Mood::Lying));
    let requests: Vec<ClaimRequest> = (0..KEYS)
        .map(|number| {
            let key = format!("believed-{number}");
            ClaimRequest::new(TENANT, NAMESPACE, &key).fingerprint(race::fingerprint(&key))
        })
        .collect();
    for request in &requests {
        let Some(Claimed::Acquired(acquired)) = client.claim_once(request).await?.outcome else {
            return Err(format!("{request:?} was not acquired").into());
        };
        let result = Completion::succeeded("text/plain", "paid");
        client.complete(&request.holder(acquired.epoch), result).await?;
    }
    disks.cut_power(cluster, &all, None)?;
    all.iter().for_each(|at| disks.set_mood(*at, Mood::Good));
    for at in all {
        cluster.start_node(at)?;
    }
    if let Err(refused) = cluster.wait_ready().await {
        say(&format!("power_cut: {}", refused.to_string().lines().next().unwrap_or_default()));
        return Ok(KEYS);
    }
    let mut lost = 0;
    for request in &requests {
        let answer = client.claim_once(request).await?.outcome;
        lost += usize::from(!matches!(answer, Some(Claimed::Replay(_))));
    }
    Ok(lost)
}
