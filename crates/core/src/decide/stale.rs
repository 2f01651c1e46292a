//! Holder calls from an epoch that does not hold the record any more.
//!
//! Such a call changes nothing, with one exception: a Complete is heard as evidence about the
//! work of its own epoch, because money that was paid stays paid whoever holds the claim now.

use crate::command::{Complete, Holder, Settle};
use crate::decide::{Context, Decision, settle};
use crate::effect::{EffectName, EffectUid, Found, Verdict};
use crate::name::Principal;
use crate::outcome::Refusal;
use crate::record::{Completion, Disposition, Evidence, KnownAttempt, Record, ResultBody, State};

/// Whether `holder` names the record's latest grant.
pub(super) fn holds(record: &Record, holder: &Holder) -> bool {
    record.epoch == holder.epoch
        && record.grant.as_ref().is_some_and(|grant| {
            grant.epoch == holder.epoch && grant.attempt_id == holder.attempt_id
        })
}

/// Whether `holder` names the latest grant or one before it.
pub(super) fn held(record: &Record, holder: &Holder) -> bool {
    let known =
        |it: &KnownAttempt| (it.epoch, &it.attempt_id) == (holder.epoch, &holder.attempt_id);
    record.attempts.iter().any(known)
}

/// Refuses a call of a superseded epoch.
pub(super) fn refuse(record: Option<&Record>) -> Decision {
    Decision::refuse(Refusal::StaleEpoch {
        epoch: record.map(|record| record.epoch),
        evidence_kept: false,
        completed_record: false,
    })
}

/// Says which epoch stands there.
pub(super) fn epoch(record: &Record) -> Refusal {
    Refusal::StaleEpoch { epoch: Some(record.epoch), evidence_kept: false, completed_record: false }
}

/// Refuses a call that comes after the end.
pub(super) fn already_completed(completion: &Completion) -> Decision {
    Decision::refuse(Refusal::AlreadyCompleted {
        epoch: completion.epoch,
        completed_time: completion.completed_time,
        evidence_kept: false,
    })
}

/// Hears a Complete of a superseded epoch as evidence: about the effects that it settles, and about
/// the work of its own epoch.
pub(super) fn complete(context: &Context<'_>, record: &Record, complete: &Complete) -> Decision {
    let holder = &complete.holder;
    let known = record
        .attempts
        .iter()
        .find(|known| known.epoch == holder.epoch && known.attempt_id == holder.attempt_id);
    let Some(known) = known else { return refuse(Some(record)) };
    let mut next = record.clone();
    let principal = Principal::from(&known.owner);
    let mut evidence_kept = settle::hear(context, &mut next, &complete.settlements, &principal);
    let committed = complete.disposition == Disposition::Succeeded
        && known.has_work()
        && known.epoch > record.unbound_epoch;
    let by_own_word = committed && commit(context, &mut next, known, &complete.result, &principal);
    settle::complete_by_told_work(context, &mut next);
    if by_own_word {
        evidence_kept = true;
    } else {
        evidence_kept |= next.keep_evidence(evidence(context, complete));
    }
    let completed_record = by_own_word || completed_by_carried(&next, complete);
    next.trim_works();
    let refusal =
        Refusal::StaleEpoch { epoch: Some(record.epoch), evidence_kept, completed_record };
    Decision::kept(context, record, next, Err(refusal))
}

/// Whether it is the evidence of a carried settlement that completed the record.
fn completed_by_carried(record: &Record, complete: &Complete) -> bool {
    let State::Completed(completion) = &record.state else { return false };
    let name = EffectName::Work(completion.epoch);
    completion.by_evidence
        && complete.settlements.iter().any(|settle| {
            settle.verdict.committed()
                && settle.uid.name == name
                && settle.evidence.digest == completion.result.digest
        })
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

/// The work of a superseded epoch was done after all. Returns whether the record is completed by it.
fn commit(
    context: &Context<'_>,
    record: &mut Record,
    known: &KnownAttempt,
    result: &ResultBody,
    principal: &Principal,
) -> bool {
    let settle = Settle {
        uid: EffectUid { life: record.life, name: EffectName::Work(known.epoch) },
        provider: None,
        provider_key: None,
        verdict: Verdict::Committed,
        evidence: settle::as_evidence(result),
    };
    let completed = if let State::Completed(completion) = &record.state {
        Some((completion.epoch, completion.result.digest.clone()))
    } else {
        None
    };
    match (settle::take(context, record, &settle, principal), completed) {
        (Ok(Found::New), None) => {
            settle::complete_by_work(context, record, known.epoch, result);
            true
        }
        (Ok(Found::Conflict), None) => {
            settle::interrupt(context, record);
            false
        }
        // The same word again, of the epoch whose word completed the record.
        (Ok(Found::Repeated), Some(by)) => by == (known.epoch, result.digest.clone()),
        _ => false,
    }
}
