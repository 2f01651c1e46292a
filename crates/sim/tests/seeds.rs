//! A share of the seeds of `make sim`: nothing breaks, and a seed is the same run every time.
//!
//! `FIRSTCLAIM_SEEDS` runs that many instead of the default; `FIRSTCLAIM_SEED` starts at another one. A
//! failure prints the shortest log that shows it.

use std::env;

use firstclaim_sim::{Figures, Settings, run, shortest, trace};

const SEEDS: u64 = 150;

#[test]
fn nothing_breaks() {
    let from = number("FIRSTCLAIM_SEED").unwrap_or(1);
    let seeds = number("FIRSTCLAIM_SEEDS").unwrap_or(SEEDS);
    println!("FIRSTCLAIM_SEED={from} FIRSTCLAIM_SEEDS={seeds}");
    let settings = Settings::default();
    let mut figures = Figures::default();
    for seed in from..from + seeds {
        let ended = run(seed, settings);
        figures.merge(&ended.figures);
        if let Some(broken) = ended.broken {
            for line in shortest(seed, settings).iter().flat_map(|short| &short.lines) {
                println!("{line}");
            }
            panic!("{broken}\nreplay with FIRSTCLAIM_SEED={seed} FIRSTCLAIM_SEEDS=1");
        }
    }
    println!("{figures}");
    assert!(figures.least_operations >= 2_000, "a seed is too short to show anything");
    assert!(figures.least_faults >= 20, "a seed is too quiet to show anything");
    if seeds >= SEEDS {
        assert_eq!(figures.never(), [""; 0], "these seeds never got there");
    }
}

#[test]
fn a_seed_is_the_same_run_every_time() {
    for seed in 1..=20 {
        let settings = Settings { operations: 800, ..Settings::default() };
        let (first, second) = (trace(seed, settings), trace(seed, settings));
        assert_eq!(first.hash, second.hash, "seed {seed}");
        assert_eq!(first.lines, second.lines, "seed {seed}");
        assert_eq!(first.figures, second.figures, "seed {seed}");
        assert!(first.lines.len() >= 800, "seed {seed}");
        assert_ne!(first.hash, trace(seed + 1, settings).hash, "seed {seed}");
    }
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}
