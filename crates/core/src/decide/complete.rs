//! Complete: stores how the work ended, once and for all.

use crate::command::Complete;
use crate::decide::{Context, Decision, stale};
use crate::name::OwnerLabel;
use crate::outcome::{Answer, Completed, Refusal};
use crate::record::{Completion, Disposition, Logical, Record, State};

/// Decides a completion. Semantics §6.
pub fn complete(
    context: &mut Context<'_>,
    prior: Option<&Record>,
    complete: &Complete,
) -> Decision {
    let Some(record) = prior else { return stale::refuse(None) };
    if !stale::holds(record, &complete.holder) {
        return stale::complete(context, record, complete);
    }
    match &record.state {
        State::Completed(completion) => again(context, record, completion, complete),
        // Given back: whoever gave it back holds it no more.
        State::Retryable { .. } | State::Unbound { .. } | State::Reserved { .. } => {
            stale::complete(context, record, complete)
        }
        State::Claimed | State::Unresolved { .. } => store(context, record, complete),
    }
}

/// A completion of a record that is completed.
fn again(
    context: &Context<'_>,
    record: &Record,
    completion: &Completion,
    complete: &Complete,
) -> Decision {
    if completion.epoch != complete.holder.epoch {
        let mut next = record.clone();
        let evidence_kept = next.keep_evidence(stale::evidence(context, complete));
        return Decision {
            record: (next != *record).then(|| Box::new(next)),
            result: Err(Refusal::AlreadyCompleted {
                epoch: completion.epoch,
                completed_time: completion.completed_time,
                evidence_kept,
            }),
        };
    }
    let same = completion.result.digest == complete.result.digest
        && completion.disposition == complete.disposition;
    if !same {
        return Decision::refuse(Refusal::ResultConflict {
            stored_digest: completion.result.digest.clone(),
            sent_digest: complete.result.digest.clone(),
        });
    }
    Decision::answer(answer(completion, true))
}

fn store(context: &Context<'_>, record: &Record, complete: &Complete) -> Decision {
    // The holder's own work is what it reports on; that of others must be closed, and a success
    // closes it, because its result is the evidence.
    let others: Vec<_> =
        record.works.iter().filter(|work| work.epoch != complete.holder.epoch).cloned().collect();
    if complete.disposition == Disposition::Failed && !others.is_empty() {
        return Decision::refuse(Refusal::UnsettledEffects { open: others });
    }
    let owner = record.grant.as_ref().map(|grant| grant.owner.clone());
    let Some(owner) = owner else { return stale::refuse(Some(record)) };
    let live = record.logical(&context.cluster.clock) == Some(Logical::Live);
    let completion = Completion { late: !live, ..completion(context, complete, owner) };
    let mut next = record.clone();
    next.works.clear();
    next.last_write_time = context.now();
    let answer = answer(&completion, false);
    next.state = State::Completed(Box::new(completion));
    Decision::change(next, answer)
}

fn answer(completion: &Completion, repeated: bool) -> Answer {
    let completion = Completion { result: completion.result.without_bytes(), ..completion.clone() };
    Answer::Completed(Box::new(Completed { completion, repeated }))
}

/// The completion that `complete` reports, kept as long as the policy says now.
pub(super) fn completion(
    context: &Context<'_>,
    complete: &Complete,
    owner: OwnerLabel,
) -> Completion {
    let now = context.now();
    let mut result = complete.result.clone();
    let bound = context.policy.result_bytes_max as usize;
    if result.bytes.as_ref().is_some_and(|bytes| bytes.len() > bound) {
        // The completion is never lost for its size: digest and length stay.
        result.bytes = None;
        result.oversize = true;
    }
    Completion {
        disposition: complete.disposition,
        result,
        completed_time: now,
        epoch: complete.holder.epoch,
        attempt_id: complete.holder.attempt_id.clone(),
        owner,
        late: false,
        by_evidence: false,
        result_expire_time: crate::time::Expiry::At(now.after(context.policy.result_retention)),
        identity_expire_time: context.policy.identity_retention.from(now),
    }
}
