//! Answers a claim of a completed key from this replica's own state, without the log.
//!
//! Terminal records do not change, so a duplicate that arrives anywhere costs no round trip to the
//! leader's region. Only Replay is ever answered this way; anything else is the log's to say.
//! Semantics §8.

use firstclaim_core::command::Claim;
use firstclaim_core::limits::{CLOCK_OFFSET_MAX, LOCAL_REPLAY_MAX};
use firstclaim_core::outcome::Replay;
use firstclaim_core::{Millis, RecordId, Slot, Store, Timestamp, decide};
use firstclaim_replica::{Replica, StoreError};
use tokio::time::Instant;

/// The replay and the store time that it is answered at, if this replica may answer it.
pub(crate) fn answer(
    replica: &Replica,
    claim: &Claim,
) -> Result<Option<(Replay, Timestamp)>, StoreError> {
    let Some(latest) = replica.confirmed_store_time().and_then(latest_store_time) else {
        return Ok(None);
    };
    let (_, replay) = replica.read(|state| replay(state, claim, latest))?;
    Ok(replay)
}

/// The latest that store time can be by now; none if the leader was last heard of too long ago.
fn latest_store_time((confirmed, at): (Timestamp, Instant)) -> Option<Timestamp> {
    let since = Millis(u64::try_from(at.elapsed().as_millis()).ok()?);
    if since > LOCAL_REPLAY_MAX {
        return None;
    }
    Some(confirmed.after(since).after(CLOCK_OFFSET_MAX).after(CLOCK_OFFSET_MAX))
}

fn replay<S: Store>(
    state: &mut S,
    claim: &Claim,
    latest: Timestamp,
) -> Result<Option<(Replay, Timestamp)>, S::Error> {
    let names = &claim.record;
    let Some(Slot::Live(tenant)) = state.tenant(&names.tenant)? else { return Ok(None) };
    let Some(Slot::Live(namespace)) = state.namespace(&names.tenant, &names.namespace)? else {
        return Ok(None);
    };
    let id = RecordId { namespace: namespace.id, key: names.key.clone() };
    let Some(record) = state.record(&id)? else { return Ok(None) };
    let policy = namespace.effective(&tenant);
    let applied = state.cluster()?.clock.now();
    Ok(decide::local_replay(&policy, &record, claim, applied, latest)
        .map(|replay| (replay, applied)))
}
