//! The witness of the drill: what workers sent, and what the provider did.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One thing that the provider did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The business reference of the intent.
    pub(crate) reference: String,
    pub(crate) cents: u64,
    /// What the provider answered, or would have.
    pub(crate) receipt: String,
    /// Whose request it was.
    pub(crate) sender: String,
}

/// What was sent and what was done, by scenario.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    entries: Vec<Entry>,
    /// Dispatch attempts by reference: whatever left a worker, arrived or not.
    dispatches: BTreeMap<String, u64>,
}

impl Ledger {
    /// Notes that a worker sent something.
    pub(crate) fn dispatched(&self, reference: &str) {
        *self.lock().dispatches.entry(reference.to_owned()).or_default() += 1;
    }

    /// The provider acts. Returns the receipt.
    pub(crate) fn enter(&self, reference: &str, cents: u64, sender: &str) -> String {
        let mut inner = self.lock();
        let receipt = format!("tx_{:05}", inner.entries.len() + 1);
        inner.entries.push(Entry {
            reference: reference.to_owned(),
            cents,
            receipt: receipt.clone(),
            sender: sender.to_owned(),
        });
        receipt
    }

    /// What the provider did for an intent.
    pub(crate) fn entries(&self, reference: &str) -> Vec<Entry> {
        let of_it = |entry: &&Entry| entry.reference == reference;
        self.lock().entries.iter().filter(of_it).cloned().collect()
    }

    /// How often something was sent for an intent.
    pub(crate) fn dispatches(&self, reference: &str) -> u64 {
        self.lock().dispatches.get(reference).copied().unwrap_or(0)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // It is only appended to: it is whole even if a worker panicked.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
