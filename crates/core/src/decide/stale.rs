//! Holder calls from an epoch that does not hold the record any more.
//!
//! Such a call changes nothing, with one exception: a Complete is heard as evidence about the
//! work of its own epoch, because money that was paid stays paid whoever holds the claim now.

use crate::command::{Complete, Holder};
use crate::decide::{Context, Decision};
use crate::outcome::Refusal;
use crate::record::{Completion, Disposition, Evidence, KnownAttempt, Mode, Record, State};

/// Whether `holder` names the record's latest grant.
pub(super) fn holds(record: &Record, holder: &Holder) -> bool {
    record.epoch == holder.epoch
        && record.grant.as_ref().is_some_and(|grant| {
            grant.epoch == holder.epoch && grant.attempt_id == holder.attempt_id
        })
}

/// Refuses a call of a superseded epoch.
pub(super) fn refuse(record: Option<&Record>) -> Decision {
    Decision::refuse(Refusal::StaleEpoch {
        epoch: record.map(|record| record.epoch),
        evidence_kept: false,
        completed_record: false,
    })
}

/// Hears a Complete of a superseded epoch as evidence.
pub(super) fn complete(context: &Context<'_>, record: &Record, complete: &Complete) -> Decision {
    let holder = &complete.holder;
    let known = record
        .attempts
        .iter()
        .find(|known| known.epoch == holder.epoch && known.attempt_id == holder.attempt_id);
    let Some(known) = known else { return refuse(Some(record)) };
    // Work of an epoch before the key was unbound belongs to another request.
    let own_work =
        known.mode == Mode::Execute && !known.journaled && known.epoch > record.unbound_epoch;
    let mut next = record.clone();
    let committed = complete.disposition == Disposition::Succeeded && own_work;
    let (evidence_kept, completed_record) = match &record.state {
        State::Completed(completion)
            if committed
                && completion.epoch == known.epoch
                && completion.result.digest == complete.result.digest =>
        {
            (true, true)
        }
        State::Reserved { .. }
        | State::Claimed
        | State::Unresolved { .. }
        | State::Retryable { .. }
        | State::Unbound { .. }
            if committed =>
        {
            commit(context, &mut next, known, complete);
            (true, true)
        }
        State::Reserved { .. }
        | State::Claimed
        | State::Unresolved { .. }
        | State::Retryable { .. }
        | State::Unbound { .. }
        | State::Completed(_) => (next.keep_evidence(evidence(context, complete)), false),
    };
    let refusal =
        Refusal::StaleEpoch { epoch: Some(record.epoch), evidence_kept, completed_record };
    let changed = next != *record;
    if changed {
        next.last_write_time = context.now();
    }
    Decision { record: changed.then(|| Box::new(next)), result: Err(refusal) }
}

/// What the caller reported, to be kept for people.
pub(super) fn evidence(context: &Context<'_>, complete: &Complete) -> Evidence {
    Evidence {
        epoch: complete.holder.epoch,
        disposition: complete.disposition,
        digest: complete.result.digest.clone(),
        time: context.now(),
    }
}

/// The work of a superseded epoch was done after all: the record is completed by it.
fn commit(context: &Context<'_>, record: &mut Record, known: &KnownAttempt, complete: &Complete) {
    let completion = Completion {
        by_evidence: true,
        late: true,
        ..super::complete::completion(context, complete, known.owner.clone())
    };
    record.works.clear();
    record.state = State::Completed(Box::new(completion));
}
