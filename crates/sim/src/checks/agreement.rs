//! Every answer is the one that the independent model gives.
//!
//! The model was written from `docs/semantics.md` alone and shares no rule with what serves, so this is
//! all clauses at once. It cannot find what both got wrong; the other files of this folder can.

use firstclaim_core::{EffectName, Epoch, Timestamp};

use super::{Broken, Checked, Property, Seen};
use crate::figures::Figures;
use crate::model::Model;
use crate::observation::{Observation, Refused, Seen as Effect};
use crate::observe::observe;

/// The model beside what serves.
#[derive(Debug, Default)]
pub(super) struct Agreement {
    model: Model,
}

impl Agreement {
    pub(super) fn check(&mut self, seen: &Seen<'_>, figures: &mut Figures) -> Checked {
        if let Some(life) = seen.after.map(|record| record.life) {
            self.model.name_next_life(life);
        }
        let expected = self.model.apply(seen.stamp, seen.command);
        for row in self.model.rows() {
            *figures.rows.entry(row).or_default() += 1;
        }
        let now = self.model.now();
        if now != seen.outcome.store_time {
            let says = format!("store time is {:?}, not {now:?}", seen.outcome.store_time);
            return Err(Broken::new(Property::Agreement, says));
        }
        let real = observe(seen.outcome);
        if real == expected || bare(&real) == bare(&expected) {
            return Ok(());
        }
        Err(Broken::new(Property::Agreement, difference(&real, &expected)))
    }
}

/// An answer without what may be told in two ways. Since when work is open decides nothing, and a
/// lapse that nobody wrote down before a release has two such times. Of several things that stand
/// against a call any may be named.
fn bare(answer: &Observation) -> Observation {
    let mut answer = answer.clone();
    let forget = |seen: &mut Vec<Effect>| seen.iter_mut().for_each(|one| one.since = None);
    if let Observation::Refused(Refused::EvidenceConflict { uid, evidence_kept: false }) =
        &mut answer
    {
        uid.name = EffectName::Work(Epoch::NONE);
    } else if let Observation::Acquired(it) = &mut answer {
        forget(&mut it.journal);
    } else if let Observation::Settled(it) = &mut answer {
        forget(&mut it.open);
    } else if let Observation::Unresolved { open, since, .. } = &mut answer {
        *since = Timestamp(0);
        forget(open);
    }
    answer
}

/// Only what differs: both answers can be long.
fn difference(real: &Observation, expected: &Observation) -> String {
    let (real, expected) = (format!("{real:#?}"), format!("{expected:#?}"));
    let only = |text: &str, other: &str| -> String {
        let lines = text.lines().filter(|line| !other.lines().any(|it| it == *line));
        lines.map(str::trim).collect::<Vec<_>>().join(" ")
    };
    let (first, second) = (only(&real, &expected), only(&expected, &real));
    format!("answered {first:?}, the model says {second:?}")
}
