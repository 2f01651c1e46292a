//! Sweep: removes what is past its retention. It changes no answer, only what is stored.

use crate::command::Sweep;
use crate::limits;
use crate::outcome::{Answer, Swept};
use crate::planted::{self, Planted};
use crate::record::State;
use crate::store::{RecordId, Store};
use crate::tenant::Cluster;

/// Removes at most `sweep.limit` forgotten records and dropped results.
///
/// # Errors
///
/// The store's.
pub fn sweep<S: Store>(store: &mut S, cluster: &Cluster, sweep: Sweep) -> Result<Answer, S::Error> {
    let limit = sweep.limit.min(limits::SWEEP_RECORDS_MAX) as usize;
    let now = cluster.clock.now();
    let mut swept = Swept::default();
    let due = store.due(now, limit)?;
    for id in &due {
        clear(store, cluster, id, &mut swept)?;
    }
    let rest = limit - due.len();
    clear_garbage(store, rest, &mut swept)?;
    swept.more |= due.len() == limit;
    Ok(Answer::Swept(swept))
}

/// Removes one due record, or the bytes of its result.
fn clear<S: Store>(
    store: &mut S,
    cluster: &Cluster,
    id: &RecordId,
    swept: &mut Swept,
) -> Result<(), S::Error> {
    let Some(mut record) = store.record(id)? else { return Ok(()) };
    let claimed = planted::is(Planted::SweepTakesLive) && record.state == State::Claimed;
    if claimed || record.logical(&cluster.clock).is_none() {
        store.put_record(id, None)?;
        swept.removed += 1;
    } else if let State::Completed(completion) = &mut record.state
        && completion.result_expire_time.has_come(cluster.clock.now())
        && completion.result.bytes.is_some()
    {
        completion.result = completion.result.without_bytes();
        store.put_record(id, Some(record))?;
        swept.results_dropped += 1;
    }
    // Otherwise a grace window still holds the record: it stays due.
    Ok(())
}

/// Removes what is forgotten, as the sweeper would, before a namespace is called full: so the answer
/// does not depend on when the sweeper came by. Bounded like a sweep.
pub(crate) fn make_room<S: Store>(store: &mut S, cluster: &Cluster) -> Result<(), S::Error> {
    let mut swept = Swept::default();
    for id in store.due(cluster.clock.now(), limits::SWEEP_RECORDS_MAX as usize)? {
        clear(store, cluster, &id, &mut swept)?;
    }
    Ok(())
}

/// Removes records of deleted namespaces with what the limit leaves.
fn clear_garbage<S: Store>(store: &mut S, limit: usize, swept: &mut Swept) -> Result<(), S::Error> {
    let Some(namespace) = store.garbage()? else { return Ok(()) };
    let page = store.records(namespace, None, limit)?;
    for id in &page {
        store.put_record(id, None)?;
        swept.removed += 1;
    }
    if page.len() < limit {
        store.put_garbage(namespace, false)?;
    }
    swept.more = true;
    Ok(())
}
