//! What is open, and what is known of the rest. Semantics §3.

use firstclaim_core::policy::OnLapse;
use firstclaim_core::record::Mode;
use firstclaim_core::{EffectName, EffectUid, Timestamp};

use super::Model;
use super::life::Phase;
use crate::observation::{Known, Seen};

/// A place in the history of a life: the work of a grant, or a recorded effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// The work of the grant at that place.
    Work(usize),
    /// The effect at that place.
    Effect(usize),
}

impl Model {
    /// Everything that is open.
    pub(super) fn open(&self, at: usize) -> Vec<Item> {
        let life = &self.lives[at];
        let works = (0..life.grants.len()).filter(|grant| self.work_open(at, *grant));
        let effects = life.effects.iter().enumerate();
        let effects = effects.filter(|(_, effect)| effect.findings.open()).map(|(it, _)| it);
        works.map(Item::Work).chain(effects.map(Item::Effect)).collect()
    }

    fn work_open(&self, at: usize, grant: usize) -> bool {
        let life = &self.lives[at];
        let known = life.grants[grant].findings.known();
        if life.completed_by(life.grants[grant].epoch).is_some() && known == Known::Open {
            // The completion speaks for the work of its own epoch.
            return false;
        }
        known == Known::Conflict || (known == Known::Open && self.opened(at, grant).is_some())
    }

    /// Since when the work of a grant is or was open.
    fn opened(&self, at: usize, grant: usize) -> Option<Timestamp> {
        let life = &self.lives[at];
        let it = &life.grants[grant];
        if !life.has_work(it) || it.opened.is_some() {
            return it.opened;
        }
        let present = grant + 1 == life.grants.len() && matches!(life.phase, Phase::Claimed);
        let lapsed = life.deadline(&self.clock).filter(|deadline| *deadline <= self.now());
        lapsed.filter(|_| present && it.frozen.on_lapse == OnLapse::Recover)
    }

    /// Everything that happened or may have happened: the effects, and work that is or was open or
    /// that somebody spoke of.
    pub(super) fn journal(&self, at: usize) -> Vec<Seen> {
        let life = &self.lives[at];
        let works = (0..life.grants.len()).filter(|grant| {
            let it = &life.grants[*grant];
            let of_this_request = it.epoch > life.rebound_after;
            of_this_request && (self.opened(at, *grant).is_some() || it.findings.settled())
        });
        let effects = (0..life.effects.len()).map(Item::Effect);
        self.seen(at, works.map(Item::Work).chain(effects))
    }

    /// "Every answer that shows a rise carries the frozen on_lapse and all effects": so does every
    /// answer to or about a live EXECUTE claim after which something from before it is to be seen.
    pub(super) fn inherited(&self, at: usize) -> Option<(OnLapse, Vec<Seen>)> {
        let grant = self.lives[at].grants.last()?;
        let of_others = |seen: &Seen| match &seen.uid.name {
            EffectName::Work(epoch) => *epoch != grant.epoch,
            EffectName::Effect(_) => seen.permits.iter().any(|permit| permit.1 != grant.epoch),
        };
        let may_execute = grant.mode == Mode::Execute && self.live(at);
        let journal = self.journal(at);
        let shown = may_execute && journal.iter().any(of_others);
        shown.then_some((grant.frozen.on_lapse, journal))
    }

    /// As an answer shows it, by uid.
    pub(super) fn seen(&self, at: usize, items: impl IntoIterator<Item = Item>) -> Vec<Seen> {
        let mut all: Vec<Seen> = items.into_iter().map(|item| self.seen_one(at, item)).collect();
        all.sort_by(|left, right| left.uid.cmp(&right.uid));
        all
    }

    /// Since when an item may have happened.
    pub(super) fn since(&self, at: usize, item: Item) -> Option<Timestamp> {
        match item {
            Item::Work(grant) => self.opened(at, grant),
            Item::Effect(effect) => {
                let permits = self.lives[at].effects[effect].permits.iter();
                permits.map(|permit| permit.permitted).min()
            }
        }
    }

    fn seen_one(&self, at: usize, item: Item) -> Seen {
        let life = &self.lives[at];
        match item {
            Item::Work(grant) => {
                let it = &life.grants[grant];
                let known = it.findings.known();
                Seen {
                    uid: life.work_uid(it),
                    known,
                    latest: Some(it.latest_deadline).filter(|_| it.findings.open()),
                    settle_horizon: Some(it.frozen.settle_horizon).filter(|_| it.findings.open()),
                    permits: Vec::new(),
                    holder: Some((it.attempt_id.clone(), it.owner.clone())),
                    since: self.opened(at, grant).filter(|_| known == Known::Open),
                }
            }
            Item::Effect(effect) => {
                let it = &life.effects[effect];
                let permits = it.permits.iter().map(|one| (one.number, one.epoch, one.not_after));
                Seen {
                    uid: life.effect_uid(it),
                    known: it.findings.known(),
                    latest: Some(it.last_not_after()),
                    settle_horizon: Some(it.settle_horizon()),
                    permits: permits.collect(),
                    holder: None,
                    since: None,
                }
            }
        }
    }

    /// Their names, in order.
    pub(super) fn uids(&self, at: usize, items: &[Item]) -> Vec<EffectUid> {
        self.seen(at, items.iter().copied()).into_iter().map(|one| one.uid).collect()
    }
}
