//! Complete: stores how the work ended, once and for all.

use crate::command::Complete;
use crate::decide::{Context, Decision, settle, stale};
use crate::effect::{EffectName, EffectUid, Found, Journal, Settlement, Verdict};
use crate::name::{AttemptId, OwnerLabel, Principal};
use crate::outcome::{Answer, Completed, Refusal};
use crate::planted::{self, Planted};
use crate::record::{Completion, Disposition, Ending, Epoch, Logical, Record, ResultBody, State};
use crate::time::Expiry;

/// Decides a completion. Semantics §6.
pub fn complete(
    context: &mut Context<'_>,
    prior: Option<&Record>,
    complete: &Complete,
) -> Decision {
    let Some(record) = prior else { return stale::refuse(None) };
    let old = planted::is(Planted::OldEpochCompletes) && stale::held(record, &complete.holder);
    if !(stale::holds(record, &complete.holder) || old) {
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

/// Takes the settlements in that a holder carries, in order. The first one that is refused ends the
/// call; those before it stay.
fn carry(context: &Context<'_>, next: &mut Record, complete: &Complete) -> Result<(), Refusal> {
    let owner = next.grant.as_ref().map(|grant| Principal::from(&grant.owner));
    let Some(principal) = owner else { return Ok(()) };
    for carried in &complete.settlements {
        let before = next.clone();
        match settle::take(context, next, carried, &principal) {
            Ok(Found::New | Found::Repeated) => {}
            Ok(Found::Conflict) => settle::interrupt(context, next),
            Ok(Found::Contradiction { kept }) => {
                let uid = carried.uid.clone();
                return Err(Refusal::EvidenceConflict { uid, evidence_kept: kept });
            }
            Err(refusal) => {
                *next = before;
                return Err(refusal);
            }
        }
    }
    Ok(())
}

/// A completion of a record that is completed.
fn again(
    context: &Context<'_>,
    record: &Record,
    completion: &Completion,
    complete: &Complete,
) -> Decision {
    let mut next = record.clone();
    // Heard, but no reason for another answer than the first time.
    let owner = record.grant.as_ref().map(|grant| Principal::from(&grant.owner));
    if let Some(principal) = owner {
        settle::hear(context, &mut next, &complete.settlements, &principal);
    }
    let result = if completion.epoch != complete.holder.epoch {
        let evidence_kept = next.keep_evidence(stale::evidence(context, complete));
        Err(Refusal::AlreadyCompleted {
            epoch: completion.epoch,
            completed_time: completion.completed_time,
            evidence_kept,
        })
    } else if completion.result.digest == complete.result.digest
        && completion.disposition == complete.disposition
    {
        Ok(answer(completion, true))
    } else if planted::is(Planted::TerminalChanges) {
        let changed = Completion { result: complete.result.clone(), ..completion.clone() };
        next.state = State::Completed(Box::new(changed.clone()));
        Ok(answer(&changed, false))
    } else {
        Err(Refusal::ResultConflict {
            stored_digest: completion.result.digest.clone(),
            sent_digest: complete.result.digest.clone(),
        })
    };
    Decision::kept(context, record, next, result)
}

fn store(context: &Context<'_>, record: &Record, complete: &Complete) -> Decision {
    let Some(grant) = &record.grant else { return stale::refuse(Some(record)) };
    let live = record.logical(&context.cluster.clock) == Some(Logical::Live);
    let mut next = record.clone();
    if complete.disposition == Disposition::Failed
        && let Some(uid) = committed_work(record, complete)
    {
        let evidence_kept = false;
        return Decision::refuse(Refusal::EvidenceConflict { uid, evidence_kept });
    }
    let carried = carry(context, &mut next, complete).and_then(|()| {
        let open = hindrances(&next, complete);
        if open.is_empty() {
            Ok(())
        } else {
            Err(Refusal::UnsettledEffects { life: record.life, open })
        }
    });
    if let Err(refusal) = carried {
        settle::complete_by_told_work(context, &mut next);
        return Decision::kept(context, record, next, Err(refusal));
    }
    let owner = grant.owner.clone();
    let by = (complete.holder.epoch, complete.holder.attempt_id.clone(), owner);
    let completion = completion(context, complete.disposition, &complete.result, by);
    let completion = Completion { late: !live, ..completion };
    if complete.disposition == Disposition::Succeeded {
        succeed(context, &mut next, complete);
    }
    next.works.retain(|work| work.epoch != complete.holder.epoch);
    next.trim_works();
    let ending = match complete.disposition {
        Disposition::Succeeded => Ending::Succeeded,
        Disposition::Failed => Ending::Failed,
    };
    next.end(&context.cluster.clock, ending);
    let answer = answer(&completion, false);
    next.state = State::Completed(Box::new(completion));
    Decision::kept(context, record, next, Ok(answer))
}

/// Work that is known to have been done, which a failure would deny.
fn committed_work(record: &Record, complete: &Complete) -> Option<EffectUid> {
    let known = record.works.iter().find(|work| work.findings.committed());
    let known = known.map(|work| EffectName::Work(work.epoch));
    let name = known.or_else(|| {
        let carried = complete.settlements.iter().find(|settle| {
            settle.verdict.committed() && matches!(settle.uid.name, EffectName::Work(_))
        });
        carried.map(|settle| settle.uid.name.clone())
    })?;
    Some(EffectUid { life: record.life, name })
}

/// What keeps the record from being completed: open effects, and, unless the result is their
/// evidence, open work of others and conflicts. The holder's own work is what it reports on.
fn hindrances(record: &Record, complete: &Complete) -> Journal {
    let succeeded = complete.disposition == Disposition::Succeeded;
    let mut open = Journal { works: record.works.clone(), effects: record.effects.clone() }.open();
    open.works.retain(|work| {
        !succeeded && (work.epoch != complete.holder.epoch || work.findings.conflict)
    });
    let unheeded = planted::is(Planted::CompleteBesideOpen);
    open.effects.retain(|it| !unheeded && (!succeeded || it.findings.settlement.is_none()));
    open
}

/// The result is the evidence for the open work of earlier epochs, and ends conflicts.
fn succeed(context: &Context<'_>, record: &mut Record, complete: &Complete) {
    let principal = record.grant.as_ref().map(|grant| Principal::from(&grant.owner));
    for work in &mut record.works {
        work.findings.conflict = false;
        if let (None, Some(principal)) = (&work.findings.settlement, &principal) {
            work.findings.settlement = Some(Settlement {
                verdict: Verdict::Committed,
                evidence: settle::as_evidence(&complete.result),
                time: context.now(),
                principal: principal.clone(),
            });
        }
    }
    for effect in &mut record.effects {
        effect.findings.conflict = false;
    }
}

pub(super) fn answer(completion: &Completion, repeated: bool) -> Answer {
    let completion = Completion { result: completion.result.without_bytes(), ..completion.clone() };
    Answer::Completed(Box::new(Completed { completion, repeated }))
}

/// A completion by (epoch, attempt, owner), kept as long as the policy says now.
pub(super) fn completion(
    context: &Context<'_>,
    disposition: Disposition,
    result: &ResultBody,
    (epoch, attempt_id, owner): (Epoch, AttemptId, OwnerLabel),
) -> Completion {
    let now = context.now();
    let mut result = result.clone();
    let bound = context.policy.result_bytes_max as usize;
    if result.bytes.as_ref().is_some_and(|bytes| bytes.len() > bound) {
        // The completion is never lost for its size: digest and length stay.
        result.bytes = None;
        result.oversize = true;
    }
    Completion {
        disposition,
        result,
        completed_time: now,
        epoch,
        attempt_id,
        owner,
        late: false,
        by_evidence: false,
        result_expire_time: Expiry::At(now.after(context.policy.result_retention)),
        identity_expire_time: context.policy.identity_retention.from(now),
        purged: false,
    }
}
