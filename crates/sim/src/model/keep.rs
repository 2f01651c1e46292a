//! Purge, and how long records are kept. Semantics §4 and §6.

use firstclaim_core::command::{ExtendExisting, Purge};
use firstclaim_core::record::Logical;
use firstclaim_core::{Expiry, Policy, Timestamp};

use super::life::Phase;
use super::{Answered, Model};
use crate::observation::{Observation, Refused};

impl Model {
    pub(super) fn purge(&mut self, purge: &Purge) -> Answered {
        let (_, life) = self.find(&purge.record)?;
        let Some(life) = life else { return Err(Refused::RecordNotFound) };
        let epoch = self.lives[life].epoch();
        let state = self.standing(life).unwrap_or(Logical::Completed);
        let now = self.now();
        let it = &mut self.lives[life];
        if let Phase::Completed(done) = &mut it.phase
            && epoch == purge.expected_epoch
        {
            let repeated = done.purged;
            done.purged = true;
            done.bytes = None;
            it.last_write = now;
            self.row(if repeated { "6 Purge: again" } else { "6 Purge" });
            return Ok(Observation::Purged { epoch, repeated });
        }
        self.row("6 Purge: NOT_PURGEABLE");
        Err(Refused::NotPurgeable { epoch, state })
    }

    /// As long as the policy says now; never shorter.
    pub(super) fn extend_existing(&mut self, extend: &ExtendExisting) -> Answered {
        let namespace = self.find_namespace(&extend.tenant, &extend.namespace)?;
        let policy = self.policy(namespace);
        let now = self.now();
        let mut records = self.records(namespace);
        records.retain(|it| extend.after.as_ref().is_none_or(|after| self.lives[*it].key > *after));
        records.sort_by(|left, right| self.lives[*left].key.cmp(&self.lives[*right].key));
        let limit = usize::try_from(extend.limit).unwrap_or(usize::MAX);
        let more = records.len() >= limit;
        records.truncate(limit);
        let mut extended = 0;
        for life in &records {
            extended += u32::from(self.extend_one(*life, &policy, now));
        }
        self.row("4 ExtendExisting");
        let last = records.last().map(|life| self.lives[*life].key.clone());
        Ok(Observation::Extended {
            seen: u32::try_from(records.len()).unwrap_or(u32::MAX),
            extended,
            next: last.filter(|_| more),
        })
    }

    /// Returns whether the record is kept longer than before.
    fn extend_one(&mut self, life: usize, policy: &Policy, now: Timestamp) -> bool {
        let it = &mut self.lives[life];
        let longer = |expiry: &mut Expiry, until: Expiry| {
            let longer = until > *expiry;
            *expiry = until.max(*expiry);
            longer
        };
        match &mut it.phase {
            Phase::Reserved { identity_expire_time }
            | Phase::Retryable { identity_expire_time, .. }
            | Phase::Unbound { identity_expire_time } => {
                longer(identity_expire_time, policy.identity_retention.from(it.last_write))
            }
            Phase::Completed(done) => {
                let completed = done.completion.completed_time;
                let gone =
                    matches!(done.completion.result_expire_time, Expiry::At(at) if at <= now);
                let result = Expiry::At(completed.after(policy.result_retention));
                let identity = policy.identity_retention.from(completed);
                let kept_result = !gone && longer(&mut done.completion.result_expire_time, result);
                longer(&mut done.completion.identity_expire_time, identity) || kept_result
            }
            // Their retentions are taken from the policy when they end.
            Phase::Claimed | Phase::Unresolved { .. } => false,
        }
    }
}
