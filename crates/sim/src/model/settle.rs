//! SettleEffect, and what settlements do wherever they come from. Semantics §6.

use firstclaim_core::command::{Settle, SettleEffect};
use firstclaim_core::effect::Verdict;
use firstclaim_core::record::{Disposition, Logical, Mode, ResultBody};
use firstclaim_core::{EffectName, EffectUid, Millis, Timestamp};

use super::findings::{Found, Told};
use super::first::invalid;
use super::life::{Life, Phase};
use super::open::Item;
use super::{Answered, Model};
use crate::observation::{Known, Observation, Refused, Settled};

/// How a settlement comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Channel {
    /// By itself.
    Settle,
    /// With a Complete: it moves no state by itself.
    Carried,
}

impl Model {
    pub(super) fn settle_effect(&mut self, call: &SettleEffect) -> Answered {
        let (_, life) = self.find(&call.record)?;
        let uid = call.settle.uid.clone();
        let Some(life) = life else { return Err(Refused::RecordNotFound) };
        let before = matches!(self.lives[life].phase, Phase::Completed(_));
        let repeated = self.settle(life, &call.settle, Channel::Settle)?;
        let item = self.find_item(life, &uid)?;
        let known = self.known(life, item);
        let state = self.standing(life).unwrap_or(Logical::Completed);
        let live = state == Logical::Live;
        let mode = self.lives[life].grants.last().map(|grant| grant.mode).filter(|_| live);
        let completed_record = !before && state == Logical::Completed;
        let open = self.open(life);
        let open = self.seen(life, open);
        let inherited = self.inherited(life);
        let settled =
            Settled { uid, known, repeated, state, mode, open, completed_record, inherited };
        Ok(Observation::Settled(Box::new(settled)))
    }

    /// The work or effect that a uid names. Work of epochs that recorded something, that are not
    /// remembered, or that served another request, is not heard of.
    pub(super) fn find_item(&self, life: usize, uid: &EffectUid) -> Result<Item, Refused> {
        let it = &self.lives[life];
        let item = match &uid.name {
            EffectName::Effect(id) => {
                it.effects.iter().position(|effect| effect.content.id == *id).map(Item::Effect)
            }
            EffectName::Work(epoch) => {
                let at = it.grants.iter().position(|grant| grant.epoch == *epoch);
                let heard = |at: &usize| {
                    let grant = &it.grants[*at];
                    let written = grant.opened.is_some() || grant.findings.settled();
                    let remembered = it.has_work(grant) && it.remembers(*at);
                    (written || remembered) && *epoch > it.rebound_after
                };
                at.filter(heard).map(Item::Work)
            }
        };
        item.filter(|_| uid.life == it.name).ok_or(Refused::EffectNotFound { uid: uid.clone() })
    }

    /// Takes a settlement in. Returns whether it changed nothing.
    pub(super) fn settle(
        &mut self,
        life: usize,
        settle: &Settle,
        channel: Channel,
    ) -> Result<bool, Refused> {
        let work = matches!(settle.uid.name, EffectName::Work(_));
        let of_this_life = settle.uid.life == self.lives[life].name;
        if of_this_life && work && (settle.provider.is_some() || settle.provider_key.is_some()) {
            let (uid, field) = (settle.uid.clone(), "provider".to_owned());
            return Err(Refused::EffectMismatch { uid, field });
        }
        let item = self.find_item(life, &settle.uid)?;
        self.check_provider(life, item, settle)?;
        check_verdict(item, settle.verdict, self.now())?;
        let committed = settle.verdict == Verdict::Committed;
        if !committed {
            let findings = match item {
                Item::Work(at) => &self.lives[life].grants[at].findings,
                Item::Effect(at) => &self.lives[life].effects[at].findings,
            };
            let settled = findings.settled();
            if !settled && self.nothing_to_refute(life, item) {
                return Ok(true);
            }
            self.check_provable(life, item, settle.verdict)?;
        }
        if let Some(repeated) = self.said_by_completion(life, item, settle)? {
            return Ok(repeated);
        }
        let told = Told { committed, digest: settle.evidence.digest.clone() };
        let found = match item {
            Item::Work(at) => self.lives[life].grants[at].findings.tell(told),
            Item::Effect(at) => self.lives[life].effects[at].findings.tell(told),
        };
        match found {
            Found::Repeated => {
                self.row("6 Settle: nothing new");
                return Ok(true);
            }
            Found::Contradiction { kept, written } => {
                self.row("6 Settle: EVIDENCE_CONFLICT");
                if written {
                    self.lives[life].last_write = self.now();
                }
                let uid = settle.uid.clone();
                return Err(Refused::EvidenceConflict { uid, evidence_kept: kept });
            }
            Found::New | Found::Conflict => {}
        }
        self.lives[life].last_write = self.now();
        self.move_by_settlement(life, item, settle, (found, channel));
        Ok(false)
    }

    /// What is known of an item.
    fn known(&self, life: usize, item: Item) -> Known {
        let it = &self.lives[life];
        match item {
            Item::Effect(at) => it.effects[at].findings.known(),
            Item::Work(at) => {
                let grant = &it.grants[at];
                let completion = it.completed_by(grant.epoch);
                let done = completion.is_some_and(|it| it.disposition == Disposition::Succeeded);
                let known = grant.findings.known();
                if done && known == Known::Open { Known::Committed } else { known }
            }
        }
    }

    /// A completion speaks for the work of its own epoch, as the first who did.
    fn said_by_completion(
        &mut self,
        life: usize,
        item: Item,
        settle: &Settle,
    ) -> Result<Option<bool>, Refused> {
        let Item::Work(at) = item else { return Ok(None) };
        let grant = &self.lives[life].grants[at];
        let completion = self.lives[life].completed_by(grant.epoch);
        let Some(completion) = completion.filter(|_| !grant.findings.settled()) else {
            return Ok(None);
        };
        let succeeded = completion.disposition == Disposition::Succeeded;
        let digest = completion.digest.clone();
        if succeeded && digest == settle.evidence.digest {
            return Ok(Some(true));
        }
        let findings = &mut self.lives[life].grants[at].findings;
        if succeeded {
            findings.tell(Told { committed: true, digest });
        }
        findings.tell(Told { committed: true, digest: settle.evidence.digest.clone() });
        self.row("6 Settle: EVIDENCE_CONFLICT");
        Err(Refused::EvidenceConflict { uid: settle.uid.clone(), evidence_kept: true })
    }

    /// NOT_COMMITTED for work that is not open, and not that of the live claim, changes nothing.
    fn nothing_to_refute(&self, life: usize, item: Item) -> bool {
        let Item::Work(at) = item else { return false };
        let own = at + 1 == self.lives[life].grants.len() && self.live(life);
        !own && !self.open(life).contains(&item)
    }

    fn check_provider(&self, life: usize, item: Item, settle: &Settle) -> Result<(), Refused> {
        let Item::Effect(at) = item else { return Ok(()) };
        let content = &self.lives[life].effects[at].content;
        let (provider, provider_key) = (Some(&content.provider), content.provider_key.as_ref());
        let mismatch = |field: &str| {
            Err(Refused::EffectMismatch { uid: settle.uid.clone(), field: field.to_owned() })
        };
        if settle.provider.as_ref() != provider {
            return mismatch("provider");
        }
        if settle.provider_key.as_ref() != provider_key {
            return mismatch("provider_key");
        }
        Ok(())
    }

    /// The latest time at which an honest holder can have sent it, and how long after that a "not
    /// found" proves nothing.
    fn bounds(&self, life: usize, item: Item) -> (Timestamp, Millis) {
        let it = &self.lives[life];
        match item {
            Item::Work(at) => {
                let grant = &it.grants[at];
                (grant.latest_deadline, grant.frozen.settle_horizon)
            }
            Item::Effect(at) => {
                let effect = &it.effects[at];
                (effect.last_not_after(), effect.settle_horizon())
            }
        }
    }

    /// Whether a NOT_COMMITTED proves anything.
    pub(super) fn check_provable(
        &mut self,
        life: usize,
        item: Item,
        verdict: Verdict,
    ) -> Result<(), Refused> {
        let (latest, horizon) = self.bounds(life, item);
        let own = matches!(item, Item::Work(at) if at + 1 == self.lives[life].grants.len());
        let (told, provable_time) = match verdict {
            Verdict::Committed | Verdict::Refused { .. } => return Ok(()),
            Verdict::NotFound { as_of } => (as_of, latest.after(horizon)),
            Verdict::Overridden => (self.now(), latest),
        };
        if told < provable_time || (own && self.live(life)) {
            self.row("6 Settle: NOT_YET_PROVABLE");
            let uid = match item {
                Item::Work(at) => self.lives[life].work_uid(&self.lives[life].grants[at]),
                Item::Effect(at) => self.lives[life].effect_uid(&self.lives[life].effects[at]),
            };
            return Err(Refused::NotYetProvable { uid, provable_time });
        }
        Ok(())
    }

    /// What a settlement that says something new makes of the record.
    fn move_by_settlement(
        &mut self,
        life: usize,
        item: Item,
        settle: &Settle,
        (found, channel): (Found, Channel),
    ) {
        if matches!(self.lives[life].phase, Phase::Completed(_)) {
            self.row("6 Settle: on a COMPLETED record");
            return;
        }
        if found == Found::Conflict {
            self.row("6 Settle: conflict");
            self.interrupt(life);
            return;
        }
        if channel == Channel::Carried {
            return;
        }
        let committed = settle.verdict == Verdict::Committed;
        if let (true, Item::Work(at)) = (committed, item) {
            self.row("6 Settle: work COMMITTED completes");
            self.complete_by_work(life, at, settle);
            return;
        }
        self.row(if committed { "6 Settle: COMMITTED" } else { "6 Settle: NOT_COMMITTED" });
        if !self.open(life).is_empty() {
            return;
        }
        match self.standing(life) {
            Some(Logical::Live) => self.rise(life),
            Some(Logical::Lapsed | Logical::Unresolved) if !committed => self.make_retryable(life),
            _ => {}
        }
    }

    /// A conflict: UNRESOLVED at once, and the work of the EXECUTE epoch that it interrupts is open.
    fn interrupt(&mut self, life: usize) {
        let now = self.now();
        let claimed = matches!(self.lives[life].phase, Phase::Claimed);
        if claimed {
            self.leave_claimed(life);
            let it = &self.lives[life];
            let has_work = it.grants.last().is_some_and(|grant| it.has_work(grant));
            if let Some(grant) = self.lives[life].grants.last_mut().filter(|_| has_work)
                && !grant.findings.settled()
            {
                grant.opened = grant.opened.or(Some(now));
            }
        }
        self.lives[life].phase = Phase::Unresolved { since: now };
    }

    /// Rise: the epoch counts as an EXECUTE epoch from now on, unless the cap is reached.
    fn rise(&mut self, life: usize) {
        let max_attempts = self.policy(self.lives[life].namespace).max_attempts;
        let it = &mut self.lives[life];
        let used_up = max_attempts > 0 && it.execute_grants >= max_attempts;
        let Some(grant) = it.grants.last_mut() else { return };
        if grant.mode == Mode::Execute {
            return;
        }
        if used_up {
            self.row("5 rise: at the cap");
            return;
        }
        grant.mode = Mode::Execute;
        it.execute_grants += 1;
        self.row("5 rise");
    }

    /// It is known that nothing happened: at once, kept by the retention frozen at its grant.
    fn make_retryable(&mut self, life: usize) {
        let now = self.now();
        self.leave_claimed(life);
        let Life { grants, phase, .. } = &mut self.lives[life];
        let Some(grant) = grants.last() else { return };
        *phase = Phase::Retryable {
            not_before: now,
            identity_expire_time: grant.frozen.identity_retention.from(now),
        };
        self.row("6 Settle: RETRYABLE");
    }

    /// The evidence is the result.
    pub(super) fn complete_by_work(&mut self, life: usize, grant: usize, settle: &Settle) {
        let result = ResultBody {
            digest: settle.evidence.digest.clone(),
            length: settle.evidence.length,
            content_type: settle.evidence.content_type.clone(),
            reference: None,
            bytes: settle.evidence.bytes.clone(),
            oversize: false,
        };
        let by = self.lives[life].grants[grant].clone();
        self.leave_claimed(life);
        let by = super::complete::By {
            epoch: by.epoch,
            attempt_id: by.attempt_id,
            owner: by.owner,
            late: true,
            by_evidence: true,
        };
        self.store_completion(life, by, Disposition::Succeeded, &result);
    }
}

fn check_verdict(item: Item, verdict: Verdict, now: Timestamp) -> Result<(), Refused> {
    match verdict {
        Verdict::Committed => Ok(()),
        Verdict::Refused { status } => {
            let definitive =
                !status.is_some_and(|it| it == 409 || it == 429 || (500..600).contains(&it));
            let of_effect = matches!(item, Item::Effect(_));
            if definitive && of_effect { Ok(()) } else { invalid("verdict") }
        }
        Verdict::NotFound { as_of } if as_of > now => invalid("as_of"),
        Verdict::NotFound { .. } => Ok(()),
        Verdict::Overridden => invalid("verdict"),
    }
}
