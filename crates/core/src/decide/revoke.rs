//! Revoke: takes the right to renew and to dispatch from a live holder.

use crate::command::Revoke;
use crate::decide::{Context, Decision, reserve, stale};
use crate::outcome::{Answer, Refusal, RevokedAnswer};
use crate::planted::{self, Planted};
use crate::record::{Logical, Record, State};
use crate::time::Timestamp;

/// Decides a revocation. Semantics §6.
pub fn revoke(context: &mut Context<'_>, prior: Option<&Record>, revoke: &Revoke) -> Decision {
    let Some(record) = prior else { return reserve::missing() };
    if record.epoch != revoke.epoch {
        return stale::refuse(Some(record));
    }
    if let State::Completed(completion) = &record.state {
        return stale::already_completed(completion);
    }
    // The epoch of a Resolve was never granted, so it has no lease that could end.
    let Some(grant) = record.grant.as_ref().filter(|grant| grant.epoch == revoke.epoch) else {
        let lease_expire_time = context.now();
        return Decision::refuse(Refusal::LeaseExpired { lease_expire_time });
    };
    let answer = |lease_expire_time, repeated| {
        let epoch = grant.epoch;
        Answer::Revoked(RevokedAnswer { epoch, lease_expire_time, repeated })
    };
    if grant.revoked {
        return Decision::answer(answer(grant.lease_expire_time, true));
    }
    let clock = &context.cluster.clock;
    if record.logical(clock) != Some(Logical::Live) {
        return Decision::refuse(Refusal::LeaseExpired {
            lease_expire_time: grant.lease_expire_time,
        });
    }
    let (now, deadline) = (context.now(), record.deadline(clock).unwrap_or_default());
    // What was permitted may still be sent: nobody may take over before that is over.
    let permits = last_permit(record).filter(|_| !planted::is(Planted::RevokeIgnoresPermits));
    let permitted = permits.unwrap_or_default();
    let lease_expire_time = deadline.min(now.max(permitted));
    let mut next = record.clone();
    if let Some(grant) = &mut next.grant {
        grant.revoked = true;
        grant.revoked_deadline = deadline;
        grant.lease_expire_time = lease_expire_time;
        grant.lease_written_time = now;
    }
    let answer = answer(lease_expire_time, false);
    Decision::kept(context, record, next, Ok(answer))
}

/// The latest time at which the present holder may send something.
fn last_permit(record: &Record) -> Option<Timestamp> {
    let permits = record.effects.iter().flat_map(|effect| &effect.permits);
    permits.filter(|it| it.epoch == record.epoch).map(|it| it.not_after).max()
}
