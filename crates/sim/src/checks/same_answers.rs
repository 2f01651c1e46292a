//! I5: a replica that never sweeps, and one that begins from a snapshot, give the same answers.
//!
//! Clauses: semantics §2 (the sweeper changes no answer), §10 I5. Versions that run side by side, and
//! the bytes of logs and snapshots, are for the replica's own tests.

use firstclaim_core::{Answer, Command, Outcome, apply};

use super::{Broken, Checked, Property, Seen};
use crate::figures::Figures;
use crate::memory::MemoryStore;
use crate::reach::Marker;

/// After how many entries the replica takes a snapshot of the other one.
const SNAPSHOT_EVERY: u64 = 701;

/// The other replica.
#[derive(Debug, Default)]
pub(super) struct SameAnswers {
    replica: MemoryStore,
    entries: u64,
}

impl SameAnswers {
    pub(super) fn check(&mut self, seen: &Seen<'_>, figures: &mut Figures) -> Checked {
        self.entries += 1;
        // A sweep is an entry like any other, stamp and all; only what it takes away is left here.
        let entry =
            if matches!(seen.command, Command::Sweep(_)) { &Command::Tick } else { seen.command };
        let Ok(outcomes) = apply(&mut self.replica, seen.stamp, std::slice::from_ref(entry));
        let sweep = matches!(seen.outcome.result, Ok(Answer::Swept(_)));
        if !sweep && outcomes.first() != Some(seen.outcome) {
            let says = format!("{:?} elsewhere, {:?} here", outcomes.first(), seen.outcome);
            return Err(Broken::new(Property::I5, says));
        }
        if outcomes.first().map(|it: &Outcome| it.store_time) != Some(seen.outcome.store_time) {
            return Err(Broken::new(Property::I5, "two store times of one entry"));
        }
        if self.entries == 1 {
            figures.reach.hit(Marker::Compared);
        }
        if self.entries.is_multiple_of(SNAPSHOT_EVERY) {
            figures.reach.hit(Marker::Installed);
            self.replica = seen.store.clone();
        }
        Ok(())
    }
}
