//! The callers: workers that claim, work, and say what came of it; they repeat what got no answer.

use std::future::Future;
use std::time::Duration;

use firstclaim_core::command::{
    Claim, Complete, Holder, Release, ReleaseKind, Renew, Reserve, Settle, SettleEffect, Sweep,
};
use firstclaim_core::effect::{Journal, Verdict};
use firstclaim_core::name::Labels;
use firstclaim_core::outcome::Acquired;
use firstclaim_core::record::{Disposition, Mode};
use firstclaim_core::{
    Answer, Command, EffectName, EffectUid, Millis, Outcome, RecordId, Refusal, Slot, Store as _,
    Timestamp,
};
use firstclaim_replica::{Fate, ProposeError, Replica};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::history::{Asked, History, Told, marker};
use crate::names::{self, Key, Kind};
use crate::reach::Mark;
use crate::world::Cluster;

/// A caller.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Its number.
    pub number: u64,
    /// Whom it calls.
    pub cluster: Cluster,
    /// What it asked and was told.
    pub history: History,
}

/// Why there is no answer.
enum Lost<T> {
    /// Nobody was there.
    NotSent,
    /// It may have been carried out.
    Unknown,
    /// So it may have been, and the node has yet to say so: the caller no longer waits for it.
    Late(JoinHandle<T>),
}

/// How often a call is repeated.
const TRIES: usize = 6;

impl Caller {
    fn chance(&self) -> &crate::chance::Chance {
        self.cluster.chance()
    }

    async fn pause(&self, from: u64, to: u64) {
        sleep(Duration::from_millis(self.chance().between(from, to))).await;
    }

    /// Has a node do something, unless it takes too long.
    async fn ask<T, F>(&self, node: u64, f: impl FnOnce(Replica) -> F) -> Result<T, Lost<T>>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        sleep(Duration::from_micros(self.chance().between(100, 4_000))).await;
        let Some((process, replica)) = self.cluster.running(node) else {
            return Err(Lost::NotSent);
        };
        let most = self.chance().weighted(&[(5, 4_000), (3, 20_000)]);
        let patience = Duration::from_millis(self.chance().between(500, most));
        let mut answering = process.run(f(replica));
        let Ok(answer) = timeout(patience, &mut answering).await else {
            return Err(Lost::Late(answering));
        };
        let Ok(answer) = answer else { return Err(Lost::Unknown) };
        sleep(Duration::from_micros(self.chance().between(100, 4_000))).await;
        if self.chance().in_thousand(10) {
            return Err(Lost::Unknown);
        }
        Ok(answer)
    }

    /// Notes what a node says in the end, though nobody waits for it: it must be as true as if
    /// somebody did.
    fn overhear<T: Send + 'static>(
        &self,
        answering: JoinHandle<T>,
        hear: impl FnOnce(&Self, T) + Send + 'static,
    ) {
        let caller = self.clone();
        tokio::spawn(async move {
            if let Ok(answer) = answering.await {
                caller.cluster.reached().mark(Mark::Late);
                hear(&caller, answer);
            }
        });
    }

    fn tell(&self, id: u64, told: Told) {
        self.history.tell(id, told, self.cluster.trace().now());
    }

    /// Has a command decided; none if its outcome is unknown or it was not taken on.
    async fn propose(&self, key: Option<Key>, node: u64, command: &Command) -> Proposed {
        let asked = Asked::Propose(Box::new(command.clone()));
        let id = self.history.invoke(key, node, asked, self.cluster.trace().now());
        let commands = vec![command.clone(), marker(id)];
        let answer =
            self.ask(node, |replica| async move { replica.propose_at(commands).await }).await;
        match answer {
            Ok(answer) => self.hear(id, node, answer),
            Err(Lost::NotSent) => {
                self.tell(id, Told::NotProposed);
                Proposed::Elsewhere(None)
            }
            Err(Lost::Unknown) => {
                self.cluster.reached().mark(Mark::Unknown);
                Proposed::Nothing
            }
            Err(Lost::Late(answering)) => {
                self.overhear(answering, move |caller, answer| {
                    caller.hear(id, node, answer);
                });
                Proposed::Nothing
            }
        }
    }

    /// Takes down what a node says of a proposal.
    fn hear(
        &self,
        id: u64,
        node: u64,
        answer: Result<(u64, Vec<Outcome>), ProposeError>,
    ) -> Proposed {
        let reached = self.cluster.reached();
        match answer {
            Ok((index, outcomes)) => {
                let Some(outcome) = outcomes.into_iter().next() else { return Proposed::Nothing };
                self.tell(id, Told::Decided { index, outcome: Box::new(outcome.clone()) });
                self.cluster.trace().note("decided", id, index);
                Proposed::Decided(outcome)
            }
            Err(error) => {
                if matches!(error, ProposeError::LeadershipLost) {
                    reached.mark(Mark::Discarded);
                }
                if matches!(error, ProposeError::NoQuorum) {
                    reached.mark(Mark::NoQuorum);
                }
                if error.fate() == Fate::Unknown {
                    reached.mark(Mark::Unknown);
                    return Proposed::Nothing;
                }
                reached.mark(Mark::NotProposed);
                self.tell(id, Told::NotProposed);
                let leader = self.cluster.running(node).and_then(|(_, replica)| replica.leader());
                Proposed::Elsewhere(leader.map(|(leader, _)| leader))
            }
        }
    }

    /// Has a command decided, by whoever leads, and asks again while there is no answer.
    async fn decide(&self, key: Option<Key>, command: &Command) -> Option<Outcome> {
        let mut node = self.chance().pick(&self.cluster.ids());
        for _ in 0..TRIES {
            match self.propose(key, node, command).await {
                Proposed::Decided(outcome) => return Some(outcome),
                Proposed::Elsewhere(Some(leader)) if leader != node => node = leader,
                Proposed::Elsewhere(_) => {
                    self.pause(20, 400).await;
                    node = self.chance().pick(&self.cluster.ids());
                }
                Proposed::Nothing => {
                    if self.chance().percent(30) {
                        return None;
                    }
                    node = self.chance().pick(&self.cluster.ids());
                }
            }
        }
        None
    }

    /// Looks at a claim at a node: it may be answered there and then.
    async fn look(&self, key: Key, command: &Command) -> Option<Outcome> {
        let Command::Claim(claim) = command else { return None };
        let node = self.chance().pick(&self.cluster.ids());
        let asked = Asked::Look(Box::new(command.clone()));
        let id = self.history.invoke(Some(key), node, asked, self.cluster.trace().now());
        let claim = claim.clone();
        let look = self
            .ask(node, |replica| async move { (replica.look(&claim), replica.is_leader()) })
            .await;
        let Ok((Ok(look), leads)) = look else { return None };
        let outcome = look.answer?;
        self.cluster.reached().mark(Mark::LocalReplay);
        if !leads {
            self.cluster.reached().mark(Mark::LocalReplayOfFollower);
        }
        self.cluster.trace().note("local", id, node);
        self.tell(id, Told::Local(Box::new(outcome.clone())));
        Some(outcome)
    }

    /// Reads a record.
    async fn get(&self, key: Key) {
        let node = self.chance().pick(&self.cluster.ids());
        let id = self.history.invoke(Some(key), node, Asked::Get, self.cluster.trace().now());
        let name = names::record(key);
        let read = self
            .ask(node, |replica| async move {
                replica.linearize().await.ok()?;
                let leads = replica.is_leader();
                let read = replica.read(|state| {
                    let now = state.cluster()?.clock.now();
                    let slot = state.namespace(&name.tenant, &name.namespace)?;
                    let Some(Slot::Live(namespace)) = slot else { return Ok((now, None)) };
                    let id = RecordId { namespace: namespace.id, key: name.key.clone() };
                    let record = state.record(&id)?;
                    let clock = state.cluster()?.clock;
                    Ok((now, record.filter(|record| record.logical(&clock).is_some())))
                });
                let (index, (store_time, record)) = read.ok()?;
                Some((leads, Told::Read { index, store_time, record: record.map(Box::new) }))
            })
            .await;
        match read {
            Ok(read) => self.hear_read(id, read),
            Err(Lost::Late(answering)) => {
                self.overhear(answering, move |caller, read| caller.hear_read(id, read));
            }
            Err(Lost::NotSent | Lost::Unknown) => {}
        }
    }

    /// Takes down what a linearizable read saw, if it saw anything, and whether its node led.
    fn hear_read(&self, id: u64, read: Option<(bool, Told)>) {
        let Some((leads, told)) = read else { return };
        if !leads {
            self.cluster.reached().mark(Mark::StaleRead);
        }
        self.tell(id, told);
    }

    /// Waits until the tenant and its namespaces are there.
    pub async fn found(&self) {
        use firstclaim_core::command::{PutMode, PutNamespace, PutTenant};
        let mode = PutMode::Create { members_applied: 0 };
        let tenant = Command::PutTenant(PutTenant {
            tenant: names::tenant(),
            policy: names::policy(Kind::Recover),
            mode,
            validate_only: false,
        });
        let mut commands = vec![tenant];
        commands.extend(names::KINDS.map(|kind| {
            Command::PutNamespace(PutNamespace {
                tenant: names::tenant(),
                namespace: names::namespace(kind),
                policy: names::policy(kind),
                mode,
                validate_only: false,
            })
        }));
        for command in commands {
            loop {
                match self.decide(None, &command).await {
                    Some(Outcome {
                        result: Ok(_) | Err(Refusal::AlreadyExists { .. }), ..
                    }) => {
                        break;
                    }
                    Some(_) | None => self.pause(50, 200).await,
                }
            }
        }
    }

    /// Removes what is forgotten, now and then.
    pub async fn sweep(&self) {
        loop {
            self.pause(500, 4_000).await;
            self.decide(None, &Command::Sweep(Sweep { limit: 100 })).await;
        }
    }

    /// Looks at nodes for duplicates of what is soon forgotten.
    pub async fn pry(&self) {
        loop {
            self.pause(5, 80).await;
            let key = Key { kind: Kind::Short, number: self.chance().below(6) };
            let attempt = 900_000_000 + self.chance().below(1_000_000);
            let claim = self.claim(key, attempt);
            self.look(key, &claim).await;
        }
    }

    /// Works through keys until it is dropped.
    pub async fn work(&self) {
        let mut attempt = self.number * 1_000_000;
        loop {
            self.pause(5, 150).await;
            let key = self.key();
            attempt += 1;
            self.attempt(key, attempt).await;
            while self.chance().percent(40) {
                self.get(key).await;
            }
        }
    }

    /// One of a few keys; which ones moves on.
    fn key(&self) -> Key {
        let kind =
            self.chance().weighted(&[(4, Kind::Recover), (4, Kind::Takeover), (3, Kind::Short)]);
        let span = if kind == Kind::Short { 60_000_000 } else { 6_000_000 };
        let base = 4 * (self.cluster.trace().now() / span);
        Key { kind, number: base + self.chance().below(6) }
    }

    fn claim(&self, key: Key, attempt: u64) -> Command {
        let chance = self.chance();
        Command::Claim(Claim {
            record: names::record(key),
            attempt_id: names::attempt(attempt),
            owner: names::owner(self.number),
            fingerprints: names::fingerprints(key, chance.percent(5)),
            lease: chance.pick(&[None, Some(Millis(1_000)), Some(Millis(4_000))]),
            intent_time: None,
            labels: Labels::default(),
            accept_recovery: chance.percent(50),
            region: names::region(),
            effects: Vec::new(),
            complete_with: None,
            allow_duplicate_intent: true,
        })
    }

    /// One try to get a key done.
    async fn attempt(&self, key: Key, attempt: u64) {
        if self.chance().percent(4) {
            let reserve = Command::Reserve(Reserve {
                record: names::record(key),
                fingerprints: names::fingerprints(key, false),
                intent_time: None,
                labels: Labels::default(),
                allow_duplicate_intent: true,
                admit: None,
            });
            self.decide(Some(key), &reserve).await;
        }
        let claim = self.claim(key, attempt);
        for _ in 0..3 {
            if let Some(seen) = self.look(key, &claim).await {
                if matches!(seen.result, Ok(Answer::Replay(_))) {
                    return;
                }
                self.pause(5, 50).await;
            }
            let Some(outcome) = self.decide(Some(key), &claim).await else { return };
            self.note(&outcome);
            match &outcome.result {
                Ok(Answer::Acquired(acquired)) => {
                    self.hold(key, attempt, acquired, outcome.store_time).await;
                    return;
                }
                Ok(Answer::Pending(_)) if self.chance().percent(50) => self.pause(50, 800).await,
                Ok(Answer::Unresolved(it)) => {
                    if self.chance().percent(50) {
                        let (life, open) = (it.life, it.open.clone());
                        self.settle_all(key, life, &open, outcome.store_time).await;
                    }
                    return;
                }
                Ok(_) | Err(_) => return,
            }
        }
    }

    fn note(&self, outcome: &Outcome) {
        use firstclaim_core::outcome::AcquiredKind;
        let mark = match &outcome.result {
            Ok(Answer::Acquired(it)) => match it.kind {
                AcquiredKind::First => Mark::First,
                AcquiredKind::AlreadyHeld => Mark::AlreadyHeld,
                AcquiredKind::Recovery => Mark::Recovery,
                AcquiredKind::Takeover => Mark::Takeover,
                AcquiredKind::Retry => Mark::Retried,
                AcquiredKind::Rebound => return,
            },
            Ok(Answer::Replay(it)) if it.result_dropped => Mark::ResultDropped,
            Ok(Answer::Pending(_)) => Mark::Pending,
            Ok(Answer::Unresolved(_)) => Mark::Unresolved,
            Ok(Answer::Settled(_)) => Mark::Settled,
            Err(Refusal::FingerprintMismatch { .. }) => Mark::Mismatch,
            Err(Refusal::StaleEpoch { .. }) => Mark::StaleRefused,
            Ok(_) | Err(_) => return,
        };
        self.cluster.reached().mark(mark);
    }

    /// Holds a claim: works, and says what came of it.
    async fn hold(&self, key: Key, attempt: u64, acquired: &Acquired, now: Timestamp) {
        let holder = Holder {
            record: names::record(key),
            epoch: acquired.epoch,
            attempt_id: names::attempt(attempt),
        };
        let chance = self.chance();
        if acquired.mode != Mode::Execute {
            self.settle_all(key, acquired.life, &acquired.journal, now).await;
        }
        loop {
            let most = chance.weighted(&[(5, 100), (3, 800), (1, 4_000)]);
            self.pause(0, most).await;
            if !chance.percent(30) {
                break;
            }
            let lease = chance.pick(&[None, Some(Millis(1_500))]);
            let renew = Command::Renew(Renew { holder: holder.clone(), lease });
            if let Some(outcome) = self.decide(Some(key), &renew).await {
                self.note(&outcome);
            }
        }
        let command = match chance.below(20) {
            0 | 1 => {
                let retry_after = Millis(chance.between(0, 500));
                let kind = ReleaseKind::Retry { retry_after };
                Command::Release(Release { holder, kind })
            }
            2 => Command::Release(Release {
                holder,
                kind: ReleaseKind::Unknown { note: "who knows".to_owned() },
            }),
            // It is gone without a word.
            3 | 4 => return,
            it => Command::Complete(Complete {
                holder,
                disposition: if it == 5 { Disposition::Failed } else { Disposition::Succeeded },
                result: names::result(attempt),
                settlements: Vec::new(),
            }),
        };
        if let Some(outcome) = self.decide(Some(key), &command).await {
            self.note(&outcome);
        }
    }

    /// Finds out what became of what is open.
    async fn settle_all(&self, key: Key, life: u64, open: &Journal, as_of: Timestamp) {
        for work in &open.works {
            if work.findings.settlement.is_some() {
                continue;
            }
            let uid = EffectUid { life, name: EffectName::Work(work.epoch) };
            let committed = self.chance().percent(50);
            let verdict = match committed {
                true => Verdict::Committed,
                false if self.chance().percent(50) => Verdict::Refused { status: Some(402) },
                false => Verdict::NotFound { as_of },
            };
            let settle = Settle {
                uid,
                provider: None,
                provider_key: None,
                verdict,
                evidence: names::evidence(work.epoch.0),
            };
            let command = Command::SettleEffect(SettleEffect {
                record: names::record(key),
                settle,
                principal: names::principal(),
            });
            if let Some(outcome) = self.decide(Some(key), &command).await {
                self.note(&outcome);
            }
        }
    }

    /// Claims and completes a key that nobody else knows; how long that took, in milliseconds.
    pub async fn prove_alive(&self, number: u64) -> Option<u64> {
        let key = Key { kind: Kind::Takeover, number: 1_000_000_000 + number };
        let start = self.cluster.trace().now();
        let mut claim = self.claim(key, 1_000_000_000 + number);
        if let Command::Claim(claim) = &mut claim {
            claim.fingerprints = names::fingerprints(key, false);
        }
        for _ in 0..20 {
            if let Some(outcome) = self.decide(Some(key), &claim).await {
                self.note(&outcome);
                let alive = matches!(outcome.result, Ok(Answer::Acquired(_)));
                return alive.then(|| (self.cluster.trace().now() - start) / 1_000);
            }
        }
        None
    }
}

/// What came of a proposal.
enum Proposed {
    Decided(Outcome),
    /// It was not taken on; perhaps by whom it would be.
    Elsewhere(Option<u64>),
    /// Nobody knows.
    Nothing,
}
