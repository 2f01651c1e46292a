//! The leader is killed again and again while clients at all nodes race for the same keys: every key
//! is claimed first by exactly one of them, and nothing that was acknowledged is lost.

use std::time::Duration;

use firstclaim_tests::cluster::Cluster;
use firstclaim_tests::race::{self, Race};
use firstclaim_tests::{Outcome, say, seed, verdict};
use rand::Rng as _;
use tokio::time::{Instant, sleep};

const KEYS: u64 = 1_000;
const KILLS: u64 = 6;
const LANES: u64 = 12;
const RECOVERS_WITHIN: Duration = Duration::from_secs(30);

/// Reported elsewhere: case 65, case 67, case 73, case 74.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killing_the_leader_never_yields_two_first_claims() {
    let seed = seed::take("leader_kill").expect("take a seed");
    let mut cluster = Cluster::start("leader-kill").await.unwrap_or_else(|fault| panic!("{fault}"));
    let raced = match story(&mut cluster, seed).await {
        Ok(raced) => raced,
        Err(fault) => panic!("{}", cluster.explain(&fault)),
    };
    assert!(raced >= 1_000, "only {raced} keys were raced for");
}

async fn story(cluster: &mut Cluster, seed: u64) -> Outcome<usize> {
    let start = Instant::now();
    let mut chance = seed::chance(seed, 0);
    race::set_up(cluster).await?;
    let race = Race::start(cluster, seed, LANES);
    race.progress(50, RECOVERS_WITHIN).await?;
    for kill in 1..=KILLS {
        let leader = cluster.leader().await?;
        cluster.node_mut(leader).kill();
        let killed = Instant::now();
        // Now and then it is back before the others have elected a new leader.
        sleep(Duration::from_millis(chance.random_range(0..1_200))).await;
        if chance.random_bool(0.6) {
            race.progress(40, RECOVERS_WITHIN).await?;
        }
        let id = cluster.node(leader).id;
        say(&format!(
            "leader_kill: killed node {id} ({kill} of {KILLS}), {} keys done, {} ms later",
            race.done(),
            killed.elapsed().as_millis()
        ));
        cluster.start_node(leader)?;
        cluster.wait_ready().await?;
        race.progress(40, RECOVERS_WITHIN).await?;
    }
    race.progress(KEYS.saturating_sub(race.done()), RECOVERS_WITHIN).await?;
    let raced = verdict::judge("leader_kill", cluster, race).await?;
    say(&format!("leader_kill: {KILLS} kills, {} s", start.elapsed().as_secs()));
    Ok(raced)
}
