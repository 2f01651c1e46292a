//! Renew: makes the lease of a live claim longer.

use crate::command::Renew;
use crate::decide::{Context, Decision, inherited, stale};
use crate::invalid::Invalid;
use crate::limits;
use crate::outcome::{Answer, Refusal, Renewed};
use crate::planted::{self, Planted};
use crate::record::{Logical, Record, State};

/// Decides a renewal. Semantics §6.
pub fn renew(context: &mut Context<'_>, prior: Option<&Record>, renew: &Renew) -> Decision {
    let Some(record) = prior else { return stale::refuse(None) };
    if !stale::holds(record, &renew.holder) {
        return stale::refuse(Some(record));
    }
    let Some(grant) = &record.grant else { return stale::refuse(Some(record)) };
    match &record.state {
        State::Completed(completion) => stale::already_completed(completion),
        State::Retryable { .. } | State::Unbound { .. } | State::Reserved { .. } => {
            stale::refuse(Some(record))
        }
        State::Claimed | State::Unresolved { .. } => {
            if grant.revoked {
                return Decision::refuse(Refusal::Revoked);
            }
            let live = record.logical(&context.cluster.clock) == Some(Logical::Live);
            if !(live || planted::is(Planted::RenewRevives)) {
                return Decision::refuse(Refusal::LeaseExpired {
                    lease_expire_time: grant.lease_expire_time,
                });
            }
            extend(context, record, renew)
        }
    }
}

fn extend(context: &Context<'_>, record: &Record, renew: &Renew) -> Decision {
    let max = context.policy.lease_max;
    if let Some(lease) = renew.lease
        && (lease < limits::LEASE_MIN || lease > max)
    {
        return Decision::refuse(Refusal::Invalid(vec![Invalid::new(
            "lease",
            format!("is {lease}"),
            format!("use {} to {max}", limits::LEASE_MIN),
        )]));
    }
    let now = context.now();
    let mut next = record.clone();
    let before = record.deadline(&context.cluster.clock).unwrap_or(now);
    let Some(grant) = &mut next.grant else { return stale::refuse(Some(record)) };
    let lease = renew.lease.unwrap_or(grant.lease).min(max);
    // Never earlier than before, grace included.
    grant.lease_expire_time = before.max(now.after(lease));
    grant.lease_written_time = now;
    let (epoch, mode, lease_expire_time) = (grant.epoch, grant.mode, grant.lease_expire_time);
    next.last_write_time = now;
    let inherited = inherited(context, &next);
    let answer = Answer::Renewed(Renewed { epoch, mode, lease_expire_time, inherited });
    Decision::change(next, answer)
}
