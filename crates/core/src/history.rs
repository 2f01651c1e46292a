//! Claims that were turned away or replayed: for people who look for where idempotency was lost.
//!
//! Nodes report them in batches that may lag; nothing but the history itself depends on them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::limits;
use crate::name::{AttemptId, Labels, OwnerLabel, Region};
use crate::time::Timestamp;

/// One claim that was not granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sighting {
    /// Store time of its answer.
    pub time: Timestamp,
    /// What it was answered: `REPLAY`, `PENDING`, `UNRESOLVED` or the reason of a refusal.
    pub outcome: String,
    /// The attempt.
    pub attempt_id: AttemptId,
    /// Whose.
    pub owner: OwnerLabel,
    /// The region that it came in at.
    pub region: Region,
    /// What the caller said about the attempt.
    pub labels: Labels,
}

/// The claims of one record that were not granted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// The latest, oldest first, at most [`limits::SIGHTINGS_KEPT`].
    pub sightings: Vec<Sighting>,
    /// How many there were in all, by outcome.
    pub counts: BTreeMap<String, u64>,
}

impl History {
    /// Drops the labels, which may be personal.
    pub fn purge(&mut self) {
        for sighting in &mut self.sightings {
            sighting.labels = Labels::default();
        }
    }

    /// Takes a report in.
    pub fn add(&mut self, sightings: &[Sighting], counts: &BTreeMap<String, u64>) {
        self.sightings.extend(sightings.iter().cloned());
        self.sightings.sort_by_key(|sighting| sighting.time);
        let excess = self.sightings.len().saturating_sub(limits::SIGHTINGS_KEPT);
        self.sightings.drain(..excess);
        for (outcome, count) in counts {
            let known = self.counts.len() < limits::SIGHTING_OUTCOMES_KEPT
                || self.counts.contains_key(outcome);
            if known {
                let total = self.counts.entry(outcome.clone()).or_default();
                *total = total.saturating_add(*count);
            }
        }
    }
}
