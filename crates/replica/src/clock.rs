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
    first: Mutex<Option<First>>,
}

/// What was known when a leader stamped first.
#[derive(Clone, Copy, Debug)]
struct First {
    term: u64,
    store_time: Timestamp,
    at: Duration,
}

impl Stamper {
    /// The stamp for an entry that is proposed now, in `term`. `applied` is store time as far as this
    /// replica has applied the log, and `election` the term of the last election in there with its store
    /// time: until its own one is, a leader has not seen all that was stamped before.
    pub(crate) fn stamp(
        &self,
        clock: &dyn Clock,
        term: u64,
        applied: Timestamp,
        election: Option<(u64, Timestamp)>,
    ) -> Timestamp {
        let now = clock.monotonic();
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        let began = match *first {
            Some(began) if began.term == term => began,
            Some(_) | None => *first.insert(First { term, store_time: applied, at: now }),
        };
        drop(first);
        if planted::is(Planted::WallClockNotHeldBack) {
            return clock.wall();
        }
        let elected = election.filter(|(of, _)| *of == term).map(|(_, time)| time);
        let store_time = began.store_time.max(elected.unwrap_or_default());
        let since = Millis(millis(now.saturating_sub(began.at)));
        clock.wall().max(store_time.after(since))
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
            stamper.stamp(&Fixed { wall, monotonic }, term, Timestamp(applied), None).0
        };
        // The wall clock counts where it is ahead of store time ...
        assert_eq!(stamp(1, 1_000, 0, 400), 1_000);
        // ... and where it is set back, time goes on from the election.
        assert_eq!(stamp(1, 100, 900, 950), 1_300);
        // A new term begins where the state is.
        assert_eq!(stamp(2, 100, 1_000, 5_000), 5_000);
        assert_eq!(stamp(2, 100, 1_250, 5_100), 5_250);
    }

    /// The end of the log was stamped by a leader whose clock was ahead, and is applied only after the next
    /// one has begun to stamp.
    #[test]
    fn what_was_stamped_before_the_election_counts_once_it_is_known() {
        let stamper = Stamper::default();
        let stamp = |monotonic, election| {
            let clock = Fixed { wall: 100, monotonic };
            stamper.stamp(&clock, 2, Timestamp(1_000), election).0
        };
        assert_eq!(stamp(0, None), 1_000);
        assert_eq!(stamp(50, Some((1, Timestamp(9_000)))), 1_050);
        assert_eq!(stamp(60, Some((2, Timestamp(1_500)))), 1_560);
        // What the leader stamped itself since does not count twice.
        assert_eq!(stamp(500, Some((2, Timestamp(1_500)))), 2_000);
    }
}
