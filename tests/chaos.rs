//! Real processes under real faults, one after another and in pairs, while clients at all nodes race for
//! the same keys: killed, stopped, restarted, all at once, with a wall clock that is off, cut off in one
//! direction or both, slowed down. No key is claimed first twice, nothing that was acknowledged is lost,
//! and in the end all nodes have one state.
//!
//! Once the nodes are hosts of their own, and packets between them are lost; once they are on loopback, and
//! relays hold back what they say. `FIRSTCLAIM_CHAOS_MINUTES` sets how long the first takes; the default is a
//! short run, and the second is always short, unless this machine gives a test no hosts.

use std::collections::BTreeMap;
use std::env;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use firstclaim_tests::cluster::Cluster;
use firstclaim_tests::hosts::{self, CLIENT, Ground};
use firstclaim_tests::race::{self, Race};
use firstclaim_tests::{Outcome, say, seed, verdict};
use rand::Rng as _;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

/// The run that belongs to every test run.
const SHORT: Duration = Duration::from_secs(40);
const MINUTES_MAX: u64 = 600;
/// What a run takes besides.
const AROUND: Duration = Duration::from_secs(240);
const LANES: u64 = 6;
const RECOVERS_WITHIN: Duration = Duration::from_secs(40);
/// How far a clock is off at most: less than the leases of the race, or a healthy holder could be taken
/// for a lapsed one by a leader that is ahead.
const CLOCK_OFFSET_MAX: i64 = 15;

/// What goes wrong with a process.
#[derive(Clone, Copy, Debug)]
enum ProcessFault {
    KillLeader,
    KillAny,
    KillAll,
    StopLeader,
    StopAny,
    Restart,
    ClockOff,
}

const PROCESS_FAULTS: [ProcessFault; 7] = [
    ProcessFault::KillLeader,
    ProcessFault::KillAny,
    ProcessFault::KillAll,
    ProcessFault::StopLeader,
    ProcessFault::StopAny,
    ProcessFault::Restart,
    ProcessFault::ClockOff,
];

/// What goes wrong between processes. It may last while one of them goes down.
#[derive(Clone, Copy, Debug)]
enum LinkFault {
    CutPair,
    CutOneWay,
    CutOff,
    Deaf,
    Mute,
    Slow,
    Lossy,
    Unreachable,
    Unheard,
}

/// What relays can do.
const STREAM_FAULTS: [LinkFault; 6] = [
    LinkFault::CutPair,
    LinkFault::CutOneWay,
    LinkFault::CutOff,
    LinkFault::Deaf,
    LinkFault::Mute,
    LinkFault::Slow,
];

/// What can only be done to packets.
const PACKET_FAULTS: [LinkFault; 3] =
    [LinkFault::Lossy, LinkFault::Unreachable, LinkFault::Unheard];

/// One run at a time, or each would be the other's noise.
static ALONE: Mutex<()> = Mutex::const_new(());

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_fault_of_processes_clocks_or_packets_yields_two_first_claims() {
    let _alone = ALONE.lock().await;
    let length = length().expect("FIRSTCLAIM_CHAOS_MINUTES is a number of minutes");
    let test = "no_fault_of_processes_clocks_or_packets_yields_two_first_claims";
    match hosts::enter(test, length + AROUND).await.unwrap_or_else(|fault| panic!("{fault}")) {
        Ground::Own => {
            let cluster = Cluster::prepare_on_hosts("chaos").expect("three hosts and a binary");
            run(cluster, length).await.unwrap_or_else(|fault| panic!("{fault}"));
        }
        Ground::Passed => {}
        Ground::Impossible(why) => {
            say(&format!("chaos: SKIPPED, no packet was lost, relays for the whole time: {why}"));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_fault_of_processes_clocks_or_links_yields_two_first_claims() {
    let _alone = ALONE.lock().await;
    let all = length().expect("FIRSTCLAIM_CHAOS_MINUTES is a number of minutes");
    let hindrance = hosts::hindrance().expect("to know whether there can be hosts");
    let length = if hindrance.is_some() { all } else { all.min(SHORT) };
    let cluster = Cluster::prepare_linked("chaos").expect("links and a binary");
    run(cluster, length).await.unwrap_or_else(|fault| panic!("{fault}"));
}

async fn run(mut cluster: Cluster, length: Duration) -> Outcome<()> {
    let seed = seed::take("chaos")?;
    match story(&mut cluster, seed, length).await {
        Ok((raced, _)) if raced < 100 => Err(format!("only {raced} keys were raced for").into()),
        Ok((_, done)) if done < 3 => Err(format!("only {done} faults").into()),
        Ok(_) => Ok(()),
        Err(fault) => Err(cluster.explain(&fault).into()),
    }
}

fn length() -> Outcome<Duration> {
    match env::var("FIRSTCLAIM_CHAOS_MINUTES") {
        Ok(text) => Ok(Duration::from_secs(60 * text.parse::<u64>()?.min(MINUTES_MAX))),
        Err(_) => Ok(SHORT),
    }
}

async fn story(cluster: &mut Cluster, seed: u64, length: Duration) -> Outcome<(usize, u64)> {
    for at in 0..cluster.nodes().len() {
        cluster.start_node(at)?;
    }
    cluster.wait_ready().await?;
    race::set_up(cluster).await?;
    let race = Race::start(cluster, seed, LANES);
    let mut chaos = Chaos {
        chance: seed::chance(seed, 0),
        clock: clock_offset(cluster)?,
        done: BTreeMap::new(),
    };
    let start = Instant::now();
    race.progress(20, RECOVERS_WITHIN).await?;
    while start.elapsed() < length {
        chaos.strike(cluster).await?;
        race.progress(15, RECOVERS_WITHIN).await?;
    }
    let done: u64 = chaos.done.values().sum();
    say(&format!("chaos: {done} faults in {} s: {:?}", start.elapsed().as_secs(), chaos.done));
    let raced = verdict::judge("chaos", cluster, race).await?;
    Ok((raced, done))
}

/// Compiles what shows a process another wall clock.
fn clock_offset(cluster: &Cluster) -> Outcome<PathBuf> {
    let library = cluster.folder().ok_or("the cluster has no folder")?.join("clock_offset.so");
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&library)
        // Tests run in the folder of their crate.
        .args(["clock_offset.c", "-ldl"])
        .status()?;
    if status.success() { Ok(library) } else { Err(format!("cc: {status}").into()) }
}

struct Chaos {
    chance: StdRng,
    clock: PathBuf,
    /// How often, by name.
    done: BTreeMap<String, u64>,
}

impl Chaos {
    /// One fault, or one of the network and one of a process together; healed at the end.
    async fn strike(&mut self, cluster: &mut Cluster) -> Outcome<()> {
        let links = cluster.links().ok_or("no links")?;
        let of_packets: &[LinkFault] = if links.loses_packets() { &PACKET_FAULTS } else { &[] };
        let link =
            *[&STREAM_FAULTS, of_packets].concat().choose(&mut self.chance).ok_or("no faults")?;
        let process = *PROCESS_FAULTS.choose(&mut self.chance).ok_or("no faults")?;
        match self.chance.random_range(0..4) {
            0 => {
                self.links(cluster, link).await?;
                self.process(cluster, process).await?;
                self.pause(500, 3_000).await;
            }
            1 => {
                self.links(cluster, link).await?;
                self.pause(500, 6_000).await;
            }
            _ => self.process(cluster, process).await?,
        }
        cluster.links().ok_or("no links")?.heal();
        cluster.wait_ready().await
    }

    fn note(&mut self, fault: impl std::fmt::Debug, what: &str) {
        *self.done.entry(format!("{fault:?}")).or_default() += 1;
        say(&format!("chaos: {fault:?} {what}"));
    }

    async fn links(&mut self, cluster: &Cluster, fault: LinkFault) -> Outcome<()> {
        // The leader half of the time: that is where it hurts.
        let ids: Vec<u64> = cluster.nodes().iter().map(|node| node.id).collect();
        let id = if self.chance.random_bool(0.5) {
            cluster.node(cluster.leader().await?).id
        } else {
            *ids.choose(&mut self.chance).ok_or("no nodes")?
        };
        let others: Vec<u64> = ids.into_iter().filter(|other| *other != id).collect();
        let other = *others.choose(&mut self.chance).ok_or("no other node")?;
        let links = cluster.links().ok_or("no links")?;
        let what = match fault {
            LinkFault::CutPair => {
                links.cut(id, other, true);
                links.cut(other, id, true);
                format!("{id} and {other}")
            }
            LinkFault::CutOneWay => {
                links.cut(id, other, true);
                format!("{id} to {other}")
            }
            LinkFault::CutOff => {
                for other in others {
                    links.cut(id, other, true);
                    links.cut(other, id, true);
                }
                format!("{id}")
            }
            LinkFault::Deaf => {
                for other in others {
                    links.cut(other, id, true);
                }
                format!("{id}")
            }
            LinkFault::Mute => {
                for other in others {
                    links.cut(id, other, true);
                }
                format!("{id}")
            }
            LinkFault::Slow => {
                let delay = Duration::from_millis(self.chance.random_range(5..250));
                for (from, to) in links.around(id) {
                    links.delay(from, to, delay);
                }
                format!("{id} by {} ms", delay.as_millis())
            }
            LinkFault::Lossy => {
                let loss = self.chance.random_range(10..300);
                for (from, to) in links.around(id) {
                    links.lose(from, to, loss);
                }
                format!("{id}, {loss} of 1000 packets")
            }
            LinkFault::Unreachable => {
                links.cut(CLIENT, id, true);
                format!("{id}")
            }
            LinkFault::Unheard => {
                links.cut(id, CLIENT, true);
                format!("{id}")
            }
        };
        self.note(fault, &what);
        Ok(())
    }

    async fn process(&mut self, cluster: &mut Cluster, fault: ProcessFault) -> Outcome<()> {
        let of_the_leader = matches!(fault, ProcessFault::KillLeader | ProcessFault::StopLeader);
        let at = if of_the_leader {
            // There may be none while links are cut.
            cluster.leader().await.unwrap_or(0)
        } else {
            self.chance.random_range(0..cluster.nodes().len())
        };
        let id = cluster.node(at).id;
        match fault {
            ProcessFault::KillLeader | ProcessFault::KillAny => {
                self.note(fault, &format!("{id}"));
                cluster.node_mut(at).kill();
                self.pause(0, 3_000).await;
                cluster.start_node(at)
            }
            ProcessFault::KillAll => {
                self.note(fault, "");
                cluster.kill_all();
                self.pause(0, 1_500).await;
                for at in 0..cluster.nodes().len() {
                    cluster.start_node(at)?;
                }
                Ok(())
            }
            ProcessFault::StopLeader | ProcessFault::StopAny => {
                let process = cluster.node_mut(at).process().ok_or("it does not run")?;
                process.signal("STOP")?;
                let ms = *[50, 400, 1_500, 6_000].choose(&mut self.chance).ok_or("no times")?;
                self.note(fault, &format!("{id} for {ms} ms"));
                sleep(Duration::from_millis(ms)).await;
                cluster.node_mut(at).process().ok_or("it does not run")?.signal("CONT")
            }
            ProcessFault::Restart => {
                self.note(fault, &format!("{id}"));
                cluster.node_mut(at).stop().await?;
                self.pause(0, 1_000).await;
                cluster.start_node(at)
            }
            ProcessFault::ClockOff => {
                let offset = self.chance.random_range(-CLOCK_OFFSET_MAX..=CLOCK_OFFSET_MAX);
                self.note(fault, &format!("{id} by {offset} s"));
                let environment = [
                    ("LD_PRELOAD".to_owned(), self.clock.display().to_string()),
                    ("CLOCK_OFFSET_SECONDS".to_owned(), offset.to_string()),
                ];
                cluster.node_mut(at).set_environment(BTreeMap::from(environment));
                cluster.node_mut(at).kill();
                cluster.start_node(at)
            }
        }
    }

    async fn pause(&mut self, from_ms: u64, to_ms: u64) {
        sleep(Duration::from_millis(self.chance.random_range(from_ms..=to_ms))).await;
    }
}
