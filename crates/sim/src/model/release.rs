//! Release: RETRY, UNBIND, UNKNOWN. Semantics §6.

use firstclaim_core::command::{Release, ReleaseKind};
use firstclaim_core::outcome::ReleasedState;
use firstclaim_core::{Expiry, Millis};

use super::life::Phase;
use super::open::Item;
use super::{Answered, Model};
use crate::observation::{Observation, Refused};

impl Model {
    pub(super) fn release(&mut self, release: &Release) -> Answered {
        let life = self.holder(&release.holder)?;
        self.refuse_if_completed(life)?;
        let epoch = release.holder.epoch;
        let state = match (&release.kind, self.lives[life].phase.clone()) {
            (
                ReleaseKind::Retry { .. },
                Phase::Retryable { not_before, identity_expire_time, .. },
            ) => {
                self.row("6 Release: again");
                ReleasedState::Retryable { not_before, identity_expire_time }
            }
            (ReleaseKind::Unbind, Phase::Unbound { identity_expire_time, .. }) => {
                self.row("6 Release: again");
                ReleasedState::Unbound { identity_expire_time }
            }
            (_, Phase::Reserved { .. } | Phase::Retryable { .. } | Phase::Unbound { .. }) => {
                return Err(self.stale(Some(life)));
            }
            (ReleaseKind::Retry { retry_after }, _) => self.release_retry(life, *retry_after)?,
            (ReleaseKind::Unbind, _) => self.release_unbind(life)?,
            (ReleaseKind::Unknown { .. }, _) => self.release_unknown(life),
        };
        Ok(Observation::Released { epoch, state })
    }

    /// A holder's own work does not hinder, unless it said before that nobody knows.
    fn release_retry(&mut self, life: usize, after: Millis) -> Result<ReleasedState, Refused> {
        let own = self.lives[life].grants.len().saturating_sub(1);
        let claimed = matches!(self.lives[life].phase, Phase::Claimed);
        let open = self.open(life);
        let hinders = |item: &Item| !claimed || *item != Item::Work(own);
        let hindering: Vec<Item> = open.iter().copied().filter(hinders).collect();
        if !hindering.is_empty() {
            self.row("6 Release: UNSETTLED_EFFECTS");
            return Err(Refused::UnsettledEffects { open: self.uids(life, &hindering) });
        }
        self.row("6 Release RETRY");
        let now = self.now();
        let policy = self.policy(self.lives[life].namespace);
        let not_before = now.after(after);
        let forgotten = policy.identity_retention.from(now);
        let identity_expire_time = forgotten.max(Expiry::At(not_before));
        let it = &mut self.lives[life];
        it.phase = Phase::Retryable { not_before, identity_expire_time };
        it.last_write = now;
        Ok(ReleasedState::Retryable { not_before, identity_expire_time })
    }

    fn release_unbind(&mut self, life: usize) -> Result<ReleasedState, Refused> {
        let open = self.open(life);
        if !open.is_empty() {
            self.row("6 Release: UNSETTLED_EFFECTS");
            return Err(Refused::UnsettledEffects { open: self.uids(life, &open) });
        }
        let it = &self.lives[life];
        if it.reserved || !it.effects.is_empty() {
            self.row("6 Release UNBIND: EFFECT_NOT_ALLOWED");
            return Err(Refused::EffectNotAllowed);
        }
        self.row("6 Release UNBIND");
        let now = self.now();
        let policy = self.policy(self.lives[life].namespace);
        let identity_expire_time = policy.identity_retention.from(now);
        let it = &mut self.lives[life];
        it.phase = Phase::Unbound { identity_expire_time };
        it.last_write = now;
        Ok(ReleasedState::Unbound { identity_expire_time })
    }

    fn release_unknown(&mut self, life: usize) -> ReleasedState {
        let now = self.now();
        if let Phase::Unresolved { since } = self.lives[life].phase {
            self.row("6 Release: again");
            return ReleasedState::Unresolved { since };
        }
        self.row("6 Release UNKNOWN");
        let it = &self.lives[life];
        let has_work = it.grants.last().is_some_and(|grant| it.has_work(grant));
        let it = &mut self.lives[life];
        if let Some(grant) = it.grants.last_mut().filter(|_| has_work)
            && !grant.findings.settled()
        {
            grant.opened = grant.opened.or(Some(now));
        }
        it.phase = Phase::Unresolved { since: now };
        it.last_write = now;
        ReleasedState::Unresolved { since: now }
    }
}
