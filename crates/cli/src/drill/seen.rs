//! What the workers of one scenario were answered, and what they must never be answered.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Answers by name, and violations in words.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    counts: BTreeMap<String, u64>,
    violations: Vec<String>,
}

impl Seen {
    /// Counts an answer.
    pub(crate) fn note(&self, answer: &str) {
        *self.lock().counts.entry(answer.to_owned()).or_default() += 1;
    }

    /// Notes an answer that a correct store does not give.
    pub(crate) fn violation(&self, what: String) {
        self.lock().violations.push(what);
    }

    /// The counts so far.
    pub(crate) fn counts(&self) -> BTreeMap<String, u64> {
        self.lock().counts.clone()
    }

    /// The violations so far.
    pub(crate) fn violations(&self) -> Vec<String> {
        self.lock().violations.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
