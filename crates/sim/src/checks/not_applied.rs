//! I9: what was answered "not applied" never shows up, and a refusal that keeps nothing changes nothing.
//!
//! Clauses: semantics §7, §10 I9.

use std::collections::BTreeSet;

use firstclaim_core::{Answer, AttemptId, Command, RecordRef, Refusal};

use super::{Broken, Checked, Property, Seen};

/// Attempts whose only call never reached the log.
#[derive(Debug, Default)]
pub(super) struct NotApplied {
    attempts: BTreeSet<(RecordRef, AttemptId)>,
}

impl NotApplied {
    pub(super) fn note(&mut self, record: RecordRef, attempt_id: AttemptId) {
        self.attempts.insert((record, attempt_id));
    }

    pub(super) fn check(&mut self, seen: &Seen<'_>) -> Checked {
        if let (Ok(Answer::Acquired(_)), Some(about), Some(record)) =
            (&seen.outcome.result, seen.about, seen.after)
        {
            let mut known = record.attempts.iter().map(|known| &known.attempt_id);
            let shows = |id: &&AttemptId| self.attempts.contains(&(about.clone(), (*id).clone()));
            if let Some(attempt_id) = known.find(shows) {
                let says = format!("{attempt_id:?} was not applied, and is known");
                return Err(Broken::new(Property::I9, says));
            }
        }
        let Err(refusal) = &seen.outcome.result else { return Ok(()) };
        // A Complete keeps the settlements that it carries, whatever becomes of it.
        if keeps(refusal) || matches!(seen.command, Command::Complete(_)) {
            return Ok(());
        }
        // What is forgotten may be cleared at any time.
        let clock = &seen.store.cluster.clock;
        let before = seen.before.filter(|record| record.logical(clock).is_some());
        if before.is_some() && before != seen.after {
            let says = format!("{} changed the record", refusal.reason().as_str());
            return Err(Broken::new(Property::I9, says));
        }
        Ok(())
    }
}

fn keeps(refusal: &Refusal) -> bool {
    if let Refusal::EvidenceConflict { evidence_kept, .. }
    | Refusal::StaleEpoch { evidence_kept, .. }
    | Refusal::AlreadyCompleted { evidence_kept, .. } = refusal
    {
        *evidence_kept
    } else {
        false
    }
}
