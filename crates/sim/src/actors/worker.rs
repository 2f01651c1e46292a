//! An honest worker: what it knows, and what it may do next.
//!
//! It sends once per permit, before its end. It does unjournaled work only under an EXECUTE grant that
//! was frozen RECOVER, before its deadline, once an epoch, never beside COMMITTED evidence and never in
//! an epoch in which it recorded an effect. It says only what it knows. Time it takes from its own
//! clock: a duration of an answer, counted from its own send.

use std::collections::{BTreeMap, BTreeSet};

use firstclaim_core::effect::{Findings, Journal, Verdict};
use firstclaim_core::outcome::{Acquired, Permitted};
use firstclaim_core::policy::OnLapse;
use firstclaim_core::record::{Epoch, Mode};
use firstclaim_core::{EffectName, EffectUid, Timestamp};

use super::provider::Response;

/// Slots of an intent: the payment, and its receipt.
pub(crate) const SLOTS: u8 = 2;

/// Whether workers leave permits unused that stand beside COMMITTED work, and unbind nothing that had
/// work before. I13 does not ask it of them, but without it I13 does not hold: COMMITTED work that a
/// superseded Complete carries does not complete the record, and the next claim is EXECUTE.
pub(crate) const HEEDS_WORK: bool = false;

/// What a worker knows of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    Open,
    Committed,
    NotCommitted,
}

/// A claim that a worker holds, as far as it knows.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) epoch: Epoch,
    pub(crate) life: u64,
    pub(crate) mode: Mode,
    pub(crate) on_lapse: OnLapse,
    /// By its own clock.
    pub(crate) deadline: u64,
    /// In store time: the bound of an unjournaled effect.
    pub(crate) lease_expire: u64,
    /// What is known of work and effects.
    pub(crate) facts: BTreeMap<EffectUid, Fact>,
    /// Slot and number of permits of each effect.
    pub(crate) effects: BTreeMap<EffectUid, (u8, u32)>,
    /// Whether it asked for a permit in this epoch, answered or not.
    pub(crate) journals: bool,
    /// Whether it did unjournaled work in this epoch, and what came of it.
    pub(crate) work: Option<Option<Response>>,
    /// Permits that were not used yet, with their end by its own clock and in store time.
    pub(crate) unused: Vec<(EffectUid, u32, u64, u64)>,
    /// Permits that were used.
    pub(crate) used: BTreeSet<(EffectUid, u32)>,
}

/// A worker.
#[derive(Clone, Debug)]
pub(crate) struct Worker {
    pub(crate) intent: usize,
    pub(crate) attempt: u32,
    pub(crate) held: Option<Held>,
    /// Store time of the latest answer.
    pub(crate) as_of: Option<Timestamp>,
    /// What it learned about uids without holding the claim.
    pub(crate) seen: BTreeMap<EffectUid, Fact>,
    /// Whether a claim of its asked for permits: then it does no unjournaled work.
    pub(crate) asked: bool,
    /// Whether a call of its is under way: it makes one at a time.
    pub(crate) calling: bool,
    /// How many calls it made.
    pub(crate) calls: u32,
    /// What it found out and has not told yet.
    pub(crate) learned: Vec<(EffectUid, Verdict)>,
    pub(crate) gone: bool,
}

impl Worker {
    pub(crate) fn new(intent: usize, attempt: u32) -> Self {
        Self {
            intent,
            attempt,
            held: None,
            as_of: None,
            seen: BTreeMap::new(),
            asked: false,
            calling: false,
            calls: 0,
            learned: Vec::new(),
            gone: false,
        }
    }

    /// Takes a grant in. The deadline counts from the send of the call.
    pub(crate) fn acquire(&mut self, it: &Acquired, sent: u64, now: Timestamp) {
        let deadline = sent + it.lease_expire_time.since(now).0;
        let before = self.held.take().filter(|held| held.epoch == it.epoch);
        let mut held = before.unwrap_or(Held {
            epoch: it.epoch,
            life: it.life,
            mode: it.mode,
            on_lapse: it.on_lapse,
            deadline,
            lease_expire: it.lease_expire_time.0,
            facts: BTreeMap::new(),
            effects: BTreeMap::new(),
            journals: false,
            work: None,
            unused: Vec::new(),
            used: BTreeSet::new(),
        });
        held.mode = it.mode;
        held.journals |= self.asked;
        held.deadline = held.deadline.max(deadline);
        held.lease_expire = held.lease_expire.max(it.lease_expire_time.0);
        held.facts = facts(&it.journal, it.life);
        for effect in &it.journal.effects {
            let uid = EffectUid { life: it.life, name: EffectName::Effect(effect.id.clone()) };
            let slot = u8::from(effect.slot.as_str().ends_with('1'));
            let permits = u32::try_from(effect.permits.len()).unwrap_or(u32::MAX);
            held.effects.insert(uid, (slot, permits));
        }
        self.held = Some(held);
    }

    /// Takes a permit in.
    pub(crate) fn permitted(&mut self, it: &Permitted, slot: u8, sent: u64, now: Timestamp) {
        let Some(held) = &mut self.held else { return };
        if it.permit.epoch != held.epoch {
            return;
        }
        held.facts.entry(it.uid.clone()).or_insert(Fact::Open);
        let known = held.effects.entry(it.uid.clone()).or_insert((slot, 0));
        known.1 = known.1.max(it.permit.number);
        let key = (it.uid.clone(), it.permit.number);
        let waiting = held.unused.iter().any(|(uid, number, ..)| (uid, number) == (&key.0, &key.1));
        let left = HEEDS_WORK && held.work_done();
        if !(held.used.contains(&key) || waiting || left) {
            let until = sent + it.permit.not_after.since(now).0;
            held.unused.push((key.0, key.1, until, it.permit.not_after.0));
        }
    }
}

impl Held {
    /// Whether anything is known to have happened.
    pub(crate) fn evidence(&self) -> bool {
        self.facts.values().any(|fact| *fact == Fact::Committed)
    }

    /// Whether work is known to have been done.
    pub(crate) fn work_done(&self) -> bool {
        let done = |(uid, fact): (&EffectUid, &Fact)| {
            matches!(uid.name, EffectName::Work(_)) && *fact == Fact::Committed
        };
        self.facts.iter().any(done)
    }

    /// What is known of a slot: its effects.
    pub(crate) fn of_slot(&self, slot: u8) -> Vec<Fact> {
        let effects = self.effects.iter().filter(|(_, (of, _))| *of == slot);
        effects.filter_map(|(uid, _)| self.facts.get(uid).copied()).collect()
    }

    /// Whether the intent is known to be carried out.
    pub(crate) fn all_done(&self) -> bool {
        let slot_done = |slot| self.of_slot(slot).contains(&Fact::Committed);
        self.work_done() || self.work == Some(Some(Response::Done)) || (0..SLOTS).all(slot_done)
    }

    /// Whether nothing can have happened in this epoch that is not known by now.
    pub(crate) fn quiet(&self) -> bool {
        let open = |(uid, _): &(EffectUid, u32)| self.facts.get(uid) == Some(&Fact::Open);
        matches!(self.work, None | Some(Some(Response::Refused))) && !self.used.iter().any(open)
    }
}

/// What a journal says.
pub(crate) fn facts(journal: &Journal, life: u64) -> BTreeMap<EffectUid, Fact> {
    let works = journal.works.iter().map(|it| (EffectName::Work(it.epoch), &it.findings));
    let effects =
        journal.effects.iter().map(|it| (EffectName::Effect(it.id.clone()), &it.findings));
    works
        .chain(effects)
        .map(|(name, findings)| (EffectUid { life, name }, fact(findings)))
        .collect()
}

/// What findings say.
pub(crate) fn fact(findings: &Findings) -> Fact {
    match &findings.settlement {
        None => Fact::Open,
        Some(it) if it.verdict == Verdict::Committed => Fact::Committed,
        Some(_) => Fact::NotCommitted,
    }
}
