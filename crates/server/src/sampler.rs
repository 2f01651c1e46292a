//! Looks at this node's state every few seconds: how many records, how many unresolved or parked,
//! since when, and how far the sweeper is behind.
//!
//! Bounded: no look reads more than a page at a time, and none counts beyond a number that says
//! "too many" as well as a larger one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use firstclaim_core::record::{self, Logical};
use firstclaim_core::{
    IdempotencyKey, Millis, Namespace, NamespaceName, Policy, Record, RecordId, Store as _,
    StoreClock, TenantName, Timestamp,
};
use firstclaim_replica::{Page, Replica, State, StoreError};

use crate::metrics::NamespaceSample;
use crate::node::Node;

/// How often to look.
const EVERY: Duration = Duration::from_secs(10);
/// Unfinished records of a namespace that one look reads, and parked ones that it counts, at most.
const COUNT_MAX: usize = 10_000;
/// Records read at a time.
const PAGE: usize = 128;
/// Changes of one namespace that one look takes in.
const CHANGES_MAX: usize = 20_000;
/// Namespaces that are looked at; what is beyond is not shown.
const NAMESPACES_MAX: usize = crate::metrics::catalogue::SCOPES_MAX;

/// Samples for as long as it is polled.
pub(crate) async fn run(node: Arc<Node>) {
    let mut parked = Parked::default();
    loop {
        let replica = node.replica.clone();
        let looked = tokio::task::spawn_blocking(move || {
            let sample = look(&replica, &mut parked);
            (parked, sample)
        });
        match looked.await {
            Ok((kept, sample)) => {
                parked = kept;
                match sample {
                    Ok((namespaces, lag)) => node.metrics.records.sample(&namespaces, lag),
                    Err(error) => tracing::error!(%error, "the state cannot be sampled"),
                }
            }
            Err(error) => {
                tracing::error!(%error, "a look at the state ended early");
                parked = Parked::default();
            }
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// Which records of which namespace's life are parked, as far as its changes were followed.
#[derive(Debug, Default)]
struct Parked(BTreeMap<u64, Followed>);

#[derive(Debug, Default)]
struct Followed {
    /// The policy's bound by which the keys were chosen.
    max_attempts: u32,
    revision: u64,
    keys: BTreeSet<IdempotencyKey>,
}

/// A namespace that exists.
struct Known {
    tenant: TenantName,
    name: NamespaceName,
    namespace: Namespace,
    policy: Policy,
}

fn look(
    replica: &Replica,
    parked: &mut Parked,
) -> Result<(Vec<NamespaceSample>, Millis), StoreError> {
    let (_, (known, lag)) = replica.read(|state| Ok((namespaces(state)?, sweep_lag(state)?)))?;
    parked.0.retain(|id, _| known.iter().any(|one| one.namespace.id == *id));
    let mut samples = Vec::with_capacity(known.len());
    for one in known {
        let (unresolved, oldest_age) = unresolved(replica, one.namespace.id)?;
        let (_, records) = replica.read(|state| Ok(state.usage(one.namespace.id)?.records))?;
        samples.push(NamespaceSample {
            records,
            unresolved,
            oldest_age,
            parked: parked.follow(replica, &one)?,
            tenant: one.tenant,
            namespace: one.name,
        });
    }
    Ok((samples, lag))
}

fn namespaces(state: &mut State<'_>) -> Result<Vec<Known>, StoreError> {
    let mut known = Vec::new();
    for (owner, tenant) in state.tenants(None, NAMESPACES_MAX)? {
        for (name, namespace) in state.namespaces(&owner)? {
            if known.len() >= NAMESPACES_MAX {
                return Ok(known);
            }
            let policy = namespace.effective(&tenant);
            known.push(Known { tenant: owner.clone(), name, namespace, policy });
        }
    }
    Ok(known)
}

/// For how long the record that is due first has been due.
fn sweep_lag(state: &mut State<'_>) -> Result<Millis, StoreError> {
    let now = state.cluster()?.clock.now();
    let Some(first) = state.due(now, 1)?.into_iter().next() else { return Ok(Millis(0)) };
    let due = state.record(&first)?.and_then(|record| record.sweep_time());
    Ok(due.map_or(Millis(0), |due| now.since(due)))
}

/// How many records of a namespace are unresolved, and for how long the oldest one is.
fn unresolved(replica: &Replica, namespace: u64) -> Result<(u64, Millis), StoreError> {
    let (mut count, mut seen, mut oldest) = (0, 0, Millis(0));
    let mut after: Option<IdempotencyKey> = None;
    while seen < COUNT_MAX {
        let page = Page { after: after.as_ref(), prefix: "", limit: PAGE };
        let (_, (clock, records)) = replica
            .read(|state| Ok((state.cluster()?.clock, state.unfinished_page(namespace, page)?)))?;
        seen += records.len();
        for (_, record) in &records {
            if let Some(since) = unresolved_since(record, &clock) {
                count += 1;
                oldest = oldest.max(clock.now().since(since));
            }
        }
        if records.len() < PAGE {
            break;
        }
        after = records.last().map(|(id, _)| id.key.clone());
    }
    Ok((count, oldest))
}

/// Since when nobody knows whether something happened; none if that is not so.
pub(crate) fn unresolved_since(record: &Record, clock: &StoreClock) -> Option<Timestamp> {
    match record.logical(clock)? {
        Logical::Unresolved => {}
        Logical::Lapsed if !record.open(clock).is_empty() => {}
        Logical::Lapsed
        | Logical::Reserved
        | Logical::Live
        | Logical::Retryable
        | Logical::Unbound
        | Logical::Completed => return None,
    }
    Some(record.open(clock).since().unwrap_or(record.last_write_time))
}

/// Whether no claim of the record is granted EXECUTE any more, and nobody holds it.
pub(crate) fn is_parked(record: &Record, clock: &StoreClock, policy: &Policy) -> bool {
    let used_up = policy.max_attempts > 0 && record.execute_grants >= policy.max_attempts;
    used_up
        && matches!(
            record.logical(clock),
            Some(Logical::Lapsed | Logical::Unresolved | Logical::Retryable | Logical::Unbound)
        )
}

impl Parked {
    /// Takes in what changed in a namespace, and says how many records are parked there; none where
    /// no record ever is.
    fn follow(&mut self, replica: &Replica, one: &Known) -> Result<Option<u64>, StoreError> {
        if one.policy.max_attempts == 0 {
            self.0.remove(&one.namespace.id);
            return Ok(None);
        }
        let max_attempts = one.policy.max_attempts;
        let followed = self.0.entry(one.namespace.id).or_default();
        if followed.max_attempts != max_attempts {
            *followed = Followed { max_attempts, ..Followed::default() };
        }
        let mut seen = 0;
        while seen < CHANGES_MAX {
            let revision = followed.revision;
            let (_, changed) =
                replica.read(|state| state.changed_page(one.namespace.id, revision, PAGE))?;
            let Some((_, last)) = changed.last() else { break };
            followed.revision = last.revision;
            seen += changed.len();
            for (id, record) in changed {
                let done = matches!(record.state, record::State::Completed(_));
                let may_be = record.execute_grants >= max_attempts && !done;
                if may_be && followed.keys.len() < COUNT_MAX {
                    followed.keys.insert(id.key);
                } else {
                    followed.keys.remove(&id.key);
                }
            }
        }
        let keys = &followed.keys;
        let (_, count) = replica.read(|state| {
            let clock = state.cluster()?.clock;
            let mut count = 0;
            for key in keys {
                let id = RecordId { namespace: one.namespace.id, key: key.clone() };
                let record = state.record(&id)?;
                count += u64::from(record.is_some_and(|it| is_parked(&it, &clock, &one.policy)));
            }
            Ok(count)
        })?;
        Ok(Some(count))
    }
}
