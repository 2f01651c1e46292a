//! Operators and reconcilers: they set policies, delete namespaces, revoke, purge, look things up and
//! resolve. They are honest, and slow.

use firstclaim_core::command::{
    Command, CompleteWith, DeleteNamespace, Purge, PutMode, PutNamespace, PutTenant, Resolve,
    Resolved, Revoke,
};
use firstclaim_core::effect::Verdict;
use firstclaim_core::policy::{OnLapse, Retention};
use firstclaim_core::record::{Disposition, State};
use firstclaim_core::{
    Answer, EffectName, EffectUid, Millis, PolicyPatch, Record, Stamp, Timestamp,
};

use crate::checks::Broken;
use crate::faults::Fault;
use crate::names;
use crate::reach::Marker;
use crate::world::{Event, HONEST, World};

/// How far store time can be off the time of the world, and a bit.
const CLOCKS: u64 = 1_000;
/// How often an operator asks for a deletion that is refused.
const DELETE_TRIES: u8 = 10;

impl World {
    /// The tenant of honest workers: one namespace that forgets, and one that does not.
    pub(crate) fn create_honest(&mut self) -> Result<(), Broken> {
        let create = PutMode::Create { members_applied: 0 };
        let put = PutTenant {
            tenant: names::tenant(HONEST),
            policy: PolicyPatch::default(),
            mode: create,
            validate_only: false,
        };
        self.commit(&Command::PutTenant(put), self.now)?;
        for namespace in 0..2 {
            let put = self.put_policy(namespace, create);
            self.commit(&put, self.now)?;
        }
        Ok(())
    }

    fn put_policy(&mut self, namespace: u8, mode: PutMode) -> Command {
        let random = &mut self.random;
        let identity = Retention::For(Millis(3_000 + 500 * random.below(60)));
        let identity = if namespace == 0 { identity } else { Retention::Forever };
        let on_lapse = random.weighted(&[(3, OnLapse::Recover), (2, OnLapse::Takeover)]);
        let slack = 500 * random.below(6);
        let policy = PolicyPatch {
            lease_default: Some(Millis(2_000 + 1_000 * random.below(6))),
            lease_max: Some(Millis(20_000)),
            takeover_delay: Some(Millis(random.pick(&[0, 0, 1_500]))),
            on_lapse: Some(on_lapse),
            result_retention: Some(Millis(2_000)),
            identity_retention: Some(identity),
            intent_time_skew: Some(Millis(random.pick(&[2_000, 2_000, 8_000]))),
            max_attempts: Some(random.pick(&[0, 0, 0, 2, 4])),
            settle_horizon: Some(Millis(self.latency + CLOCKS + slack)),
            ..PolicyPatch::default()
        };
        Command::PutNamespace(PutNamespace {
            tenant: names::tenant(HONEST),
            namespace: names::namespace(namespace),
            policy,
            mode,
            validate_only: false,
        })
    }

    pub(crate) fn change_policy(&mut self) -> Result<(), Broken> {
        let gap = 5_000 + self.random.below(60_000);
        self.later(gap, Event::Policy);
        if self.strikes(Fault::PolicyChange) {
            let namespace = self.random.small(2);
            let put = self.put_policy(namespace, PutMode::Update { expected: None });
            self.commit(&put, self.now)?;
        }
        Ok(())
    }

    /// An operator sets out to delete a namespace, and has producers take the other one.
    pub(crate) fn delete_honest(&mut self) {
        let gap = 20_000 + self.random.below(60_000);
        self.later(gap, Event::Delete);
        if self.strikes(Fault::Deletion) {
            self.closing = true;
            self.later(0, Event::DeleteNow { tries: DELETE_TRIES });
        }
    }

    /// Only what forgets is ever deleted. While anything is live or open there it is refused, so the
    /// operator asks again.
    pub(crate) fn delete_now(&mut self, tries: u8) -> Result<(), Broken> {
        let delete = Command::DeleteNamespace(DeleteNamespace {
            tenant: names::tenant(HONEST),
            namespace: names::namespace(0),
            expected: None,
            force: false,
        });
        let outcome = self.commit(&delete, self.now)?;
        if matches!(outcome.result, Ok(Answer::Deleted(_))) {
            self.hit(Marker::NamespaceDeleted);
            let after = self.random.pick(&[0, 500, 5_000]);
            self.later(after, Event::Create { namespace: 0 });
        } else if tries > 1 {
            self.later(4_000, Event::DeleteNow { tries: tries - 1 });
        } else {
            self.closing = false;
        }
        Ok(())
    }

    pub(crate) fn create_again(&mut self, namespace: u8) -> Result<(), Broken> {
        let create = PutMode::Create { members_applied: self.index };
        let put = self.put_policy(namespace, create);
        self.closing = false;
        self.commit(&put, self.now).map(|_| ())
    }

    /// Whoever will look at an intent from outside, and when.
    pub(crate) fn call_operators(&mut self, intent: usize) {
        for (event, most, within) in [
            (Event::Revoke { intent }, 3, 30_000),
            (Event::Operate { intent }, 3, 120_000),
            (Event::Reconcile { intent }, 3, 90_000),
            (Event::Purge { intent }, 2, 60_000),
        ] {
            for _ in 0..self.random.below(most) {
                let at = self.random.below(within);
                self.later(at, event.clone());
            }
        }
    }

    fn send_for_operator(&mut self, command: Command) {
        let (sent, after) = (self.now, self.delay(Some(Fault::CallLate)));
        let command = Box::new(command);
        self.later(after, Event::Apply { worker: None, sent, exact: false, command });
    }

    pub(crate) fn revoke(&mut self, intent: usize) {
        let Some(record) = self.record(intent) else { return };
        if self.strikes(Fault::Revoked) {
            self.send_for_operator(Command::Revoke(Revoke {
                record: self.intents[intent].record.clone(),
                epoch: record.epoch,
                reason: "asked to".to_owned(),
                principal: names::principal(),
            }));
        }
    }

    pub(crate) fn purge(&mut self, intent: usize) {
        let Some(record) = self.record(intent) else { return };
        if matches!(record.state, State::Completed(_)) && self.strikes(Fault::Purged) {
            self.send_for_operator(Command::Purge(Purge {
                record: self.intents[intent].record.clone(),
                expected_epoch: record.epoch,
                reason: "asked to".to_owned(),
                principal: names::principal(),
            }));
        }
    }

    /// A reconciler reads the record, and looks up what is open in it.
    pub(crate) fn reconcile(&mut self, intent: usize) {
        let Some(record) = self.record(intent) else { return };
        let as_of = self.judge.store.cluster.clock.now();
        let open = record.open(&self.judge.store.cluster.clock);
        for uid in open.uids(record.life) {
            let after = self.delay(None);
            self.later(after, Event::Reconciled { intent, uid, as_of });
        }
    }

    pub(crate) fn reconciled(&mut self, intent: usize, uid: &EffectUid, as_of: Timestamp) {
        let found = self.provider.happened(uid);
        let verdict = if found { Verdict::Committed } else { Verdict::NotFound { as_of } };
        if let Some(command) = self.settle_effect(intent, uid, verdict) {
            self.hit(Marker::Reconciled);
            self.send_for_operator(command);
        }
    }

    /// An operator reads the record, looks everything open up, and resolves.
    pub(crate) fn operate(&mut self, intent: usize) -> Result<(), Broken> {
        let Some(record) = self.record(intent) else { return Ok(()) };
        let mut clock = self.judge.store.cluster.clock.clone();
        let as_of = clock.now();
        clock.advance(Stamp { term: 0, index: 0, time: Timestamp(self.now) });
        let mut verdicts = Vec::new();
        for uid in record.open(&clock).uids(record.life) {
            let verdict = self.verdict_of_operator(&record, &uid, as_of);
            verdicts.push((uid, verdict));
        }
        let done = verdicts.iter().any(|(_, verdict)| *verdict == Verdict::Committed);
        let overrides = verdicts.iter().any(|(_, verdict)| *verdict == Verdict::Overridden);
        let result = names::result(2);
        let state = if done {
            Resolved::Completed(CompleteWith { disposition: Disposition::Succeeded, result })
        } else {
            Resolved::Retryable { retry_after: Millis(500) }
        };
        let attempt = format!("operator-{}", self.random.number());
        let resolve = Command::Resolve(Resolve {
            record: self.intents[intent].record.clone(),
            expected_epoch: record.epoch,
            attempt_id: names::attempt(&attempt),
            verdicts,
            evidence: names::content(7),
            reason: "looked it up".to_owned(),
            principal: names::principal(),
            state,
        });
        // An override is true at this very moment, so it is not sent late.
        let outcome = self.commit(&resolve, self.now)?;
        if outcome.result.is_ok() {
            self.hit(if overrides { Marker::OperatorOverrode } else { Marker::OperatorResolved });
        }
        Ok(())
    }

    fn verdict_of_operator(
        &mut self,
        record: &Record,
        uid: &EffectUid,
        as_of: Timestamp,
    ) -> Verdict {
        if self.provider.happened(uid) {
            Verdict::Committed
        } else if self.over(record, uid) && self.random.chance(30) {
            Verdict::Overridden
        } else {
            Verdict::NotFound { as_of }
        }
    }

    /// Whether nothing of it is on its way, and nobody can send it any more: the operator has stopped
    /// the processes, or waited for longer than clocks can be apart.
    fn over(&self, record: &Record, uid: &EffectUid) -> bool {
        let latest = match &uid.name {
            EffectName::Work(_) => record.latest_deadline(&self.judge.store.cluster.clock),
            EffectName::Effect(id) => {
                let effect = record.effects.iter().find(|effect| effect.id == *id);
                effect.map(firstclaim_core::effect::Effect::last_not_after)
            }
        };
        let passed = latest.is_some_and(|it| it.0 + CLOCKS < self.now);
        passed && self.in_flight.get(uid).is_none_or(|count| *count == 0)
    }
}
