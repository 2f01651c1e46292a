//! A world: honest workers, providers, a queue, operators and hostile callers on a hostile schedule.
//!
//! One seed gives the world, its faults and its schedule; nothing else does: no clock, no thread, no
//! hash order. Events are ordered by their time and by when they were made.

use std::collections::BTreeMap;

use firstclaim_core::command::{Command, Sweep};
use firstclaim_core::outcome::{AcquiredKind, Answer, Outcome};
use firstclaim_core::record::{Logical, Mode};
use firstclaim_core::{AttemptId, EffectUid, Record, Stamp, Timestamp};

use crate::Random;
use crate::actors::hostile::Den;
use crate::actors::provider::{Provider, Received, Request, Response};
use crate::actors::queue::Intent;
use crate::actors::worker::Worker;
use crate::checks::{Arrival, Broken, Oracles};
use crate::faults::{Fault, Plan};
use crate::figures::Figures;
use crate::history::Entry;
use crate::judge::{Judge, record_of};
use crate::reach::Marker;

/// The tenant of honest workers.
pub(crate) const HONEST: &str = "acme";
/// How far the clocks of producers are off.
pub(crate) const SKEW: u64 = 1_500;
/// How far the clock of a leader may be off.
const OFFSET: u64 = 400;
/// When time starts.
const START: u64 = 1_000_000;
/// Hostile callers.
const DENS: u8 = 2;

/// What happens at a time.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// The queue takes a new intent.
    Publish,
    /// A message is delivered: an attempt begins.
    Deliver { intent: usize },
    /// A worker goes on.
    Step { worker: usize },
    /// A command reaches the log.
    Apply { worker: Option<usize>, sent: u64, exact: bool, command: Box<Command> },
    /// Its answer reaches the worker.
    Reply { worker: usize, sent: u64, command: Box<Command>, outcome: Box<Outcome> },
    /// Its answer is lost, or the call itself.
    Lost { worker: usize, command: Box<Command> },
    /// A request reaches a provider.
    Arrive { worker: usize, request: Request },
    /// Its response reaches the worker.
    Respond { worker: usize, uid: EffectUid, response: Response },
    /// A look-up that began with that knowledge ends.
    LookedUp { worker: usize, uid: EffectUid, as_of: Timestamp },
    /// A stamp, or a sweep.
    Tick,
    /// Another leader is elected.
    Elect,
    /// Nothing is stamped for a while.
    Stall,
    /// The policy of a namespace changes.
    Policy,
    /// A namespace is to be deleted.
    Delete,
    /// Its deletion is asked for.
    DeleteNow { tries: u8 },
    /// A deleted namespace is made anew.
    Create { namespace: u8 },
    /// An operator revokes a claim.
    Revoke { intent: usize },
    /// An operator purges a result.
    Purge { intent: usize },
    /// An operator looks at a record.
    Operate { intent: usize },
    /// A reconciler without a claim looks at a record.
    Reconcile { intent: usize },
    /// It has looked something up.
    Reconciled { intent: usize, uid: EffectUid, as_of: Timestamp },
    /// A hostile caller calls.
    Hostile { den: usize },
}

/// Who leads, and by which clock.
#[derive(Clone, Copy, Debug)]
struct Leader {
    term: u64,
    /// How far its clock is off.
    offset: i64,
    /// When it was elected, and the store time then.
    elected: u64,
    store_time: u64,
}

impl Leader {
    /// How far its readings are ahead of the time of the world: the wall clock, held back by nothing
    /// but its own monotonic time since the election.
    fn lead(self) -> i64 {
        self.offset.max(self.store_time.cast_signed() - self.elected.cast_signed())
    }
}

/// Everything.
pub(crate) struct World {
    pub(crate) random: Random,
    pub(crate) judge: Judge,
    pub(crate) provider: Provider,
    pub(crate) intents: Vec<Intent>,
    pub(crate) workers: Vec<Worker>,
    pub(crate) dens: Vec<Den>,
    pub(crate) now: u64,
    pub(crate) index: u64,
    /// How long a request is on its way at most; every settle horizon is longer.
    pub(crate) latency: u64,
    /// Milliseconds between two intents, about.
    pub(crate) pace: u64,
    /// Whether the namespace that forgets is to be deleted, and gets no new intents.
    pub(crate) closing: bool,
    /// Requests on their way, by uid.
    pub(crate) in_flight: BTreeMap<EffectUid, u32>,
    plan: Plan,
    leader: Leader,
    stalled_until: u64,
    /// By time and order.
    events: BTreeMap<(u64, u64), Event>,
    order: u64,
    operations: u64,
    oracles: Oracles,
    history: Option<Vec<Entry>>,
}

/// How a seed ended.
#[derive(Debug)]
pub struct Ended {
    /// What it came to.
    pub figures: Figures,
    /// What does not hold, if anything.
    pub broken: Option<Broken>,
    /// The log, if it was asked for.
    pub(crate) history: Vec<Entry>,
    /// Which checks ran.
    pub(crate) oracles: Oracles,
}

/// How a seed is run.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Operations after which it ends.
    pub operations: u64,
    /// Which checks run.
    pub oracles: Oracles,
    /// Whether the log is kept.
    pub history: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { operations: 2_000, oracles: Oracles::default(), history: false }
    }
}

/// Runs one seed.
#[must_use]
pub fn run(seed: u64, settings: Settings) -> Ended {
    let mut world = World::new(seed, settings);
    let broken = world.run().err();
    let World { mut judge, history, now, oracles, .. } = world;
    judge.figures.seeds = 1;
    judge.figures.simulated = now - START;
    judge.figures.least_operations = judge.figures.operations;
    judge.figures.least_faults = judge.figures.faults.sum();
    let (figures, history) = (judge.figures, history.unwrap_or_default());
    Ended { figures, broken, history, oracles }
}

impl World {
    fn new(seed: u64, settings: Settings) -> Self {
        let mut random = Random::new(seed);
        let plan = Plan::new(&mut random);
        let latency = random.pick(&[0, 500, 3000]);
        let pace = random.pick(&[3_000, 6_000, 12_000]);
        let dens = (0..DENS).map(|at| Den::new(at, &mut random)).collect();
        // A second replica costs as much as the first.
        let replica = settings.oracles.replica && random.chance(50);
        let oracles = Oracles { replica, ..settings.oracles };
        Self {
            random,
            judge: Judge::new(oracles),
            provider: Provider::default(),
            intents: Vec::new(),
            workers: Vec::new(),
            dens,
            now: START,
            index: 0,
            latency,
            pace,
            closing: false,
            in_flight: BTreeMap::new(),
            plan,
            leader: Leader { term: 1, offset: 0, elected: START, store_time: START },
            stalled_until: 0,
            events: BTreeMap::new(),
            order: 0,
            operations: settings.operations,
            oracles,
            history: settings.history.then(Vec::new),
        }
    }

    /// Runs to the end.
    fn run(&mut self) -> Result<(), Broken> {
        self.set_up()?;
        while self.judge.figures.operations < self.operations {
            let Some(((time, _), event)) = self.events.pop_first() else { break };
            self.now = time;
            self.judge.figures.events += 1;
            self.happen(event)?;
        }
        self.judge.end()
    }

    fn set_up(&mut self) -> Result<(), Broken> {
        self.create_honest()?;
        for den in 0..self.dens.len() {
            self.open_den(den)?;
            self.later(0, Event::Hostile { den });
        }
        self.later(0, Event::Publish);
        self.later(1_000, Event::Tick);
        for event in [Event::Elect, Event::Stall, Event::Policy, Event::Delete] {
            let at = self.random.below(40_000);
            self.later(at, event);
        }
        Ok(())
    }

    fn happen(&mut self, event: Event) -> Result<(), Broken> {
        match event {
            Event::Publish => self.publish(),
            Event::Deliver { intent } => self.deliver(intent),
            Event::Step { worker } => self.step(worker),
            Event::Apply { .. }
            | Event::Tick
            | Event::Hostile { .. }
            | Event::Policy
            | Event::DeleteNow { .. }
            | Event::Create { .. }
            | Event::Operate { .. }
                if self.now < self.stalled_until =>
            {
                // Nobody leads: what would be stamped waits.
                let wait = self.stalled_until - self.now;
                self.later(wait, event);
            }
            Event::Apply { worker, sent, exact, command } => {
                return self.arrive_at_log(worker, (sent, exact), &command);
            }
            Event::Reply { worker, sent, command, outcome } => {
                self.reply(worker, sent, &command, &outcome);
            }
            Event::Lost { worker, command } => self.lost(worker, *command),
            Event::Arrive { worker, request } => return self.arrive(worker, &request),
            Event::Respond { worker, uid, response } => self.respond(worker, uid, response),
            Event::LookedUp { worker, uid, as_of } => self.looked_up(worker, uid, as_of),
            Event::Tick => return self.tick(),
            Event::Elect => self.elect(),
            Event::Stall => self.stall(),
            Event::Policy => return self.change_policy(),
            Event::Delete => self.delete_honest(),
            Event::DeleteNow { tries } => return self.delete_now(tries),
            Event::Create { namespace } => return self.create_again(namespace),
            Event::Revoke { intent } => self.revoke(intent),
            Event::Purge { intent } => self.purge(intent),
            Event::Operate { intent } => return self.operate(intent),
            Event::Reconcile { intent } => self.reconcile(intent),
            Event::Reconciled { intent, uid, as_of } => self.reconciled(intent, &uid, as_of),
            Event::Hostile { den } => return self.hostile(den),
        }
        Ok(())
    }

    pub(crate) fn later(&mut self, after: u64, event: Event) {
        self.order += 1;
        self.events.insert((self.now + after, self.order), event);
    }

    /// Whether a fault happens now.
    pub(crate) fn strikes(&mut self, fault: Fault) -> bool {
        let strikes = self.plan.strikes(fault, &mut self.random);
        if strikes {
            self.judge.figures.faults.add(fault);
        }
        strikes
    }

    pub(crate) fn hit(&mut self, marker: Marker) {
        self.judge.figures.reach.hit(marker);
    }

    /// A delay: mostly short, longer than a lease if that fault strikes.
    pub(crate) fn delay(&mut self, late: Option<Fault>) -> u64 {
        let short = self.random.below(300);
        if late.is_some_and(|fault| self.strikes(fault)) {
            return self.random.below(9_000);
        }
        if self.random.chance(12) { 1_000 + short } else { short }
    }

    /// Applies a command at that reading of the leader's clock.
    pub(crate) fn commit(&mut self, command: &Command, at: u64) -> Result<Outcome, Broken> {
        self.index += 1;
        let time = Timestamp(at.saturating_add_signed(self.leader.lead()));
        let stamp = Stamp { term: self.leader.term, index: self.index, time };
        let (outcome, checked) = self.judge.call(stamp, command);
        if let Some(history) = &mut self.history {
            let life = record_of(command).and_then(|it| self.judge.record(it)).map(|it| it.life);
            let mut entry = Entry::call(stamp, command);
            entry.answer(&outcome, life);
            history.push(entry);
        }
        checked?;
        self.notice(command, &outcome);
        Ok(outcome)
    }

    /// A call never reaches the log, and its caller is told so.
    pub(crate) fn refuse_early(&mut self, intent: usize, attempt_id: AttemptId) {
        self.hit(Marker::NotApplied);
        let record = self.intents[intent].record.clone();
        if let Some(history) = &mut self.history {
            let (record, attempt_id) = (record.clone(), attempt_id.clone());
            history.push(Entry::NotApplied { record, attempt_id });
        }
        self.judge.not_applied(record, attempt_id);
    }

    /// Counts what an answer shows.
    fn notice(&mut self, command: &Command, outcome: &Outcome) {
        let marker = match &outcome.result {
            Ok(Answer::Acquired(it)) => match (it.kind, it.mode) {
                (AcquiredKind::First, _) => Marker::FirstClaim,
                (AcquiredKind::AlreadyHeld, _) => Marker::AlreadyHeld,
                (AcquiredKind::Recovery, Mode::Resume) => Marker::RecoveryResume,
                (AcquiredKind::Recovery, _) => Marker::RecoveryReconcile,
                (AcquiredKind::Takeover, _) => Marker::Takeover,
                (AcquiredKind::Retry, _) => Marker::Retry,
                (AcquiredKind::Rebound, _) => Marker::Rebound,
            },
            Ok(Answer::Replay(it)) if it.result_dropped => Marker::ReplayDropped,
            Ok(Answer::Completed(it)) if it.completion.late => Marker::LateComplete,
            Ok(Answer::Swept(it)) if it.removed > 0 => Marker::Swept,
            Err(firstclaim_core::Refusal::StaleEpoch { completed_record: true, .. }) => {
                Marker::StaleCompletes
            }
            _ => return self.notice_time(command),
        };
        self.hit(marker);
        self.notice_time(command);
    }

    fn notice_time(&mut self, command: &Command) {
        let clock = &self.judge.store.cluster.clock;
        let Some(record) = record_of(command).and_then(|it| self.judge.record(it)) else { return };
        let live = record.logical(clock) == Some(Logical::Live);
        let stored = record.grant.as_ref().map(|grant| grant.lease_expire_time);
        if live && stored.is_some_and(|stored| stored <= clock.now()) {
            self.hit(Marker::GraceHeld);
        }
    }

    /// A call reaches the log.
    fn arrive_at_log(
        &mut self,
        worker: Option<usize>,
        (sent, exact): (u64, bool),
        command: &Command,
    ) -> Result<(), Broken> {
        let old = !exact && self.strikes(Fault::StampOld);
        let at = if old { self.now - self.random.below(self.now - sent + 1) } else { self.now };
        let clock = &self.judge.store.cluster.clock;
        let waits = record_of(command).and_then(|it| self.judge.record(it));
        let deadline = waits.and_then(|it| it.deadline(clock));
        let unswept = waits.is_some_and(|it| it.logical(clock).is_none());
        if unswept && matches!(command, Command::Claim(_)) {
            self.hit(Marker::Unswept);
        }
        let outcome = self.commit(command, at)?;
        if deadline == Some(outcome.store_time) {
            self.hit(Marker::AtDeadline);
        }
        let Some(worker) = worker else { return Ok(()) };
        let after = self.delay(Some(Fault::AnswerLate));
        let command = Box::new(command.clone());
        let event = if self.strikes(Fault::AnswerLost) {
            Event::Lost { worker, command }
        } else {
            Event::Reply { worker, sent, command, outcome: Box::new(outcome) }
        };
        self.later(after, event);
        Ok(())
    }

    /// In how many milliseconds the leader stamps exactly that store time, if it is still to come.
    pub(crate) fn until(&self, store_time: Timestamp) -> Option<u64> {
        let at = store_time.0.checked_add_signed(-self.leader.lead())?;
        at.checked_sub(self.now)
    }

    fn tick(&mut self) -> Result<(), Broken> {
        let gap = 2_000 + self.random.below(1_500);
        self.later(gap, Event::Tick);
        let sweeps = self.random.chance(50);
        let command = if sweeps && !self.strikes(Fault::SweepOff) {
            Command::Sweep(Sweep { limit: self.random.pick(&[1, 4, 64]) })
        } else {
            Command::Tick
        };
        self.commit(&command, self.now).map(|_| ())
    }

    fn elect(&mut self) {
        let gap = 5_000 + self.random.below(60_000);
        self.later(gap, Event::Elect);
        if !self.strikes(Fault::Election) {
            return;
        }
        let off = self.strikes(Fault::ClockOff);
        let offset = if off { self.random.below(2 * OFFSET).cast_signed() } else { 0 };
        self.leader = Leader {
            term: self.leader.term + 1,
            offset: if off { offset - OFFSET.cast_signed() } else { 0 },
            elected: self.now,
            store_time: self.judge.store.cluster.clock.now().0,
        };
        let down = self.random.pick(&[0, 300, 2_000, 5_000]);
        self.stalled_until = self.stalled_until.max(self.now + down);
    }

    fn stall(&mut self) {
        let gap = 20_000 + self.random.below(100_000);
        self.later(gap, Event::Stall);
        if self.strikes(Fault::Stall) {
            let down = 6_500 + self.random.below(12_000);
            self.stalled_until = self.stalled_until.max(self.now + down);
        }
    }

    /// Sends a request: it is under way at most until its bound plus the latency.
    pub(crate) fn dispatch(&mut self, worker: usize, request: Request, not_after: u64) {
        *self.in_flight.entry(request.uid.clone()).or_default() += 1;
        let latest = (not_after + self.latency).saturating_sub(1).max(self.now) - self.now;
        let wait = if self.strikes(Fault::RequestLate) {
            if self.random.chance(30) { latest } else { self.random.below(latest + 1) }
        } else {
            self.random.below(50).min(latest)
        };
        self.later(wait, Event::Arrive { worker, request });
    }

    fn arrive(&mut self, worker: usize, request: &Request) -> Result<(), Broken> {
        if let Some(count) = self.in_flight.get_mut(&request.uid) {
            *count -= 1;
        }
        self.judge.figures.requests += 1;
        let received = if self.strikes(Fault::ProviderDown) {
            Received { response: Response::Unavailable, repeat: false }
        } else {
            self.provider.receive(self.now, request, &mut self.random)
        };
        self.note_arrival(request, received);
        if received.response == Response::Done && !received.repeat {
            let intent = &self.intents[request.intent];
            let arrival = Arrival {
                record: intent.record.clone(),
                slot: request.slot,
                uid: request.uid.clone(),
                timed: intent.timed,
            };
            self.judge.figures.effects += 1;
            if let Some(history) = &mut self.history {
                let (arrival, epoch) = (arrival.clone(), request.epoch);
                history.push(Entry::Arrival { arrival, epoch });
            }
            self.judge.arrive(&arrival)?;
        }
        if !self.strikes(Fault::ResponseLost) {
            let after = self.delay(None);
            let (uid, response) = (request.uid.clone(), received.response);
            self.later(after, Event::Respond { worker, uid, response });
        }
        Ok(())
    }

    fn note_arrival(&mut self, request: &Request, received: Received) {
        let intent = &self.intents[request.intent].record;
        let superseded = self.judge.record(intent).is_none_or(|it| it.epoch != request.epoch);
        let reached = [
            (superseded, Marker::SentAfterTakeover),
            (self.now >= request.lease_expire, Marker::ArrivedAfterLease),
            (received.repeat && received.response == Response::Done, Marker::ToldByKey),
            (received.repeat && received.response == Response::Refused, Marker::RefusedAgain),
            (request.key.is_none(), Marker::WithoutKey),
            (request.slot == 1 && received.response == Response::Done, Marker::EffectsOfTwoSlots),
        ];
        for (_, marker) in reached.into_iter().filter(|(reached, _)| *reached) {
            self.hit(marker);
        }
    }

    /// What is stored of an intent.
    pub(crate) fn record(&self, intent: usize) -> Option<Record> {
        self.judge.record(&self.intents[intent].record).cloned()
    }
}
