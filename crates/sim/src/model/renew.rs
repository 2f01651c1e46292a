//! Renew and Revoke, and who is a holder at all. Semantics §6.

use firstclaim_core::command::{Holder, Renew, Revoke};

use super::clock::Lease;
use super::first::invalid;
use super::life::Phase;
use super::{Answered, Model};
use crate::observation::{Observation, Refused};

impl Model {
    pub(super) fn renew(&mut self, renew: &Renew) -> Answered {
        let life = self.holder(&renew.holder)?;
        self.refuse_if_completed(life)?;
        let now = self.now();
        let policy = self.policy(self.lives[life].namespace);
        self.refuse_if_given_back(life)?;
        if self.lives[life].grants.last().is_some_and(|grant| grant.revoked) {
            self.row("6 Renew: REVOKED");
            return Err(Refused::Revoked);
        }
        if !self.live(life) {
            self.row("6 Renew: LEASE_EXPIRED");
            return Err(self.lease_expired(life));
        }
        let before = self.lives[life].deadline(&self.clock).unwrap_or_default();
        let Some(grant) = self.lives[life].grants.last_mut() else {
            return Err(Refused::Revoked);
        };
        if renew.lease.is_some_and(|lease| lease.0 < 1000 || lease > policy.lease_max) {
            return invalid("lease");
        }
        // At most T + max lease, never earlier than before.
        let length = renew.lease.unwrap_or(grant.length).min(policy.lease_max);
        let expire = now.after(length).max(before);
        grant.leases.push(Lease { written: now, expire });
        grant.latest_deadline = grant.latest_deadline.max(expire);
        let (epoch, mode) = (grant.epoch, grant.mode);
        self.lives[life].last_write = now;
        self.row("6 Renew: live");
        let inherited = self.inherited(life);
        Ok(Observation::Renewed { epoch, mode, lease_expire_time: expire, inherited })
    }

    pub(super) fn revoke(&mut self, revoke: &Revoke) -> Answered {
        let (_, life) = self.find(&revoke.record)?;
        let Some(life) = life else { return Err(Refused::RecordNotFound) };
        if revoke.epoch != self.lives[life].epoch() {
            return Err(self.stale(Some(life)));
        }
        self.refuse_if_completed(life)?;
        let revoked = |grant: &super::life::Grant| grant.revoked && grant.epoch == revoke.epoch;
        let again = self.lives[life].grants.last().is_some_and(revoked);
        if !self.live(life) && !again {
            return Err(self.lease_expired(life));
        }
        let now = self.now();
        let deadline = self.lives[life].deadline(&self.clock).unwrap_or_default();
        let permits = self.lives[life].effects.iter().flat_map(|effect| &effect.permits);
        let last = permits.filter(|permit| permit.epoch == revoke.epoch);
        let last = last.map(|permit| permit.not_after).max().unwrap_or_default();
        let Some(grant) = self.lives[life].grants.last_mut() else {
            return Err(Refused::RecordNotFound);
        };
        let repeated = grant.revoked;
        if !repeated {
            grant.revoked = true;
            grant.leases.push(Lease { written: now, expire: deadline.min(now.max(last)) });
        }
        let lease_expire_time = grant.lease().expire;
        if !repeated {
            self.lives[life].last_write = now;
        }
        self.row(if repeated { "6 Revoke: again" } else { "6 Revoke" });
        Ok(Observation::Revoked { epoch: revoke.epoch, lease_expire_time, repeated })
    }

    /// The life whose present grant the caller holds: epoch and attempt both match.
    pub(super) fn holder(&mut self, holder: &Holder) -> Result<usize, Refused> {
        let (_, life) = self.find(&holder.record)?;
        let Some(life) = life else { return Err(self.stale(None)) };
        if !self.holds(life, holder) {
            self.row("6 stale");
            return Err(self.stale(Some(life)));
        }
        Ok(life)
    }

    /// Whether epoch and attempt are those of the present grant, and no Resolve came after it.
    pub(super) fn holds(&self, life: usize, holder: &Holder) -> bool {
        let it = &self.lives[life];
        it.epoch() == holder.epoch
            && it.grants.last().is_some_and(|grant| {
                grant.epoch == holder.epoch && grant.attempt_id == holder.attempt_id
            })
    }

    /// STALE_EPOCH without any evidence.
    pub(super) fn stale(&self, life: Option<usize>) -> Refused {
        Refused::StaleEpoch {
            epoch: life.map(|life| self.lives[life].epoch()),
            evidence_kept: false,
            completed_record: false,
        }
    }

    /// A released claim is no claim any more.
    pub(super) fn refuse_if_given_back(&self, life: usize) -> Result<(), Refused> {
        match self.lives[life].phase {
            Phase::Reserved { .. } | Phase::Retryable { .. } | Phase::Unbound { .. } => {
                Err(self.stale(Some(life)))
            }
            Phase::Claimed | Phase::Unresolved { .. } | Phase::Completed(_) => Ok(()),
        }
    }

    /// On a COMPLETED record every call but Complete answers ALREADY_COMPLETED.
    pub(super) fn refuse_if_completed(&mut self, life: usize) -> Result<(), Refused> {
        let Phase::Completed(done) = &self.lives[life].phase else { return Ok(()) };
        let refused = Refused::AlreadyCompleted {
            epoch: done.completion.epoch,
            completed_time: done.completion.completed_time,
            evidence_kept: false,
        };
        self.row("6 COMPLETED: ALREADY_COMPLETED");
        Err(refused)
    }
}
