//! What has to hold before a key that is ABSENT is claimed or reserved. Semantics §5.

use firstclaim_core::policy::{DuplicateIntent, Requirement};
use firstclaim_core::record::Logical;
use firstclaim_core::{FingerprintSet, IdempotencyKey, Policy, RecordRef, Timestamp};

use super::Model;
use super::life::{Binding, Life, Phase};
use crate::observation::Refused;

/// Similar keys that an answer names.
const SIMILAR_MAX: usize = 8;

/// What a first claim and a Reserve say of the intent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Intent<'a> {
    pub(super) record: &'a RecordRef,
    pub(super) fingerprints: &'a FingerprintSet,
    pub(super) intent_time: Option<Timestamp>,
    pub(super) allow_duplicate: bool,
}

/// What the checks found out.
#[derive(Clone, Debug, Default)]
pub(super) struct Checked {
    pub(super) horizon_checked: bool,
    pub(super) similar_keys: Vec<IdempotencyKey>,
}

/// A field fault.
pub(super) fn invalid<T>(field: &str) -> Result<T, Refused> {
    Err(Refused::Invalid { fields: vec![field.to_owned()] })
}

/// "`fingerprint` REQUIRED": every claim carries one.
pub(super) fn check_fingerprint(set: &FingerprintSet, policy: &Policy) -> Result<(), Refused> {
    if policy.fingerprint == Requirement::Required && set.is_empty() {
        return invalid("fingerprints");
    }
    Ok(())
}

impl Model {
    /// Record quota, (quarantine,) replay horizon, reserve, duplicate intent: in this order.
    /// `reserving` says whether that is to be asked of `reserve`; `admitted` whether somebody answers
    /// for an intent that may have been forgotten.
    pub(super) fn check_absent(
        &mut self,
        namespace: usize,
        intent: Intent<'_>,
        reserving: bool,
        admitted: bool,
    ) -> Result<Checked, Refused> {
        let policy = self.policy(namespace);
        let records = self.records(namespace);
        if policy.records_max > 0 && records.len() as u64 >= policy.records_max {
            return Err(Refused::RecordsExhausted { records_max: policy.records_max });
        }
        let horizon_checked = self.check_horizon(namespace, intent.intent_time, admitted)?;
        if policy.reserve == Requirement::Required && !reserving {
            return Err(Refused::KeyNotReserved);
        }
        let similar_keys = self.check_duplicates(namespace, intent)?;
        Ok(Checked { horizon_checked, similar_keys })
    }

    fn check_horizon(
        &mut self,
        namespace: usize,
        tau: Option<Timestamp>,
        admitted: bool,
    ) -> Result<bool, Refused> {
        let policy = self.policy(namespace);
        if tau.is_none() && policy.intent_time == Requirement::Required {
            return invalid("intent_time");
        }
        let skew = policy.intent_time_skew;
        if tau.is_some_and(|tau| tau > self.now().after(skew)) {
            return Err(Refused::IntentTimeInFuture { skew });
        }
        let late = self.late_replay(namespace, tau);
        if late && admitted {
            self.row("5 Admit");
        }
        if late && !admitted {
            return Err(Refused::LateReplay { intent_time: tau });
        }
        Ok(tau.is_some() && !admitted)
    }

    /// Duplicate intent, for a key that is ABSENT or UNBOUND.
    pub(super) fn check_duplicates(
        &mut self,
        namespace: usize,
        intent: Intent<'_>,
    ) -> Result<Vec<IdempotencyKey>, Refused> {
        let policy = self.policy(namespace);
        if policy.duplicate_intent == DuplicateIntent::Off {
            return Ok(Vec::new());
        }
        let since = self.now().before(policy.duplicate_intent_window);
        let mut similar: Vec<(Timestamp, IdempotencyKey)> = Vec::new();
        for other in self.records(namespace) {
            let life = &self.lives[other];
            let Some(binding) = life.binding() else { continue };
            let unbound = self.standing(other) == Some(Logical::Unbound);
            let shared = share_a_digest(&binding.fingerprints, intent.fingerprints);
            if life.key != intent.record.key && !unbound && shared && binding.time >= since {
                similar.push((binding.time, life.key.clone()));
            }
        }
        similar.sort_by(|left, right| right.0.cmp(&left.0).then(left.1.cmp(&right.1)));
        similar.truncate(SIMILAR_MAX);
        let mut similar_keys: Vec<_> = similar.into_iter().map(|(_, key)| key).collect();
        similar_keys.sort();
        let blocked = policy.duplicate_intent == DuplicateIntent::Block && !intent.allow_duplicate;
        if blocked && !similar_keys.is_empty() {
            return Err(Refused::DuplicateIntent { similar_keys });
        }
        if !similar_keys.is_empty() {
            self.row("5 similar keys");
        }
        Ok(similar_keys)
    }

    /// Every record of a namespace that is not forgotten.
    pub(super) fn records(&self, namespace: usize) -> Vec<usize> {
        let lives = 0..self.lives.len();
        let of_namespace = lives.filter(|life| self.lives[*life].namespace == namespace);
        of_namespace.filter(|life| self.standing(*life).is_some()).collect()
    }

    /// Begins a life.
    pub(super) fn begin_life(
        &mut self,
        namespace: usize,
        intent: Intent<'_>,
        phase: Phase,
    ) -> usize {
        let (now, name) = (self.now(), self.next_life);
        let reserved = matches!(phase, Phase::Reserved { .. });
        self.lives.push(Life {
            name,
            namespace,
            key: intent.record.key.clone(),
            born: now,
            reserved,
            admitted: false,
            bindings: vec![Binding {
                time: now,
                fingerprints: intent.fingerprints.clone(),
                intent_time: intent.intent_time,
            }],
            grants: Vec::new(),
            execute_grants: 0,
            effects: Vec::new(),
            resolutions: Vec::new(),
            reports: Vec::new(),
            rebound_after: firstclaim_core::Epoch::NONE,
            last_write: now,
            phase,
        });
        self.lives.len() - 1
    }

    /// Rows 1 and 2: the first shared scheme, in the record's order, decides.
    pub(super) fn check_same_request(
        &mut self,
        life: usize,
        asked: &FingerprintSet,
    ) -> Result<(), Refused> {
        let it = &self.lives[life];
        let first_seen_time = it.born;
        let Some(bound) = it.binding().map(|binding| binding.fingerprints.clone()) else {
            return Ok(());
        };
        if bound.is_empty() && asked.is_empty() {
            return Ok(());
        }
        for one in bound.all() {
            let other = asked.all().iter().find(|other| other.scheme() == one.scheme());
            let Some(other) = other else { continue };
            if other.digest() == one.digest() {
                return Ok(());
            }
            let mut parts: Vec<String> = one
                .parts()
                .keys()
                .chain(other.parts().keys())
                .filter(|part| one.parts().get(*part) != other.parts().get(*part))
                .cloned()
                .collect();
            parts.sort();
            parts.dedup();
            self.row("5.1");
            let scheme = one.scheme().as_str().to_owned();
            return Err(Refused::FingerprintMismatch { scheme, parts, first_seen_time });
        }
        self.row("5.2");
        Err(Refused::FingerprintIncomparable { first_seen_time })
    }
}

fn share_a_digest(left: &FingerprintSet, right: &FingerprintSet) -> bool {
    left.all().iter().any(|one| {
        let same = |other: &firstclaim_core::Fingerprint| {
            (other.scheme(), other.digest()) == (one.scheme(), one.digest())
        };
        right.all().iter().any(same)
    })
}
