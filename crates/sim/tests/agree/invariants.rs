//! Invariants I1, I2, I3, I4, I6, I7, I8 and I11 of semantics §10, on what callers were told.

use std::collections::BTreeMap;

use firstclaim_core::command::{Claim, Command, Holder};
use firstclaim_core::outcome::{Acquired, AcquiredKind, ReleasedState};
use firstclaim_core::policy::Retention;
use firstclaim_core::record::{Epoch, Grant, Logical};
use firstclaim_core::{
    Answer, AttemptId, EffectName, Expiry, Millis, Outcome, Record, Refusal, Slot, Timestamp,
};

use super::run::{Answered, Run, record_of};
use crate::shared;

/// How many attempts are known.
const ATTEMPTS_KNOWN: usize = 8;

/// What callers were told of one life.
#[derive(Clone, Debug)]
struct Life {
    name: u64,
    /// When it was claimed first, and the skew that was granted then.
    claimed: Option<(Timestamp, Millis)>,
    grants: Vec<(AttemptId, Epoch)>,
    digest: Option<Vec<u8>>,
    retention: Retention,
    /// When it may be forgotten at the earliest, as its callers were told.
    kept_until: Expiry,
}

/// What a superseded epoch must leave alone.
#[derive(Clone, Debug, PartialEq)]
struct Fenced {
    epoch: Epoch,
    grant: Option<Grant>,
    execute_grants: u32,
    attempts: usize,
}

/// Everything that callers were told.
#[derive(Debug, Default)]
pub(crate) struct Invariants {
    latest_epoch: Epoch,
    lives: BTreeMap<u8, Vec<Life>>,
    fenced: BTreeMap<u8, Option<Fenced>>,
}

type Broken = Result<(), String>;

impl Invariants {
    /// Takes an answer in.
    pub(crate) fn check(&mut self, answered: &Answered, run: &Run) -> Broken {
        let key = (0..4).find(|key| record_of(&answered.command) == Some(shared::record(*key)));
        if let Some(key) = key {
            self.check_key(key, answered, run)?;
        }
        if let Ok(Answer::Deleted(_)) = &answered.outcome.result {
            self.forget(&answered.command);
        }
        for key in 0..4 {
            self.fenced.insert(key, run.record(key).map(|record| fenced(&record)));
        }
        Ok(())
    }

    /// What is deleted need not be kept.
    fn forget(&mut self, command: &Command) {
        for (key, lives) in &mut self.lives {
            let gone = if let Command::DeleteNamespace(it) = command {
                shared::record(*key).namespace == it.namespace
            } else {
                true
            };
            if let Some(life) = lives.last_mut().filter(|_| gone) {
                life.kept_until = Expiry::At(Timestamp(0));
            }
        }
    }

    fn check_key(&mut self, key: u8, answered: &Answered, run: &Run) -> Broken {
        let outcome = &answered.outcome;
        self.check_superseded(key, answered, run)?;
        self.check_kept(key, answered, run)?;
        match (&outcome.result, &answered.command) {
            (Ok(Answer::Acquired(it)), Command::Claim(claim)) => {
                self.check_grant(key, it, claim, (outcome.store_time, run))?;
            }
            (Ok(Answer::Resolved(it)), _) if !it.repeated => self.check_epoch(it.epoch)?,
            _ => {}
        }
        self.check_digest(key, outcome)?;
        self.note_kept(key, outcome);
        self.note_carried(key, answered);
        check_slots(run.record(key))
    }

    /// I2.
    fn check_epoch(&mut self, epoch: Epoch) -> Broken {
        if epoch <= self.latest_epoch {
            return Err(format!("I2: {epoch:?} after {:?}", self.latest_epoch));
        }
        self.latest_epoch = epoch;
        Ok(())
    }

    /// I3: a superseded epoch changes nothing except through evidence.
    fn check_superseded(&self, key: u8, answered: &Answered, run: &Run) -> Broken {
        let Some(holder) = holder(&answered.command) else { return Ok(()) };
        let before = self.fenced.get(&key).cloned().flatten();
        let Some(before) = before.filter(|before| holder.epoch < before.epoch) else {
            return Ok(());
        };
        let Err(Refusal::StaleEpoch { .. } | Refusal::NamespaceNotFound | Refusal::TenantNotFound) =
            &answered.outcome.result
        else {
            return Err(format!("I3: {:?} was superseded", holder.epoch));
        };
        let after = run.record(key).map(|record| fenced(&record));
        if after.as_ref().is_some_and(|after| *after != before) {
            return Err(format!("I3: {before:?} became {after:?}"));
        }
        Ok(())
    }

    /// I11: a life that gives way to another, or is said to be gone, may be forgotten by now.
    fn check_kept(&mut self, key: u8, answered: &Answered, run: &Run) -> Broken {
        let outcome = &answered.outcome;
        let present = run.record(key).map(|record| record.life);
        let lives = self.lives.entry(key).or_default();
        let gone = matches!(
            outcome.result,
            Err(Refusal::StaleEpoch { epoch: None, .. } | Refusal::RecordNotFound)
        );
        if let Some(life) = lives.last()
            && (gone || present.is_some_and(|present| present != life.name))
            && !life.kept_until.has_come(outcome.store_time)
        {
            return Err(format!("I11: life {} is kept until {:?}", life.name, life.kept_until));
        }
        if let Some(name) = present
            && lives.last().is_none_or(|life| life.name != name)
        {
            if lives.iter().any(|life| life.name == name) {
                return Err(format!("life {name} came back"));
            }
            lives.push(Life {
                name,
                claimed: None,
                grants: Vec::new(),
                digest: None,
                retention: Retention::For(Millis(0)),
                kept_until: Expiry::At(Timestamp(0)),
            });
        }
        Ok(())
    }

    /// I1, I6 and I7.
    fn check_grant(
        &mut self,
        key: u8,
        it: &Acquired,
        claim: &Claim,
        (now, run): (Timestamp, &Run),
    ) -> Broken {
        let Some(life) = self.lives.get(&key).and_then(|lives| lives.last()).cloned() else {
            return Err("granted without a record".to_owned());
        };
        if it.life != life.name {
            return Err(format!("life {} is called {}", life.name, it.life));
        }
        let known = life.grants.iter().rev().take(ATTEMPTS_KNOWN);
        let known = known.clone().find(|(attempt, _)| *attempt == claim.attempt_id);
        if let Some((_, epoch)) = known {
            let held = it.kind == AcquiredKind::AlreadyHeld && it.epoch == *epoch;
            return if held {
                Ok(())
            } else {
                Err(format!("I6: {:?} had {epoch:?}", claim.attempt_id))
            };
        }
        self.check_epoch(it.epoch)?;
        let skew = skew(key, run);
        let lives = self.lives.entry(key).or_default();
        let former = lives.len().saturating_sub(1);
        if it.kind == AcquiredKind::First {
            if !life.grants.is_empty() {
                return Err("I1: a second FIRST".to_owned());
            }
            let tau = it.intent_time.filter(|_| it.horizon_checked);
            for earlier in lives[..former].iter().filter_map(|life| life.claimed) {
                if tau.is_some_and(|tau| tau.before(earlier.1) <= earlier.0) {
                    return Err(format!("I7: {tau:?} was claimed at {earlier:?}"));
                }
            }
        }
        let life = &mut lives[former];
        life.claimed = life.claimed.or(Some((now, skew)));
        life.grants.push((claim.attempt_id.clone(), it.epoch));
        life.retention = it.identity_retention;
        Ok(())
    }

    /// I8.
    fn check_digest(&mut self, key: u8, outcome: &Outcome) -> Broken {
        let digest = match &outcome.result {
            Ok(Answer::Replay(it)) => &it.completion.result.digest,
            Ok(Answer::Completed(it)) => &it.completion.result.digest,
            _ => return Ok(()),
        };
        let Some(life) = self.lives.get_mut(&key).and_then(|lives| lives.last_mut()) else {
            return Err("completed without a record".to_owned());
        };
        match &life.digest {
            Some(before) if before != digest => Err("I8: another digest".to_owned()),
            _ => {
                life.digest = Some(digest.clone());
                Ok(())
            }
        }
    }

    /// For I11: settlements that a refused Complete carries may leave nothing open, or complete the
    /// record, which its caller is not told.
    fn note_carried(&mut self, key: u8, answered: &Answered) {
        let Command::Complete(complete) = &answered.command else { return };
        let life = self.lives.get_mut(&key).and_then(|lives| lives.last_mut());
        let Some(life) = life.filter(|_| !complete.settlements.is_empty()) else { return };
        let told_of_work = complete.settlements.iter().any(|settle| {
            settle.verdict.committed() && matches!(settle.uid.name, EffectName::Work(_))
        });
        if told_of_work && answered.outcome.result.is_err() {
            life.kept_until = Expiry::At(Timestamp(0));
        } else if life.kept_until == Expiry::Never {
            life.kept_until = life.retention.from(answered.outcome.store_time);
        }
    }

    /// For I11: what an answer says about how long the record is kept.
    fn note_kept(&mut self, key: u8, outcome: &Outcome) {
        let Some(life) = self.lives.get_mut(&key).and_then(|lives| lives.last_mut()) else {
            return;
        };
        let retention = life.retention;
        let until = match &outcome.result {
            Ok(Answer::Acquired(it)) => match &it.completion {
                Some(completion) => completion.identity_expire_time,
                None => retention.from(it.lease_expire_time),
            },
            Ok(Answer::Renewed(it)) => retention.from(it.lease_expire_time),
            Ok(Answer::Revoked(it)) if !it.repeated => retention.from(it.lease_expire_time),
            Ok(Answer::Replay(it)) => it.completion.identity_expire_time,
            Ok(Answer::Completed(it)) => it.completion.identity_expire_time,
            Ok(Answer::Released(it)) => match it.state {
                ReleasedState::Retryable { identity_expire_time, .. }
                | ReleasedState::Unbound { identity_expire_time } => identity_expire_time,
                ReleasedState::Unresolved { .. } => Expiry::Never,
            },
            Ok(Answer::Reserved(it)) if it.created => {
                it.identity_expire_time.unwrap_or(Expiry::Never)
            }
            Ok(Answer::Unresolved(_)) => Expiry::Never,
            Ok(Answer::Settled(it)) => {
                let moved = |state| it.state == state && !it.repeated;
                let free = moved(Logical::Lapsed) && it.open.is_empty();
                if it.state == Logical::Unresolved {
                    Expiry::Never
                } else if moved(Logical::Retryable) || free {
                    retention.from(outcome.store_time)
                } else if it.completed_record {
                    Expiry::At(Timestamp(0))
                } else {
                    return;
                }
            }
            Ok(Answer::Resolved(it)) if !it.repeated => Expiry::At(Timestamp(0)),
            Err(Refusal::StaleEpoch { completed_record: true, .. }) => Expiry::At(Timestamp(0)),
            _ => return,
        };
        life.kept_until = until;
    }
}

fn fenced(record: &Record) -> Fenced {
    Fenced {
        epoch: record.epoch,
        grant: record.grant.clone(),
        execute_grants: record.execute_grants,
        attempts: record.attempts.len(),
    }
}

fn holder(command: &Command) -> Option<&Holder> {
    if let Command::Renew(it) = command {
        Some(&it.holder)
    } else if let Command::Complete(it) = command {
        Some(&it.holder)
    } else if let Command::Release(it) = command {
        Some(&it.holder)
    } else if let Command::RecordEffect(it) = command {
        Some(&it.holder)
    } else {
        None
    }
}

fn skew(key: u8, run: &Run) -> Millis {
    let record = shared::record(key);
    let tenant = run.store.tenants.get(&record.tenant).cloned().and_then(Slot::live);
    let namespace = run.store.namespaces.get(&(record.tenant, record.namespace)).cloned();
    let policy = namespace.and_then(Slot::live).zip(tenant);
    policy
        .map(|(namespace, tenant)| namespace.effective(&tenant).intent_time_skew)
        .unwrap_or_default()
}

/// I4: of a slot at most one effect is open or COMMITTED, and no permit reaches beyond the window of
/// the provider.
fn check_slots(record: Option<Record>) -> Broken {
    let Some(record) = record else { return Ok(()) };
    for (at, effect) in record.effects.iter().enumerate() {
        for later in &record.effects[at + 1..] {
            let may_have =
                !matches!(&effect.findings.settlement, Some(it) if !it.verdict.committed());
            let permitted = later.permits.first().map(|permit| permit.permitted_time);
            let settled = effect.findings.settlement.as_ref().map(|it| it.time);
            // A COMMITTED after a NOT_COMMITTED may come after the next effect was permitted.
            let known_by_then = effect
                .findings
                .contradictions
                .iter()
                .any(|it| !it.verdict.committed() && Some(it.time) <= permitted);
            if effect.slot == later.slot && may_have && !known_by_then && settled >= permitted {
                return Err(format!("I4: {:?} beside {:?}", later.id, effect.id));
            }
            if effect.slot == later.slot && may_have && !known_by_then {
                return Err(format!("I4: {:?} after {:?}", later.id, effect.id));
            }
        }
        for permit in effect.permits.iter().filter(|permit| permit.number > 1) {
            let until =
                effect.dedup_window.map(|window| window.from(effect.permits[0].permitted_time));
            if effect.provider_key.is_none() || until.is_none_or(|it| it.has_come(permit.not_after))
            {
                return Err(format!("I4: {permit:?} outside the window"));
            }
        }
    }
    Ok(())
}
