//! RecordEffect: leave to send one effect, journaled before it is sent.

use crate::command::{Dispatch, RecordEffect};
use crate::decide::{Context, Decision, stale};
use crate::effect::{Effect, EffectName, EffectUid, Findings, Permit};
use crate::limits;
use crate::outcome::{Answer, Permitted, Refusal};
use crate::planted::{self, Planted};
use crate::record::{Logical, Mode, Record, State};
use crate::time::Timestamp;

/// Decides a permit. Semantics §6.
pub fn record_effect(
    context: &mut Context<'_>,
    prior: Option<&Record>,
    command: &RecordEffect,
) -> Decision {
    let Some(record) = prior else { return stale::refuse(None) };
    if !stale::holds(record, &command.holder) {
        return stale::refuse(Some(record));
    }
    let Some(grant) = &record.grant else { return stale::refuse(Some(record)) };
    match &record.state {
        State::Completed(completion) => return stale::already_completed(completion),
        State::Retryable { .. } | State::Unbound { .. } | State::Reserved { .. } => {
            return stale::refuse(Some(record));
        }
        State::Claimed | State::Unresolved { .. } => {}
    }
    if grant.revoked && !planted::is(Planted::RevokedHolderSends) {
        return Decision::refuse(Refusal::Revoked);
    }
    if record.logical(&context.cluster.clock) != Some(Logical::Live) {
        return Decision::refuse(Refusal::LeaseExpired {
            lease_expire_time: grant.lease_expire_time,
        });
    }
    let mut next = record.clone();
    match permit(context, &mut next, &command.dispatch) {
        Ok(permitted) if permitted.repeated => {
            Decision::answer(Answer::Permitted(Box::new(permitted)))
        }
        Ok(permitted) => {
            Decision::kept(context, record, next, Ok(Answer::Permitted(Box::new(permitted))))
        }
        Err(refusal) => Decision::refuse(refusal),
    }
}

/// Gives a permit to the live holder of `record`, and writes it down.
pub(super) fn permit(
    context: &Context<'_>,
    record: &mut Record,
    dispatch: &Dispatch,
) -> Result<Permitted, Refusal> {
    let Some(grant) = &record.grant else {
        return Err(Refusal::StaleEpoch {
            epoch: Some(record.epoch),
            evidence_kept: false,
            completed_record: false,
        });
    };
    if grant.revoked && !planted::is(Planted::RevokedHolderSends) {
        return Err(Refusal::Revoked);
    }
    let uid = EffectUid { life: record.life, name: EffectName::Effect(dispatch.id.clone()) };
    let known = record.effects.iter().position(|effect| effect.id == dispatch.id);
    let allowed = match grant.mode {
        Mode::Execute => true,
        Mode::Resume => known.is_some(),
        Mode::Reconcile => false,
    };
    if !(allowed || planted::is(Planted::ModeUnchecked)) {
        return Err(Refusal::EffectNotAllowed {
            problem: format!(
                "a claim of mode {:?} may not send effect {:?}",
                grant.mode,
                dispatch.id.as_str()
            ),
        });
    }
    let permit = Permit {
        number: dispatch.number,
        epoch: grant.epoch,
        permitted_time: context.now(),
        not_after: Timestamp(0),
    };
    let not_after = || not_after(context.now(), grant.lease_expire_time, dispatch);
    let permit = match known.map(|at| &record.effects[at]) {
        None => {
            check_new(record, dispatch, &uid)?;
            Permit { not_after: not_after()?, ..permit }
        }
        Some(effect) => {
            check_known(effect, dispatch, &uid)?;
            let mut given = effect.permits.iter().find(|given| given.number == dispatch.number);
            let mut permit = permit;
            if planted::is(Planted::NumberByServer) {
                given = None;
                permit.number = effect.permits.iter().map(|it| it.number).max().unwrap_or(0) + 1;
            }
            if let Some(given) = given.filter(|given| given.epoch == grant.epoch) {
                let (permit, provider_key) = (*given, effect.provider_key.clone());
                return Ok(Permitted { uid, provider_key, permit, repeated: true });
            }
            check_number(effect, permit.number, &uid)?;
            let permit = Permit { not_after: not_after()?, ..permit };
            let safe = effect.redispatchable(permit.not_after, record.frozen.settle_horizon);
            if !(safe || planted::is(Planted::WindowUnchecked)) {
                return Err(unsafe_redispatch(effect, uid));
            }
            permit
        }
    };
    write(record, dispatch, known, permit);
    Ok(Permitted { uid, provider_key: dispatch.provider_key.clone(), permit, repeated: false })
}

fn write(record: &mut Record, dispatch: &Dispatch, known: Option<usize>, permit: Permit) {
    let horizon = record.frozen.settle_horizon;
    match known {
        Some(at) => {
            let effect = &mut record.effects[at];
            effect.permits.push(permit);
            let last = planted::is(Planted::HorizonOfLastGrant);
            effect.settle_horizon = if last { horizon } else { effect.settle_horizon.max(horizon) };
        }
        None => record.effects.push(Effect {
            id: dispatch.id.clone(),
            slot: dispatch.slot.clone(),
            provider: dispatch.provider.clone(),
            provider_key: dispatch.provider_key.clone(),
            dedup_window: dispatch.dedup_window,
            request: dispatch.request.clone(),
            permits: vec![permit],
            settle_horizon: horizon,
            findings: Findings::default(),
        }),
    }
    // From now on its effects are all that can have happened under this epoch.
    if let Some(grant) = &mut record.grant {
        grant.journaled = true;
    }
    let attempt = record.attempts.iter_mut().rev().find(|known| known.epoch == permit.epoch);
    if let Some(attempt) = attempt {
        attempt.journaled = true;
    }
}

/// A new effect must not stand beside one of its slot that happened or may have happened.
fn check_new(record: &Record, dispatch: &Dispatch, uid: &EffectUid) -> Result<(), Refusal> {
    if dispatch.number != 1 {
        return Err(Refusal::DispatchNumber { uid: uid.clone(), next: 1 });
    }
    let in_slot = || record.effects.iter().filter(|effect| effect.slot == dispatch.slot);
    let uid_of = |effect: &Effect| EffectUid {
        life: record.life,
        name: EffectName::Effect(effect.id.clone()),
    };
    let own = |effect: &Effect| {
        let last = effect.permits.last().map(|permit| permit.epoch);
        planted::is(Planted::SlotOpenToHolder) && last == Some(record.epoch)
    };
    if let Some(open) = in_slot().find(|effect| effect.findings.open() && !own(effect)) {
        return Err(Refusal::EffectOpen { uid: uid_of(open) });
    }
    let beside = planted::is(Planted::SlotOpenBesideCommitted);
    if let Some(done) = in_slot().find(|effect| effect.findings.committed() && !beside) {
        return Err(settled(done, uid_of(done)));
    }
    if record.effects.len() >= limits::EFFECTS_MAX {
        return Err(Refusal::EffectNotAllowed {
            problem: format!(
                "the record has {} effects, the most it may have",
                limits::EFFECTS_MAX
            ),
        });
    }
    Ok(())
}

fn settled(effect: &Effect, uid: EffectUid) -> Refusal {
    Refusal::EffectSettled { uid, findings: Box::new(effect.findings.clone()) }
}

fn check_known(effect: &Effect, dispatch: &Dispatch, uid: &EffectUid) -> Result<(), Refusal> {
    if effect.findings.settlement.is_some() {
        return Err(settled(effect, uid.clone()));
    }
    let differs = [
        ("slot", effect.slot != dispatch.slot),
        ("provider", effect.provider != dispatch.provider),
        ("provider_key", effect.provider_key != dispatch.provider_key),
        ("dedup_window", effect.dedup_window != dispatch.dedup_window),
        ("request", !effect.request.same(&dispatch.request)),
    ];
    match differs.into_iter().find(|(_, differs)| *differs) {
        Some((field, _)) => {
            Err(Refusal::EffectMismatch { uid: uid.clone(), field: field.to_owned() })
        }
        None => Ok(()),
    }
}

fn check_number(effect: &Effect, number: u32, uid: &EffectUid) -> Result<(), Refusal> {
    let last = effect.permits.iter().map(|permit| permit.number).max().unwrap_or(0);
    if number != last + 1 {
        return Err(Refusal::DispatchNumber { uid: uid.clone(), next: last + 1 });
    }
    if last >= limits::DISPATCHES_MAX {
        return Err(Refusal::EffectNotAllowed {
            problem: format!("{last} dispatches were permitted, the most there may be"),
        });
    }
    Ok(())
}

fn unsafe_redispatch(effect: &Effect, uid: EffectUid) -> Refusal {
    let window = effect.dedup_window.filter(|_| effect.provider_key.is_some());
    let dedup_until = window.map(|window| window.from(effect.first_permitted()));
    Refusal::RedispatchUnsafe { uid, dedup_until }
}

/// Until when the dispatch may be sent: never after the lease, and with time enough to do it.
fn not_after(
    now: Timestamp,
    lease_expire_time: Timestamp,
    dispatch: &Dispatch,
) -> Result<Timestamp, Refusal> {
    let asked = dispatch.within.map_or(lease_expire_time, |within| now.after(within));
    let not_after = asked.min(lease_expire_time);
    if not_after < now.after(limits::DISPATCH_MIN) {
        return Err(Refusal::LeaseExpired { lease_expire_time });
    }
    Ok(not_after)
}
