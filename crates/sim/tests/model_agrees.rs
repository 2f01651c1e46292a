//! The real implementation and the model answer alike, whatever happens.
//!
//! `FIRSTCLAIM_SEQUENCES` runs that many sequences instead of the default; `FIRSTCLAIM_SEED` starts
//! at another seed. A disagreement prints the shortest sequence that shows it.

mod agree;
#[path = "../../core/tests/support/mod.rs"]
mod memory;
mod shared;

use std::collections::BTreeMap;
use std::env;

use firstclaim_core::Reason;
use firstclaim_sim::ROWS;

use crate::agree::generate::sequence;
use crate::agree::run::Answered;
use crate::agree::shrink::{describe, run, shrink};

const SEQUENCES: u64 = 3_000;

#[test]
fn every_answer_is_the_model_s() {
    let seed = number("FIRSTCLAIM_SEED").unwrap_or(1);
    let sequences = number("FIRSTCLAIM_SEQUENCES").unwrap_or(SEQUENCES);
    println!("FIRSTCLAIM_SEED={seed} FIRSTCLAIM_SEQUENCES={sequences}");
    let mut counts = Counts::default();
    for seed in seed..seed + sequences {
        if let Err(fault) = run(&sequence(seed), |answered| counts.add(answered)) {
            let short = shrink(sequence(seed));
            let fault = run(&short, |_| {}).err().unwrap_or(fault);
            println!("{}", describe(&short, &fault));
            panic!("replay with FIRSTCLAIM_SEED={seed} FIRSTCLAIM_SEQUENCES=1");
        }
    }
    println!("{}", counts.page());
    if sequences >= SEQUENCES {
        let least = if sequences >= 100_000 { 100 } else { 1 };
        let rare = counts.rare(least);
        assert!(rare.is_empty(), "met fewer than {least} times: {rare:#?}");
    }
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}

/// How often each row and each reason was met.
#[derive(Debug, Default)]
struct Counts {
    commands: u64,
    rows: BTreeMap<&'static str, u64>,
    reasons: BTreeMap<&'static str, u64>,
}

impl Counts {
    fn add(&mut self, answered: &Answered) {
        self.commands += 1;
        for row in &answered.rows {
            assert!(ROWS.contains(row), "{row:?} is not among the rows");
            *self.rows.entry(row).or_default() += 1;
        }
        if let Err(refusal) = &answered.outcome.result {
            *self.reasons.entry(refusal.reason().as_str()).or_default() += 1;
        }
    }

    fn page(&self) -> String {
        let mut page = format!("{} commands\n", self.commands);
        for row in ROWS {
            page += &format!("{:>9}  {row}\n", self.rows.get(row).copied().unwrap_or_default());
        }
        for (reason, count) in &self.reasons {
            page += &format!("{count:>9}  {reason}\n");
        }
        page
    }

    /// What was met fewer times than `least`.
    fn rare(&self, least: u64) -> Vec<&'static str> {
        let few = |counts: &BTreeMap<&'static str, u64>, name: &&'static str| {
            counts.get(name).copied().unwrap_or_default() < least
        };
        let rows = ROWS.iter().copied().filter(|row| few(&self.rows, row));
        let reasons = Reason::ALL.iter().filter(|reason| decided(**reason));
        let reasons = reasons.map(|reason| reason.as_str());
        rows.chain(reasons.filter(|reason| few(&self.reasons, reason))).collect()
    }
}

/// Whether the log refuses a command for that reason: the others are said by nodes and clients.
fn decided(reason: Reason) -> bool {
    !matches!(
        reason,
        Reason::RateLimited
            | Reason::Overloaded
            | Reason::StorageFull
            | Reason::NoQuorum
            | Reason::NoLeader
            | Reason::NodeDraining
            | Reason::OutcomeUnknown
            | Reason::DeadlineExceeded
            | Reason::Internal
            | Reason::Unreachable
    )
}
