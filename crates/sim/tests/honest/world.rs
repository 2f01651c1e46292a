//! Honest workers, an honest provider and an honest operator on a hostile schedule: calls and answers
//! are late or lost, processes die anywhere, messages come again and again, leaders change, leases
//! lapse and are revoked, policies change.

use std::collections::BTreeMap;

use firstclaim_core::command::{
    Claim, Command, Complete, CompleteWith, Dispatch, Holder, PutMode, PutNamespace, PutTenant,
    RecordEffect, Release, ReleaseKind, Renew, Resolve, Resolved, Revoke, Settle, SettleEffect,
    Sweep,
};
use firstclaim_core::effect::{Content, Verdict};
use firstclaim_core::name::{EffectId, Labels, ProviderKey};
use firstclaim_core::outcome::{Answer, Outcome};
use firstclaim_core::policy::{OnLapse, Retention};
use firstclaim_core::record::{Disposition, Mode, ResultBody};
use firstclaim_core::{
    EffectName, EffectUid, Fingerprint, FingerprintSet, Millis, PolicyPatch, Record, Refusal,
    Scheme, Stamp, Timestamp, apply,
};

use super::provider::{Provider, Request, Response};
use super::worker::{Fact, HEEDS_WORK, Held, SLOTS, Worker, facts};
use crate::memory::MemoryStore;
use crate::shared;
use firstclaim_sim::Random;

/// When a run ends.
const END: u64 = 400_000;
/// Intents of a run: keys of one namespace.
const INTENTS: u8 = 2;
/// How far the clocks of producers are off.
const SKEW: u64 = 2_000;

/// What happens at a time.
#[derive(Clone, Debug)]
enum Event {
    /// A message is delivered: an attempt begins.
    Deliver {
        intent: u8,
    },
    /// A worker goes on.
    Step {
        worker: usize,
    },
    /// A command reaches the log.
    Apply {
        worker: Option<usize>,
        sent: u64,
        command: Command,
    },
    /// Its answer reaches the worker.
    Reply {
        worker: usize,
        sent: u64,
        command: Command,
        outcome: Outcome,
    },
    /// Its answer is lost.
    Lost {
        worker: usize,
        command: Command,
    },
    /// A request reaches the provider.
    Arrive {
        worker: usize,
        request: Request,
    },
    /// Its response reaches the worker.
    Respond {
        worker: usize,
        uid: EffectUid,
        response: Response,
    },
    /// A look-up that began with that knowledge ends.
    LookedUp {
        worker: usize,
        uid: EffectUid,
        as_of: Timestamp,
    },
    Tick,
    Elect,
    Policy,
    Revoke {
        intent: u8,
    },
    /// An operator looks at a record.
    Operator {
        intent: u8,
    },
}

/// How often things happened.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally(pub(crate) BTreeMap<String, u64>);

impl Tally {
    pub(crate) fn add(&mut self, what: &str) {
        *self.0.entry(what.to_owned()).or_default() += 1;
    }
}

/// Everything.
pub(crate) struct World {
    random: Random,
    pub(crate) store: MemoryStore,
    pub(crate) provider: Provider,
    pub(crate) tally: Tally,
    /// By time and order.
    events: BTreeMap<(u64, u64), Event>,
    order: u64,
    now: u64,
    term: u64,
    index: u64,
    workers: Vec<Worker>,
    /// When each intent was born, as its producer says; none if it does not say.
    born: [Option<u64>; INTENTS as usize],
    says_when: bool,
    /// Requests on their way, by uid.
    in_flight: BTreeMap<EffectUid, u32>,
    /// How long a request is on its way at most; every settle horizon is at least that.
    latency: u64,
    /// What was sent to the log, for a look at a failure.
    pub(crate) log: Vec<String>,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let says_when = random.chance(60);
        let latency = random.pick(&[0, 500, 3000]);
        let mut world = Self {
            random,
            store: MemoryStore::default(),
            provider: Provider::default(),
            tally: Tally::default(),
            events: BTreeMap::new(),
            order: 0,
            now: 1_000_000,
            term: 1,
            index: 0,
            workers: Vec::new(),
            born: [None; INTENTS as usize],
            says_when,
            in_flight: BTreeMap::new(),
            latency,
            log: Vec::new(),
        };
        world.set_up();
        world
    }

    fn set_up(&mut self) {
        let create = PutMode::Create { members_applied: 0 };
        let (tenant, policy) = (shared::tenant(), PolicyPatch::default());
        let put = PutTenant { tenant, policy, mode: create, validate_only: false };
        self.apply(&Command::PutTenant(put), self.now);
        let put = self.put_policy(create);
        self.apply(&put, self.now);
        for intent in 0..INTENTS {
            let mut at = 0;
            for _ in 0..3 + self.random.below(8) {
                at += self.random.pick(&[200, 2_000, 8_000, 30_000, 120_000]);
                self.later(at, Event::Deliver { intent });
            }
        }
        self.later(1_000, Event::Tick);
        for (event, most) in [(Event::Elect, 6), (Event::Policy, 5)] {
            for _ in 0..self.random.below(most) {
                let at = self.random.below(END / 4);
                self.later(at, event.clone());
            }
        }
        for intent in 0..INTENTS {
            for _ in 0..self.random.below(4) {
                let at = self.random.below(END / 8);
                self.later(at, Event::Revoke { intent });
                let at = self.random.below(END);
                self.later(at, Event::Operator { intent });
            }
        }
    }

    fn put_policy(&mut self, mode: PutMode) -> Command {
        let random = &mut self.random;
        let identity = 3_000 + 500 * random.below(60);
        let on_lapse = random.weighted(&[(3, OnLapse::Recover), (2, OnLapse::Takeover)]);
        let slack = 500 * random.below(6);
        let policy = PolicyPatch {
            lease_default: Some(Millis(2_000 + 1_000 * random.below(6))),
            lease_max: Some(Millis(20_000)),
            takeover_delay: Some(Millis(random.pick(&[0, 0, 1_500]))),
            on_lapse: Some(on_lapse),
            result_retention: Some(Millis(2_000)),
            identity_retention: Some(Retention::For(Millis(identity))),
            intent_time_skew: Some(Millis(SKEW)),
            max_attempts: Some(random.pick(&[0, 0, 0, 2, 4])),
            settle_horizon: Some(Millis(self.latency + slack)),
            ..PolicyPatch::default()
        };
        let (tenant, namespace) = (shared::tenant(), shared::namespace(0));
        Command::PutNamespace(PutNamespace {
            tenant,
            namespace,
            policy,
            mode,
            validate_only: false,
        })
    }

    fn later(&mut self, after: u64, event: Event) {
        self.order += 1;
        self.events.insert((self.now + after, self.order), event);
    }

    /// A delay: mostly short, sometimes longer than a lease.
    fn delay(&mut self) -> u64 {
        let short = self.random.below(300);
        let long = self.random.below(9_000);
        self.random.weighted(&[(12, short), (2, 1_000 + short), (1, long)])
    }

    /// Runs to the end. Returns what must not be.
    pub(crate) fn run(&mut self) -> Result<(), String> {
        let end = self.now + END;
        while let Some(((time, _), event)) = self.events.pop_first() {
            if time > end {
                break;
            }
            self.now = time;
            self.happen(event)?;
        }
        Ok(())
    }

    fn happen(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Deliver { intent } => self.deliver(intent),
            Event::Step { worker } => self.step(worker),
            Event::Apply { worker, sent, command } => {
                return self.arrive_at_log(worker, sent, &command);
            }
            Event::Reply { worker, sent, command, outcome } => {
                self.reply(worker, sent, &command, &outcome);
            }
            Event::Lost { worker, command } => self.lost(worker, command),
            Event::Arrive { worker, request } => return self.arrive(worker, &request),
            Event::Respond { worker, uid, response } => self.respond(worker, uid, response),
            Event::LookedUp { worker, uid, as_of } => self.looked_up(worker, uid, as_of),
            Event::Tick => {
                let gap = self.random.weighted(&[(20, 2_500), (1, 9_000), (1, 25_000)]);
                self.later(gap, Event::Tick);
                let sweep = Command::Sweep(Sweep { limit: 4 });
                let command = self.random.pick(&[Command::Tick, sweep]);
                self.apply(&command, self.now);
            }
            Event::Elect => self.term += 1,
            Event::Policy => {
                let put = self.put_policy(PutMode::Update { expected: None });
                self.apply(&put, self.now);
            }
            Event::Revoke { intent } => self.revoke(intent),
            Event::Operator { intent } => self.operate(intent),
        }
        Ok(())
    }

    /// A new attempt of the intent.
    fn deliver(&mut self, intent: u8) {
        let jitter = self.random.below(2 * SKEW);
        let born = &mut self.born[usize::from(intent)];
        if born.is_none() && self.says_when {
            *born = Some(self.now + jitter - SKEW);
        }
        let attempt = u32::try_from(self.workers.len()).unwrap_or(u32::MAX);
        self.workers.push(Worker::new(intent, attempt));
        self.later(0, Event::Step { worker: self.workers.len() - 1 });
    }

    fn go_on(&mut self, worker: usize) {
        let after = self.delay();
        self.later(after, Event::Step { worker });
    }

    /// Sends a call: it reaches the log late, or never.
    fn call(&mut self, worker: usize, command: Command) {
        self.workers[worker].calling = true;
        if self.random.chance(4) {
            let after = self.delay();
            self.later(after, Event::Lost { worker, command });
            return;
        }
        let after = self.delay();
        self.later(after, Event::Apply { worker: Some(worker), sent: self.now, command });
    }

    /// Applies a command, and looks at what the record became.
    fn apply(&mut self, command: &Command, stamp: u64) -> Outcome {
        self.index += 1;
        let stamp = Stamp { term: self.term, index: self.index, time: Timestamp(stamp) };
        let commands = std::slice::from_ref(command);
        let outcome = apply(&mut self.store, stamp, commands).expect("infallible").remove(0);
        self.log.push(format!("{}: {command:?}\n   -> {outcome:?}", self.now));
        outcome
    }

    fn arrive_at_log(
        &mut self,
        worker: Option<usize>,
        sent: u64,
        command: &Command,
    ) -> Result<(), String> {
        // The leader's reading of its clock, some time between the send and now.
        let waited = self.now - sent;
        let stamp = self.now - self.random.below(waited + 1);
        let outcome = self.apply(command, stamp);
        self.count(&outcome);
        if self.contradicted(command) {
            self.tally.add("conflict");
        }
        let Some(worker) = worker else { return Ok(()) };
        let after = self.delay();
        let (lost, command) = (self.random.chance(8), command.clone());
        let event = if lost {
            Event::Lost { worker, command }
        } else {
            Event::Reply { worker, sent, command, outcome }
        };
        self.later(after, event);
        Ok(())
    }

    /// Nobody lies, but a late success that rests on the effects of earlier epochs is taken for the
    /// word that its own work was done, and contradicts those who found that it was not.
    fn contradicted(&self, command: &Command) -> bool {
        let Command::Complete(complete) = command else { return false };
        let intent = (0..INTENTS).find(|it| shared::record(*it) == complete.holder.record);
        let Some(record) = intent.and_then(|intent| self.record(intent)) else { return false };
        let works = record.works.iter().map(|it| &it.findings);
        let mut all = works.chain(record.effects.iter().map(|it| &it.findings));
        all.any(|findings| findings.conflict)
    }

    fn record(&self, intent: u8) -> Option<Record> {
        let record = shared::record(intent);
        let slot = self.store.namespaces.get(&(record.tenant, record.namespace))?;
        let id = slot.clone().live()?.id;
        let id = firstclaim_core::RecordId { namespace: id, key: record.key };
        self.store.records.get(&id).cloned()
    }

    fn count(&mut self, outcome: &Outcome) {
        let what = match &outcome.result {
            Ok(Answer::Acquired(it)) => format!("acquired {:?} {:?}", it.kind, it.mode),
            Ok(Answer::Settled(it)) if it.mode == Some(Mode::Execute) && !it.repeated => {
                "settled, live and EXECUTE".to_owned()
            }
            Ok(answer) => {
                format!("{answer:?}").chars().take_while(|it| it.is_alphabetic()).collect()
            }
            Err(refusal) => refusal.reason().as_str().to_owned(),
        };
        self.tally.add(&what);
    }

    /// The process dies, or sends the same call again.
    fn lost(&mut self, worker: usize, command: Command) {
        if self.random.chance(30) {
            self.tally.add("crashed");
            self.workers[worker].gone = true;
        } else {
            self.call(worker, command);
        }
    }

    fn reply(&mut self, worker: usize, sent: u64, command: &Command, outcome: &Outcome) {
        if self.workers[worker].gone {
            return;
        }
        self.workers[worker].calling = false;
        let now = outcome.store_time;
        self.workers[worker].as_of = Some(now);
        match (&outcome.result, command) {
            (Ok(Answer::Acquired(it)), Command::Claim(claim)) => {
                self.workers[worker].acquire(it, sent, now);
                for (permit, ask) in it.permits.iter().zip(&claim.effects) {
                    if let Ok(permit) = permit {
                        let slot = u8::from(ask.slot.as_str().ends_with('1'));
                        self.workers[worker].permitted(permit, slot, sent, now);
                    }
                }
            }
            (Ok(Answer::Unresolved(it)), _) => {
                let seen = facts(&it.open, it.life);
                self.workers[worker].seen = seen;
            }
            (Ok(Answer::Permitted(it)), Command::RecordEffect(ask)) => {
                let slot = u8::from(ask.dispatch.slot.as_str().ends_with('1'));
                self.workers[worker].permitted(it, slot, sent, now);
            }
            (Ok(Answer::Renewed(it)), _) => {
                let deadline = sent + it.lease_expire_time.since(now).0;
                if let Some(held) = &mut self.workers[worker].held {
                    held.deadline = held.deadline.max(deadline);
                    held.lease_expire = held.lease_expire.max(it.lease_expire_time.0);
                }
                self.see_rise(worker, it.mode);
            }
            (Ok(Answer::Settled(it)), _) => {
                let fact = super::worker::fact(&it.findings);
                if let Some(held) = &mut self.workers[worker].held {
                    held.facts.insert(it.uid.clone(), fact);
                }
                self.workers[worker].seen.remove(&it.uid);
                if let Some(mode) = it.mode {
                    self.see_rise(worker, mode);
                }
            }
            (Ok(Answer::Pending(_)), _) => {}
            (Ok(_), _) => self.workers[worker].gone = true,
            (Err(refusal), _) => self.refused(worker, refusal),
        }
        if !self.workers[worker].calling {
            self.go_on(worker);
        }
    }

    /// A holder that hears of its rise asks for all effects and their evidence before it acts on it.
    fn see_rise(&mut self, worker: usize, mode: Mode) {
        let held = self.workers[worker].held.as_ref();
        if mode == Mode::Execute && held.is_some_and(|held| held.mode != Mode::Execute) {
            self.tally.add("rise heard of");
            let claim = self.claim(worker, false);
            self.call(worker, claim);
        }
    }

    fn refused(&mut self, worker: usize, refusal: &Refusal) {
        if let Refusal::EffectSettled { uid, findings } = refusal {
            let fact = super::worker::fact(findings);
            if let Some(held) = &mut self.workers[worker].held {
                held.facts.insert(uid.clone(), fact);
            }
        }
        self.workers[worker].gone |= matches!(
            refusal,
            Refusal::StaleEpoch { .. }
                | Refusal::AlreadyCompleted { .. }
                | Refusal::AttemptSpent { .. }
                | Refusal::LateReplay { .. }
                | Refusal::AttemptsExhausted { .. }
                | Refusal::ResultConflict { .. }
        );
    }

    fn claim(&mut self, worker: usize, with_effect: bool) -> Command {
        let Worker { intent, attempt, .. } = self.workers[worker];
        let fingerprint = Fingerprint::new(
            Scheme::parse("a").expect("a scheme"),
            vec![intent; 16],
            BTreeMap::new(),
        );
        self.workers[worker].asked |= with_effect;
        let effects = if with_effect { vec![self.new_effect(worker, 0)] } else { Vec::new() };
        Command::Claim(Claim {
            record: shared::record(intent),
            attempt_id: firstclaim_core::AttemptId::parse(format!("a{attempt}"))
                .expect("an attempt"),
            owner: shared::owner(0),
            fingerprints: FingerprintSet::new(vec![fingerprint.expect("a fingerprint")])
                .expect("fingerprints"),
            lease: None,
            intent_time: self.born[usize::from(intent)].map(Timestamp),
            labels: Labels::default(),
            accept_recovery: self.random.chance(70),
            region: shared::region(),
            effects,
            complete_with: None,
            allow_duplicate_intent: false,
        })
    }

    /// An effect that nobody recorded before, to be sent for the first time.
    fn new_effect(&mut self, worker: usize, slot: u8) -> Dispatch {
        let attempt = self.workers[worker].attempt;
        let id = format!("e{attempt}-{slot}-{}", self.random.below(1_000_000));
        let keyed = self.random.chance(80);
        let window = self.random.pick(&[8_000, 30_000, u64::MAX]);
        let retention =
            if window == u64::MAX { Retention::Forever } else { Retention::For(Millis(window)) };
        Dispatch {
            id: EffectId::parse(id.clone()).expect("an effect"),
            number: 1,
            slot: shared::slot(slot),
            provider: shared::provider(0),
            provider_key: keyed.then(|| ProviderKey::parse(id).expect("a provider key")),
            dedup_window: keyed.then_some(retention),
            request: Content::new(vec![slot], "text/plain".to_owned()),
            within: self.random.pick(&[None, Some(Millis(1_000)), Some(Millis(3_000))]),
        }
    }

    /// The same effect once more, as the record shows it.
    fn same_effect(&mut self, worker: usize, uid: &EffectUid, number: u32) -> Option<Dispatch> {
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

    fn holder(&self, worker: usize, held: &Held) -> Holder {
        let it = &self.workers[worker];
        Holder {
            record: shared::record(it.intent),
            epoch: held.epoch,
            attempt_id: firstclaim_core::AttemptId::parse(format!("a{}", it.attempt))
                .expect("an attempt"),
        }
    }

    /// A worker does one of the things that it may do.
    fn step(&mut self, worker: usize) {
        if self.workers[worker].gone || self.workers[worker].calling {
            // An answer lets it go on.
            return;
        }
        if self.random.chance(5) {
            self.tally.add("crashed");
            self.workers[worker].gone = true;
            return;
        }
        if self.random.chance(60)
            && let Some((uid, verdict)) = self.workers[worker].learned.pop()
        {
            return self.settle(worker, &uid, verdict);
        }
        let Some(held) = self.workers[worker].held.clone() else {
            return self.step_without_claim(worker);
        };
        // What is permitted is sent first, or left.
        if let Some(at) = self.random_unused(&held) {
            return self.send(worker, at);
        }
        match self.random.below(10) {
            0 => {
                let renew = Renew { holder: self.holder(worker, &held), lease: None };
                self.call(worker, Command::Renew(renew));
            }
            1 => {
                let claim = self.claim(worker, false);
                self.call(worker, claim);
            }
            2 | 3 => self.look_up(worker),
            4 => self.give_back(worker, &held),
            5 | 6 => self.complete(worker, &held),
            _ => self.act(worker, &held),
        }
    }

    fn step_without_claim(&mut self, worker: usize) {
        let known = !self.workers[worker].seen.is_empty();
        if known && self.random.chance(70) {
            return self.look_up(worker);
        }
        if self.random.chance(10) {
            self.workers[worker].gone = true;
            return;
        }
        let with_effect = self.random.chance(30);
        let claim = self.claim(worker, with_effect);
        self.call(worker, claim);
    }

    fn random_unused(&mut self, held: &Held) -> Option<usize> {
        let any = !held.unused.is_empty() && self.random.chance(80);
        any.then(|| {
            let at = self.random.below(held.unused.len() as u64);
            usize::try_from(at).unwrap_or_default()
        })
    }

    /// Uses a permit once, before its end by the worker's own clock.
    fn send(&mut self, worker: usize, at: usize) {
        let Some(held) = &mut self.workers[worker].held else { return };
        let (uid, number, until, not_after) = held.unused.swap_remove(at);
        if self.now < until {
            held.used.insert((uid.clone(), number));
            let slot = held.effects.get(&uid).map_or(0, |(slot, _)| *slot);
            let record = self.record(self.workers[worker].intent);
            let effects = record.into_iter().flat_map(|record| record.effects);
            let effect = effects
                .into_iter()
                .find(|effect| EffectName::Effect(effect.id.clone()) == uid.name);
            let key = effect.as_ref().and_then(|effect| effect.provider_key.clone());
            let window = match effect.and_then(|effect| effect.dedup_window) {
                None => 0,
                Some(Retention::For(window)) => window.0,
                Some(Retention::Forever) => u64::MAX,
            };
            let key = key.map(|key| key.as_str().to_owned());
            let intent = self.workers[worker].intent;
            self.tally.add(if number == 1 { "sent" } else { "sent again" });
            let request = Request { intent, slot, uid, key, window };
            self.dispatch(worker, request, not_after);
        }
        self.go_on(worker);
    }

    /// A request is under way at most until its bound plus the latency.
    fn dispatch(&mut self, worker: usize, request: Request, not_after: u64) {
        *self.in_flight.entry(request.uid.clone()).or_default() += 1;
        let latest = (not_after + self.latency).saturating_sub(1).max(self.now);
        let wait = if self.random.chance(40) {
            self.random.below(latest - self.now + 1)
        } else {
            self.random.below(50).min(latest - self.now)
        };
        // Sometimes as late as can be.
        let wait = if self.random.chance(15) { latest - self.now } else { wait };
        self.later(wait, Event::Arrive { worker, request });
    }

    fn arrive(&mut self, worker: usize, request: &Request) -> Result<(), String> {
        if let Some(count) = self.in_flight.get_mut(&request.uid) {
            *count -= 1;
        }
        let response = self.provider.receive(self.now, request, &mut self.random);
        self.log.push(format!("{}: provider {request:?} -> {response:?}", self.now));
        self.check_effects(request)?;
        if !self.random.chance(25) {
            let after = self.delay();
            let uid = request.uid.clone();
            self.later(after, Event::Respond { worker, uid, response });
        }
        Ok(())
    }

    /// I13: no slot of an intent has two effects while the record lives, or ever where the intent's
    /// time is sent.
    fn check_effects(&self, request: &Request) -> Result<(), String> {
        let same = self.provider.effects.iter().filter(|(intent, slot, uid)| {
            let same_life = self.says_when || uid.life == request.uid.life;
            (*intent, *slot) == (request.intent, request.slot) && same_life
        });
        let same: Vec<_> = same.collect();
        if same.len() > 1 {
            return Err(format!("I13: two effects: {same:?}"));
        }
        Ok(())
    }

    fn respond(&mut self, worker: usize, uid: EffectUid, response: Response) {
        if self.workers[worker].gone {
            return;
        }
        let Some(held) = &mut self.workers[worker].held else { return };
        if let EffectName::Work(epoch) = uid.name {
            if epoch == held.epoch && held.life == uid.life {
                held.work = Some(Some(response));
            }
            return;
        }
        let verdict = match response {
            Response::Done => Verdict::Committed,
            Response::Refused => Verdict::Refused { status: Some(402) },
            Response::Unavailable => return,
        };
        if self.random.chance(75) {
            self.workers[worker].learned.push((uid, verdict));
        }
    }

    fn settlement(&self, worker: usize, uid: &EffectUid, verdict: Verdict) -> Option<Settle> {
        let record = self.record(self.workers[worker].intent)?;
        let effects = record.effects.into_iter();
        let effect =
            effects.into_iter().find(|effect| EffectName::Effect(effect.id.clone()) == uid.name);
        let evidence = Content::new(vec![7], "text/plain".to_owned());
        Some(Settle {
            uid: uid.clone(),
            provider: effect.as_ref().map(|effect| effect.provider.clone()),
            provider_key: effect.and_then(|effect| effect.provider_key),
            verdict,
            evidence,
        })
    }

    fn settle(&mut self, worker: usize, uid: &EffectUid, verdict: Verdict) {
        let record = shared::record(self.workers[worker].intent);
        let Some(settle) = self.settlement(worker, uid, verdict) else {
            return self.go_on(worker);
        };
        let settle = SettleEffect { record, settle, principal: shared::principal() };
        self.call(worker, Command::SettleEffect(settle));
    }

    /// Begins a look-up of something open; what is known of store time now is its `as_of`.
    fn look_up(&mut self, worker: usize) {
        let it = &self.workers[worker];
        let held = it.held.iter().flat_map(|held| &held.facts);
        let open = held.chain(&it.seen).filter(|(_, fact)| **fact == Fact::Open);
        let open: Vec<EffectUid> = open.map(|(uid, _)| uid.clone()).collect();
        if let (Some(as_of), false) = (it.as_of, open.is_empty()) {
            let uid = self.random.pick(&open);
            let after = if self.random.chance(50) { 0 } else { self.delay() };
            self.later(after, Event::LookedUp { worker, uid, as_of });
        } else {
            self.go_on(worker);
        }
    }

    fn looked_up(&mut self, worker: usize, uid: EffectUid, as_of: Timestamp) {
        if self.workers[worker].gone {
            return;
        }
        let verdict = if self.provider.happened(&uid) {
            Verdict::Committed
        } else {
            Verdict::NotFound { as_of }
        };
        self.workers[worker].learned.push((uid, verdict));
        self.go_on(worker);
    }

    /// Work, a new effect, or an effect once more: what the mode allows.
    fn act(&mut self, worker: usize, held: &Held) {
        if self.now >= held.deadline {
            return self.go_on(worker);
        }
        let works = held.mode == Mode::Execute
            && held.on_lapse == OnLapse::Recover
            && !held.journals
            && held.work.is_none()
            && !held.evidence();
        if works && self.random.chance(60) {
            return self.work(worker);
        }
        let open: Vec<EffectUid> = held
            .effects
            .keys()
            .filter(|uid| held.facts.get(uid) == Some(&Fact::Open))
            .cloned()
            .collect();
        let again = held.mode != Mode::Reconcile && !open.is_empty();
        let dispatch = if again {
            let uid = self.random.pick(&open);
            let number = held.effects.get(&uid).map_or(1, |(_, permits)| permits + 1);
            self.same_effect(worker, &uid, number)
        } else if held.mode == Mode::Execute && !(HEEDS_WORK && held.work_done()) {
            let slot = self.random.small(SLOTS);
            let free = held.of_slot(slot).iter().all(|fact| *fact == Fact::NotCommitted);
            if free { Some(self.new_effect(worker, slot)) } else { None }
        } else {
            None
        };
        match dispatch {
            Some(dispatch) if held.work.is_none() => {
                if let Some(held) = &mut self.workers[worker].held {
                    held.journals = true;
                }
                let holder = self.holder(worker, held);
                self.call(worker, Command::RecordEffect(RecordEffect { holder, dispatch }));
            }
            _ => self.go_on(worker),
        }
    }

    /// Unjournaled work: one request without a key.
    fn work(&mut self, worker: usize) {
        let intent = self.workers[worker].intent;
        let Some(held) = &mut self.workers[worker].held else { return };
        held.work = Some(None);
        let uid = EffectUid { life: held.life, name: EffectName::Work(held.epoch) };
        let bound = held.lease_expire;
        self.tally.add("worked");
        let request = Request { intent, slot: 0, uid, key: None, window: 0 };
        self.dispatch(worker, request, bound);
        self.go_on(worker);
    }

    fn complete(&mut self, worker: usize, held: &Held) {
        let result = ResultBody::inline(vec![1], "text/plain".to_owned());
        let carried: Vec<Settle> = held
            .facts
            .keys()
            .filter(|uid| self.provider.happened(uid))
            .filter_map(|uid| self.settlement(worker, uid, Verdict::Committed))
            .collect();
        let carried = if self.random.chance(50) { carried } else { Vec::new() };
        let refused = carried.is_empty()
            && held.effects.is_empty()
            && held.work.is_none_or(|work| work == Some(Response::Refused))
            && !held.evidence();
        let work = carried.iter().any(|settle| matches!(settle.uid.name, EffectName::Work(_)));
        let disposition = if held.all_done() || work {
            Disposition::Succeeded
        } else if refused && self.random.chance(30) {
            Disposition::Failed
        } else {
            return self.go_on(worker);
        };
        let holder = self.holder(worker, held);
        let complete = Complete { holder, disposition, result, settlements: carried };
        self.call(worker, Command::Complete(complete));
    }

    fn give_back(&mut self, worker: usize, held: &Held) {
        let kind = if held.quiet() && self.random.chance(60) {
            let untouched = held.work.is_none()
                && !held.journals
                && !held.evidence()
                && (!HEEDS_WORK || held.facts.is_empty());
            if untouched && self.random.chance(20) {
                ReleaseKind::Unbind
            } else {
                ReleaseKind::Retry { retry_after: Millis(self.random.below(3_000)) }
            }
        } else {
            ReleaseKind::Unknown { note: String::new() }
        };
        let release = Release { holder: self.holder(worker, held), kind };
        self.call(worker, Command::Release(release));
    }

    fn revoke(&mut self, intent: u8) {
        let Some(record) = self.record(intent) else { return };
        let revoke = Revoke {
            record: shared::record(intent),
            epoch: record.epoch,
            reason: "asked to".to_owned(),
            principal: shared::principal(),
        };
        let after = self.delay();
        let command = Command::Revoke(revoke);
        self.later(after, Event::Apply { worker: None, sent: self.now, command });
    }

    /// An operator reads the record, looks everything open up, and resolves.
    fn operate(&mut self, intent: u8) {
        let Some(record) = self.record(intent) else { return };
        let mut clock = self.store.cluster.clock.clone();
        let as_of = clock.now();
        clock.advance(Stamp { term: self.term, index: 0, time: Timestamp(self.now) });
        let open = record.open(&clock).uids(record.life);
        let mut verdicts = Vec::new();
        for uid in open {
            let idle = self.in_flight.get(&uid).is_none_or(|count| *count == 0);
            let verdict = if self.provider.happened(&uid) {
                Verdict::Committed
            } else if idle && self.random.chance(30) {
                Verdict::Overridden
            } else {
                Verdict::NotFound { as_of }
            };
            verdicts.push((uid, verdict));
        }
        let done = verdicts.iter().any(|(_, verdict)| *verdict == Verdict::Committed);
        let result = ResultBody::inline(vec![2], "text/plain".to_owned());
        let state = if done {
            Resolved::Completed(CompleteWith { disposition: Disposition::Succeeded, result })
        } else {
            Resolved::Retryable { retry_after: Millis(500) }
        };
        let attempt = format!("operator-{}", self.random.number());
        let resolve = Command::Resolve(Resolve {
            record: shared::record(intent),
            expected_epoch: record.epoch,
            attempt_id: firstclaim_core::AttemptId::parse(attempt).expect("an attempt"),
            verdicts,
            evidence: Content::new(vec![7], "text/plain".to_owned()),
            reason: "looked it up".to_owned(),
            principal: shared::principal(),
            state,
        });
        // An override is true at this very moment, so it is not sent late.
        let outcome = self.apply(&resolve, self.now);
        self.count(&outcome);
    }
}
