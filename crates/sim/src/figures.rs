//! What a seed, or a batch of seeds, came to.

use std::collections::BTreeMap;
use std::fmt;

use firstclaim_core::Reason;

use crate::faults::{Fault, FaultCounts};
use crate::reach::{Marker, Reach};
use crate::rows::{ROWS, Row};

/// Counts of one seed or of many.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Seeds.
    pub seeds: u64,
    /// Events of the schedule.
    pub events: u64,
    /// Commands that were applied.
    pub operations: u64,
    /// The fewest of one seed.
    pub least_operations: u64,
    /// The fewest faults of one seed.
    pub least_faults: u64,
    /// Milliseconds of simulated time.
    pub simulated: u64,
    /// Intents that were published.
    pub intents: u64,
    /// Requests that reached a provider.
    pub requests: u64,
    /// Effects at providers.
    pub effects: u64,
    /// Faults.
    pub faults: FaultCounts,
    /// Places that were reached.
    pub reach: Reach,
    /// Answers by the row of the contract that they come from.
    pub rows: BTreeMap<Row, u64>,
    /// Refusals by their reason.
    pub reasons: BTreeMap<&'static str, u64>,
}

impl Figures {
    /// Adds those of other seeds.
    pub fn merge(&mut self, other: &Self) {
        if other.seeds == 0 {
            return;
        }
        let least = |mine: u64, its: u64| if self.seeds == 0 { its } else { mine.min(its) };
        self.least_operations = least(self.least_operations, other.least_operations);
        self.least_faults = least(self.least_faults, other.least_faults);
        self.seeds += other.seeds;
        self.events += other.events;
        self.operations += other.operations;
        self.simulated += other.simulated;
        self.intents += other.intents;
        self.requests += other.requests;
        self.effects += other.effects;
        self.faults.merge(&other.faults);
        self.reach.merge(&other.reach);
        for (row, count) in &other.rows {
            *self.rows.entry(row).or_default() += count;
        }
        for (reason, count) in &other.reasons {
            *self.reasons.entry(reason).or_default() += count;
        }
    }

    /// What never happened, and should have.
    #[must_use]
    pub fn never(&self) -> Vec<&'static str> {
        let faults = Fault::ALL.iter().filter(|it| self.faults.of(**it) == 0).map(|it| it.says());
        let places = Marker::ALL.iter().filter(|it| self.reach.of(**it) == 0).map(|it| it.says());
        let rows = ROWS.iter().copied().filter(|row| !self.rows.contains_key(row));
        let reasons = Reason::ALL.iter().filter(|reason| decided(**reason));
        let reasons = reasons.map(|reason| reason.as_str());
        let reasons = reasons.filter(|reason| !self.reasons.contains_key(reason));
        faults.chain(places).chain(rows).chain(reasons).collect()
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

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line =
            |f: &mut fmt::Formatter<'_>, count: u64, what: &str| writeln!(f, "{count:>12}  {what}");
        line(f, self.seeds, "seeds")?;
        line(f, self.events, "events")?;
        line(f, self.operations, "operations")?;
        line(f, self.least_operations, "operations in the seed with the fewest")?;
        line(f, self.simulated / 1000, "seconds of simulated time")?;
        line(f, self.intents, "intents")?;
        line(f, self.requests, "requests at providers")?;
        line(f, self.effects, "effects at providers")?;
        line(f, self.faults.sum(), "faults")?;
        line(f, self.least_faults, "faults in the seed with the fewest")?;
        for fault in Fault::ALL {
            line(f, self.faults.of(*fault), &format!("fault: {}", fault.says()))?;
        }
        for marker in Marker::ALL {
            line(f, self.reach.of(*marker), &format!("reached: {}", marker.says()))?;
        }
        for row in ROWS {
            let count = self.rows.get(row).copied().unwrap_or_default();
            line(f, count, &format!("row {row}"))?;
        }
        for (reason, count) in &self.reasons {
            line(f, *count, reason)?;
        }
        Ok(())
    }
}
