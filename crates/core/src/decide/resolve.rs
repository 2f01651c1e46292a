//! Resolve: a person or a reconciler ends what nobody else could, and answers for it.

use crate::command::{Resolve, Resolved, Settle};
use crate::decide::{Context, Decision, complete, reserve, settle, stale};
use crate::effect::{Effect, EffectName, EffectUid, Findings, Settlement, Verdict, Work};
use crate::invalid::Invalid;
use crate::name::OwnerLabel;
use crate::outcome::{Answer, Refusal, ResolvedAnswer};
use crate::planted::{self, Planted};
use crate::record::{Completion, Disposition, Ending, Logical, Record, Resolution, State};
use crate::time::{Expiry, Timestamp};

/// Decides a resolution. Semantics §6.
pub fn resolve(context: &mut Context<'_>, prior: Option<&Record>, resolve: &Resolve) -> Decision {
    let Some(record) = prior else { return reserve::missing() };
    if let Some(repeated) = repeated(context, record, resolve) {
        return repeated;
    }
    if let Err(refusal) = check_state(context, record, resolve) {
        return Decision::refuse(refusal);
    }
    let mut next = record.clone();
    next.note_lapse(&context.cluster.clock);
    if let Err(refusal) = judge(context, &mut next, resolve) {
        return Decision::refuse(refusal);
    }
    if let Err(refusal) = check_new_state(&next, resolve) {
        return Decision::refuse(refusal);
    }
    let now = context.now();
    next.end(&context.cluster.clock, Ending::Lapsed);
    if !planted::is(Planted::ResolveKeepsEpoch) {
        next.epoch = context.cluster.next_epoch();
    }
    next.resolution = Some(Resolution {
        expected_epoch: resolve.expected_epoch,
        epoch: next.epoch,
        attempt_id: resolve.attempt_id.clone(),
        principal: resolve.principal.clone(),
        reason: resolve.reason.clone(),
        evidence: resolve.evidence.clone(),
        time: now,
    });
    next.state = new_state(context, &next, resolve);
    next.trim_works();
    let state = next.logical(&context.cluster.clock).unwrap_or(Logical::Completed);
    let answer = ResolvedAnswer { epoch: next.epoch, state, repeated: false };
    Decision::kept(context, record, next, Ok(Answer::Resolved(answer)))
}

/// The same call again, whose answer was lost.
fn repeated(context: &Context<'_>, record: &Record, resolve: &Resolve) -> Option<Decision> {
    let before = record.resolution.as_ref()?;
    if before.attempt_id != resolve.attempt_id || before.expected_epoch != resolve.expected_epoch {
        return None;
    }
    let state = record.logical(&context.cluster.clock)?;
    let answer = ResolvedAnswer { epoch: before.epoch, state, repeated: true };
    Some(Decision::answer(Answer::Resolved(answer)))
}

fn check_state(context: &Context<'_>, record: &Record, resolve: &Resolve) -> Result<(), Refusal> {
    if let State::Completed(completion) = &record.state {
        return Err(Refusal::AlreadyCompleted {
            epoch: completion.epoch,
            completed_time: completion.completed_time,
            evidence_kept: false,
        });
    }
    if record.epoch != resolve.expected_epoch {
        return Err(stale::epoch(record));
    }
    let clock = &context.cluster.clock;
    match record.logical(clock) {
        Some(Logical::Unresolved) => Ok(()),
        Some(Logical::Live) if planted::is(Planted::ResolveLive) => Ok(()),
        Some(Logical::Live) => {
            Err(Refusal::StillLive { until: record.deadline(clock).unwrap_or_default() })
        }
        Some(Logical::Lapsed) => {
            let lease = record.grant.as_ref().map(|grant| grant.lease_expire_time);
            let until = lease.unwrap_or_default().after(record.frozen.takeover_delay);
            if context.now() < until { Err(Refusal::StillLive { until }) } else { Ok(()) }
        }
        _ => Err(Refusal::EffectNotAllowed {
            problem: "nothing is unresolved here: the key can be claimed".to_owned(),
        }),
    }
}

/// Takes in exactly one verdict for everything open.
fn judge(context: &Context<'_>, record: &mut Record, resolve: &Resolve) -> Result<(), Refusal> {
    let open = record.open(&context.cluster.clock);
    let uids = open.uids(record.life);
    for (at, (uid, _)) in resolve.verdicts.iter().enumerate() {
        let twice = resolve.verdicts[..at].iter().any(|(earlier, _)| earlier == uid);
        if twice || !uids.contains(uid) {
            let problem = if twice { "is named twice" } else { "is not open" };
            return Err(Refusal::Invalid(vec![Invalid::new(
                format!("verdicts[{at}].uid"),
                format!("{uid} {problem}"),
                "give one verdict for each effect that is open, and for nothing else",
            )]));
        }
    }
    let judged = |name| {
        let uid = EffectUid { life: record.life, name };
        resolve.verdicts.iter().any(|(judged, _)| *judged == uid)
    };
    let mut missing = open;
    missing.works.retain(|work| !judged(EffectName::Work(work.epoch)));
    missing.effects.retain(|effect| !judged(EffectName::Effect(effect.id.clone())));
    if !missing.is_empty() {
        return Err(Refusal::UnsettledEffects { life: record.life, open: missing });
    }
    for (uid, verdict) in &resolve.verdicts {
        judge_one(context, record, resolve, uid, *verdict)?;
    }
    Ok(())
}

fn judge_one(
    context: &Context<'_>,
    record: &mut Record,
    resolve: &Resolve,
    uid: &EffectUid,
    verdict: Verdict,
) -> Result<(), Refusal> {
    let now = context.now();
    let settle = Settle {
        uid: uid.clone(),
        provider: None,
        provider_key: None,
        verdict,
        evidence: resolve.evidence.clone(),
    };
    let findings = match &uid.name {
        EffectName::Effect(id) => {
            let effect = record.effects.iter_mut().find(|effect| effect.id == *id);
            let effect = effect.ok_or_else(|| Refusal::EffectNotFound { uid: uid.clone() })?;
            check_effect(now, &settle, effect)?;
            &mut effect.findings
        }
        EffectName::Work(epoch) => {
            let work = record.works.iter_mut().find(|work| work.epoch == *epoch);
            let work = work.ok_or_else(|| Refusal::EffectNotFound { uid: uid.clone() })?;
            check_work(now, &settle, work)?;
            &mut work.findings
        }
    };
    let settlement = Settlement {
        verdict,
        evidence: resolve.evidence.clone(),
        time: now,
        principal: resolve.principal.clone(),
    };
    close(findings, settlement, uid)
}

fn check_effect(now: Timestamp, settle: &Settle, effect: &Effect) -> Result<(), Refusal> {
    if settle.verdict == Verdict::Overridden {
        return check_override(now, &settle.uid, effect.last_not_after());
    }
    settle::check_effect_verdict(now, settle, effect)
}

fn check_work(now: Timestamp, settle: &Settle, work: &Work) -> Result<(), Refusal> {
    if settle.verdict == Verdict::Overridden {
        return check_override(now, &settle.uid, work.deadline);
    }
    settle::check_work_verdict(now, settle, work.deadline, work.settle_horizon)
}

/// Nobody may say "it did not happen" while it may still be sent.
fn check_override(now: Timestamp, uid: &EffectUid, not_after: Timestamp) -> Result<(), Refusal> {
    if now < not_after && !planted::is(Planted::OverrideEarly) {
        return Err(Refusal::NotYetProvable { uid: uid.clone(), provable_time: not_after });
    }
    Ok(())
}

/// Settles what is open. A conflict has a COMMITTED already, which nobody can take back.
fn close(findings: &mut Findings, settlement: Settlement, uid: &EffectUid) -> Result<(), Refusal> {
    if !findings.conflict {
        findings.settlement = Some(settlement);
        return Ok(());
    }
    if !settlement.verdict.committed() {
        return Err(conflict(uid));
    }
    findings.conflict = false;
    Ok(())
}

fn conflict(uid: &EffectUid) -> Refusal {
    Refusal::EvidenceConflict { uid: uid.clone(), evidence_kept: false }
}

/// The new state must not deny what is known to have happened.
fn check_new_state(record: &Record, resolve: &Resolve) -> Result<(), Refusal> {
    let committed_work = record
        .works
        .iter()
        .find(|work| work.findings.committed())
        .map(|work| EffectName::Work(work.epoch));
    let denied = match &resolve.state {
        Resolved::Completed(with) if with.disposition == Disposition::Succeeded => None,
        Resolved::Completed(_) => committed_work,
        Resolved::Retryable { .. } => committed_work.or_else(|| {
            let effect = record.effects.iter().find(|effect| effect.findings.committed());
            effect.map(|effect| EffectName::Effect(effect.id.clone()))
        }),
    };
    match denied {
        Some(name) => Err(conflict(&EffectUid { life: record.life, name })),
        None => Ok(()),
    }
}

fn new_state(context: &Context<'_>, record: &Record, resolve: &Resolve) -> State {
    let now = context.now();
    match &resolve.state {
        Resolved::Completed(with) => {
            let owner = OwnerLabel::from(&resolve.principal);
            let by = (record.epoch, resolve.attempt_id.clone(), owner);
            let completion = complete::completion(context, with.disposition, &with.result, by);
            State::Completed(Box::new(Completion { late: true, by_evidence: true, ..completion }))
        }
        Resolved::Retryable { retry_after } => {
            let not_before = now.after(*retry_after);
            let kept = context.policy.identity_retention.from(now);
            let identity_expire_time = kept.max(Expiry::At(not_before));
            State::Retryable { not_before, identity_expire_time }
        }
    }
}
