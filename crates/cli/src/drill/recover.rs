//! What a worker does with a claim that somebody left open: send the same again, or find out.

use firstclaim_client::{EffectRequest, Error, Finding, Reason, Settlement, v1};

use super::act::Dispatch;
use super::worker::{Fate, Held, PAUSE, TEXT, Worker};

/// How often a worker asks a provider that does not know yet. With the pause between, longer than
/// lease and settle horizon together.
const LOOK_UPS_MAX: u32 = 40;

/// The receipt of an effect that is known to have happened, if there is one.
pub(crate) fn evidence(effects: &[v1::Effect]) -> Option<String> {
    let committed = effects.iter().find(|effect| effect.state() == v1::EffectState::Committed)?;
    let evidence = committed.settlement.as_ref()?.evidence.as_ref()?;
    Some(String::from_utf8_lossy(&evidence.data).into_owned())
}

fn open(effects: &[v1::Effect]) -> impl Iterator<Item = &v1::Effect> {
    effects.iter().filter(|effect| effect.state() == v1::EffectState::Open)
}

/// RESUME: every open effect may be sent again with its own provider key, and nothing else.
pub(crate) async fn resume(worker: &Worker<'_>, held: &Held) -> Fate {
    let mut receipt = None;
    for effect in open(&held.acquired.effects) {
        let Some(again) = EffectRequest::again(effect) else { return Fate::PutBack(PAUSE) };
        let permit = match worker.client.record_effect(&held.holder, &again).await {
            Ok(permit) => permit,
            // Its first sender has come back with the receipt.
            Err(error) if error.reason() == Reason::EffectSettled => {
                worker.note(error.reason_text());
                return by_evidence(worker, held).await;
            }
            Err(error) => return worker.set_back(&error),
        };
        worker.note("re-dispatched");
        let found = match worker.send(&permit).await {
            Some(Ok(found)) => found,
            Some(Err(Dispatch::Dead)) => return Fate::Dead,
            Some(Err(Dispatch::Unknown | Dispatch::Impatient)) | None => {
                return Fate::PutBack(PAUSE);
            }
        };
        if let Err(error) = settle(worker, held, effect, Some(&found), None).await {
            return worker.set_back(&error);
        }
        receipt = Some(found);
    }
    match receipt.or_else(|| evidence(&held.acquired.effects)) {
        Some(receipt) => worker.complete(held, &receipt).await,
        None => Fate::PutBack(PAUSE),
    }
}

/// Completes with what somebody else has settled meanwhile.
async fn by_evidence(worker: &Worker<'_>, held: &Held) -> Fate {
    let holder = &held.holder;
    let named = (holder.tenant.as_str(), holder.namespace.as_str(), holder.key.as_str());
    let read = match worker.client.get(named, v1::Consistency::Linearizable).await {
        Ok(read) => read,
        Err(error) => return worker.set_back(&error),
    };
    let effects = read.record.map(|record| record.effects).unwrap_or_default();
    match evidence(&effects) {
        Some(receipt) => {
            worker.note("completed by evidence");
            worker.complete(held, &receipt).await
        }
        None => Fate::PutBack(PAUSE),
    }
}

/// RECONCILE: asks the provider about everything that is open, and settles what it says. When nothing
/// is open any more the claim has risen, and the work is done now if it was not done before.
pub(crate) async fn reconcile(worker: &Worker<'_>, held: &Held) -> Fate {
    let mut receipt = evidence(&held.acquired.effects);
    let mut may_execute = held.acquired.effects.is_empty();
    for effect in open(&held.acquired.effects) {
        match find_out(worker, held, effect).await {
            Ok(Some(found)) => receipt = Some(found),
            Ok(None) => may_execute = true,
            Err(fate) => return fate,
        }
    }
    match receipt {
        Some(receipt) => worker.complete(held, &receipt).await,
        None if may_execute => worker.execute(&risen(held)).await,
        None => Fate::PutBack(PAUSE),
    }
}

/// The claim after everything that was open has been settled as not committed.
fn risen(held: &Held) -> Held {
    let mut acquired = held.acquired.clone();
    for effect in &mut acquired.effects {
        if effect.state() == v1::EffectState::Open {
            effect.set_state(v1::EffectState::NotCommitted);
        }
    }
    Held { holder: held.holder.clone(), acquired, safe_until: held.safe_until }
}

/// Looks one effect up until its fate can be settled.
async fn find_out(
    worker: &Worker<'_>,
    held: &Held,
    effect: &v1::Effect,
) -> Result<Option<String>, Fate> {
    for _ in 0..LOOK_UPS_MAX {
        // Before the look-up begins: what is not found then has not happened by that time.
        let as_of = worker.client.as_of(&worker.scene.tenant).await;
        let as_of = as_of.map_err(|error| worker.set_back(&error))?;
        let found = worker.scene.provider.look_up(&worker.intent().reference).await;
        let not_found = Finding::NotFound(as_of);
        match settle(worker, held, effect, found.as_deref(), Some(not_found)).await {
            Ok(()) => return Ok(found),
            Err(error) if error.reason() == Reason::NotYetProvable => {
                worker.note("NOT_YET_PROVABLE");
                worker.pause().await;
            }
            Err(error) => return Err(worker.set_back(&error)),
        }
    }
    Err(Fate::PutBack(PAUSE))
}

async fn settle(
    worker: &Worker<'_>,
    held: &Held,
    effect: &v1::Effect,
    receipt: Option<&str>,
    otherwise: Option<Finding>,
) -> Result<(), Error> {
    let settlement = match (receipt, otherwise) {
        (None, Some(finding)) => Settlement::of(effect, finding).evidence(TEXT, "no such payment"),
        (Some(receipt), _) => Settlement::of(effect, Finding::Committed).evidence(TEXT, receipt),
        (None, None) => return Ok(()),
    };
    worker.client.settle(&worker.record(held), &settlement, &worker.owner).await?;
    let name = if receipt.is_some() { "settled COMMITTED" } else { "settled NOT_COMMITTED" };
    worker.note(name);
    Ok(())
}
