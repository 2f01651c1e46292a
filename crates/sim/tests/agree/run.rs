//! A run: each step becomes a command, and the command goes to both sides.

use firstclaim_core::command::{
    Admission, Claim, Command, Complete, CompleteWith, DeleteNamespace, DeleteTenant, Dispatch,
    ExtendExisting, Holder, Purge, PutMode, PutNamespace, PutTenant, RecordEffect, RecordReport,
    Release, ReleaseKind, Renew, Report, Reserve, Resolve, Resolved, Revoke, Settle, SettleEffect,
    Sweep,
};
use firstclaim_core::effect::{Content, Verdict};
use firstclaim_core::name::Labels;
use firstclaim_core::policy::Retention;
use firstclaim_core::record::{Disposition, Epoch};
use firstclaim_core::{
    Answer, AttemptId, EffectName, EffectUid, Etag, Millis, Outcome, Record, RecordId, Slot, Stamp,
    Timestamp, apply,
};
use firstclaim_sim::{Model, Observation, Row, observe};

use super::names;
use super::steps::{
    Asking, Call, Claiming, How, Numbering, Of, Operation, Putting, Releasing, Resolving, Say,
    Sequence, Step, Tau, Telling, Template, Who,
};
use crate::memory::MemoryStore;
use crate::shared;

/// Where time starts.
pub(crate) const START: u64 = 1_000_000;

/// Both sides under one sequence of commands.
pub(crate) struct Run {
    pub(crate) store: MemoryStore,
    pub(crate) model: Model,
    templates: [Template; 3],
    wall: u64,
    term: u64,
    index: u64,
    /// By key: each grant and each Resolve, with the attempt that it went to.
    granted: [Vec<(Epoch, AttemptId)>; 4],
    /// Every command so far.
    commands: Vec<Command>,
    /// By key: each life that was seen.
    lives: [Vec<u64>; 4],
}

/// A command with what both sides made of it.
#[derive(Clone, Debug)]
pub(crate) struct Answered {
    pub(crate) stamp: Stamp,
    pub(crate) command: Command,
    pub(crate) outcome: Outcome,
    pub(crate) real: Observation,
    pub(crate) expected: Observation,
    pub(crate) rows: Vec<Row>,
}

impl Answered {
    /// Whether both sides agree.
    pub(crate) fn agreed(&self) -> bool {
        self.real.agrees(&self.expected)
    }
}

impl Run {
    /// A run with its tenant and its namespaces.
    pub(crate) fn new(sequence: &Sequence) -> (Self, Vec<Answered>) {
        let mut run = Self {
            store: MemoryStore::default(),
            model: Model::default(),
            templates: sequence.templates.clone(),
            wall: START,
            term: 1,
            index: 0,
            granted: Default::default(),
            commands: Vec::new(),
            lives: Default::default(),
        };
        let answered = (0..3)
            .filter_map(|of| {
                run.take(&Step::Operate(Operation::Put(Putting {
                    of,
                    policy: Box::new(sequence.policies[usize::from(of)].clone()),
                    mode: How::Create { all: true },
                    validate_only: false,
                })))
            })
            .collect();
        (run, answered)
    }

    /// Takes a step; nothing for a step that is no command.
    pub(crate) fn take(&mut self, step: &Step) -> Option<Answered> {
        let command = self.command(step)?;
        Some(self.apply(command))
    }

    fn apply(&mut self, command: Command) -> Answered {
        self.commands.push(command.clone());
        self.index += 1;
        let stamp = Stamp { term: self.term, index: self.index, time: Timestamp(self.wall) };
        let commands = std::slice::from_ref(&command);
        let outcome = apply(&mut self.store, stamp, commands).expect("infallible").remove(0);
        let key = (0..4).find(|key| record_of(&command) == Some(shared::record(*key)));
        if let Some(key) = key {
            self.learn(key, &command, &outcome);
        }
        let expected = self.model.apply(stamp, &command);
        let real = observe(&outcome);
        assert_eq!(self.model.now(), outcome.store_time, "store time");
        let rows = self.model.rows().to_vec();
        Answered { stamp, command, outcome, real, expected, rows }
    }

    /// Learns what the callers of later steps know.
    fn learn(&mut self, key: u8, command: &Command, outcome: &Outcome) {
        let record = self.record(key);
        let at = usize::from(key);
        if let Some(life) = record.map(|record| record.life) {
            self.model.name_next_life(life);
            if self.lives[at].last() != Some(&life) {
                self.lives[at].push(life);
            }
        }
        let granted = match (&outcome.result, command) {
            (Ok(Answer::Acquired(it)), Command::Claim(claim)) => {
                Some((it.epoch, claim.attempt_id.clone()))
            }
            (Ok(Answer::Resolved(it)), Command::Resolve(resolve)) => {
                Some((it.epoch, resolve.attempt_id.clone()))
            }
            _ => None,
        };
        if let Some(granted) = granted.filter(|it| !self.granted[at].contains(it)) {
            self.granted[at].push(granted);
        }
    }

    /// What the real side stores of a key.
    pub(crate) fn record(&self, key: u8) -> Option<Record> {
        let record = shared::record(key);
        let slot = self.store.namespaces.get(&(record.tenant, record.namespace))?;
        let Slot::Live(namespace) = slot else { return None };
        let id = RecordId { namespace: namespace.id, key: record.key };
        self.store.records.get(&id).cloned()
    }

    fn now(&self) -> u64 {
        self.store.cluster.clock.now().0.max(self.wall)
    }

    fn ago(&self, ago: i64) -> Timestamp {
        Timestamp(self.now().saturating_add_signed(-ago))
    }

    fn command(&mut self, step: &Step) -> Option<Command> {
        match step {
            Step::Pass(millis) => self.wall += millis,
            Step::Elect => self.term += 1,
            Step::ClockBack(millis) => {
                self.wall -= millis;
                self.term += 1;
            }
            Step::Again(back) => {
                let at = self.commands.len().checked_sub(1 + usize::from(*back))?;
                return Some(self.commands[at].clone());
            }
            Step::Call(call) => return self.command_of_caller(call),
            Step::Operate(operation) => return self.command_of_operator(operation),
        }
        None
    }

    fn command_of_caller(&self, call: &Call) -> Option<Command> {
        Some(match call {
            Call::Claim(claiming) => Command::Claim(self.claim(claiming)),
            Call::Renew { who, lease } => {
                Command::Renew(Renew { holder: self.holder(*who)?, lease: lease.map(Millis) })
            }
            Call::Complete { who, failed, result, told } => Command::Complete(Complete {
                holder: self.holder(*who)?,
                disposition: disposition(*failed),
                result: names::result(*result),
                settlements: told.iter().filter_map(|it| self.settle(who.key, it)).collect(),
            }),
            Call::Release { who, kind } => Command::Release(Release {
                holder: self.holder(*who)?,
                kind: match kind {
                    Releasing::Retry(pause) => ReleaseKind::Retry { retry_after: Millis(*pause) },
                    Releasing::Unbind => ReleaseKind::Unbind,
                    Releasing::Unknown => ReleaseKind::Unknown { note: "?".to_owned() },
                },
            }),
            Call::Record { who, ask } => Command::RecordEffect(RecordEffect {
                holder: self.holder(*who)?,
                dispatch: self.dispatch(who.key, ask),
            }),
            Call::Settle { key, told } => Command::SettleEffect(SettleEffect {
                record: shared::record(*key),
                settle: self.settle(*key, told)?,
                principal: shared::principal(),
            }),
            Call::Reserve { key, fingerprint, tau, admit, allow } => Command::Reserve(Reserve {
                record: shared::record(*key),
                fingerprints: names::fingerprints(*fingerprint),
                intent_time: tau.map(|tau| self.tau(tau)),
                labels: Labels::default(),
                allow_duplicate_intent: *allow,
                admit: admit.then(|| Admission {
                    principal: shared::principal(),
                    reason: "never ran".to_owned(),
                }),
            }),
        })
    }

    fn command_of_operator(&self, operation: &Operation) -> Option<Command> {
        let reason = "asked to".to_owned();
        let principal = shared::principal();
        Some(match operation {
            Operation::Resolve(resolving) => Command::Resolve(self.resolve(resolving)?),
            Operation::Revoke { key, back } => Command::Revoke(Revoke {
                record: shared::record(*key),
                epoch: self.granted(*key, *back)?.0,
                reason,
                principal,
            }),
            Operation::Purge { key, back } => Command::Purge(Purge {
                record: shared::record(*key),
                expected_epoch: self.granted(*key, *back)?.0,
                reason,
                principal,
            }),
            Operation::Extend { namespace, after, limit } => {
                Command::ExtendExisting(ExtendExisting {
                    tenant: shared::tenant(),
                    namespace: shared::namespace(*namespace),
                    after: after.map(shared::key),
                    limit: *limit,
                    principal,
                })
            }
            Operation::Put(putting) => self.put(putting),
            Operation::Delete { of: 0, force, etag } => Command::DeleteTenant(DeleteTenant {
                tenant: shared::tenant(),
                expected: wrong_etag(*etag),
                force: *force,
            }),
            Operation::Delete { of, force, etag } => Command::DeleteNamespace(DeleteNamespace {
                tenant: shared::tenant(),
                namespace: shared::namespace(of - 1),
                expected: wrong_etag(*etag),
                force: *force,
            }),
            Operation::Sweep(limit) => Command::Sweep(Sweep { limit: *limit }),
            Operation::Tick => Command::Tick,
            Operation::Report { key } => Command::Report(Report {
                records: vec![RecordReport {
                    record: shared::record(*key),
                    sightings: Vec::new(),
                    counts: [("REPLAY".to_owned(), 1)].into(),
                }],
            }),
        })
    }

    fn put(&self, it: &Putting) -> Command {
        let (policy, validate_only) = ((*it.policy).clone(), it.validate_only);
        let mode = match it.mode {
            How::Create { all } => {
                PutMode::Create { members_applied: if all { self.index } else { 0 } }
            }
            How::Update { etag } => PutMode::Update { expected: wrong_etag(etag) },
        };
        let tenant = shared::tenant();
        if it.of == 0 {
            Command::PutTenant(PutTenant { tenant, policy, mode, validate_only })
        } else {
            let namespace = shared::namespace(it.of - 1);
            Command::PutNamespace(PutNamespace { tenant, namespace, policy, mode, validate_only })
        }
    }

    fn claim(&self, it: &Claiming) -> Claim {
        Claim {
            record: shared::record(it.key),
            attempt_id: names::attempt(it.attempt),
            owner: shared::owner((it.attempt + u8::from(it.stranger)) % 3),
            fingerprints: names::fingerprints(it.fingerprint),
            lease: it.lease.map(Millis),
            intent_time: it.tau.map(|tau| self.tau(tau)),
            labels: Labels::default(),
            accept_recovery: it.recover,
            region: shared::region(),
            effects: it.asks.iter().map(|ask| self.dispatch(it.key, ask)).collect(),
            complete_with: it.complete.map(|(failed, result)| CompleteWith {
                disposition: disposition(failed),
                result: names::result(result),
            }),
            allow_duplicate_intent: it.allow,
        }
    }

    fn tau(&self, tau: Tau) -> Timestamp {
        match tau {
            Tau::At(after) => Timestamp(START + after),
            Tau::Ago(ago) => self.ago(ago),
        }
    }

    /// The grant (or Resolve) of that many ago.
    fn granted(&self, key: u8, back: u8) -> Option<(Epoch, AttemptId)> {
        let granted = &self.granted[usize::from(key)];
        let at = granted.len().checked_sub(1 + usize::from(back))?;
        Some(granted[at].clone())
    }

    fn holder(&self, who: Who) -> Option<Holder> {
        let (epoch, attempt_id) = self.granted(who.key, who.back)?;
        let attempt_id = if who.stranger { names::attempt(0) } else { attempt_id };
        Some(Holder { record: shared::record(who.key), epoch, attempt_id })
    }

    fn dispatch(&self, key: u8, ask: &Asking) -> Dispatch {
        let template = &self.templates[usize::from(ask.id)];
        let twist = |field: u8| u8::from(ask.twist == Some(field));
        let id = names::effect_id(ask.id);
        let record = self.record(key);
        let effect = record.iter().flat_map(|it| &it.effects).find(|effect| effect.id == id);
        let last = effect.and_then(|effect| effect.permits.last()).map_or(0, |last| last.number);
        let window = |window: u64| match window {
            u64::MAX => Retention::Forever,
            millis => Retention::For(Millis(millis)),
        };
        let keyed = template.keyed.then(|| names::provider_key(ask.id + 8 * twist(2)));
        Dispatch {
            id,
            number: match ask.number {
                Numbering::Next => last + 1,
                Numbering::Last => last.max(1),
                Numbering::Number(number) => number,
            },
            slot: shared::slot(template.slot + 2 * twist(0)),
            provider: shared::provider(template.provider + 2 * twist(1)),
            provider_key: keyed,
            dedup_window: template.window.map(|it| window(it.saturating_sub(u64::from(twist(3))))),
            request: Content::new(vec![ask.id, twist(4)], "text/plain".to_owned()),
            within: ask.within.map(Millis),
        }
    }

    fn settle(&self, key: u8, told: &Telling) -> Option<Settle> {
        let uid = self.uid(key, told.of)?;
        let content = match &uid.name {
            EffectName::Work(_) => None,
            EffectName::Effect(id) => self
                .record(key)
                .and_then(|record| record.effects.into_iter().find(|effect| effect.id == *id))
                .map(|effect| (Some(effect.provider), effect.provider_key))
                .or(Some((Some(shared::provider(0)), None))),
        };
        let (mut provider, mut provider_key) = content.unwrap_or_default();
        match told.twist {
            Some(true) => provider = Some(shared::provider(9)),
            Some(false) => provider_key = Some(names::provider_key(9)),
            None => {}
        }
        let verdict = self.verdict(told.say);
        Some(Settle {
            uid,
            provider,
            provider_key,
            verdict,
            evidence: names::evidence(told.evidence),
        })
    }

    fn verdict(&self, say: Say) -> Verdict {
        match say {
            Say::Committed => Verdict::Committed,
            Say::Refused(status) => Verdict::Refused { status },
            Say::NotFound(ago) => Verdict::NotFound { as_of: self.ago(ago) },
            Say::Overridden => Verdict::Overridden,
        }
    }

    fn uid(&self, key: u8, of: Of) -> Option<EffectUid> {
        let lives = &self.lives[usize::from(key)];
        let life = *lives.last()?;
        let effect = |at: u8| EffectName::Effect(names::effect_id(at));
        Some(match of {
            Of::Open(at) => {
                let open = self.open(key);
                open.get(usize::from(at) % open.len().max(1))?.clone()
            }
            Of::Effect(at) => EffectUid { life, name: effect(at) },
            Of::Work(back) => {
                EffectUid { life, name: EffectName::Work(self.granted(key, back)?.0) }
            }
            Of::Former(at) => {
                let former = lives.len().checked_sub(2).map_or(0, |former| lives[former]);
                EffectUid { life: former, name: effect(at) }
            }
        })
    }

    /// What the real side says is open: only a hint for those who settle.
    fn open(&self, key: u8) -> Vec<EffectUid> {
        let mut clock = self.store.cluster.clock.clone();
        clock.advance(Stamp { term: self.term, index: 0, time: Timestamp(self.wall) });
        self.record(key).map(|it| it.open(&clock).uids(it.life)).unwrap_or_default()
    }

    fn resolve(&self, it: &Resolving) -> Option<Resolve> {
        let mut open = self.open(it.key);
        if it.short {
            open.pop();
        }
        let extra = self.uid(it.key, Of::Work(1)).filter(|_| it.extra);
        let says = it.says.iter().cycle();
        let verdicts = open.into_iter().chain(extra).zip(says);
        Some(Resolve {
            record: shared::record(it.key),
            expected_epoch: self.granted(it.key, it.back)?.0,
            attempt_id: names::attempt(it.attempt),
            verdicts: verdicts.map(|(uid, say)| (uid, self.verdict(*say))).collect(),
            evidence: names::evidence(it.evidence),
            reason: "looked it up".to_owned(),
            principal: shared::principal(),
            state: match it.state {
                Ok((failed, result)) => Resolved::Completed(CompleteWith {
                    disposition: disposition(failed),
                    result: names::result(result),
                }),
                Err(pause) => Resolved::Retryable { retry_after: Millis(pause) },
            },
        })
    }
}

/// The record that a command is about.
pub(crate) fn record_of(command: &Command) -> Option<firstclaim_core::RecordRef> {
    match command {
        Command::Claim(it) => Some(it.record.clone()),
        Command::Renew(it) => Some(it.holder.record.clone()),
        Command::Complete(it) => Some(it.holder.record.clone()),
        Command::Release(it) => Some(it.holder.record.clone()),
        Command::RecordEffect(it) => Some(it.holder.record.clone()),
        Command::SettleEffect(it) => Some(it.record.clone()),
        Command::Reserve(it) => Some(it.record.clone()),
        Command::Resolve(it) => Some(it.record.clone()),
        Command::Revoke(it) => Some(it.record.clone()),
        Command::Purge(it) => Some(it.record.clone()),
        Command::PutTenant(_)
        | Command::PutNamespace(_)
        | Command::DeleteTenant(_)
        | Command::DeleteNamespace(_)
        | Command::Sweep(_)
        | Command::Tick
        | Command::ExtendExisting(_)
        | Command::Report(_) => None,
    }
}

fn disposition(failed: bool) -> Disposition {
    if failed { Disposition::Failed } else { Disposition::Succeeded }
}

/// An etag that no version ever had.
fn wrong_etag(wrong: bool) -> Option<Etag> {
    wrong.then_some(Etag { generation: 99, version: 1 })
}
