//! Reserve, and Admit. Semantics §5.

use firstclaim_core::command::Reserve;
use firstclaim_core::record::{Epoch, Logical};

use super::first::{Intent, check_fingerprint};
use super::life::Phase;
use super::{Answered, Model};
use crate::observation::{Observation, Refused, Reserved};

impl Model {
    pub(super) fn reserve(&mut self, reserve: &Reserve) -> Answered {
        let (namespace, life) = self.find(&reserve.record)?;
        let policy = self.policy(namespace);
        check_fingerprint(&reserve.fingerprints, &policy)?;
        if let Some(life) = life {
            return self.reserve_known(life, reserve);
        }
        let intent = Intent {
            record: &reserve.record,
            fingerprints: &reserve.fingerprints,
            intent_time: reserve.intent_time,
            allow_duplicate: reserve.allow_duplicate_intent,
        };
        let checked = self.check_absent(namespace, intent, true, reserve.admit.is_some())?;
        self.row("5 Reserve: new");
        let now = self.now();
        let identity_expire_time = policy.identity_retention.from(now);
        let life = self.begin_life(namespace, intent, Phase::Reserved { identity_expire_time });
        self.lives[life].admitted = reserve.admit.is_some();
        Ok(Observation::Reserved(Box::new(Reserved {
            created: true,
            state: Logical::Reserved,
            epoch: Epoch::NONE,
            first_seen_time: now,
            identity_expire_time: Some(identity_expire_time),
            intent_time: reserve.intent_time,
            intent_time_differs: false,
            horizon_checked: checked.horizon_checked,
            similar_keys: checked.similar_keys,
        })))
    }

    /// The present state, unchanged.
    fn reserve_known(&mut self, life: usize, reserve: &Reserve) -> Answered {
        let state = self.standing(life).unwrap_or(Logical::Unbound);
        if state != Logical::Unbound {
            self.check_same_request(life, &reserve.fingerprints)?;
        }
        self.row("5 Reserve: again");
        let it = &self.lives[life];
        let identity_expire_time = match &it.phase {
            Phase::Reserved { identity_expire_time } => Some(*identity_expire_time),
            Phase::Claimed
            | Phase::Unresolved { .. }
            | Phase::Retryable { .. }
            | Phase::Unbound { .. }
            | Phase::Completed(_) => None,
        };
        let asked = reserve.intent_time;
        let reserved = Reserved {
            created: false,
            state,
            epoch: it.epoch(),
            first_seen_time: it.born,
            identity_expire_time,
            intent_time: it.intent_time(),
            intent_time_differs: asked.is_some() && asked != it.intent_time(),
            horizon_checked: false,
            similar_keys: Vec::new(),
        };
        Ok::<_, Refused>(Observation::Reserved(Box::new(reserved)))
    }
}
