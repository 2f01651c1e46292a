//! A share of the seeds of `make sim`: nothing breaks, a seed is the same run every time, and bugs that
//! are put in on purpose are found.
//!
//! `FIRSTCLAIM_SEEDS` runs that many instead of the default; `FIRSTCLAIM_SEED` starts at another one.

use std::env;
use std::sync::{Mutex, PoisonError};

use firstclaim_cluster_sim::run;
use firstclaim_core::planted::{self, Planted};

const SEEDS: u64 = 12;

/// Seeds that once accused the replica of what it had not done.
const ONCE_ACCUSED: [u64; 2] = [139, 10_367];

/// A planted bug is in for the whole process.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn nothing_breaks() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let chosen = number("FIRSTCLAIM_SEED");
    let from = chosen.unwrap_or(1);
    let seeds = number("FIRSTCLAIM_SEEDS").unwrap_or(SEEDS);
    let known = ONCE_ACCUSED.into_iter().filter(|_| chosen.is_none());
    for seed in (from..from + seeds).chain(known) {
        let report = run::run(seed, false);
        assert!(
            report.faults.is_empty(),
            "{:#?}\nreplay with FIRSTCLAIM_SEED={seed} FIRSTCLAIM_SEEDS=1",
            report.faults
        );
        assert!(report.calls >= 500, "seed {seed} is too short to show anything");
        assert!(report.histories > 0 && report.entries > 0, "seed {seed} was not judged");
    }
}

#[test]
fn a_seed_is_the_same_run_every_time() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for seed in 101..=103 {
        let (first, second) = (run::run(seed, false), run::run(seed, false));
        assert_eq!((first.trace, first.events), (second.trace, second.events), "seed {seed}");
        assert_eq!(first.calls, second.calls, "seed {seed}");
    }
}

#[test]
fn a_planted_bug_is_found() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for bug in [Planted::VoteForgotten, Planted::AppliedApart, Planted::ReadDoesNotWait] {
        planted::plant(Some(bug));
        let found = (1..=10).any(|seed| !run::run(seed, false).faults.is_empty());
        planted::plant(None);
        assert!(found, "{}", bug.name());
    }
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}
