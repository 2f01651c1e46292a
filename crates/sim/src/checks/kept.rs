//! I11: no record disappears before its own frozen deadlines.
//!
//! What each answer told its caller about how long the record is kept is written down, and held against
//! the first answer that shows it gone. Clauses: semantics §3, §4 (freezing), §10 I11.

use std::collections::BTreeMap;

use firstclaim_core::outcome::{ReleasedState, Settled};
use firstclaim_core::policy::Retention;
use firstclaim_core::record::Logical;
use firstclaim_core::{Answer, Command, Expiry, Millis, Outcome, RecordRef, Refusal, Timestamp};

use super::{Broken, Checked, Property, Seen};

/// What is known of the present life of a key.
#[derive(Clone, Debug)]
struct Life {
    name: u64,
    retention: Retention,
    /// When it may be forgotten at the earliest, as its callers were told.
    kept_until: Expiry,
}

/// The present life of each key.
#[derive(Debug, Default)]
pub(super) struct Kept {
    lives: BTreeMap<RecordRef, Life>,
}

/// Nothing is known about how long it is kept.
const UNKNOWN: Expiry = Expiry::At(Timestamp(0));

impl Kept {
    pub(super) fn check(&mut self, seen: &Seen<'_>) -> Checked {
        if let Ok(Answer::Deleted(_)) = &seen.outcome.result {
            self.forget(seen.command);
        }
        let Some(key) = seen.about else { return Ok(()) };
        self.check_life(key, seen)?;
        if let Some(life) = self.lives.get_mut(key) {
            if let Ok(Answer::Acquired(it)) = &seen.outcome.result {
                life.retention = it.identity_retention;
            }
            life.note(seen.outcome);
            life.note_carried(seen);
        }
        Ok(())
    }

    /// What is deleted need not be kept.
    fn forget(&mut self, command: &Command) {
        if let Command::DeleteNamespace(it) = command {
            self.lives.retain(|key, _| key.tenant != it.tenant || key.namespace != it.namespace);
        } else if let Command::DeleteTenant(it) = command {
            self.lives.retain(|key, _| key.tenant != it.tenant);
        }
    }

    /// A life that gives way to another, or is said to be gone, may be forgotten by now.
    fn check_life(&mut self, key: &RecordRef, seen: &Seen<'_>) -> Checked {
        let present = seen.after.map(|record| record.life);
        let gone = matches!(
            seen.outcome.result,
            Err(Refusal::StaleEpoch { epoch: None, .. } | Refusal::RecordNotFound)
        );
        if let Some(life) = self.lives.get(key)
            && (gone || present != Some(life.name))
            && !life.kept_until.has_come(seen.outcome.store_time)
            && !matches!(
                seen.outcome.result,
                Err(Refusal::NamespaceNotFound | Refusal::TenantNotFound)
            )
        {
            let says = format!("life {} is kept until {:?}", life.name, life.kept_until);
            return Err(Broken::new(Property::I11, says));
        }
        match present {
            Some(name) if self.lives.get(key).is_none_or(|life| life.name != name) => {
                let life = Life { name, retention: Retention::For(Millis(0)), kept_until: UNKNOWN };
                self.lives.insert(key.clone(), life);
            }
            Some(_) => {}
            None => {
                self.lives.remove(key);
            }
        }
        Ok(())
    }
}

impl Life {
    /// Settlements that a refused Complete carries may leave nothing open.
    fn note_carried(&mut self, seen: &Seen<'_>) {
        if let Command::Complete(complete) = seen.command
            && self.kept_until == Expiry::Never
            && self.retention != Retention::Forever
            && !complete.settlements.is_empty()
        {
            self.kept_until = self.retention.from(seen.outcome.store_time);
        }
    }

    /// What an answer says about how long the record is kept.
    fn note(&mut self, outcome: &Outcome) {
        let retention = self.retention;
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
            Ok(Answer::Settled(it)) => match self.settled(it, outcome.store_time) {
                Some(until) => until,
                None => return,
            },
            Ok(Answer::Resolved(it)) if !it.repeated => UNKNOWN,
            Err(Refusal::StaleEpoch { completed_record: true, .. }) => UNKNOWN,
            _ => return,
        };
        self.kept_until = until;
    }

    fn settled(&self, it: &Settled, now: Timestamp) -> Option<Expiry> {
        let moved = |state| it.state == state && !it.repeated;
        let free = moved(Logical::Lapsed) && it.open.is_empty();
        if it.state == Logical::Unresolved {
            Some(Expiry::Never)
        } else if moved(Logical::Retryable) || free {
            Some(self.retention.from(now))
        } else {
            it.completed_record.then_some(UNKNOWN)
        }
    }
}
