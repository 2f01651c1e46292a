//! Store time, and every grace window that ever opened. Semantics §2.

use firstclaim_core::{Stamp, Timestamp};

/// `grace_max`.
const GRACE_MAX: u64 = 10_000;
/// A longer gap between two stamps opens a window.
const GAP_MAX: u64 = 6_000;

/// A grace window.
#[derive(Clone, Copy, Debug)]
struct Window {
    gap_start: u64,
    until: u64,
    /// The grace that it gives: a part of what its chain may spend.
    given: u64,
}

/// A lease as it was written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lease {
    /// When.
    pub(super) written: Timestamp,
    /// Its stored deadline.
    pub(super) expire: Timestamp,
}

/// Every stamp and every window.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    /// Term and store time of each stamped entry.
    stamps: Vec<(u64, u64)>,
    windows: Vec<Window>,
    /// Where among the windows the present chain begins.
    chain: usize,
}

impl Clock {
    pub(super) fn now(&self) -> Timestamp {
        Timestamp(self.stamps.last().map_or(0, |(_, time)| *time))
    }

    /// Takes a stamp in.
    pub(super) fn take(&mut self, stamp: Stamp) {
        let Some((term_before, before)) = self.stamps.last().copied() else {
            self.stamps.push((stamp.term, stamp.time.0));
            return;
        };
        let now = before.max(stamp.time.0);
        self.stamps.push((stamp.term, now));
        // "The chain of windows still open at T_prev": kept until none is open.
        if !self.windows[self.chain..].iter().any(|window| before < window.until) {
            self.chain = self.windows.len();
        }
        if stamp.term == term_before && now - before <= GAP_MAX {
            return;
        }
        let spent: u64 = self.windows[self.chain..].iter().map(|window| window.given).sum();
        let given = (now - before).min(GRACE_MAX - spent);
        if given == 0 {
            // A window that gives nothing is none.
            return;
        }
        self.windows.push(Window { gap_start: before, until: now + given, given });
    }

    /// The effective deadline of a lease: later than the stored one by the windows of the present
    /// chain that it was written before and live in, in order.
    pub(super) fn deadline(&self, lease: Lease) -> Timestamp {
        let mut deadline = lease.expire.0;
        for window in &self.windows[self.chain..] {
            let live_there = window.gap_start < deadline;
            if lease.written.0 <= window.gap_start && live_there {
                deadline = deadline.max(window.until);
            }
        }
        Timestamp(deadline)
    }
}
