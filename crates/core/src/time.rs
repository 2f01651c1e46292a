//! Store time: the cluster's own clock, carried in the log, and the grace that keeps an election
//! or a stall from turning healthy holders into lapsed ones.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::limits;
use crate::planted::{self, Planted};

/// A point of store time: milliseconds since the Unix epoch.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// This time plus `duration`, at most the end of time.
    #[must_use]
    pub const fn after(self, duration: Millis) -> Self {
        Self(self.0.saturating_add(duration.0))
    }

    /// This time minus `duration`, at least the beginning of time.
    #[must_use]
    pub const fn before(self, duration: Millis) -> Self {
        Self(self.0.saturating_sub(duration.0))
    }

    /// How long ago `earlier` was; zero if it is not earlier.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Millis {
        Millis(self.0.saturating_sub(earlier.0))
    }
}

/// A duration in milliseconds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Millis(pub u64);

impl Millis {
    /// `secs` seconds.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs * 1000)
    }

    /// `hours` hours.
    #[must_use]
    pub const fn from_hours(hours: u64) -> Self {
        Self(hours * 3_600_000)
    }

    /// The sum, at most the longest duration.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl fmt::Display for Millis {
    /// As people write it: `14d 1m`, `30s`, `500ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        let mut space = "";
        for (unit, millis) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)] {
            if rest >= millis {
                write!(f, "{space}{}{unit}", rest / millis)?;
                rest %= millis;
                space = " ";
            }
        }
        if rest > 0 || self.0 == 0 { write!(f, "{space}{rest}ms") } else { Ok(()) }
    }
}

/// When something is forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Expiry {
    /// At that time.
    At(Timestamp),
    /// Never.
    Never,
}

impl Expiry {
    /// Whether it has come at `now`.
    #[must_use]
    pub fn has_come(self, now: Timestamp) -> bool {
        match self {
            Self::At(time) => time <= now,
            Self::Never => false,
        }
    }
}

/// Where and when an entry of the log is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Term of the leader that wrote the entry.
    pub term: u64,
    /// Index of the entry.
    pub index: u64,
    /// That leader's reading of its clock.
    pub time: Timestamp,
}

/// A stretch of time in which leases written before it are still honoured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraceWindow {
    /// Store time before the gap. Leases written at or before it, and live there, are extended.
    pub gap_start: Timestamp,
    /// Until when they are extended.
    pub until: Timestamp,
}

/// The cluster's clock: never runs backwards, and remembers the grace windows that are open.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreClock {
    now: Timestamp,
    /// Term of the last stamped entry; none before the first.
    term: Option<u64>,
    /// The present chain of windows, oldest first; emptied when none is open any more.
    windows: Vec<GraceWindow>,
    /// Grace given in that chain.
    spent: Millis,
    /// Windows of earlier chains, oldest first, at most [`limits::PAST_WINDOWS_KEPT`].
    past: Vec<GraceWindow>,
    /// The latest end of a window that is not remembered any more.
    past_until: Timestamp,
}

impl StoreClock {
    /// A clock that was stored before closed windows were remembered.
    #[must_use]
    pub fn with_unknown_past(
        now: Timestamp,
        term: Option<u64>,
        windows: Vec<GraceWindow>,
        spent: Millis,
    ) -> Self {
        Self { now, term, windows, spent, past: Vec::new(), past_until: now }
    }

    /// Forgets the closed windows: a lease written before now may have had any grace.
    pub fn forget_past(&mut self) {
        self.past.clear();
        self.past_until = self.now;
    }

    /// Store time `T`.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// The open chain of grace windows, oldest first.
    #[must_use]
    pub fn windows(&self) -> &[GraceWindow] {
        &self.windows
    }

    /// Takes in the stamp of the next entry and returns the time at which it is applied.
    ///
    /// A window opens if the term is new since the last stamped entry, or if more than
    /// [`limits::STALL_MIN`] went by without a stamp: nobody could renew in between.
    pub fn advance(&mut self, stamp: Stamp) -> Timestamp {
        let previous = self.now;
        let back = planted::is(Planted::TimeGoesBack);
        self.now = if back { stamp.time } else { previous.max(stamp.time) };
        if !self.windows.iter().any(|window| previous < window.until) {
            self.retire_windows();
        }
        let gap = self.now.since(previous);
        // The first stamp of all ends no gap: no lease was written before it.
        let interrupted =
            self.term.is_some_and(|term| term != stamp.term || gap > limits::STALL_MIN);
        self.term = Some(stamp.term);
        let given = gap.min(Millis(limits::GRACE_MAX.0.saturating_sub(self.spent.0)));
        if interrupted && given > Millis(0) {
            self.windows.push(GraceWindow { gap_start: previous, until: self.now.after(given) });
            self.spent = self.spent.plus(given);
        }
        self.now
    }

    /// Ends the chain: its windows extend nothing any more, but what they extended is remembered.
    fn retire_windows(&mut self) {
        self.past.append(&mut self.windows);
        self.spent = Millis(0);
        let excess = self.past.len().saturating_sub(limits::PAST_WINDOWS_KEPT);
        for window in self.past.drain(..excess) {
            self.past_until = self.past_until.max(window.until);
        }
    }

    /// The latest deadline that a lease ever had, closed grace windows included.
    ///
    /// A lease from before the oldest remembered window may have had any grace, so it is given all.
    #[must_use]
    pub fn latest_deadline(&self, expire: Timestamp, written: Timestamp) -> Timestamp {
        let start =
            if written < self.past_until { expire.after(limits::GRACE_MAX) } else { expire };
        let past = extended(&self.past, start, written);
        extended(&self.windows, past, written)
    }

    /// The effective deadline `D` of a lease: its stored deadline, or later by grace.
    #[must_use]
    pub fn effective_deadline(&self, expire: Timestamp, written: Timestamp) -> Timestamp {
        extended(&self.windows, expire, written)
    }
}

/// A deadline after the windows, in order: each extends the leases written before its gap and live
/// in it.
fn extended(windows: &[GraceWindow], expire: Timestamp, written: Timestamp) -> Timestamp {
    windows.iter().fold(expire, |deadline, window| {
        let before = written <= window.gap_start || planted::is(Planted::GraceAfterGap);
        if before && window.gap_start < deadline { deadline.max(window.until) } else { deadline }
    })
}
