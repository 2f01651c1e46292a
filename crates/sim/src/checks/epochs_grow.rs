//! I2: epochs strictly increase, over all keys and over deletions.
//!
//! Clauses: semantics §5 (epoch), §6 (Resolve), §10 I2. Restores are not simulated here.

use firstclaim_core::Answer;
use firstclaim_core::outcome::AcquiredKind;
use firstclaim_core::record::Epoch;

use super::{Broken, Checked, Property, Seen};

/// The latest epoch that was given.
#[derive(Debug, Default)]
pub(super) struct EpochsGrow {
    latest: Epoch,
}

impl EpochsGrow {
    pub(super) fn check(&mut self, seen: &Seen<'_>) -> Checked {
        let given = match &seen.outcome.result {
            Ok(Answer::Acquired(it)) if it.kind != AcquiredKind::AlreadyHeld => it.epoch,
            Ok(Answer::Resolved(it)) if !it.repeated => it.epoch,
            _ => return Ok(()),
        };
        if given <= self.latest {
            let says = format!("epoch {} was given after {}", given.0, self.latest.0);
            return Err(Broken::new(Property::I2, says));
        }
        self.latest = given;
        Ok(())
    }
}
