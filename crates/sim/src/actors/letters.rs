//! What honest workers write in their calls.

use firstclaim_core::command::{
    Claim, Command, Dispatch, Holder, RecordEffect, Renew, Settle, SettleEffect,
};
use firstclaim_core::effect::Verdict;
use firstclaim_core::name::{EffectId, Labels, ProviderKey, Region};
use firstclaim_core::policy::Retention;
use firstclaim_core::{AttemptId, EffectName, EffectUid, Millis, Timestamp};

use super::worker::{Held, Worker};
use crate::names::{self, name};
use crate::world::World;

impl World {
    /// A claim of a worker's attempt.
    pub(super) fn claim(&mut self, worker: usize, with_effect: bool) -> Command {
        let Worker { intent, attempt, .. } = self.workers[worker];
        self.workers[worker].asked |= with_effect;
        let effects = if with_effect { vec![self.new_effect(worker, 0)] } else { Vec::new() };
        let accept_recovery = self.random.chance(70);
        let intent = &self.intents[intent];
        Command::Claim(Claim {
            record: intent.record.clone(),
            attempt_id: names::attempt(&format!("w{attempt}")),
            owner: names::owner(0),
            fingerprints: intent.fingerprints.clone(),
            lease: None,
            intent_time: intent.born.map(Timestamp),
            labels: Labels::default(),
            accept_recovery,
            region: Region::unknown(),
            effects,
            complete_with: None,
            allow_duplicate_intent: false,
        })
    }

    /// An effect that nobody recorded before, to be sent for the first time. Providers without keys
    /// have no window, either.
    pub(super) fn new_effect(&mut self, worker: usize, slot: u8) -> Dispatch {
        let attempt = self.workers[worker].attempt;
        let id = format!("e{attempt}-{slot}-{}", self.random.below(1_000_000));
        let keyed = self.random.chance(75);
        let window = self.random.pick(&[8_000, 30_000, u64::MAX]);
        let retention =
            if window == u64::MAX { Retention::Forever } else { Retention::For(Millis(window)) };
        Dispatch {
            id: name!(EffectId, "{id}"),
            number: 1,
            slot: names::slot(slot),
            provider: names::provider(u8::from(!keyed)),
            provider_key: keyed.then(|| name!(ProviderKey, "{id}")),
            dedup_window: keyed.then_some(retention),
            request: names::content(slot),
            within: self.random.pick(&[None, Some(Millis(1_000)), Some(Millis(3_000))]),
        }
    }

    /// The same effect once more, as the record shows it.
    pub(super) fn same_effect(
        &mut self,
        worker: usize,
        uid: &EffectUid,
        number: u32,
    ) -> Option<Dispatch> {
        let record = self.record(self.workers[worker].intent)?;
        let EffectName::Effect(id) = &uid.name else { return None };
        let effect = record.effects.into_iter().find(|effect| effect.id == *id)?;
        Some(Dispatch {
            id: effect.id,
            number,
            slot: effect.slot,
            provider: effect.provider,
            provider_key: effect.provider_key,
            dedup_window: effect.dedup_window,
            request: effect.request,
            within: self.random.pick(&[None, Some(Millis(1_000))]),
        })
    }

    pub(super) fn ask_for_permit(&self, worker: usize, held: &Held, dispatch: Dispatch) -> Command {
        Command::RecordEffect(RecordEffect { holder: self.holder(worker, held), dispatch })
    }

    pub(super) fn renewal(&self, worker: usize, held: &Held) -> Command {
        Command::Renew(Renew { holder: self.holder(worker, held), lease: None })
    }

    pub(super) fn holder(&self, worker: usize, held: &Held) -> Holder {
        let Worker { intent, attempt, .. } = self.workers[worker];
        Holder {
            record: self.intents[intent].record.clone(),
            epoch: held.epoch,
            attempt_id: names::attempt(&format!("w{attempt}")),
        }
    }

    /// What became of an effect, with its provider as the record shows it.
    pub(super) fn settlement(
        &self,
        intent: usize,
        uid: &EffectUid,
        verdict: Verdict,
    ) -> Option<Settle> {
        let record = self.judge.record(&self.intents[intent].record)?;
        let effect =
            record.effects.iter().find(|effect| EffectName::Effect(effect.id.clone()) == uid.name);
        Some(Settle {
            uid: uid.clone(),
            provider: effect.map(|effect| effect.provider.clone()),
            provider_key: effect.and_then(|effect| effect.provider_key.clone()),
            verdict,
            evidence: names::content(7),
        })
    }

    pub(super) fn settle_effect(
        &self,
        intent: usize,
        uid: &EffectUid,
        verdict: Verdict,
    ) -> Option<Command> {
        let settle = self.settlement(intent, uid, verdict)?;
        let record = self.intents[intent].record.clone();
        Some(Command::SettleEffect(SettleEffect { record, settle, principal: names::principal() }))
    }

    /// The attempt that a call is made by, if it is a claim.
    pub(super) fn attempt_of(command: &Command) -> Option<AttemptId> {
        if let Command::Claim(claim) = command { Some(claim.attempt_id.clone()) } else { None }
    }
}
