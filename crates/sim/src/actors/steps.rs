//! What an honest worker does next, and what it makes of answers and responses.

use firstclaim_core::command::{Command, Complete, Release, ReleaseKind, Settle};
use firstclaim_core::effect::Verdict;
use firstclaim_core::outcome::{Answer, Outcome};
use firstclaim_core::policy::{OnLapse, Retention};
use firstclaim_core::record::{Disposition, Mode};
use firstclaim_core::{EffectName, EffectUid, Millis, Refusal, Timestamp};

use super::provider::{Request, Response};
use super::worker::{Fact, HEEDS_WORK, Held, SLOTS, facts};
use crate::faults::Fault;
use crate::names;
use crate::reach::Marker;
use crate::world::{Event, World};

impl World {
    fn go_on(&mut self, worker: usize) {
        let after = self.delay(Some(Fault::CallLate));
        self.later(after, Event::Step { worker });
    }

    /// Sends a call: it reaches the log late, at a deadline, or never.
    fn call(&mut self, worker: usize, command: Command) {
        let sent = self.now;
        self.workers[worker].calling = true;
        let after = self.delay(Some(Fault::CallLate));
        if self.workers[worker].calls == 0
            && let Some(attempt) = Self::attempt_of(&command)
            && self.strikes(Fault::NotApplied)
        {
            // "Not applied" is a promise: nobody sends this attempt again, and it must not show up.
            self.workers[worker].gone = true;
            self.refuse_early(self.workers[worker].intent, attempt);
            return;
        }
        self.workers[worker].calls += 1;
        let command = Box::new(command);
        if self.strikes(Fault::CallLost) {
            self.later(after, Event::Lost { worker, command });
            return;
        }
        let deadline = self.until_deadline(worker).filter(|until| *until < 30_000);
        let (after, exact) = match deadline {
            Some(until) if self.strikes(Fault::CallAtDeadline) => (until, true),
            _ => (after, false),
        };
        self.later(after, Event::Apply { worker: Some(worker), sent, exact, command });
    }

    /// In how many milliseconds the deadline of a record comes.
    fn until_deadline(&self, worker: usize) -> Option<u64> {
        let intent = self.workers[worker].intent;
        let record = self.judge.record(&self.intents[intent].record)?;
        self.until(record.deadline(&self.judge.store.cluster.clock)?)
    }

    /// The process dies, or sends the same call again.
    pub(crate) fn lost(&mut self, worker: usize, command: Command) {
        if self.random.chance(50) && self.strikes(Fault::Crash) {
            self.workers[worker].gone = true;
        } else {
            self.call(worker, command);
        }
    }

    pub(crate) fn reply(&mut self, worker: usize, sent: u64, command: &Command, outcome: &Outcome) {
        if self.workers[worker].gone {
            return;
        }
        self.workers[worker].calling = false;
        let now = outcome.store_time;
        self.workers[worker].as_of = Some(now);
        match (&outcome.result, command) {
            (Ok(Answer::Acquired(it)), Command::Claim(claim)) => {
                if self.raced(worker) {
                    self.hit(Marker::Raced);
                }
                self.workers[worker].acquire(it, sent, now);
                for (permit, ask) in it.permits.iter().zip(&claim.effects) {
                    if let Ok(permit) = permit {
                        let slot = u8::from(ask.slot.as_str().ends_with('1'));
                        self.workers[worker].permitted(permit, slot, sent, now);
                    }
                }
            }
            (Ok(Answer::Unresolved(it)), _) => {
                self.workers[worker].seen = facts(&it.open, it.life);
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
            (Ok(answer), _) => {
                if matches!(answer, Answer::Replay(_)) {
                    self.hit(Marker::Replayed);
                }
                self.workers[worker].gone = true;
            }
            (Err(refusal), _) => self.refused(worker, refusal),
        }
        if !self.workers[worker].calling {
            self.go_on(worker);
        }
    }

    /// Whether another worker of the same intent asks for it at this moment.
    fn raced(&self, worker: usize) -> bool {
        let intent = self.workers[worker].intent;
        let others = self.workers.iter().enumerate().rev().take(64);
        let mut others = others.filter(|(at, it)| *at != worker && it.intent == intent);
        others.any(|(_, it)| it.calling && !it.gone)
    }

    /// A holder that hears of its rise asks for all effects and their evidence before it acts on it.
    fn see_rise(&mut self, worker: usize, mode: Mode) {
        let held = self.workers[worker].held.as_ref();
        if mode == Mode::Execute && held.is_some_and(|held| held.mode != Mode::Execute) {
            self.hit(Marker::RiseHeard);
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
        if matches!(refusal, Refusal::LateReplay { .. }) {
            self.hit(Marker::LateReplay);
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

    /// A worker goes on.
    pub(crate) fn step(&mut self, worker: usize) {
        if self.workers[worker].gone || self.workers[worker].calling {
            // An answer lets it go on.
            return;
        }
        if self.strikes(Fault::Crash) {
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
                let renewal = self.renewal(worker, &held);
                self.call(worker, renewal);
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
        let intent = self.workers[worker].intent;
        let Some(held) = &mut self.workers[worker].held else { return };
        let (uid, number, until, not_after) = held.unused.swap_remove(at);
        let (epoch, lease_expire) = (held.epoch, held.lease_expire);
        if self.now < until {
            held.used.insert((uid.clone(), number));
            let slot = held.effects.get(&uid).map_or(0, |(slot, _)| *slot);
            let record = self.judge.record(&self.intents[intent].record);
            let effect = record.and_then(|record| {
                let named = |id| EffectName::Effect(id) == uid.name;
                record.effects.iter().find(|effect| named(effect.id.clone()))
            });
            let key = effect.and_then(|effect| effect.provider_key.as_ref());
            let window = match effect.and_then(|effect| effect.dedup_window) {
                None => 0,
                Some(Retention::For(window)) => window.0,
                Some(Retention::Forever) => u64::MAX,
            };
            let key = key.map(|key| key.as_str().to_owned());
            self.hit(if number == 1 { Marker::Sent } else { Marker::SentAgain });
            let request = Request { intent, slot, uid, epoch, key, window, lease_expire };
            self.dispatch(worker, request, not_after);
        }
        self.go_on(worker);
    }

    pub(crate) fn respond(&mut self, worker: usize, uid: EffectUid, response: Response) {
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

    fn settle(&mut self, worker: usize, uid: &EffectUid, verdict: Verdict) {
        match self.settle_effect(self.workers[worker].intent, uid, verdict) {
            Some(command) => self.call(worker, command),
            None => self.go_on(worker),
        }
    }

    /// Begins a look-up of something open; what is known of store time now is its `as_of`.
    fn look_up(&mut self, worker: usize) {
        let it = &self.workers[worker];
        let held = it.held.iter().flat_map(|held| &held.facts);
        let open = held.chain(&it.seen).filter(|(_, fact)| **fact == Fact::Open);
        let open: Vec<EffectUid> = open.map(|(uid, _)| uid.clone()).collect();
        if let (Some(as_of), false) = (it.as_of, open.is_empty()) {
            let uid = self.random.pick(&open);
            let after = if self.random.chance(50) { 0 } else { self.delay(None) };
            self.later(after, Event::LookedUp { worker, uid, as_of });
        } else {
            self.go_on(worker);
        }
    }

    pub(crate) fn looked_up(&mut self, worker: usize, uid: EffectUid, as_of: Timestamp) {
        if self.workers[worker].gone {
            return;
        }
        let found = self.provider.happened(&uid);
        let verdict = if found { Verdict::Committed } else { Verdict::NotFound { as_of } };
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
        let open = held.effects.keys().filter(|uid| held.facts.get(uid) == Some(&Fact::Open));
        let open: Vec<EffectUid> = open.cloned().collect();
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
                let command = self.ask_for_permit(worker, held, dispatch);
                self.call(worker, command);
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
        let (epoch, lease_expire) = (held.epoch, held.lease_expire);
        let request = Request { intent, slot: 0, uid, epoch, key: None, window: 0, lease_expire };
        self.hit(Marker::Worked);
        self.dispatch(worker, request, lease_expire);
        self.go_on(worker);
    }

    fn complete(&mut self, worker: usize, held: &Held) {
        let intent = self.workers[worker].intent;
        let carried = held.facts.keys().filter(|uid| self.provider.happened(uid));
        let carried = carried.filter_map(|uid| self.settlement(intent, uid, Verdict::Committed));
        let carried: Vec<Settle> = carried.collect();
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
        let result = names::result(1);
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
}
