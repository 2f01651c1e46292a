//! The clocks of a machine: they run a little fast or slow, are off by something, and jump.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use firstclaim_core::Timestamp;
use firstclaim_replica::Clock;
use tokio::time::Instant;

/// What the wall clocks show when a run begins, by true time.
pub const START: u64 = 1_700_000_000_000;

/// The clocks of one machine.
#[derive(Debug)]
pub struct NodeClock {
    origin: Instant,
    /// How many millionths of its time it is fast.
    fast: i64,
    /// How many milliseconds its wall clock is ahead.
    ahead: AtomicI64,
}

impl NodeClock {
    /// Clocks that start now.
    pub fn new(fast: i64, ahead: i64) -> Self {
        Self { origin: Instant::now(), fast, ahead: AtomicI64::new(ahead) }
    }

    /// Sets the wall clock, by the milliseconds that it is then ahead.
    pub fn set(&self, ahead: i64) {
        self.ahead.store(ahead, Ordering::Relaxed);
    }

    fn micros(&self) -> i64 {
        let true_time = i64::try_from(self.origin.elapsed().as_micros()).unwrap_or(i64::MAX);
        true_time + true_time / 1_000_000 * self.fast
    }
}

impl Clock for NodeClock {
    fn wall(&self) -> Timestamp {
        let millis = self.micros() / 1_000 + self.ahead.load(Ordering::Relaxed);
        Timestamp(START.saturating_add_signed(millis))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_micros(self.micros().unsigned_abs())
    }
}
