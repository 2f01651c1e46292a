//! Report: notes claims that were not granted in the history of their records.

use crate::command::Report;
use crate::limits;
use crate::outcome::{Answer, Refusal};
use crate::record::State;
use crate::store::{RecordId, Store};
use crate::tenant::{Cluster, Slot};

/// Notes what nodes saw. A record that is forgotten has no history any more.
///
/// # Errors
///
/// The store's.
pub fn report<S: Store>(
    store: &mut S,
    cluster: &Cluster,
    report: &Report,
) -> Result<Result<Answer, Refusal>, S::Error> {
    for told in report.records.iter().take(limits::REPORT_RECORDS_MAX) {
        let slot = store.namespace(&told.record.tenant, &told.record.namespace)?;
        let Some(Slot::Live(namespace)) = slot else { continue };
        let id = RecordId { namespace: namespace.id, key: told.record.key.clone() };
        let Some(record) = store.record(&id)? else { continue };
        if record.logical(&cluster.clock).is_none() {
            continue;
        }
        let mut history = store.history(&id)?.unwrap_or_default();
        history.add(&told.sightings, &told.counts);
        if matches!(&record.state, State::Completed(completion) if completion.purged) {
            // The report may have been on its way when the record was purged.
            history.purge();
        }
        store.put_history(&id, history)?;
    }
    Ok(Ok(Answer::Reported))
}
