//! A log that can be run again with parts left out.
//!
//! What a later command says of an earlier answer (an epoch, the life of a record) is only known by what
//! was answered then. A shorter log gives other numbers, so that they are translated: by the place of the
//! command whose answer brought them up first.

use std::collections::BTreeMap;

use firstclaim_core::command::{Command, Holder, Settle};
use firstclaim_core::effect::{Findings, Verdict};
use firstclaim_core::outcome::Answer;
use firstclaim_core::policy::OnLapse;
use firstclaim_core::record::{Epoch, Mode};
use firstclaim_core::{AttemptId, EffectName, EffectUid, Outcome, RecordRef, Stamp};

use crate::checks::{Arrival, Broken, Oracles};
use crate::judge::{Judge, record_of};
use crate::world::HONEST;

/// One thing that happened.
#[derive(Clone, Debug)]
pub(crate) enum Entry {
    /// A command was applied.
    Call {
        stamp: Stamp,
        command: Box<Command>,
        /// What was answered.
        outcome: Option<Box<Outcome>>,
        /// The epoch that the answer gave, and the life that the record had then.
        told: (Option<Epoch>, Option<u64>),
    },
    /// An effect came about at a provider, sent under an epoch.
    Arrival { arrival: Arrival, epoch: Epoch },
    /// A call of that attempt was answered "not applied".
    NotApplied { record: RecordRef, attempt_id: AttemptId },
}

impl Entry {
    pub(crate) fn call(stamp: Stamp, command: &Command) -> Self {
        let command = Box::new(command.clone());
        Self::Call { stamp, command, outcome: None, told: (None, None) }
    }

    /// The record that it is about.
    pub(crate) fn record(&self) -> Option<&RecordRef> {
        match self {
            Self::Call { command, .. } => record_of(command),
            Self::Arrival { arrival, .. } => Some(&arrival.record),
            Self::NotApplied { record, .. } => Some(record),
        }
    }

    /// Writes down what a call was answered.
    pub(crate) fn answer(&mut self, answered: &Outcome, life: Option<u64>) {
        if let Self::Call { outcome, told, .. } = self {
            *outcome = Some(Box::new(answered.clone()));
            *told = (epoch_of(answered), life);
        }
    }
}

fn epoch_of(outcome: &Outcome) -> Option<Epoch> {
    match &outcome.result {
        Ok(Answer::Acquired(it)) => Some(it.epoch),
        Ok(Answer::Resolved(it)) => Some(it.epoch),
        _ => None,
    }
}

/// How a log ended that was run again.
#[derive(Debug)]
pub(crate) enum Replayed {
    /// Nothing is wrong.
    Clean,
    /// Somebody who is honest would have lied: a log that shows nothing.
    Dishonest,
    /// That is wrong, after so many entries.
    Broken(Broken, usize),
}

/// Runs a log again, and gives every entry as it is now to `told`.
pub(crate) fn replay(entries: &[Entry], oracles: Oracles, told: &mut dyn FnMut(Entry)) -> Replayed {
    let mut replay = Replay {
        judge: Judge::new(oracles),
        numbers: Numbers::default(),
        seen: Witness::default(),
    };
    for (at, entry) in entries.iter().enumerate() {
        match replay.take(entry, told) {
            Ok(true) => {}
            Ok(false) => return Replayed::Dishonest,
            Err(broken) => return Replayed::Broken(broken, at + 1),
        }
    }
    match replay.judge.end() {
        Ok(()) => Replayed::Clean,
        Err(broken) => Replayed::Broken(broken, entries.len()),
    }
}

struct Replay {
    judge: Judge,
    numbers: Numbers,
    seen: Witness,
}

impl Replay {
    /// Returns whether everybody who is honest still is.
    fn take(&mut self, entry: &Entry, told: &mut dyn FnMut(Entry)) -> Result<bool, Broken> {
        match entry {
            Entry::Call { stamp, command, told: before, .. } => {
                let command = self.numbers.translate(command);
                if !self.seen.true_to(&command) {
                    return Ok(false);
                }
                let mut again = Entry::call(*stamp, &command);
                let (outcome, checked) = self.judge.call(*stamp, &command);
                let life = record_of(&command).and_then(|it| self.judge.record(it));
                let life = life.map(|it| it.life);
                again.answer(&outcome, life);
                told(again);
                checked?;
                self.numbers.learn(*before, (epoch_of(&outcome), life));
                self.seen.learn(&outcome);
                Ok(true)
            }
            Entry::Arrival { arrival, epoch } => {
                let epoch = self.numbers.epoch(*epoch);
                let uid = self.numbers.uid(&arrival.uid);
                let arrival = Arrival { uid, ..arrival.clone() };
                if !self.seen.may_arrive(&arrival, epoch) {
                    return Ok(false);
                }
                self.seen.happened.push(arrival.uid.clone());
                let checked = self.judge.arrive(&arrival);
                told(Entry::Arrival { arrival, epoch });
                checked.map(|()| true)
            }
            Entry::NotApplied { record, attempt_id } => {
                self.judge.not_applied(record.clone(), attempt_id.clone());
                told(entry.clone());
                Ok(true)
            }
        }
    }
}

/// What honest people go by.
#[derive(Default)]
struct Witness {
    /// Effects at the provider.
    happened: Vec<EffectUid>,
    /// Effects that an epoch had leave to send.
    permitted: Vec<(EffectUid, Epoch)>,
    /// Epochs that may do unjournaled work.
    execute: Vec<Epoch>,
}

impl Witness {
    fn learn(&mut self, outcome: &Outcome) {
        match &outcome.result {
            Ok(Answer::Permitted(it)) => self.permitted.push((it.uid.clone(), it.permit.epoch)),
            Ok(Answer::Acquired(it)) => {
                let permits = it.permits.iter().filter_map(|it| it.as_ref().ok());
                self.permitted.extend(permits.map(|it| (it.uid.clone(), it.permit.epoch)));
                let works = it.journal.works.iter().map(|it| &it.findings);
                let effects = it.journal.effects.iter().map(|it| &it.findings);
                let evidence = works.chain(effects).any(Findings::committed);
                if it.mode == Mode::Execute && it.on_lapse == OnLapse::Recover && !evidence {
                    self.execute.push(it.epoch);
                }
            }
            // Whoever hears of a rise claims again, and is told so.
            _ => {}
        }
    }

    fn may_arrive(&self, arrival: &Arrival, epoch: Epoch) -> bool {
        match &arrival.uid.name {
            EffectName::Work(work) => *work == epoch && self.execute.contains(work),
            EffectName::Effect(_) => self.permitted.contains(&(arrival.uid.clone(), epoch)),
        }
    }

    /// Whether what is said of effects is true.
    fn true_to(&self, command: &Command) -> bool {
        let honest = record_of(command).is_some_and(|it| it.tenant.as_str() == HONEST);
        // "It did not happen" is as true as it was: a shorter log has no other arrivals.
        let says =
            |uid: &EffectUid, verdict: Verdict| !verdict.committed() || self.happened.contains(uid);
        let settled = |it: &Settle| says(&it.uid, it.verdict);
        let all = if let Command::SettleEffect(it) = command {
            settled(&it.settle)
        } else if let Command::Complete(it) = command {
            it.settlements.iter().all(settled)
        } else if let Command::Resolve(it) = command {
            it.verdicts.iter().all(|(uid, verdict)| says(uid, *verdict))
        } else {
            true
        };
        !honest || all
    }
}

/// What numbers of the whole log are in the shorter one.
#[derive(Default)]
struct Numbers {
    epochs: BTreeMap<Epoch, Epoch>,
    lives: BTreeMap<u64, u64>,
}

impl Numbers {
    fn learn(&mut self, before: (Option<Epoch>, Option<u64>), now: (Option<Epoch>, Option<u64>)) {
        if let (Some(before), Some(now)) = (before.0, now.0) {
            self.epochs.insert(before, now);
        }
        if let (Some(before), Some(now)) = (before.1, now.1) {
            self.lives.insert(before, now);
        }
    }

    fn epoch(&self, epoch: Epoch) -> Epoch {
        // What nobody was given is no number of anybody.
        self.epochs.get(&epoch).copied().unwrap_or(Epoch(u64::MAX))
    }

    fn uid(&self, uid: &EffectUid) -> EffectUid {
        let name = match &uid.name {
            EffectName::Work(epoch) => EffectName::Work(self.epoch(*epoch)),
            EffectName::Effect(id) => EffectName::Effect(id.clone()),
        };
        EffectUid { life: self.lives.get(&uid.life).copied().unwrap_or(u64::MAX), name }
    }

    fn holder(&self, holder: &mut Holder) {
        holder.epoch = self.epoch(holder.epoch);
    }

    fn translate(&self, command: &Command) -> Command {
        let mut command = command.clone();
        match &mut command {
            Command::Renew(it) => self.holder(&mut it.holder),
            Command::RecordEffect(it) => self.holder(&mut it.holder),
            Command::Release(it) => self.holder(&mut it.holder),
            Command::Complete(it) => {
                self.holder(&mut it.holder);
                for settle in &mut it.settlements {
                    settle.uid = self.uid(&settle.uid);
                }
            }
            Command::SettleEffect(it) => it.settle.uid = self.uid(&it.settle.uid),
            Command::Resolve(it) => {
                it.expected_epoch = self.epoch(it.expected_epoch);
                for (uid, _) in &mut it.verdicts {
                    *uid = self.uid(uid);
                }
            }
            Command::Revoke(it) => it.epoch = self.epoch(it.epoch),
            Command::Purge(it) => it.expected_epoch = self.epoch(it.expected_epoch),
            Command::Claim(_)
            | Command::PutTenant(_)
            | Command::PutNamespace(_)
            | Command::DeleteTenant(_)
            | Command::DeleteNamespace(_)
            | Command::Sweep(_)
            | Command::Tick
            | Command::Reserve(_)
            | Command::ExtendExisting(_)
            | Command::Report(_) => {}
        }
        command
    }
}
