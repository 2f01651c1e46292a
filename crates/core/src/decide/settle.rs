//! SettleEffect: says, with evidence, whether an effect happened. Needs no claim, so that what is
//! known can be told by whoever knows it.

use crate::command::{Settle, SettleEffect};
use crate::decide::{Context, Decision, complete, inherited, rise};
use crate::effect::{
    Content, Effect, EffectName, EffectUid, Findings, Found, OpenCause, Settlement, Verdict, Work,
};
use crate::invalid::Invalid;
use crate::name::Principal;
use crate::outcome::{Answer, Refusal, Settled};
use crate::planted::{self, Planted};
use crate::record::{
    Completion, Disposition, Ending, Grant, KnownAttempt, Logical, Mode, Record, ResultBody, State,
};
use crate::time::{Millis, Timestamp};

/// Decides a settlement. Semantics §6.
pub fn settle_effect(
    context: &mut Context<'_>,
    prior: Option<&Record>,
    command: &SettleEffect,
) -> Decision {
    let Some(record) = prior else { return Decision::refuse(Refusal::RecordNotFound) };
    let SettleEffect { settle, principal, .. } = command;
    let mut next = record.clone();
    let found = match take(context, &mut next, settle, principal) {
        Ok(found) => found,
        Err(refusal) => return Decision::refuse(refusal),
    };
    let completed = !matches!(record.state, State::Completed(_));
    let mut completed_record = false;
    match found {
        Found::Contradiction { kept } => {
            let refusal =
                Refusal::EvidenceConflict { uid: settle.uid.clone(), evidence_kept: kept };
            return Decision::kept(context, record, next, Err(refusal));
        }
        Found::Repeated => {}
        Found::New | Found::Conflict => {
            // What nothing holds open any more ages from this write on, not from the lapse before.
            next.last_write_time = context.now();
            completed_record = completed && moves(context, &mut next, settle, found);
        }
    }
    next.trim_works();
    let clock = &context.cluster.clock;
    let state = next.logical(clock).unwrap_or(Logical::Completed);
    let settled = Settled {
        uid: settle.uid.clone(),
        findings: findings(&next, &settle.uid.name),
        repeated: found == Found::Repeated,
        state,
        mode: next.grant.as_ref().filter(|_| state == Logical::Live).map(|grant| grant.mode),
        open: next.open(clock),
        completed_record,
        inherited: inherited(context, &next),
    };
    Decision::kept(context, record, next, Ok(Answer::Settled(Box::new(settled))))
}

/// Takes in what a call tells besides, where nothing depends on it: a settlement that does not hold is
/// no reason not to hear the others. Returns whether any was taken in.
pub(super) fn hear(
    context: &Context<'_>,
    record: &mut Record,
    settlements: &[Settle],
    principal: &Principal,
) -> bool {
    let mut heard = false;
    for settle in settlements {
        let before = record.clone();
        match take(context, record, settle, principal) {
            Ok(Found::Conflict) if !matches!(record.state, State::Completed(_)) => {
                interrupt(context, record);
                heard = true;
            }
            Ok(_) => heard = true,
            Err(_) => *record = before,
        }
    }
    heard
}

fn findings(record: &Record, name: &EffectName) -> Findings {
    let found = match name {
        EffectName::Effect(id) => {
            record.effects.iter().find(|effect| effect.id == *id).map(|effect| &effect.findings)
        }
        EffectName::Work(epoch) => {
            record.works.iter().find(|work| work.epoch == *epoch).map(|work| &work.findings)
        }
    };
    match (found, &record.state, name) {
        (Some(found), _, _) => found.clone(),
        // The word of the completing epoch is in the completion.
        (None, State::Completed(completion), EffectName::Work(epoch))
            if completion.epoch == *epoch && completion.disposition == Disposition::Succeeded =>
        {
            Findings { settlement: Some(told_by_completion(completion)), ..Findings::default() }
        }
        (None, _, _) => Findings::default(),
    }
}

/// Verifies a settlement and takes it into the findings. Moves no state.
pub(super) fn take(
    context: &Context<'_>,
    record: &mut Record,
    settle: &Settle,
    principal: &Principal,
) -> Result<Found, Refusal> {
    if settle.uid.life != record.life {
        return Err(not_found(&settle.uid));
    }
    let settlement = Settlement {
        verdict: settle.verdict,
        evidence: settle.evidence.clone(),
        time: context.now(),
        principal: principal.clone(),
    };
    match &settle.uid.name {
        EffectName::Effect(id) => {
            let effect = record.effects.iter_mut().find(|effect| effect.id == *id);
            let effect = effect.ok_or_else(|| not_found(&settle.uid))?;
            check_provider(settle, effect)?;
            check_effect_verdict(context.now(), settle, effect)?;
            Ok(effect.findings.settle(settlement))
        }
        EffectName::Work(epoch) => {
            if settle.provider.is_some() || settle.provider_key.is_some() {
                return Err(mismatch(&settle.uid, "provider"));
            }
            record.note_lapse(&context.cluster.clock);
            if let Some(at) = record.works.iter().position(|work| work.epoch == *epoch) {
                let work = &mut record.works[at];
                check_work_verdict(context.now(), settle, work.deadline, work.settle_horizon)?;
                return Ok(work.findings.settle(settlement));
            }
            let known = record.attempt(*epoch).filter(|known| {
                // Work of an epoch before the key was unbound belongs to another request.
                known.has_work() && known.epoch > record.unbound_epoch
            });
            let known = known.cloned().ok_or_else(|| not_found(&settle.uid))?;
            take_unopened(context, record, settle, &known, settlement)
        }
    }
}

/// A settlement of work that nobody has called open.
fn take_unopened(
    context: &Context<'_>,
    record: &mut Record,
    settle: &Settle,
    known: &KnownAttempt,
    settlement: Settlement,
) -> Result<Found, Refusal> {
    let clock = &context.cluster.clock;
    if !settle.verdict.committed() {
        let live = record.logical(clock) == Some(Logical::Live) && record.epoch == known.epoch;
        let latest = record.latest_deadline(clock).filter(|_| live).unwrap_or_default();
        check_work_verdict(context.now(), settle, latest, known.settle_horizon)?;
        return Ok(Found::Repeated);
    }
    let mut findings = Findings::default();
    let mut found = Found::New;
    if let State::Completed(completion) = &record.state
        && completion.epoch == known.epoch
    {
        // The completion of its own epoch is what is known about it.
        match completion.disposition {
            Disposition::Succeeded => {
                findings.settlement = Some(told_by_completion(completion));
                found = findings.settle(settlement);
                if found == Found::Repeated {
                    return Ok(found);
                }
            }
            Disposition::Failed => {
                findings.settlement = Some(settlement);
                found = Found::Contradiction { kept: true };
            }
        }
    } else {
        findings.settlement = Some(settlement);
    }
    // A grant that is out has had no last deadline yet.
    let out = record.latest_deadline(clock).filter(|_| known.ended.is_none());
    record.works.push(Work {
        epoch: known.epoch,
        attempt_id: known.attempt_id.clone(),
        owner: known.owner.clone(),
        cause: None,
        since: context.now(),
        deadline: out.unwrap_or(known.deadline),
        settle_horizon: known.settle_horizon,
        note: String::new(),
        findings,
    });
    Ok(found)
}

fn told_by_completion(completion: &Completion) -> Settlement {
    Settlement {
        verdict: Verdict::Committed,
        evidence: as_evidence(&completion.result.without_bytes()),
        time: completion.completed_time,
        principal: Principal::from(&completion.owner),
    }
}

/// A result as evidence, without its bytes: the completion keeps them.
pub(super) fn as_evidence(result: &ResultBody) -> Content {
    Content {
        content_type: result.content_type.clone(),
        digest: result.digest.clone(),
        length: result.length,
        bytes: None,
    }
}

/// Evidence as the result of a record that it completes.
fn as_result(evidence: &Content) -> ResultBody {
    ResultBody {
        digest: evidence.digest.clone(),
        length: evidence.length,
        content_type: evidence.content_type.clone(),
        reference: None,
        bytes: evidence.bytes.clone(),
        oversize: false,
    }
}

fn not_found(uid: &EffectUid) -> Refusal {
    Refusal::EffectNotFound { uid: uid.clone() }
}

fn mismatch(uid: &EffectUid, field: &str) -> Refusal {
    Refusal::EffectMismatch { uid: uid.clone(), field: field.to_owned() }
}

/// Whoever settles must mean the same thing: the provider, and its key for the effect.
fn check_provider(settle: &Settle, effect: &Effect) -> Result<(), Refusal> {
    let any = planted::is(Planted::ProviderUnchecked);
    if settle.provider.as_ref() != Some(&effect.provider) && !any {
        return Err(mismatch(&settle.uid, "provider"));
    }
    if settle.provider_key != effect.provider_key && !planted::is(Planted::ProviderKeyUnchecked) {
        return Err(mismatch(&settle.uid, "provider_key"));
    }
    Ok(())
}

fn invalid(problem: impl Into<String>, fix: &str) -> Refusal {
    Refusal::Invalid(vec![Invalid::new("verdict", problem, fix)])
}

/// The rules of NOT_COMMITTED for a recorded effect.
pub(super) fn check_effect_verdict(
    now: Timestamp,
    settle: &Settle,
    effect: &Effect,
) -> Result<(), Refusal> {
    match settle.verdict {
        Verdict::Committed => Ok(()),
        Verdict::Refused { status } => {
            check_status(status)?;
            if effect.provider_key.is_none() && effect.permits.len() > 1 {
                return Err(invalid(
                    format!(
                        "is the refusal of one of {} dispatches without a provider key",
                        effect.permits.len()
                    ),
                    "look the effect up at the provider: the other dispatches may have been accepted",
                ));
            }
            Ok(())
        }
        Verdict::NotFound { as_of } => {
            let provable = effect.last_not_after().after(effect.settle_horizon);
            check_look_up(now, &settle.uid, as_of, provable)
        }
        Verdict::Overridden => Err(override_elsewhere()),
    }
}

pub(super) fn check_work_verdict(
    now: Timestamp,
    settle: &Settle,
    deadline: Timestamp,
    horizon: Millis,
) -> Result<(), Refusal> {
    match settle.verdict {
        Verdict::Committed => Ok(()),
        Verdict::Refused { .. } => Err(invalid(
            "is a refusal, and work is no single call that a provider could refuse",
            "look up what the work did, or let its holder release the claim",
        )),
        Verdict::NotFound { as_of } => {
            check_look_up(now, &settle.uid, as_of, deadline.after(horizon))
        }
        Verdict::Overridden => Err(override_elsewhere()),
    }
}

fn override_elsewhere() -> Refusal {
    invalid("is an override", "only a Resolve may override")
}

/// A refusal that the provider may take back on the next call proves nothing.
fn check_status(status: Option<u16>) -> Result<(), Refusal> {
    if planted::is(Planted::AnyStatusRefuses) {
        return Ok(());
    }
    match status {
        Some(status) if status == 409 || status == 429 || (500..600).contains(&status) => {
            Err(invalid(
                format!("is a refusal with status {status}, which a provider may not repeat"),
                "look the effect up at the provider",
            ))
        }
        Some(_) | None => Ok(()),
    }
}

/// "Not found" counts only if the look-up began after everything that was sent has surely arrived.
fn check_look_up(
    now: Timestamp,
    uid: &EffectUid,
    as_of: Timestamp,
    provable_time: Timestamp,
) -> Result<(), Refusal> {
    if as_of > now {
        return Err(Refusal::Invalid(vec![Invalid::new(
            "verdict.as_of",
            "lies in the future of the store",
            "send the store time of a linearizable answer that came before the look-up began",
        )]));
    }
    let since = if planted::is(Planted::LookUpJudgedWhenTold) { now } else { as_of };
    if since < provable_time {
        return Err(Refusal::NotYetProvable { uid: uid.clone(), provable_time });
    }
    Ok(())
}

/// Moves the state after a settlement that counts. Returns whether it completed the record.
fn moves(context: &mut Context<'_>, record: &mut Record, settle: &Settle, found: Found) -> bool {
    if found == Found::Conflict {
        interrupt(context, record);
        return false;
    }
    if let (EffectName::Work(epoch), true) = (&settle.uid.name, settle.verdict.committed()) {
        complete_by_work(context, record, *epoch, &as_result(&settle.evidence));
        return true;
    }
    let clock = &context.cluster.clock;
    if !(record.open(clock).is_empty() || planted::is(Planted::RiseWithOpen)) {
        return false;
    }
    let frees = planted::is(Planted::NotCommittedMovesLive);
    match record.logical(clock) {
        Some(Logical::Live) if !(frees && record.grant.as_ref().is_some_and(executes)) => {
            rise(context, record);
        }
        Some(Logical::Unresolved | Logical::Lapsed | Logical::Live)
            if !settle.verdict.committed() && record.open(clock).is_empty() =>
        {
            let now = context.now();
            record.end(&context.cluster.clock, Ending::Lapsed);
            record.state = State::Retryable {
                not_before: now,
                identity_expire_time: record.frozen.identity_retention.from(now),
            };
        }
        _ => {}
    }
    false
}

fn executes(grant: &Grant) -> bool {
    grant.mode == Mode::Execute
}

/// A conflict: nobody may act before a person has looked at it.
pub(super) fn interrupt(context: &Context<'_>, record: &mut Record) {
    if record.state == State::Claimed {
        record.note_own_work(&context.cluster.clock, OpenCause::Interrupted, "");
    }
    record.state = State::Unresolved { since: context.now() };
}

/// Work that a Complete told of was done, but the Complete itself was refused: the record is completed by
/// the evidence. Otherwise nothing would be open any more, and the next claim could do the work again.
pub(super) fn complete_by_told_work(context: &Context<'_>, record: &mut Record) {
    if matches!(record.state, State::Completed(_)) {
        return;
    }
    let done = record.works.iter().filter(|it| it.findings.committed() && !it.findings.conflict);
    let first = done.min_by_key(|work| work.epoch);
    let Some((epoch, settlement)) =
        first.and_then(|work| Some((work.epoch, work.findings.settlement.as_ref()?)))
    else {
        return;
    };
    let result = as_result(&settlement.evidence);
    complete_by_work(context, record, epoch, &result);
}

/// The work of an epoch was done, whoever holds the record now: it is completed by it.
pub(super) fn complete_by_work(
    context: &Context<'_>,
    record: &mut Record,
    epoch: crate::Epoch,
    result: &ResultBody,
) {
    let work = record.works.iter().find(|work| work.epoch == epoch);
    let Some((attempt_id, owner)) = work.map(|it| (it.attempt_id.clone(), it.owner.clone())) else {
        return;
    };
    let completion = Completion {
        late: true,
        by_evidence: true,
        ..complete::completion(context, Disposition::Succeeded, result, (epoch, attempt_id, owner))
    };
    record.end(&context.cluster.clock, Ending::Overtaken);
    record.state = State::Completed(Box::new(completion));
}
