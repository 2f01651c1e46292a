//! All that is left to chance in a run, from one seed.

use std::sync::{Arc, Mutex, PoisonError};

use firstclaim_sim::Random;

/// The generator of a run. Clones share it: there is one thread, so its order is the run's.
#[derive(Clone, Debug)]
pub struct Chance(Arc<Mutex<Random>>);

impl Chance {
    /// A generator that starts at `seed`.
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(Random::new(seed))))
    }

    fn with<T>(&self, f: impl FnOnce(&mut Random) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The next number.
    pub fn number(&self) -> u64 {
        self.with(Random::number)
    }

    /// A number below `end`.
    pub fn below(&self, end: u64) -> u64 {
        self.with(|random| random.below(end))
    }

    /// A number in the range, both ends included.
    pub fn between(&self, from: u64, to: u64) -> u64 {
        from + self.below(to.saturating_sub(from).saturating_add(1))
    }

    /// Whether a thing happens that happens so often in a thousand.
    pub fn in_thousand(&self, often: u64) -> bool {
        often > 0 && self.below(1_000) < often
    }

    /// Whether a thing happens that happens so often in a hundred.
    pub fn percent(&self, often: u64) -> bool {
        self.in_thousand(10 * often)
    }

    /// One of them.
    pub fn pick<T: Clone>(&self, from: &[T]) -> T {
        self.with(|random| random.pick(from))
    }

    /// One of them, each as often as its weight says.
    pub fn weighted<T: Clone>(&self, from: &[(u64, T)]) -> T {
        self.with(|random| random.weighted(from))
    }
}
