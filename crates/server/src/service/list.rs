//! Lists of records: filtered, page by page, and bounded in what one call reads and answers.

use firstclaim_core::{
    IdempotencyKey, Namespace, NamespaceName, Policy, Record, RecordId, RecordRef, Store as _,
    StoreClock, Timestamp,
};
use firstclaim_proto::convert::reads::{self, ListRecords, ListUnresolved};
use firstclaim_proto::convert::{record, time};
use firstclaim_proto::v1;
use firstclaim_replica::{Page, Replica, StoreError};
use prost::Message as _;

use super::{namespace_of, tenant_of};
use crate::node::{Fail, Node};
use crate::sampler::{is_parked, unresolved_since};
use crate::status::Failure;

/// Records that one call reads at most; then it answers a short page.
const READ_MAX: usize = 5000;
/// Records read at a time.
const CHUNK: usize = 64;
/// Bytes at which a page is closed.
const PAGE_BYTES_MAX: usize = 3 * 1024 * 1024;

/// A page that fills up.
struct Filling {
    records: Vec<v1::Record>,
    bytes: usize,
    read: usize,
    size: usize,
}

impl Filling {
    fn new(size: usize) -> Self {
        Self { records: Vec::new(), bytes: 0, read: 0, size }
    }

    fn is_full(&self) -> bool {
        self.records.len() >= self.size || self.bytes >= PAGE_BYTES_MAX || self.read >= READ_MAX
    }

    fn push(&mut self, shown: Option<v1::Record>) {
        if let Some(shown) = shown {
            self.bytes += shown.encoded_len();
            self.records.push(shown);
        }
    }
}

/// Runs a scan where it holds nobody up.
async fn scan<T: Send + 'static>(
    node: &Node,
    scan: impl FnOnce(&Replica) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, Fail> {
    let replica = node.replica.clone();
    let scanned = tokio::task::spawn_blocking(move || scan(&replica)).await;
    let failed = |error: &dyn std::fmt::Display| {
        tracing::error!(%error, "records cannot be listed");
        Fail::from(Failure::internal("read its state"))
    };
    scanned.map_err(|error| failed(&error))?.map_err(|error| failed(&error))
}

/// Lists records of one namespace.
pub(super) async fn records(
    node: &Node,
    asked: ListRecords,
) -> Result<v1::ListRecordsResponse, Fail> {
    let (_, found) = node.read(|state| namespace_of(state, &asked.tenant, &asked.namespace))?;
    let (_, namespace) = found.map_err(|refusal| Failure::not_found(&refusal))?;
    scan(node, move |replica| list(replica, &asked, namespace.id)).await
}

fn list(
    replica: &Replica,
    asked: &ListRecords,
    namespace: u64,
) -> Result<v1::ListRecordsResponse, StoreError> {
    let mut filling = Filling::new(asked.size);
    let mut after = asked.after.clone();
    let (mut more, mut now) = (true, Timestamp::default());
    while more && !filling.is_full() {
        let page = Page { after: after.as_ref(), prefix: &asked.key_prefix, limit: CHUNK };
        let (_, (clock, chunk)) = replica
            .read(|state| Ok((state.cluster()?.clock, state.record_page(namespace, page)?)))?;
        now = clock.now();
        more = chunk.len() >= CHUNK;
        for (id, stored) in chunk {
            if filling.is_full() {
                more = true;
                break;
            }
            filling.read += 1;
            let name = RecordRef {
                tenant: asked.tenant.clone(),
                namespace: asked.namespace.clone(),
                key: id.key.clone(),
            };
            let shown = record::brief(&name, &stored, &clock);
            filling.push(shown.filter(|shown| wanted(asked, shown, &stored, now)));
            after = Some(id.key);
        }
    }
    Ok(v1::ListRecordsResponse {
        records: filling.records,
        next_page_token: after.filter(|_| more).map(String::from).unwrap_or_default(),
        store_time: Some(time::timestamp(now)),
    })
}

fn wanted(asked: &ListRecords, shown: &v1::Record, stored: &Record, now: Timestamp) -> bool {
    let state = asked.states.is_empty() || asked.states.contains(&shown.state());
    let owner = asked.owner.as_ref().is_none_or(|owner| owner.as_str() == shown.owner);
    let old = now.since(stored.first_seen_time) >= asked.older_than;
    let wanted = asked.labels.pairs();
    let has = |labels: &firstclaim_core::Labels| {
        wanted.iter().all(|(name, value)| labels.pairs().get(name) == Some(value))
    };
    let labels = wanted.is_empty()
        || stored.attempts.iter().any(|known| has(&known.labels))
        || has(&stored.reserve_labels);
    state && owner && old && labels
}

/// Lists what is unresolved, or parked, in one namespace or in all of a tenant.
pub(super) async fn unresolved(
    node: &Node,
    asked: ListUnresolved,
) -> Result<v1::ListUnresolvedResponse, Fail> {
    let (_, found) = node.read(|state| {
        let tenant = match tenant_of(state, &asked.tenant)? {
            Ok(tenant) => tenant,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let Some(name) = &asked.namespace else {
            let all = state.namespaces(&asked.tenant)?;
            return Ok(Ok((tenant, all)));
        };
        let found = namespace_of(state, &asked.tenant, name)?;
        Ok(found.map(|(tenant, namespace)| (tenant, vec![(name.clone(), namespace)])))
    })?;
    let (tenant, all) = found.map_err(|refusal| Failure::not_found(&refusal))?;
    let places = all.into_iter().map(|(name, namespace)| {
        let policy = namespace.effective(&tenant);
        Place { name, namespace, policy }
    });
    let places: Vec<Place> = places.collect();
    scan(node, move |replica| list_unresolved(replica, &asked, &places)).await
}

/// A namespace that is looked through.
struct Place {
    name: NamespaceName,
    namespace: Namespace,
    policy: Policy,
}

fn list_unresolved(
    replica: &Replica,
    asked: &ListUnresolved,
    places: &[Place],
) -> Result<v1::ListUnresolvedResponse, StoreError> {
    let mut filling = Filling::new(asked.size);
    let (_, mut now) = replica.read(|state| Ok(state.cluster()?.clock.now()))?;
    let mut next = None;
    for place in places {
        let from = asked.after.as_ref();
        if from.is_some_and(|(namespace, _)| place.name < *namespace)
            || asked.parked && place.policy.max_attempts == 0
        {
            continue;
        }
        let after = from.filter(|(namespace, _)| place.name == *namespace);
        let after = after.map(|(_, key)| key.clone());
        let (seen, rest) = fill(replica, asked, place, after, &mut filling)?;
        now = seen.unwrap_or(now);
        if let Some(rest) = rest {
            next = Some(rest);
            break;
        }
    }
    Ok(v1::ListUnresolvedResponse {
        records: filling.records,
        next_page_token: next.as_ref().map(reads::unresolved_token).unwrap_or_default(),
        store_time: Some(time::timestamp(now)),
    })
}

/// Looks one namespace through. Returns the store time of what was read, and the record to go on
/// after if the page is full.
fn fill(
    replica: &Replica,
    asked: &ListUnresolved,
    place: &Place,
    mut after: Option<IdempotencyKey>,
    filling: &mut Filling,
) -> Result<(Option<Timestamp>, Option<RecordRef>), StoreError> {
    let named = |key: IdempotencyKey| RecordRef {
        tenant: asked.tenant.clone(),
        namespace: place.name.clone(),
        key,
    };
    let mut now = None;
    loop {
        let (clock, chunk) = chunk(replica, asked, place, after.as_ref())?;
        now = Some(clock.now()).max(now);
        let last = chunk.len() < CHUNK;
        for (id, stored) in chunk {
            filling.read += 1;
            let listed = if asked.parked {
                is_parked(&stored, &clock, &place.policy)
            } else {
                unresolved_since(&stored, &clock).is_some()
            };
            let name = named(id.key.clone());
            filling.push(listed.then(|| record::brief(&name, &stored, &clock)).flatten());
            if filling.is_full() {
                return Ok((now, Some(name)));
            }
            after = Some(id.key);
        }
        if last {
            return Ok((now, None));
        }
    }
}

fn chunk(
    replica: &Replica,
    asked: &ListUnresolved,
    place: &Place,
    after: Option<&IdempotencyKey>,
) -> Result<(StoreClock, Vec<(RecordId, Record)>), StoreError> {
    let page = Page { after, prefix: "", limit: CHUNK };
    let (_, read) = replica.read(|state| {
        let clock = state.cluster()?.clock;
        // A parked record may be RETRYABLE, which the index of the unfinished does not hold.
        let chunk = if asked.parked {
            state.record_page(place.namespace.id, page)?
        } else {
            state.unfinished_page(place.namespace.id, page)?
        };
        Ok((clock, chunk))
    })?;
    Ok(read)
}
