//! I6: the same attempt gets the same epoch while its lease holds, and never a second one.
//!
//! Clauses: semantics §5 (rows 4 to 6), §10 I6.

use std::collections::BTreeMap;

use firstclaim_core::outcome::AcquiredKind;
use firstclaim_core::record::Epoch;
use firstclaim_core::{Answer, AttemptId, Command};

use super::{Broken, Checked, Property, Seen};

/// How many attempts of a life are known.
const KNOWN: usize = 8;

/// The grants of each life, oldest first.
#[derive(Debug, Default)]
pub(super) struct OneGrant {
    granted: BTreeMap<u64, Vec<(AttemptId, Epoch)>>,
}

impl OneGrant {
    pub(super) fn check(&mut self, seen: &Seen<'_>) -> Checked {
        let (Ok(Answer::Acquired(it)), Command::Claim(claim)) =
            (&seen.outcome.result, seen.command)
        else {
            return Ok(());
        };
        let granted = self.granted.entry(it.life).or_default();
        let known = granted.iter().rev().take(KNOWN);
        let epoch = known.clone().find(|(attempt, _)| *attempt == claim.attempt_id);
        let same = |epoch: &Epoch| it.kind == AcquiredKind::AlreadyHeld && it.epoch == *epoch;
        match epoch {
            Some((_, epoch)) if same(epoch) => Ok(()),
            Some((attempt, epoch)) => {
                let says = format!("{attempt:?} had epoch {} and got {}", epoch.0, it.epoch.0);
                Err(Broken::new(Property::I6, says))
            }
            None => {
                granted.push((claim.attempt_id.clone(), it.epoch));
                Ok(())
            }
        }
    }
}
