//! What one worker saw, and how the sums of all workers are made.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::latency::Latencies;

/// Counts and latencies of the measured time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) claims: Latencies,
    pub(crate) completes: Latencies,
    /// Other calls, and rounds of several calls, by name.
    pub(crate) others: BTreeMap<&'static str, Latencies>,
    /// Intents that were completed.
    pub(crate) intents: u64,
    /// Answers that are data, by name: `first`, `replay`, `pending` …
    pub(crate) outcomes: BTreeMap<String, u64>,
    /// Everything else, by reason.
    pub(crate) errors: BTreeMap<String, u64>,
}

impl Tally {
    pub(crate) fn claimed(&mut self, outcome: &str, took: Duration) {
        self.claims.record(took);
        add(&mut self.outcomes, outcome, 1);
    }

    pub(crate) fn completed(&mut self, took: Duration) {
        self.completes.record(took);
        self.count("completed", 1);
        self.intents += 1;
    }

    /// Takes in another call, or a round of several.
    pub(crate) fn took(&mut self, name: &'static str, took: Duration) {
        self.others.entry(name).or_default().record(took);
    }

    pub(crate) fn count(&mut self, outcome: &str, more: u64) {
        add(&mut self.outcomes, outcome, more);
    }

    pub(crate) fn failed(&mut self, call: &str, reason: &str) {
        add(&mut self.errors, &format!("{call}: {reason}"), 1);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.claims.merge(&other.claims);
        self.completes.merge(&other.completes);
        for (name, latencies) in &other.others {
            self.others.entry(name).or_default().merge(latencies);
        }
        self.intents += other.intents;
        for (name, count) in &other.outcomes {
            add(&mut self.outcomes, name, *count);
        }
        for (name, count) in &other.errors {
            add(&mut self.errors, name, *count);
        }
    }
}

fn add(counts: &mut BTreeMap<String, u64>, name: &str, more: u64) {
    // Most names are there already: no allocation for those.
    if let Some(count) = counts.get_mut(name) {
        *count += more;
    } else {
        counts.insert(name.to_owned(), more);
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, Tally};

    #[test]
    fn sums_are_kept_apart_by_name() {
        let (mut one, mut two) = (Tally::default(), Tally::default());
        one.claimed("first", Duration::from_millis(1));
        one.completed(Duration::from_millis(2));
        two.claimed("first", Duration::from_millis(3));
        two.claimed("replay", Duration::from_millis(4));
        two.failed("claim", "NO_QUORUM");
        one.took("batch", Duration::from_millis(5));
        two.took("batch", Duration::from_millis(6));
        one.merge(&two);
        assert_eq!(one.outcomes["first"], 2);
        assert_eq!(one.outcomes["replay"], 1);
        assert_eq!(one.outcomes["completed"], 1);
        assert_eq!(one.errors["claim: NO_QUORUM"], 1);
        assert_eq!((one.claims.count(), one.completes.count()), (3, 1));
        assert_eq!((one.others["batch"].count(), one.intents), (2, 1));
    }
}
