//! Runs seeds, and says what they came to.
//!
//! ```text
//! firstclaim-cluster-sim --seeds 300 --from 1     seeds 1 to 300
//! firstclaim-cluster-sim --seed 17                one seed, with all that happens in it
//! firstclaim-cluster-sim --twice 20               20 seeds, each two times: is it the same run?
//! firstclaim-cluster-sim planted [NAME ...]       each planted bug: which seed finds it?
//! ```

#![expect(clippy::print_stdout, reason = "this is a command")]

use std::collections::BTreeMap;
use std::process::ExitCode;

use firstclaim_cluster_sim::faults::Family;
use firstclaim_cluster_sim::reach::{MARKS, Mark};
use firstclaim_cluster_sim::run::{self, Report};
use firstclaim_core::planted::{self, Place, Planted};

/// Seeds that a planted bug must be found within.
const PLANTED_SEEDS: u64 = 500;

/// From so many seeds on is a planted bug looked for, so far apart.
const STARTS: u64 = 5;
const START_DISTANCE: u64 = 1_000;

const USAGE: &str = "usage: firstclaim-cluster-sim [--seeds N] [--from S] [--seed S] [--twice N] \
                     [--bug NAME] [planted [NAME ...]]";

#[derive(Debug, Default)]
struct Asked {
    seeds: Option<u64>,
    from: Option<u64>,
    seed: Option<u64>,
    twice: Option<u64>,
    bug: Option<String>,
    quiet: bool,
    planted: Option<Vec<String>>,
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<Asked, String> {
    let mut asked = Asked::default();
    while let Some(arg) = args.next() {
        let mut number = || {
            let text = args.next().ok_or_else(|| format!("{arg} needs a number"))?;
            text.parse().map_err(|_bad| format!("{arg}: {text:?} is no number"))
        };
        match arg.as_str() {
            "--seeds" => asked.seeds = Some(number()?),
            "--from" => asked.from = Some(number()?),
            "--seed" => asked.seed = Some(number()?),
            "--twice" => asked.twice = Some(number()?),
            "--quiet" => asked.quiet = true,
            "--bug" => asked.bug = args.next(),
            "planted" => asked.planted = Some(args.by_ref().collect()),
            _ => return Err(format!("{arg:?} is not known\n{USAGE}")),
        }
    }
    Ok(asked)
}

fn main() -> ExitCode {
    let asked = match parse(std::env::args().skip(1)) {
        Ok(asked) => asked,
        Err(fault) => {
            println!("{fault}");
            return ExitCode::FAILURE;
        }
    };
    if !run::REPEATS {
        println!("this was built without RUSTFLAGS=\"--cfg tokio_unstable\": no seed would repeat");
        return ExitCode::FAILURE;
    }
    run::listen_to_panics();
    if let Some(name) = &asked.bug {
        let Some(bug) = planted::named(name) else {
            println!("no bug is called {name:?}");
            return ExitCode::FAILURE;
        };
        planted::plant(Some(bug));
    }
    let from = asked.from.unwrap_or(1);
    let good = if let Some(names) = &asked.planted {
        plant_all(names, from, asked.seeds.unwrap_or(PLANTED_SEEDS))
    } else if let Some(seed) = asked.seed {
        one(seed, !asked.quiet)
    } else if let Some(seeds) = asked.twice {
        twice(from, seeds)
    } else {
        many(from, asked.seeds.unwrap_or(20), asked.bug.as_deref())
    };
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs one seed with all that happens.
fn one(seed: u64, tell: bool) -> bool {
    let report = run::run(seed, tell);
    println!("{report:#?}");
    report.faults.is_empty()
}

/// CPU time of this process, in seconds.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok());
    // User and system time, in hundredths of a second on every Linux.
    (ticks(11).unwrap_or_default() + ticks(12).unwrap_or_default()) / 100.0
}

#[derive(Debug, Default)]
struct Sum {
    seeds: u64,
    failed: Vec<u64>,
    simulated: u64,
    events: u64,
    messages: u64,
    calls: u64,
    histories: u64,
    entries: u64,
    leader_changes: u64,
    restarts: u64,
    known_panics: u64,
    struck: BTreeMap<Family, u64>,
    reached: BTreeMap<Mark, u64>,
}

impl Sum {
    fn add(&mut self, report: &Report) {
        self.seeds += 1;
        self.simulated += report.simulated;
        self.events += report.events;
        self.messages += report.messages;
        self.calls += report.calls;
        self.histories += report.histories;
        self.entries += report.entries;
        self.leader_changes += report.leader_changes;
        self.restarts += report.restarts;
        self.known_panics += report.known_panics;
        for (family, times) in &report.struck {
            *self.struck.entry(*family).or_default() += times;
        }
        for (mark, times) in &report.reached {
            *self.reached.entry(*mark).or_default() += times;
        }
        if !report.faults.is_empty() {
            self.failed.push(report.seed);
        }
    }

    fn tell(&self, cpu: f64) {
        let simulated = self.simulated / 1_000_000;
        let speed = self.simulated as f64 / 1_000_000.0 / cpu.max(0.01);
        println!("seeds            {}", self.seeds);
        println!("simulated        {simulated} s in {cpu:.1} s of CPU: {speed:.0} to one");
        println!("events           {} ({} messages)", self.events, self.messages);
        println!("faults           {} {:?}", self.struck.values().sum::<u64>(), self.struck);
        println!("leader changes   {}", self.leader_changes);
        println!("restarts         {}", self.restarts);
        println!("known panics     {} of openraft, without harm", self.known_panics);
        println!("calls            {}", self.calls);
        println!(
            "histories        {} of single keys, {} entries replayed",
            self.histories, self.entries
        );
        for mark in MARKS {
            let times = self.reached.get(mark).copied().unwrap_or_default();
            println!("{:>10}  {}", times, mark.says());
        }
    }
}

/// Runs seeds; each must hold, and together they must have come to see everything.
fn many(from: u64, seeds: u64, bug: Option<&str>) -> bool {
    let mut sum = Sum::default();
    let before = cpu_seconds();
    for seed in from..from + seeds {
        let report = run::run(seed, false);
        for fault in &report.faults {
            println!("seed {seed}: {fault}");
        }
        if !report.faults.is_empty() {
            let with = bug.map(|bug| format!(" --bug {bug}")).unwrap_or_default();
            println!("seed {seed}: replay it with: firstclaim-cluster-sim --seed {seed}{with}");
        }
        sum.add(&report);
    }
    sum.tell(cpu_seconds() - before);
    let missed: Vec<&str> = MARKS
        .iter()
        .filter(|mark| !sum.reached.contains_key(mark))
        .map(|mark| mark.says())
        .collect();
    if !missed.is_empty() {
        println!("never seen: {missed:?}");
    }
    println!("failed           {} {:?}", sum.failed.len(), sum.failed);
    // A handful of seeds cannot see everything.
    sum.failed.is_empty() && (missed.is_empty() || seeds < 100)
}

/// Runs each seed two times.
fn twice(from: u64, seeds: u64) -> bool {
    let same = (from..from + seeds)
        .filter(|seed| {
            let (one, other) = (run::run(*seed, false), run::run(*seed, false));
            let same = (one.trace, one.events) == (other.trace, other.events);
            if !same {
                println!("seed {seed}: {:016x} and {:016x}", one.trace, other.trace);
            }
            same
        })
        .count() as u64;
    println!("{same} of {seeds} seeds gave one trace");
    same == seeds
}

/// Plants each bug in turn, and looks from several starts for the first seed that finds it.
fn plant_all(names: &[String], from: u64, seeds: u64) -> bool {
    let mut found: Vec<u64> = Vec::new();
    let mut missed = Vec::new();
    // How many seeds were run from each start at most.
    let mut furthest = vec![0; usize::try_from(STARTS).unwrap_or_default()];
    let bugs = planted::ALL.iter().copied().filter(|bug: &Planted| bug.place() == Place::Replica);
    for bug in bugs.filter(|bug| names.is_empty() || names.iter().any(|name| name == bug.name())) {
        planted::plant(Some(bug));
        let mut took = Vec::new();
        let mut example = String::new();
        for start in 0..STARTS {
            let first = from + start * START_DISTANCE;
            let caught = (first..first + seeds)
                .map(|seed| run::run(seed, false))
                .find(|report| !report.faults.is_empty());
            let Some(report) = caught else { break };
            took.push(report.seed - first + 1);
            if example.is_empty() {
                let says = report.faults[0].lines().next().unwrap_or_default();
                let says: String = says.chars().take(110).collect();
                example = format!("seed {}: {says}", report.seed);
            }
        }
        if (took.len() as u64) < STARTS {
            println!("{:<36} NOT FOUND in {seeds} seeds from a start", bug.name());
            missed.push(bug.name());
            continue;
        }
        for (most, seeds) in furthest.iter_mut().zip(&took) {
            *most = u64::max(*most, *seeds);
        }
        took.sort_unstable();
        let (median, worst) = (took[took.len() / 2], took[took.len() - 1]);
        println!("{:<36} median {median:<3} worst {worst:<3} {example}", bug.name());
        found.push(median);
    }
    planted::plant(None);
    found.sort_unstable();
    let median = found.get(found.len() / 2).copied().unwrap_or_default();
    println!("{} found, median {median} seeds; not found: {missed:?}", found.len());
    // What is found without a bug is no find.
    let starts = (0..STARTS).map(|start| from + start * START_DISTANCE);
    let clean = starts.zip(&furthest).flat_map(|(first, seeds)| first..first + seeds);
    let alarms: Vec<u64> = clean.filter(|seed| !run::run(*seed, false).faults.is_empty()).collect();
    println!("the same seeds without any bug, {furthest:?} from each start; failed: {alarms:?}");
    missed.is_empty() && alarms.is_empty()
}
