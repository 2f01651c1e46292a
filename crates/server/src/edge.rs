//! What a node sees of a claim in its own state, before anybody else is asked. The replica says what may
//! be answered from there.

use firstclaim_core::command::Claim;
use firstclaim_core::{Outcome, RecordRef, Slot, Store as _};
use firstclaim_replica::{Replica, StoreError};

use crate::rate::Limit;

/// What a node sees of a claim.
#[derive(Debug, Default)]
pub(crate) struct Look {
    /// The answer, if this node may give it.
    pub(crate) answer: Option<Outcome>,
    /// How many claims the namespace may make; none if there is no such namespace.
    pub(crate) limit: Option<Limit>,
}

/// Looks at a claim.
pub(crate) fn look(replica: &Replica, claim: &Claim) -> Result<Look, StoreError> {
    let look = replica.look(claim)?;
    let limit = look.namespace.map(|(namespace, per_second)| Limit { namespace, per_second });
    Ok(Look { answer: look.answer, limit })
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
