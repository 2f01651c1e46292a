//! What the workers of the demo saw, counted as it happens.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    /// Intents that were claimed for the first time.
    pub(crate) first_claims: u64,
    /// Grants that a repeated call got again.
    pub(crate) already_held: u64,
    /// "It is done, and this came out."
    pub(crate) replays: u64,
    /// Replays, by intent, whose result is compared with the ledger at the end.
    pub(crate) replayed: BTreeMap<String, Vec<String>>,
    /// "Somebody else is at it."
    pub(crate) pending: u64,
    /// Everything else that was answered, by name.
    pub(crate) other: BTreeMap<String, u64>,
    /// Calls that may or may not have taken effect, and were repeated with the same attempt.
    pub(crate) unknown: u64,
    /// Calls that failed without effect, and were repeated.
    pub(crate) failed: u64,
    /// Answers that a worker threw away on purpose, and asked for again.
    pub(crate) lost_on_purpose: u64,
    /// Claims that are held at the moment.
    pub(crate) held: u64,
}

/// The counts, shared by all workers.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    counts: Mutex<Counts>,
}

impl Tally {
    /// Changes the counts in one step.
    pub(crate) fn note(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.lock());
    }

    /// Counts something that has no count of its own.
    pub(crate) fn note_other(&self, name: &str) {
        self.note(|counts| *counts.other.entry(name.to_owned()).or_default() += 1);
    }

    /// The counts as they are now.
    pub(crate) fn read(&self) -> Counts {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
