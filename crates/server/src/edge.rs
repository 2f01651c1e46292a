//! What a node sees of a claim in its own state, before anybody else is asked.
//!
//! Terminal records do not change, so a duplicate that arrives anywhere costs no round trip to the
//! leader's region. Only Replay is ever answered this way; anything else is the log's to say.
//! Semantics §8.

use firstclaim_core::command::Claim;
use firstclaim_core::limits::{CLOCK_OFFSET_MAX, LOCAL_REPLAY_MAX};
use firstclaim_core::outcome::Replay;
use firstclaim_core::{Millis, RecordId, RecordRef, Slot, Store, Timestamp, decide};
use firstclaim_replica::{Replica, StoreError};
use tokio::time::Instant;

use crate::rate::Limit;

/// What a node sees of a claim.
#[derive(Debug, Default)]
pub(crate) struct Look {
    /// The replay and the store time that it is answered at, if this node may answer it.
    pub(crate) replay: Option<(Replay, Timestamp)>,
    /// How many claims the namespace may make; none if there is no such namespace.
    pub(crate) limit: Option<Limit>,
}

/// Looks at a claim.
pub(crate) fn look(replica: &Replica, claim: &Claim) -> Result<Look, StoreError> {
    let latest = replica.confirmed_store_time().and_then(latest_store_time);
    let (_, look) = replica.read(|state| look_at(state, claim, latest))?;
    Ok(look)
}

/// How many claims and reservations a record's namespace may make; none if there is no such
/// namespace.
pub(crate) fn limit(replica: &Replica, record: &RecordRef) -> Result<Option<Limit>, StoreError> {
    let (_, limit) = replica.read(|state| {
        let Some(Slot::Live(tenant)) = state.tenant(&record.tenant)? else { return Ok(None) };
        let slot = state.namespace(&record.tenant, &record.namespace)?;
        let Some(Slot::Live(namespace)) = slot else { return Ok(None) };
        let per_second = namespace.effective(&tenant).claims_per_second;
        Ok(Some(Limit { namespace: namespace.id, per_second }))
    })?;
    Ok(limit)
}

/// The latest that store time can be by now; none if the leader was last heard of too long ago.
fn latest_store_time((confirmed, at): (Timestamp, Instant)) -> Option<Timestamp> {
    let since = Millis(u64::try_from(at.elapsed().as_millis()).ok()?);
    if since > LOCAL_REPLAY_MAX {
        return None;
    }
    Some(confirmed.after(since).after(CLOCK_OFFSET_MAX).after(CLOCK_OFFSET_MAX))
}

fn look_at<S: Store>(
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
    let limit = Limit { namespace: namespace.id, per_second: policy.claims_per_second };
    let mut look = Look { replay: None, limit: Some(limit) };
    let Some(latest) = latest else { return Ok(look) };
    let id = RecordId { namespace: namespace.id, key: names.key.clone() };
    let Some(record) = state.record(&id)? else { return Ok(look) };
    let applied = state.cluster()?.clock.now();
    look.replay = decide::local_replay(&policy, &record, claim, applied, latest)
        .map(|replay| (replay, applied));
    Ok(look)
}
