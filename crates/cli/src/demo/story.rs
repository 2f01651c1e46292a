//! The course of the demo: who starts what, when the leader dies, and what is printed meanwhile.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use firstclaim_client::{Client, ClientConfig, ConfigError};
use firstclaim_server::dev::{DevCluster, DevError, DevOptions, Ports, Region};
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep};

use super::bank::Bank;
use super::queue::Queue;
use super::report::{Agreement, Failover, Report};
use super::schedule::Schedule;
use super::tally::Tally;
use super::worker::{Scene, Worker};

/// How often the director looks.
const LOOK: Duration = Duration::from_millis(20);
/// How often progress is printed.
const PROGRESS: Duration = Duration::from_secs(1);
/// How long a killed node stays down at least.
const DOWN_MIN: Duration = Duration::from_secs(2);
/// One call of a worker, with the client's own repeats. Short, so that the worker sees for itself
/// that an answer is lost.
const CALL_TIMEOUT: Duration = Duration::from_millis(1_500);
const TRY_TIMEOUT: Duration = Duration::from_millis(500);
/// How often the states of all nodes are read to find them at one index.
const COMPARISONS: usize = 50;

/// What the demo is asked to do.
#[derive(Clone, Debug)]
pub(crate) struct DemoOptions {
    pub(crate) workers: usize,
    pub(crate) intents: usize,
    /// From one intent to the next.
    pub(crate) pace: Duration,
    /// Where the schedule and the lost answers come from.
    pub(crate) seed: u64,
    /// After this time the demo has failed.
    pub(crate) limit: Duration,
}

impl Default for DemoOptions {
    fn default() -> Self {
        Self {
            workers: 50,
            intents: 200,
            pace: Duration::from_millis(25),
            seed: rand::random(),
            limit: Duration::from_secs(90),
        }
    }
}

/// Why the demo came to no verdict.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DemoError {
    /// An option is out of bounds.
    #[error("{option} is {value}; use {bounds}")]
    Option { option: &'static str, value: usize, bounds: &'static str },
    /// The cluster failed.
    #[error(transparent)]
    Cluster(#[from] DevError),
    /// A client could not be made.
    #[error("set up a client")]
    Client(#[from] ConfigError),
    /// A worker ended by itself.
    #[error("wait for a worker")]
    Worker(#[from] JoinError),
    /// The story could not be told.
    #[error("write to the terminal")]
    Output(#[from] io::Error),
    /// It took too long.
    #[error(
        "the demo did not end within {} s, with {paid} payments for {intents} intents; \
         repeat it with --seed {seed}", .limit.as_secs()
    )]
    TimedOut { limit: Duration, paid: usize, intents: usize, seed: u64 },
}

/// Runs the demo, tells it to `out`, and returns the verdict.
///
/// # Errors
///
/// [`DemoError`] if there is no verdict. A ledger with a wrong payment is a verdict: look at
/// [`Report::succeeded`].
pub(crate) async fn run_demo(
    options: DemoOptions,
    out: &mut (dyn Write + Send),
) -> Result<Report, DemoError> {
    check(&options)?;
    let scene = Arc::new(Scene {
        schedule: Schedule::new(options.seed, options.intents, options.pace),
        queue: Queue::default(),
        bank: Bank::default(),
        tally: Tally::default(),
    });
    let story = Box::pin(play(&options, Arc::clone(&scene), out));
    let Ok(report) = tokio::time::timeout(options.limit, story).await else {
        let paid = scene.bank.payments();
        let DemoOptions { limit, intents, seed, .. } = options;
        return Err(DemoError::TimedOut { limit, paid, intents, seed });
    };
    let report = report?;
    write!(out, "\n{report}")?;
    for fault in report.faults() {
        writeln!(out, "  FAULT  {fault}")?;
    }
    let verdict = if report.succeeded() {
        "Every payout was paid exactly once."
    } else {
        "FAILED: not every payout was paid exactly once."
    };
    writeln!(out, "\n{verdict}")?;
    Ok(report)
}

fn check(options: &DemoOptions) -> Result<(), DemoError> {
    let bounded = |option, value, bounds: &'static str, ok: bool| {
        if ok { Ok(()) } else { Err(DemoError::Option { option, value, bounds }) }
    };
    let (workers, intents) = (options.workers, options.intents);
    bounded("workers", workers, "1 to 500", (1..=500).contains(&workers))?;
    bounded("intents", intents, "2 to 10000", (2..=10_000).contains(&intents))
}

async fn play(
    options: &DemoOptions,
    scene: Arc<Scene>,
    out: &mut (dyn Write + Send),
) -> Result<Report, DemoError> {
    let deliveries = scene.schedule.deliveries.len();
    writeln!(
        out,
        "{} workers in three regions race {} payouts; the queue delivers {deliveries} messages, \
         each payout 2 to 4 times.\nThe bank pays each time it is called. Seed {}.\n",
        options.workers, options.intents, options.seed
    )?;
    let dev = DevOptions { ports: Ports::Free, ..DevOptions::default() };
    let cluster = DevCluster::start(&dev).await?;
    let leader = cluster.wait_ready().await?;
    for region in Region::ALL {
        let role = if region == leader { "leader" } else { "follower" };
        writeln!(out, "  {region:<10}{role:<10}{}", cluster.addresses(region).grpc)?;
    }
    writeln!(out)?;
    out.flush()?;

    scene.queue.open(&scene.schedule);
    let mut workers = hire(options, &scene, &cluster)?;
    let mut director = Director::new(options, &scene, cluster, out);
    director.watch(&mut workers).await?;
    director.end().await
}

fn hire(
    options: &DemoOptions,
    scene: &Arc<Scene>,
    cluster: &DevCluster,
) -> Result<JoinSet<()>, DemoError> {
    let mut workers = JoinSet::new();
    for number in 0..options.workers {
        let region = Region::ALL[number % Region::ALL.len()];
        let config = ClientConfig {
            try_timeout: TRY_TIMEOUT,
            ..ClientConfig::new(cluster.endpoints_near(region)).with_timeout(CALL_TIMEOUT)
        };
        let worker = Worker {
            scene: Arc::clone(scene),
            client: Client::lazy(config)?,
            name: format!("{region}/w{number:02}"),
            random: StdRng::seed_from_u64(options.seed.wrapping_add(1 + number as u64)),
        };
        workers.spawn(worker.run());
    }
    Ok(workers)
}

/// Watches the workers, kills the leader, starts it again, and says so.
struct Director<'a> {
    options: &'a DemoOptions,
    scene: &'a Scene,
    cluster: DevCluster,
    out: &'a mut (dyn Write + Send),
    began: Instant,
    next_progress: Instant,
    act: Act,
    failover: Option<Failover>,
}

/// Where the story is.
#[derive(Clone, Copy, Debug)]
enum Act {
    AllUp,
    Leaderless { killed: Region, at: Instant, claims_held: u64 },
    OneDown { killed: Region, at: Instant },
    AllBack,
}

impl<'a> Director<'a> {
    fn new(
        options: &'a DemoOptions,
        scene: &'a Scene,
        cluster: DevCluster,
        out: &'a mut (dyn Write + Send),
    ) -> Self {
        let began = Instant::now();
        let next_progress = began + PROGRESS;
        Self { options, scene, cluster, out, began, next_progress, act: Act::AllUp, failover: None }
    }

    async fn watch(&mut self, workers: &mut JoinSet<()>) -> Result<(), DemoError> {
        loop {
            tokio::select! {
                ended = workers.join_next() => match ended {
                    Some(ended) => ended?,
                    None => return Ok(()),
                },
                () = sleep(LOOK) => self.look().await?,
            }
        }
    }

    async fn look(&mut self) -> Result<(), DemoError> {
        self.act = self.next_act(self.act).await?;
        if Instant::now() >= self.next_progress {
            self.next_progress += PROGRESS;
            self.progress()?;
        }
        Ok(())
    }

    async fn next_act(&mut self, act: Act) -> Result<Act, DemoError> {
        let (paid, intents) = (self.scene.bank.payments(), self.options.intents);
        match act {
            Act::AllUp if paid * 2 >= intents => self.kill_leader().await,
            Act::Leaderless { killed, at, claims_held } => {
                let Some(leader) = self.cluster.leader().await else { return Ok(act) };
                let took = at.elapsed();
                self.say(&format!("{leader} leads, {:.2} s after the kill", took.as_secs_f64()))?;
                let (killed_name, new_leader) = (killed.to_string(), leader.to_string());
                self.failover =
                    Some(Failover { killed: killed_name, claims_held, new_leader, took });
                Ok(Act::OneDown { killed, at })
            }
            Act::OneDown { killed, at } if at.elapsed() >= DOWN_MIN => {
                self.restart(killed).await?;
                Ok(Act::AllBack)
            }
            Act::AllUp | Act::OneDown { .. } | Act::AllBack => Ok(act),
        }
    }

    async fn kill_leader(&mut self) -> Result<Act, DemoError> {
        // No leader at the moment, as after a hiccup of the machine: look again.
        let Some(killed) = self.cluster.leader().await else { return Ok(Act::AllUp) };
        let claims_held = self.scene.tally.read().held;
        let at = Instant::now();
        self.cluster.kill(killed).await?;
        self.say(&format!("KILLED {killed}, the leader, with {claims_held} claims held"))?;
        Ok(Act::Leaderless { killed, at, claims_held })
    }

    async fn restart(&mut self, killed: Region) -> Result<(), DemoError> {
        self.cluster.restart(killed).await?;
        self.say(&format!("RESTARTED {killed} on its data"))
    }

    fn progress(&mut self) -> Result<(), DemoError> {
        let counts = self.scene.tally.read();
        let line = format!(
            "paid {:>4} of {}   deliveries {:>4}   first claims {:>4}   replays {:>4}   pending {:>4}",
            self.scene.bank.payments(),
            self.options.intents,
            self.scene.queue.handed_out(),
            counts.first_claims,
            counts.replays,
            counts.pending
        );
        self.say(&line)
    }

    fn say(&mut self, text: &str) -> Result<(), DemoError> {
        writeln!(self.out, "  {:>5.1} s  {text}", self.began.elapsed().as_secs_f64())?;
        Ok(self.out.flush()?)
    }

    /// Brings the story to its end: everything up again, states compared, ledger read.
    async fn end(mut self) -> Result<Report, DemoError> {
        while !matches!(self.act, Act::AllBack | Act::AllUp) {
            self.look().await?;
            sleep(LOOK).await;
        }
        self.cluster.wait_ready().await?;
        let agreement = self.compare().await?;
        let elapsed = self.began.elapsed();
        self.progress()?;
        self.cluster.shutdown().await;
        Ok(Report {
            seed: self.options.seed,
            workers: self.options.workers,
            intents: self.options.intents,
            deliveries: self.scene.queue.handed_out(),
            counts: self.scene.tally.read(),
            audit: self.scene.bank.audit(&self.scene.schedule.intents),
            failover: self.failover,
            agreement,
            elapsed,
        })
    }

    /// Reads the state hash of every node until all are at one log index.
    async fn compare(&self) -> Result<Option<Agreement>, DemoError> {
        let endpoints = self.cluster.endpoints();
        let client = Client::lazy(ClientConfig::new(endpoints.clone()))?;
        for _ in 0..COMPARISONS {
            let mut hashes = Vec::new();
            for endpoint in &endpoints {
                match client.state_hash_at(endpoint).await {
                    Ok(hash) => hashes.push((hash.applied_index, hash.sha256)),
                    Err(error) => tracing::debug!(endpoint, %error, "read a state hash"),
                }
            }
            if let [(index, one), (second, two), (third, three)] = hashes.as_slice()
                && index == second
                && index == third
            {
                let equal = one == two && one == three;
                return Ok(Some(Agreement { index: *index, equal }));
            }
            sleep(LOOK).await;
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::{DemoError, DemoOptions, Duration, run_demo};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_small_demo_pays_every_intent_once_through_a_killed_leader() {
        let options = DemoOptions {
            workers: 8,
            intents: 20,
            seed: 20_260_101,
            limit: Duration::from_secs(60),
            ..DemoOptions::default()
        };
        let mut told = Vec::new();
        let report = run_demo(options, &mut told).await;
        let told = String::from_utf8(told).unwrap();
        let report = report.unwrap_or_else(|error| panic!("{error:?}\n{told}"));
        assert!(report.succeeded(), "{told}");
        assert_eq!(report.audit.receipts.len(), 20, "{told}");
        let failover = report.failover.expect("the leader was killed");
        assert_ne!(failover.killed, failover.new_leader, "{told}");
        assert_eq!(report.counts.first_claims, 20, "{told}");
        assert!(told.contains("Every payout was paid exactly once."), "{told}");
    }

    #[tokio::test]
    async fn options_out_of_bounds_are_named() {
        for (workers, intents, option) in
            [(0, 20, "workers"), (501, 20, "workers"), (5, 1, "intents")]
        {
            let options = DemoOptions { workers, intents, ..DemoOptions::default() };
            let error = run_demo(options, &mut Vec::new()).await.unwrap_err();
            assert!(matches!(error, DemoError::Option { .. }));
            assert!(error.to_string().starts_with(option), "{error}");
        }
    }
}
