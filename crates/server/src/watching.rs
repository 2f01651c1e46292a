//! Streams of what happens to records, out of this node's own state.
//!
//! A watch holds no position anywhere but at its caller: it goes on at any node from the revision
//! that the caller saw last. It reads only what the caller takes from it.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use firstclaim_core::{
    NamespaceName, RecordId, RecordRef, Slot, Store as _, TenantName, Timestamp,
};
use firstclaim_proto::convert::{record, time};
use firstclaim_proto::v1;
use firstclaim_replica::Changes;
use futures::stream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;

use crate::node::{Fail, Node};
use crate::status::Failure;

/// Watches of one node at once.
const WATCHES_MAX: usize = 1024;
/// Records read at a time.
const PAGE: usize = 32;
/// How often to look for what no write tells: a lease that ran out, a record that is forgotten.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What a watch sends.
pub(crate) type Stream<T> = Pin<Box<dyn futures::Stream<Item = Result<T, Status>> + Send>>;

/// Room for watches.
#[derive(Debug)]
pub(crate) struct Watchers(Arc<Semaphore>);

impl Default for Watchers {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(WATCHES_MAX)))
    }
}

/// A watch's place, given back when it ends.
struct Place {
    node: Arc<Node>,
    _permit: OwnedSemaphorePermit,
}

impl Place {
    fn take(node: &Arc<Node>) -> Result<Self, Failure> {
        let permit = Arc::clone(&node.watchers.0).try_acquire_owned();
        let permit = permit.map_err(|_full| Failure::overloaded("too many watches are open"))?;
        node.metrics.watches.inc();
        Ok(Self { node: Arc::clone(node), _permit: permit })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.node.metrics.watches.dec();
    }
}

impl Place {
    /// Waits until there may be something new. Fails if the node goes down.
    async fn wait(&self, changes: &mut Changes) -> Result<(), Status> {
        tokio::select! {
            changed = changes.changed() => match changed {
                Some(()) => Ok(()),
                None => Err(Failure::draining().into_status()),
            },
            () = self.node.gate.closing() => Err(Failure::draining().into_status()),
            () = tokio::time::sleep(LOOK_EVERY) => Ok(()),
        }
    }
}

fn status(fail: Fail) -> Status {
    match fail {
        Fail::Here(failure) => failure.into_status(),
        Fail::There(status) => *status,
    }
}

/// Follows one record, which must exist, until it is completed or forgotten.
pub(crate) fn record(
    node: &Arc<Node>,
    name: RecordRef,
    id: RecordId,
) -> Result<Stream<v1::WatchRecordResponse>, Fail> {
    let place = Place::take(node)?;
    let changes = node.replica.watch_record(&id);
    let watch = OneRecord { place, name, id, changes, last: None };
    if watch.look()?.0.is_none() {
        return Err(Failure::record_not_found(node.replica.store_time()).into());
    }
    Ok(Box::pin(stream::try_unfold(watch, OneRecord::next)))
}

struct OneRecord {
    place: Place,
    name: RecordRef,
    id: RecordId,
    changes: Changes,
    last: Option<v1::Record>,
}

impl OneRecord {
    fn look(&self) -> Result<(Option<v1::Record>, Timestamp), Fail> {
        let (_, looked) = self.place.node.read(|state| {
            let clock = state.cluster()?.clock;
            let stored = state.record(&self.id)?;
            let shown = stored.and_then(|stored| record::record(&self.name, &stored, &clock));
            Ok((shown, clock.now()))
        })?;
        Ok(looked)
    }

    async fn next(mut self) -> Result<Option<(v1::WatchRecordResponse, Self)>, Status> {
        loop {
            let done = |record: &v1::Record| record.state() == v1::RecordState::Completed;
            if self.last.as_ref().is_some_and(done) {
                return Ok(None);
            }
            let (shown, store_time) = self.look().map_err(status)?;
            let Some(shown) = shown else { return Ok(None) };
            if self.last.as_ref() != Some(&shown) {
                self.last = Some(shown.clone());
                let store_time = Some(time::timestamp(store_time));
                return Ok(Some((
                    v1::WatchRecordResponse { record: Some(shown), store_time },
                    self,
                )));
            }
            self.place.wait(&mut self.changes).await?;
        }
    }
}

/// Follows the records of a namespace's life in the order of the log, after a revision.
pub(crate) fn namespace(
    node: &Arc<Node>,
    (tenant, namespace): (TenantName, NamespaceName),
    id: u64,
    revision: u64,
) -> Result<Stream<v1::WatchRecordsResponse>, Fail> {
    let place = Place::take(node)?;
    let changes = node.replica.watch_namespace(id);
    let watch =
        AllRecords { place, tenant, namespace, id, changes, revision, ready: VecDeque::new() };
    Ok(Box::pin(stream::try_unfold(watch, AllRecords::next)))
}

struct AllRecords {
    place: Place,
    tenant: TenantName,
    namespace: NamespaceName,
    /// The namespace's life.
    id: u64,
    changes: Changes,
    /// Everything up to it was read.
    revision: u64,
    ready: VecDeque<v1::WatchRecordsResponse>,
}

impl AllRecords {
    async fn next(mut self) -> Result<Option<(v1::WatchRecordsResponse, Self)>, Status> {
        loop {
            if let Some(response) = self.ready.pop_front() {
                return Ok(Some((response, self)));
            }
            if !self.read().map_err(status)? {
                self.place.wait(&mut self.changes).await?;
            }
        }
    }

    /// Reads what changed next. Returns whether there was anything.
    fn read(&mut self) -> Result<bool, Fail> {
        let (_, read) = self.place.node.read(|state| {
            let slot = state.namespace(&self.tenant, &self.namespace)?;
            let alive = matches!(slot, Some(Slot::Live(known)) if known.id == self.id);
            let page = state.changed_page(self.id, self.revision, PAGE)?;
            Ok(alive.then_some((state.cluster()?.clock, page)))
        })?;
        let Some((clock, page)) = read else {
            return Err(Failure::not_found(&firstclaim_core::Refusal::NamespaceNotFound).into());
        };
        let mut safe = self.revision;
        for (at, (id, stored)) in page.iter().enumerate() {
            // Several records can have one revision: only after the last of them may a caller go on
            // from it.
            let last = page.get(at + 1).is_none_or(|(_, next)| next.revision != stored.revision);
            if last {
                safe = stored.revision;
            }
            let name = RecordRef {
                tenant: self.tenant.clone(),
                namespace: self.namespace.clone(),
                key: id.key.clone(),
            };
            if let Some(shown) = record::record(&name, stored, &clock) {
                let response = v1::WatchRecordsResponse { record: Some(shown), revision: safe };
                self.ready.push_back(response);
            }
        }
        self.revision = safe;
        Ok(!page.is_empty())
    }
}
