//! One run: faults, then calm, then judgement.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use firstclaim_replica::simulated::Logged;
use tokio::time::{Instant, sleep, timeout};

use crate::chance::Chance;
use crate::checks;
use crate::client::Caller;
use crate::faults::{Family, Swarm};
use crate::history::{Call, History};
use crate::reach::{Mark, Reached};
use crate::trace::Trace;
use crate::world::{Cluster, Told};

/// How long faults strike.
const SAFETY: Duration = Duration::from_secs(56);
/// How long a healed cluster may take to serve, and to agree.
const LIVENESS: Duration = Duration::from_secs(20);
/// Workers at a time.
const CALLERS: u64 = 6;

/// All that is known of a run once it is over.
#[derive(Debug)]
pub struct Evidence {
    /// The faults.
    pub swarm: Swarm,
    /// What callers asked and were told.
    pub calls: Vec<Call>,
    /// The committed entries, in order.
    pub log: Vec<Logged>,
    /// What was seen of the nodes.
    pub told: Told,
    /// When the faults ended, in microseconds.
    pub calm_at: u64,
    /// How long the first claim after them took, in milliseconds; none if it never came.
    pub alive_after: Option<u64>,
    /// Whether all nodes came to one state.
    pub agreed: bool,
}

/// What came of a run.
#[derive(Debug)]
pub struct Report {
    /// Its seed.
    pub seed: u64,
    /// All that was wrong.
    pub faults: Vec<String>,
    /// All that happened, as one number.
    pub trace: u64,
    /// How many events that were.
    pub events: u64,
    /// Messages between nodes.
    pub messages: u64,
    /// Simulated time, in microseconds.
    pub simulated: u64,
    /// Calls.
    pub calls: u64,
    /// Histories of single keys that were checked.
    pub histories: u64,
    /// Entries that were replayed.
    pub entries: u64,
    /// Elections won.
    pub leader_changes: u64,
    /// Starts of processes, the first ones aside.
    pub restarts: u64,
    /// Panics of openraft that are known to do no harm.
    pub known_panics: u64,
    /// Faults by family.
    pub struck: BTreeMap<Family, u64>,
    /// What was come to see.
    pub reached: BTreeMap<Mark, u64>,
}

/// What openraft is known to panic with, without harm: the stream of a leader that was deposed is still there
/// when its log has been cut by the next one. It asserts then that a range is not reversed, by index, which
/// it has made sure of by log id only (its pull request 1793). A process that serves ends, and starts again.
const KNOWN_PANIC: &str = "read_log_entries received reversed range";

thread_local! {
    /// What panicked on this thread.
    static PANICS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Keeps what panics say, instead of printing it.
pub fn listen_to_panics() {
    std::panic::set_hook(Box::new(|info| {
        let what = format!("{info}");
        PANICS.with(|panics| panics.borrow_mut().push(what));
    }));
}

/// A folder for one run, gone with it.
struct Folder(PathBuf);

impl Folder {
    fn new(seed: u64) -> Self {
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
        let name = format!("firstclaim-{}-{seed}", std::process::id());
        let folder = Self(parent.join(name));
        folder.clear();
        folder
    }

    fn clear(&self) {
        // What is not there need not be removed.
        drop(std::fs::remove_dir_all(&self.0));
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Whether one seed gives one run: whom a channel of tokio wakes first is left to chance, and only with
/// `--cfg tokio_unstable` is that ours.
pub const REPEATS: bool = cfg!(tokio_unstable);

/// A runtime on one thread, whose clock stands still until nobody has anything to do.
#[cfg_attr(not(tokio_unstable), expect(unused_variables, reason = "see `REPEATS`"))]
fn seeded(seed: u64) -> tokio::runtime::Builder {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true);
    #[cfg(tokio_unstable)]
    builder.rng_seed(tokio::runtime::RngSeed::from_bytes(&seed.to_le_bytes()));
    builder
}

/// Runs a seed.
///
/// # Panics
///
/// If there can be no runtime.
#[must_use]
pub fn run(seed: u64, tell: bool) -> Report {
    PANICS.with(|panics| panics.borrow_mut().clear());
    let folder = Folder::new(seed);
    #[expect(clippy::expect_used, reason = "without it there is nothing to run")]
    let runtime = seeded(seed).build().expect("a runtime");
    let reached = Reached::default();
    let (evidence, mut report) = runtime.block_on(simulate(seed, tell, &folder.0, &reached));
    drop(runtime);
    report.faults = checks::judge(&evidence, &mut report, &reached);
    let panics = PANICS.with(|panics| std::mem::take(&mut *panics.borrow_mut()));
    let (known, unknown): (Vec<_>, Vec<_>) =
        panics.into_iter().partition(|panic| panic.contains(KNOWN_PANIC));
    report.known_panics = known.len() as u64;
    report.faults.extend(unknown.into_iter().map(|panic| format!("panic: {panic}")));
    report.reached = reached.counts();
    report
}

async fn simulate(seed: u64, tell: bool, dir: &Path, reached: &Reached) -> (Evidence, Report) {
    let started = Instant::now();
    let chance = Chance::new(seed);
    let trace = Trace::new(tell);
    let swarm = Swarm::new(&chance);
    trace.tell(|| format!("seed {seed}: {swarm:?}"));
    let cluster = Cluster::new(swarm.clone(), dir.to_path_buf(), &chance, (&trace, reached));
    let history = History::default();
    let caller = |number| Caller { number, cluster: cluster.clone(), history: history.clone() };
    for id in cluster.ids() {
        cluster.start(id).await;
    }
    let watching = {
        let cluster = cluster.clone();
        tokio::spawn(async move { watch(&cluster).await })
    };
    let mut founded = true;
    if timeout(LIVENESS, caller(0).found()).await.is_err() {
        cluster.complain("a new cluster does not come to serve".to_owned());
        founded = false;
    }
    if founded {
        let mut tasks: Vec<_> = (1..=CALLERS)
            .map(|number| {
                let caller = caller(number);
                tokio::spawn(async move { caller.work().await })
            })
            .collect();
        let sweeper = caller(CALLERS + 1);
        tasks.push(tokio::spawn(async move { sweeper.sweep().await }));
        let prying = caller(CALLERS + 3);
        tasks.push(tokio::spawn(async move { prying.pry().await }));
        // What strikes may be dropped in the middle, but never what it has begun with a machine.
        let until = Instant::now() + SAFETY;
        while Instant::now() < until {
            let wait = chance.between(swarm.every / 4, 2 * swarm.every);
            sleep(Duration::from_millis(wait)).await;
            let family = chance.weighted(&swarm.families);
            trace.tell(|| format!("fault {family:?}"));
            cluster.strike(family).await;
        }
        let calm_at = trace.now();
        cluster.calm().await;
        let alive_after = timeout(LIVENESS, caller(CALLERS + 2).prove_alive(seed % 1_000)).await;
        sleep(Duration::from_secs(3)).await;
        tasks.iter().for_each(tokio::task::JoinHandle::abort);
        let agreed = timeout(LIVENESS, agree(&cluster)).await.is_ok();
        watching.abort();
        let evidence = gather(&cluster, &history, calm_at, alive_after.ok().flatten(), agreed);
        let report = report(seed, &cluster, &evidence, started);
        cluster.end().await;
        return (evidence, report);
    }
    watching.abort();
    let evidence = gather(&cluster, &history, trace.now(), None, false);
    let report = report(seed, &cluster, &evidence, started);
    cluster.end().await;
    (evidence, report)
}

/// Looks at the nodes now and then, and hashes what is in them.
async fn watch(cluster: &Cluster) {
    for round in 0_u64.. {
        sleep(Duration::from_millis(50)).await;
        cluster.look();
        if round % 20 == 0 {
            for id in cluster.ids() {
                cluster.hash(id).await;
            }
        }
    }
}

/// Waits until all nodes are at one entry; their hashes are compared later.
async fn agree(cluster: &Cluster) {
    loop {
        let mut at = Vec::new();
        for id in cluster.ids() {
            at.push(cluster.hash(id).await.map(|(index, _)| index));
        }
        if at.iter().all(|index| index.is_some() && *index == at[0]) {
            return;
        }
        sleep(Duration::from_millis(100)).await;
    }
}

fn gather(
    cluster: &Cluster,
    history: &History,
    calm_at: u64,
    alive_after: Option<u64>,
    agreed: bool,
) -> Evidence {
    cluster.look();
    let mut log = Vec::new();
    for (index, bytes) in cluster.told().committed {
        match Logged::decode(index, &bytes) {
            Ok(entry) => log.push(entry),
            Err(reason) => cluster.complain(format!("entry {index} of the log: {reason}")),
        }
    }
    Evidence {
        swarm: cluster.swarm().clone(),
        calls: history.calls(),
        log,
        told: cluster.told(),
        calm_at,
        alive_after,
        agreed,
    }
}

fn report(seed: u64, cluster: &Cluster, evidence: &Evidence, started: Instant) -> Report {
    let simulated = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
    Report {
        seed,
        faults: Vec::new(),
        trace: cluster.trace().hash(),
        events: cluster.trace().events(),
        messages: cluster.network().messages(),
        simulated,
        calls: evidence.calls.len() as u64,
        histories: 0,
        entries: 0,
        leader_changes: 0,
        restarts: evidence.told.restarts,
        known_panics: 0,
        struck: evidence.told.faults.clone(),
        reached: BTreeMap::new(),
    }
}
