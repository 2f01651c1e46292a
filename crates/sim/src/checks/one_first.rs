//! I1: one FIRST at most in a life of a record, and REBOUND only from UNBOUND.
//!
//! Clauses: semantics §5 (rows 16 to 18), §10 I1.

use std::collections::BTreeSet;

use firstclaim_core::Answer;
use firstclaim_core::outcome::AcquiredKind;
use firstclaim_core::record::State;

use super::{Broken, Checked, Property, Seen};

/// The lives that had their first claim.
#[derive(Debug, Default)]
pub(super) struct OneFirst {
    claimed: BTreeSet<u64>,
}

impl OneFirst {
    pub(super) fn check(&mut self, seen: &Seen<'_>) -> Checked {
        let Ok(Answer::Acquired(it)) = &seen.outcome.result else { return Ok(()) };
        let unbound = matches!(seen.before, Some(it) if matches!(it.state, State::Unbound { .. }));
        if it.kind == AcquiredKind::Rebound && !unbound {
            return Err(Broken::new(Property::I1, format!("life {} was not unbound", it.life)));
        }
        if it.kind == AcquiredKind::First && !self.claimed.insert(it.life) {
            return Err(Broken::new(Property::I1, format!("a second FIRST in life {}", it.life)));
        }
        Ok(())
    }
}
