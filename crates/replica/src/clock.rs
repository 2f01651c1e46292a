//! Time: the seam to the machine's clocks, and the reading that a leader stamps entries with.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use firstclaim_core::planted::{self, Planted};
use firstclaim_core::{Millis, Timestamp};

/// The clocks of a machine.
pub trait Clock: Send + Sync + 'static {
    /// The wall clock. It may be set, forwards or backwards.
    fn wall(&self) -> Timestamp;

    /// Time since some fixed point. It never goes backwards.
    fn monotonic(&self) -> Duration;
}

/// The clocks of this machine. Nothing else in the workspace reads them.
#[derive(Debug)]
pub struct SystemClock {
    origin: Instant,
}

impl SystemClock {
    /// Starts the monotonic clock.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the clock that others are to use")]
    pub fn new() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock that others are to use")]
    fn wall(&self) -> Timestamp {
        // A clock before 1970 counts as 1970: store time does not go backwards anyway.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(millis(since))
    }

    fn monotonic(&self) -> Duration {
        self.origin.elapsed()
    }
}

/// A duration in whole milliseconds, at most the longest.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Stamps the entries of a leader: with the wall clock, but never with less than store time at its
/// election and the time that went by since.
///
/// So a leader whose clock is behind, or is set back, does not make leases last longer.
#[derive(Debug, Default)]
pub(crate) struct Stamper {
    elected: Mutex<Option<Election>>,
}

#[derive(Clone, Copy, Debug)]
struct Election {
    term: u64,
    store_time: Timestamp,
    at: Duration,
}

impl Stamper {
    /// The stamp for an entry that is proposed now, in `term`. `applied` is store time as far as
    /// this replica has applied the log.
    pub(crate) fn stamp(&self, clock: &dyn Clock, term: u64, applied: Timestamp) -> Timestamp {
        let now = clock.monotonic();
        let mut elected = self.elected.lock().unwrap_or_else(PoisonError::into_inner);
        let election = match *elected {
            Some(election) if election.term == term => election,
            Some(_) | None => *elected.insert(Election { term, store_time: applied, at: now }),
        };
        drop(elected);
        if planted::is(Planted::WallClockNotHeldBack) {
            return clock.wall();
        }
        let since = Millis(millis(now.saturating_sub(election.at)));
        clock.wall().max(election.store_time.after(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed {
        wall: u64,
        monotonic: u64,
    }

    impl Clock for Fixed {
        fn wall(&self) -> Timestamp {
            Timestamp(self.wall)
        }

        fn monotonic(&self) -> Duration {
            Duration::from_millis(self.monotonic)
        }
    }

    #[test]
    fn a_clock_that_is_behind_still_lets_time_pass() {
        let stamper = Stamper::default();
        let stamp = |term, wall, monotonic, applied| {
            stamper.stamp(&Fixed { wall, monotonic }, term, Timestamp(applied)).0
        };
        // The wall clock counts where it is ahead of store time ...
        assert_eq!(stamp(1, 1_000, 0, 400), 1_000);
        // ... and where it is set back, time goes on from the election.
        assert_eq!(stamp(1, 100, 900, 950), 1_300);
        // A new term begins where the state is.
        assert_eq!(stamp(2, 100, 1_000, 5_000), 5_000);
        assert_eq!(stamp(2, 100, 1_250, 5_100), 5_250);
    }
}
