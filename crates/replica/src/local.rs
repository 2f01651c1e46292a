//! What a replica sees of a claim in its own state, before anybody else is asked.
//!
//! Terminal records do not change, so a duplicate that arrives anywhere costs no round trip to the
//! leader's region. Only Replay is ever answered this way; anything else is the log's to say.
//! Semantics §8.

use std::borrow::Cow;

use firstclaim_core::command::Claim;
use firstclaim_core::limits::{CLOCK_OFFSET_MAX, LOCAL_REPLAY_MAX};
use firstclaim_core::outcome::{Pending, PendingReason};
use firstclaim_core::planted::{self, Planted};
use firstclaim_core::record::Logical;
use firstclaim_core::{
    Answer, Millis, Outcome, Record, RecordId, Slot, Store, StoreClock, Timestamp, decide,
};
use tokio::time::Instant;

use crate::clock::{Clock, millis};

/// What a replica sees of a claim.
#[derive(Clone, Debug, Default)]
pub struct Look {
    /// The answer, with the store time that it is given at, if this replica may give it.
    pub answer: Option<Outcome>,
    /// The namespace's life, and how many claims a second its policy lets it make; none if there is no
    /// such namespace.
    pub namespace: Option<(u64, u32)>,
}

/// The latest that store time can be by now; none if the leader was last heard of too long ago, or
/// never.
pub(crate) fn latest_store_time(
    confirmed: Option<(Timestamp, Instant)>,
    clock: &dyn Clock,
) -> Option<Timestamp> {
    if planted::is(Planted::LocalReplayWallClock) {
        return Some(clock.wall());
    }
    let (confirmed, at) = confirmed?;
    let since = Millis(millis(at.elapsed()));
    if since > LOCAL_REPLAY_MAX {
        return None;
    }
    Some(confirmed.after(since).after(CLOCK_OFFSET_MAX).after(CLOCK_OFFSET_MAX))
}

/// Looks at a claim in a state.
pub(crate) fn look_at<S: Store>(
    state: &mut S,
    claim: &Claim,
    latest: Option<Timestamp>,
) -> Result<Look, S::Error> {
    let names = &claim.record;
    let Some(Slot::Live(tenant)) = state.tenant(&names.tenant)? else { return Ok(Look::default()) };
    let Some(Slot::Live(namespace)) = state.namespace(&names.tenant, &names.namespace)? else {
        return Ok(Look::default());
    };
    let policy = namespace.effective(&tenant);
    let namespace = namespace.id;
    let mut look = Look { answer: None, namespace: Some((namespace, policy.claims_per_second)) };
    let Some(latest) = latest else { return Ok(look) };
    let Some(record) = state.record(&RecordId { namespace, key: names.key.clone() })? else {
        return Ok(look);
    };
    let clock = state.cluster()?.clock;
    let store_time = clock.now();
    let mut claim = Cow::Borrowed(claim);
    if planted::is(Planted::LocalReplayNoFingerprint) {
        claim.to_mut().fingerprints = record.fingerprints.clone();
    }
    let replay = decide::local_replay(&policy, &record, &claim, store_time, latest);
    look.answer =
        replay.map(|replay| Outcome { store_time, result: Ok(Answer::Replay(Box::new(replay))) });
    if planted::is(Planted::StalePending) && look.answer.is_none() {
        look.answer = stale_pending(&record, &clock);
    }
    Ok(look)
}

/// The planted bug: a claim that this replica knows to be live is answered as if nothing could have
/// happened since.
fn stale_pending(record: &Record, clock: &StoreClock) -> Option<Outcome> {
    let grant = record.grant.as_ref()?;
    let now = clock.now();
    if record.logical(clock) != Some(Logical::Live) {
        return None;
    }
    let until = grant.lease_expire_time;
    let pending = Pending {
        reason: PendingReason::Held,
        holder: None,
        until,
        retry_after: Millis(until.0.saturating_sub(now.0)),
        epoch: grant.epoch,
    };
    Some(Outcome { store_time: now, result: Ok(Answer::Pending(Box::new(pending))) })
}
