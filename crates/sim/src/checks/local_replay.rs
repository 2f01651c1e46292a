//! I5, for a replica that lags: what it may answer from its own state is what the log answers.
//!
//! A copy of each record as it was when it was completed stands for the state of a replica that has
//! applied nothing since. Clauses: semantics §8 (Replay from any replica), §10 I5. How a node bounds the
//! store time of others by its own clock is for the replica's own tests; here the bound is exact, or later.

use std::collections::BTreeMap;

use firstclaim_core::decide::local_replay;
use firstclaim_core::record::State;
use firstclaim_core::{
    Answer, Command, Millis, Policy, Record, RecordRef, Refusal, Slot, Timestamp,
};

use super::{Broken, Checked, Property, Seen};
use crate::figures::Figures;
use crate::reach::Marker;

/// A record as a replica has it that applied nothing since.
#[derive(Clone, Debug)]
struct Old {
    record: Record,
    policy: Policy,
    applied: Timestamp,
}

/// What such a replica knows of completed records.
#[derive(Clone, Debug, Default)]
pub(super) struct LocalReplay {
    known: BTreeMap<RecordRef, Old>,
}

impl LocalReplay {
    pub(super) fn check(&mut self, seen: &Seen<'_>, figures: &mut Figures) -> Checked {
        if let Ok(Answer::Deleted(_)) = &seen.outcome.result {
            // Its name is free only when every replica knows that.
            self.known.clear();
        }
        let Some(about) = seen.about else { return Ok(()) };
        if let (Command::Claim(claim), Some(old)) = (seen.command, self.known.get(about)) {
            let now = seen.outcome.store_time;
            // Sometimes it knows less about the time of the others.
            let latest =
                if seen.stamp.index.is_multiple_of(2) { now } else { now.after(Millis(1_000)) };
            if let Some(local) = local_replay(&old.policy, &old.record, claim, old.applied, latest)
            {
                figures.reach.hit(Marker::LocalReplay);
                let same = matches!(&seen.outcome.result, Ok(Answer::Replay(it))
                    if it.completion.result.digest == local.completion.result.digest
                        && it.completion.epoch == local.completion.epoch
                        && it.by_this_attempt == local.by_this_attempt
                        && (it.completion.purged || it.result_dropped == local.result_dropped));
                // It cannot know that the policy has changed, and what the log would say of the lease.
                let by_policy = matches!(&seen.outcome.result, Err(Refusal::Invalid(_)));
                if !(same || by_policy) {
                    let says = format!("a replica answered Replay, the log {:?}", seen.outcome);
                    return Err(Broken::new(Property::I5, says));
                }
            }
        }
        self.note(about, seen);
        Ok(())
    }

    /// Takes a copy of what was completed just now.
    fn note(&mut self, about: &RecordRef, seen: &Seen<'_>) {
        let Some(record) = seen.after else { return };
        let known = self.known.get(about).map(|old| old.record.life);
        if !matches!(record.state, State::Completed(_)) || known == Some(record.life) {
            return;
        }
        let of = (about.tenant.clone(), about.namespace.clone());
        let (Some(Slot::Live(tenant)), Some(Slot::Live(namespace))) =
            (seen.store.tenants.get(&about.tenant), seen.store.namespaces.get(&of))
        else {
            return;
        };
        let old = Old {
            record: record.clone(),
            policy: namespace.effective(tenant),
            applied: seen.outcome.store_time,
        };
        self.known.insert(about.clone(), old);
    }
}
