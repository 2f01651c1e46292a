//! All three processes are killed at once in the midst of a race and started again: nothing that was
//! acknowledged is lost, and no key is claimed first twice.

use std::time::Duration;

use firstclaim_tests::cluster::Cluster;
use firstclaim_tests::race::{self, Race};
use firstclaim_tests::{Outcome, say, seed, verdict};
use rand::Rng as _;
use tokio::time::{Instant, sleep};

const KEYS: u64 = 1_000;
const ROUNDS: u64 = 2;
const LANES: u64 = 12;
const RECOVERS_WITHIN: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killing_all_nodes_at_once_loses_nothing_that_was_acknowledged() {
    let seed = seed::take("all_killed").expect("take a seed");
    let mut cluster = Cluster::start("all-killed").await.unwrap_or_else(|fault| panic!("{fault}"));
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
    for round in 1..=ROUNDS {
        race.progress(200, RECOVERS_WITHIN).await?;
        sleep(Duration::from_millis(chance.random_range(0..300))).await;
        cluster.kill_all();
        let done = race.done();
        sleep(Duration::from_millis(chance.random_range(0..800))).await;
        for at in 0..cluster.nodes().len() {
            cluster.start_node(at)?;
        }
        cluster.wait_ready().await?;
        say(&format!("all_killed: round {round} of {ROUNDS}, {done} keys were done"));
    }
    race.progress(KEYS.saturating_sub(race.done()).max(200), RECOVERS_WITHIN).await?;
    let raced = verdict::judge("all_killed", cluster, race).await?;
    say(&format!("all_killed: {ROUNDS} rounds, {} s", start.elapsed().as_secs()));
    Ok(raced)
}
