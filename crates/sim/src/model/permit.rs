//! RecordEffect: leave to send an effect. Semantics §6.

use firstclaim_core::command::{Dispatch, RecordEffect};
use firstclaim_core::record::Mode;
use firstclaim_core::{EffectName, Expiry, Millis, Timestamp};

use super::findings::Findings;
use super::life::{Effect, Permit};
use super::{Answered, Model};
use crate::observation::{Known, Observation, Permitted, Refused};

/// A permit leaves at least this time for the dispatch.
const DISPATCH_MIN: Millis = Millis::from_secs(1);

impl Effect {
    /// Until when the provider tells repeats; none if it has no key, or no known window.
    fn dedup_until(&self) -> Option<Expiry> {
        self.content.provider_key.as_ref()?;
        let first = self.permits.iter().map(|permit| permit.permitted).min()?;
        Some(self.content.dedup_window?.from(first))
    }

    /// Whether the window is open at the latest `not_after`, the new one included, plus the longest
    /// settle horizon, that of the present grant included.
    pub(super) fn window_open(&self, not_after: Timestamp, settle_horizon: Millis) -> bool {
        let latest = self.last_not_after().max(not_after);
        let needed = latest.after(self.settle_horizon().max(settle_horizon));
        match self.dedup_until() {
            None => false,
            Some(Expiry::Never) => true,
            Some(Expiry::At(until)) => needed < until,
        }
    }

    /// The first field in which another content differs.
    fn mismatch(&self, other: &Dispatch) -> Option<&'static str> {
        let own = &self.content;
        let same_request = (&own.request.digest, &own.request.content_type)
            == (&other.request.digest, &other.request.content_type);
        let differs = [
            ("slot", own.slot != other.slot),
            ("provider", own.provider != other.provider),
            ("provider_key", own.provider_key != other.provider_key),
            ("dedup_window", own.dedup_window != other.dedup_window),
            ("request", !same_request),
        ];
        differs.into_iter().find(|(_, differs)| *differs).map(|(field, _)| field)
    }
}

impl Model {
    pub(super) fn record_effect(&mut self, call: &RecordEffect) -> Answered {
        let life = self.holder(&call.holder)?;
        self.refuse_if_completed(life)?;
        self.refuse_if_given_back(life)?;
        let permitted = self.permit(life, &call.dispatch)?;
        Ok(Observation::Permitted(permitted))
    }

    /// Gives a permit to the present holder.
    pub(super) fn permit(&mut self, life: usize, ask: &Dispatch) -> Result<Permitted, Refused> {
        self.check_may_dispatch(life)?;
        let known = self.lives[life].effects.iter().position(|it| it.content.id == ask.id);
        match known {
            Some(effect) => self.permit_again(life, effect, ask),
            None => self.permit_new(life, ask),
        }
    }

    /// Live, not revoked, and in a mode that dispatches at all.
    fn check_may_dispatch(&mut self, life: usize) -> Result<(), Refused> {
        let grant = self.lives[life].grants.last();
        let (revoked, mode) =
            grant.map_or((true, Mode::Reconcile), |grant| (grant.revoked, grant.mode));
        if revoked {
            self.row("6 RecordEffect: REVOKED");
            return Err(Refused::Revoked);
        }
        if !self.live(life) {
            self.row("6 RecordEffect: LEASE_EXPIRED");
            return Err(self.lease_expired(life));
        }
        if mode == Mode::Reconcile {
            self.row("6 RecordEffect: EFFECT_NOT_ALLOWED");
            return Err(Refused::EffectNotAllowed);
        }
        Ok(())
    }

    fn permit_again(
        &mut self,
        life: usize,
        effect: usize,
        ask: &Dispatch,
    ) -> Result<Permitted, Refused> {
        let it = &self.lives[life].effects[effect];
        let uid = self.lives[life].effect_uid(it);
        let known = it.findings.known();
        if known != Known::Open {
            self.row("6 RecordEffect: a settled effect");
            return Err(Refused::EffectSettled { uid, known });
        }
        if let Some(field) = it.mismatch(ask) {
            self.row("6 RecordEffect: EFFECT_MISMATCH");
            return Err(Refused::EffectMismatch { uid, field: field.to_owned() });
        }
        let epoch = self.lives[life].epoch();
        let given = it.permits.iter().find(|it| it.number == ask.number && it.epoch == epoch);
        if let Some(given) = given.copied() {
            self.row("6 RecordEffect: the same number again");
            return Ok(permitted(self, life, effect, given, true));
        }
        let next = u32::try_from(it.permits.len()).unwrap_or(u32::MAX).saturating_add(1);
        if ask.number != next {
            self.row("6 RecordEffect: another number is next");
            return Err(Refused::DispatchNumber { uid, next });
        }
        let not_after = self.not_after(life, ask)?;
        let it = &self.lives[life].effects[effect];
        let horizon = self.present_horizon(life);
        if !it.window_open(not_after, horizon) {
            let dedup_until = it.dedup_until();
            self.row("6 RecordEffect: REDISPATCH_UNSAFE");
            return Err(Refused::RedispatchUnsafe { uid, dedup_until });
        }
        self.row("6 RecordEffect: number n+1");
        Ok(self.give(life, effect, ask.number, not_after))
    }

    fn permit_new(&mut self, life: usize, ask: &Dispatch) -> Result<Permitted, Refused> {
        let it = &self.lives[life];
        if it.grants.last().is_some_and(|grant| grant.mode != Mode::Execute) {
            self.row("6 RecordEffect: EFFECT_NOT_ALLOWED");
            return Err(Refused::EffectNotAllowed);
        }
        if ask.number != 1 {
            let uid = it.uid(EffectName::Effect(ask.id.clone()));
            self.row("6 RecordEffect: another number is next");
            return Err(Refused::DispatchNumber { uid, next: 1 });
        }
        let in_slot = it.effects.iter().filter(|other| other.content.slot == ask.slot);
        let open = in_slot.clone().find(|other| other.findings.open());
        if let Some(open) = open {
            let uid = it.effect_uid(open);
            self.row("6 RecordEffect: EFFECT_OPEN");
            return Err(Refused::EffectOpen { uid });
        }
        let committed = in_slot.clone().find(|other| other.findings.committed());
        if let Some(committed) = committed {
            let (uid, known) = (it.effect_uid(committed), committed.findings.known());
            self.row("6 RecordEffect: EFFECT_SETTLED by another of the slot");
            return Err(Refused::EffectSettled { uid, known });
        }
        let not_after = self.not_after(life, ask)?;
        self.row("6 RecordEffect: a new effect");
        let it = &mut self.lives[life];
        it.effects.push(Effect {
            content: ask.clone(),
            permits: Vec::new(),
            findings: Findings::default(),
        });
        let effect = it.effects.len() - 1;
        Ok(self.give(life, effect, 1, not_after))
    }

    /// `min(T + within, lease_expire_time)`, at least 1 s away. The stored deadline counts.
    fn not_after(&mut self, life: usize, ask: &Dispatch) -> Result<Timestamp, Refused> {
        let now = self.now();
        let expire = self.lives[life].grants.last().map(|grant| grant.lease().expire);
        let expire = expire.unwrap_or_default();
        let not_after = ask.within.map_or(expire, |within| now.after(within).min(expire));
        if not_after < now.after(DISPATCH_MIN) {
            self.row("6 RecordEffect: less than 1 s left");
            return Err(self.lease_expired(life));
        }
        Ok(not_after)
    }

    fn present_horizon(&self, life: usize) -> Millis {
        let grant = self.lives[life].grants.last();
        grant.map(|grant| grant.frozen.settle_horizon).unwrap_or_default()
    }

    fn give(&mut self, life: usize, effect: usize, number: u32, not_after: Timestamp) -> Permitted {
        let (now, epoch) = (self.now(), self.lives[life].epoch());
        let settle_horizon = self.present_horizon(life);
        let permit = Permit { number, epoch, permitted: now, not_after, settle_horizon };
        self.lives[life].effects[effect].permits.push(permit);
        self.lives[life].last_write = now;
        permitted(self, life, effect, permit, false)
    }

    pub(super) fn lease_expired(&self, life: usize) -> Refused {
        // After a Resolve there is no lease any more.
        let epoch = self.lives[life].epoch();
        let grant = self.lives[life].grants.last().filter(|grant| grant.epoch == epoch);
        let lease_expire_time = grant.map_or(self.now(), |grant| grant.lease().expire);
        Refused::LeaseExpired { lease_expire_time }
    }
}

fn permitted(
    model: &Model,
    life: usize,
    effect: usize,
    permit: Permit,
    repeated: bool,
) -> Permitted {
    let it = &model.lives[life].effects[effect];
    Permitted {
        uid: model.lives[life].effect_uid(it),
        provider_key: it.content.provider_key.clone(),
        number: permit.number,
        epoch: permit.epoch,
        not_after: permit.not_after,
        repeated,
    }
}
