//! Everything that was ever told about one effect. Semantics §6, SettleEffect.

use crate::observation::Known;

/// Contradictions that are kept for people.
const CONTRADICTIONS_KEPT: usize = 4;

/// A verdict, with the digest of its evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) committed: bool,
    pub(super) digest: Vec<u8>,
}

/// What a verdict was to what was told before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The first one.
    New,
    /// Nothing new.
    Repeated,
    /// COMMITTED after NOT_COMMITTED.
    Conflict,
    /// Other than the COMMITTED that stays.
    Contradiction {
        /// Whether it is kept.
        kept: bool,
        /// Whether that is new.
        written: bool,
    },
}

/// Everything that was told, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Findings {
    told: Vec<Told>,
    /// Whether a Resolve or a Complete(SUCCEEDED) ended the conflict.
    conflict_ended: bool,
}

impl Findings {
    /// The first COMMITTED stays; without one, the first verdict.
    fn counting(&self) -> Option<&Told> {
        self.told.iter().find(|told| told.committed).or(self.told.first())
    }

    /// Whether it is this evidence that says COMMITTED.
    pub(super) fn counts(&self, digest: &[u8]) -> bool {
        self.counting().is_some_and(|told| told.committed && told.digest == digest)
    }

    pub(super) fn known(&self) -> Known {
        match self.counting() {
            None => Known::Open,
            Some(told) if !told.committed => Known::NotCommitted,
            Some(_) if self.conflict() => Known::Conflict,
            Some(_) => Known::Committed,
        }
    }

    /// A COMMITTED came after a NOT_COMMITTED, and nobody ended that.
    pub(super) fn conflict(&self) -> bool {
        let committed = self.told.iter().position(|told| told.committed);
        committed.is_some_and(|at| at > 0) && !self.conflict_ended
    }

    pub(super) fn end_conflict(&mut self) {
        self.conflict_ended = self.conflict_ended || self.conflict();
    }

    /// Whether anybody said anything.
    pub(super) fn settled(&self) -> bool {
        !self.told.is_empty()
    }

    pub(super) fn committed(&self) -> bool {
        self.told.iter().any(|told| told.committed)
    }

    /// Whether nobody knows, or those who know contradict each other.
    pub(super) fn open(&self) -> bool {
        matches!(self.known(), Known::Open | Known::Conflict)
    }

    pub(super) fn tell(&mut self, told: Told) -> Found {
        let Some(counting) = self.counting().cloned() else {
            self.told.push(told);
            return Found::New;
        };
        match (counting.committed, told.committed) {
            (false, false) => Found::Repeated,
            (false, true) => {
                self.told.push(told);
                Found::Conflict
            }
            (true, true) if counting.digest == told.digest => Found::Repeated,
            (true, _) => {
                let contradictions = self.told.iter().filter(|one| **one != counting);
                let known = contradictions.clone().any(|one| *one == told);
                let kept = known || contradictions.count() < CONTRADICTIONS_KEPT;
                let written = kept && !known;
                if written {
                    self.told.push(told);
                }
                Found::Contradiction { kept, written }
            }
        }
    }
}
