//! Every answer is the one that the independent model gives.
//!
//! The model was written from `docs/semantics.md` alone and shares no rule with what serves, so this is
//! all clauses at once. It cannot find what both got wrong; the other files of this folder can.

use firstclaim_core::{Record, limits};

use super::{Broken, Checked, Property, Seen};
use crate::figures::Figures;
use crate::model::Model;
use crate::observation::{Observation, Refused};
use crate::observe::observe;

/// The model beside what serves.
#[derive(Clone, Debug, Default)]
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
        if real.agrees(&expected) {
            return Ok(());
        }
        if seen.before.is_some_and(full) && without_kept(&real).agrees(&without_kept(&expected)) {
            return Ok(());
        }
        Err(Broken::new(Property::Agreement, difference(&real, &expected)))
    }
}

/// Whether there is little room left for what is kept for people.
fn full(record: &Record) -> bool {
    let works = record.works.iter().map(|work| &work.findings);
    let findings = works.chain(record.effects.iter().map(|effect| &effect.findings));
    let most = findings.map(|it| it.contradictions.len()).max().unwrap_or(0);
    record.evidence.len() >= limits::EVIDENCE_KEPT || most + 1 >= limits::CONTRADICTIONS_KEPT
}

/// An answer without whether a report was kept: how many are kept is not in the contract.
fn without_kept(answer: &Observation) -> Observation {
    let mut answer = answer.clone();
    if let Observation::Refused(
        Refused::StaleEpoch { evidence_kept, .. }
        | Refused::AlreadyCompleted { evidence_kept, .. }
        | Refused::EvidenceConflict { evidence_kept, .. },
    ) = &mut answer
    {
        *evidence_kept = false;
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
