//! A hostile caller: it says anything about its own keys, true or not, at any time, as anybody.
//!
//! It stands for broken clients, broken operators and broken clocks in one. Nobody pays for what it does;
//! its answers are held against the model and the invariants like all others.

use firstclaim_core::command::{Command, Sweep};
use firstclaim_core::outcome::Answer;
use firstclaim_core::record::Epoch;
use firstclaim_core::{AttemptId, Outcome, PolicyPatch, RecordRef, Slot, TenantName};

use super::forgery::{self, Template};
use crate::Random;
use crate::checks::Broken;
use crate::judge::record_of;
use crate::names;
use crate::world::{Event, World};

/// Keys that it plays with at a time: three in one namespace, and one of the same name in the other.
const KEYS: u8 = 4;
/// Calls after which it takes other keys.
const CALLS: u32 = 120;

/// What it likes to do. Other keys, another mood.
#[derive(Clone, Debug)]
pub(crate) struct Mood {
    /// The key that most calls are about.
    key: u8,
    /// Percent of calls about it.
    focus: u64,
    /// Whether claims say when the intent was born.
    pub(super) taus: bool,
    /// Percent of claims that accept recovery.
    pub(super) recover: u64,
    /// Weights of families of calls.
    pub(super) effects: u64,
    pub(super) settles: u64,
    operators: u64,
    policies: u64,
    deletes: u64,
    pub(super) reserves: u64,
    /// How far time goes on at most, in halves of a second.
    hurry: u64,
    /// Whether retentions are long.
    pub(super) long: bool,
    /// Percent of claims by an attempt that may have claimed before.
    pub(super) repeats: u64,
}

impl Mood {
    fn new(random: &mut Random) -> Self {
        Self {
            key: random.small(KEYS),
            focus: random.pick(&[60, 80, 95]),
            taus: random.chance(40),
            recover: random.pick(&[20, 60, 90]),
            effects: random.pick(&[0, 8, 24]),
            settles: random.pick(&[0, 8, 24]),
            operators: random.pick(&[0, 3, 12]),
            policies: random.pick(&[0, 1, 4]),
            deletes: random.pick(&[0, 0, 0, 3]),
            reserves: random.pick(&[0, 1, 4]),
            hurry: random.pick(&[3, 6, 16]),
            long: random.chance(50),
            repeats: random.pick(&[30, 55, 80]),
        }
    }
}

/// A key that it plays with.
#[derive(Clone, Debug)]
pub(super) struct Toy {
    pub(super) record: RecordRef,
    /// Each grant and each Resolve, with the attempt that it went to.
    pub(super) granted: Vec<(Epoch, AttemptId)>,
    /// Each life that was seen.
    pub(super) lives: Vec<u64>,
}

impl Toy {
    /// The grant (or Resolve) of that many ago.
    pub(super) fn granted(&self, back: usize) -> Option<(Epoch, AttemptId)> {
        let at = self.granted.len().checked_sub(1 + back)?;
        Some(self.granted[at].clone())
    }
}

/// A hostile caller.
#[derive(Clone, Debug)]
pub(crate) struct Den {
    pub(super) tenant: TenantName,
    pub(super) mood: Mood,
    pub(super) templates: [Template; 3],
    pub(super) toys: Vec<Toy>,
    /// What it sent last.
    recent: Vec<Command>,
    calls: u32,
    keys: u32,
    /// When its keys were taken.
    pub(super) since: u64,
}

impl Den {
    pub(crate) fn new(at: u8, random: &mut Random) -> Self {
        Self {
            tenant: names::tenant(&format!("den{at}")),
            mood: Mood::new(random),
            templates: std::array::from_fn(|_| Template::new(random)),
            toys: Vec::new(),
            recent: Vec::new(),
            calls: 0,
            keys: 0,
            since: 0,
        }
    }

    /// Takes other keys, in another mood.
    fn take_keys(&mut self, now: u64, random: &mut Random) {
        self.keys += 1;
        self.calls = 0;
        self.since = now;
        self.mood = Mood::new(random);
        self.templates = std::array::from_fn(|_| Template::new(random));
        self.recent.clear();
        let toy = |at: u8| Toy {
            record: names::record(&self.tenant, at / 3, &format!("k{}-{}", at % 3, self.keys)),
            granted: Vec::new(),
            lives: Vec::new(),
        };
        self.toys = (0..KEYS).map(toy).collect();
    }

    /// Learns what later calls may say.
    fn learn(&mut self, command: &Command, outcome: &Outcome, life: Option<u64>) {
        let Some(toy) = self.toys.iter_mut().find(|toy| Some(&toy.record) == record_of(command))
        else {
            return;
        };
        if let Some(life) = life.filter(|life| toy.lives.last() != Some(life)) {
            toy.lives.push(life);
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
        if let Some(granted) = granted.filter(|it| !toy.granted.contains(it)) {
            toy.granted.push(granted);
        }
    }
}

impl World {
    /// Takes keys, and makes what is missing of the tenant and its two namespaces.
    pub(crate) fn open_den(&mut self, den: usize) -> Result<(), Broken> {
        self.dens[den].take_keys(self.now, &mut self.random);
        for of in 0..3 {
            if self.there(den, of) {
                continue;
            }
            let policy = if of == 0 && self.random.chance(70) {
                PolicyPatch::default()
            } else {
                forgery::policy(&mut self.random, self.dens[den].mood.long)
            };
            let put = self.forge_creation(den, of, policy);
            self.commit(&put, self.now)?;
        }
        Ok(())
    }

    /// Whether the tenant (0) or a namespace is there.
    fn there(&self, den: usize, of: u8) -> bool {
        let tenant = &self.dens[den].tenant;
        let store = &self.judge.store;
        let live = matches!(store.tenants.get(tenant), Some(Slot::Live(_)));
        let namespace = (tenant.clone(), names::namespace(of.saturating_sub(1)));
        live && (of == 0 || matches!(store.namespaces.get(&namespace), Some(Slot::Live(_))))
    }

    /// Calls once, and again later.
    pub(crate) fn hostile(&mut self, den: usize) -> Result<(), Broken> {
        let gap = self.gap(den);
        self.later(gap, Event::Hostile { den });
        if self.dens[den].calls >= CALLS {
            self.open_den(den)?;
        }
        self.dens[den].calls += 1;
        let Some(command) = self.forge(den) else { return Ok(()) };
        let outcome = self.commit(&command, self.now)?;
        let life = record_of(&command).and_then(|it| self.judge.record(it)).map(|it| it.life);
        let den = &mut self.dens[den];
        den.learn(&command, &outcome, life);
        den.recent.push(command);
        if den.recent.len() > 4 {
            den.recent.remove(0);
        }
        Ok(())
    }

    /// How long it waits: mostly not at all, then by halves of a second, so that it meets deadlines in
    /// their very millisecond.
    fn gap(&mut self, den: usize) -> u64 {
        let random = &mut self.random;
        let halves = 500 * (1 + random.below(self.dens[den].mood.hurry));
        let stall = 6_500 + 500 * random.below(12);
        let night = 20_000 + 1000 * random.below(40);
        // Back to the halves after a moment.
        let back = 500 - self.now % 500;
        let moment = if back == 500 { 1 + random.below(3) } else { back };
        random.weighted(&[(70, 0), (24, halves), (4, moment), (1, stall), (1, night)])
    }

    /// What it says next.
    fn forge(&mut self, den: usize) -> Option<Command> {
        let mood = self.dens[den].mood.clone();
        let key = if self.random.chance(mood.focus) { mood.key } else { self.random.small(KEYS) };
        let key = usize::from(key);
        let family = self.random.weighted(&[
            (4, 0),
            (38 + mood.effects + mood.settles + mood.reserves, 1),
            (mood.operators, 2),
            (mood.policies, 3),
            (mood.deletes, 4),
            (2, 5),
        ]);
        match family {
            0 => {
                let recent = &self.dens[den].recent;
                if recent.is_empty() { None } else { Some(self.random.pick(recent)) }
            }
            1 => self.forge_call(den, key),
            2 => self.forge_operation(den, key),
            3 => {
                let of = self.random.weighted(&[(1, 0), (6, 1), (2, 2)]);
                let policy = forgery::policy(&mut self.random, mood.long);
                Some(self.forge_put(den, of, policy))
            }
            4 => Some(self.forge_deletion(den)),
            _ => {
                let limit = self.random.pick(&[1, 10]);
                let report = self.forge_report(den, key);
                Some(self.random.pick(&[Command::Sweep(Sweep { limit }), Command::Tick, report]))
            }
        }
    }
}
