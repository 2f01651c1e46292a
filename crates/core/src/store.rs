//! All that the commands can see and change of the state.

use serde::{Deserialize, Serialize};

use crate::fingerprint::Intent;
use crate::history::History;
use crate::name::{IdempotencyKey, NamespaceName, TenantName};
use crate::record::Record;
use crate::tenant::{Cluster, Namespace, Slot, Tenant};
use crate::time::Timestamp;

/// Where a record is stored: under its namespace's life, so that a new life never sees old records.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RecordId {
    /// [`Namespace::id`].
    pub namespace: u64,
    /// The key.
    pub key: IdempotencyKey,
}

/// How much a namespace's life holds, forgotten or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Records that are stored.
    pub records: u64,
}

/// The typed state below [`apply`](crate::apply()).
///
/// Reads see the writes before them. The implementor keeps the indexes by what the records say of
/// themselves: *due* by [`Record::sweep_time`], *unfinished* by [`Record::is_unfinished`], *similar*
/// by [`Record::intents`], *changed* by [`Record::revision`]. It counts the records, too.
pub trait Store {
    /// What a bad disk says.
    type Error;

    /// Clock and counters; the default before the first entry.
    ///
    /// # Errors
    ///
    /// The disk's.
    fn cluster(&mut self) -> Result<Cluster, Self::Error>;

    /// Writes clock and counters.
    ///
    /// # Errors
    ///
    /// The disk's.
    fn put_cluster(&mut self, cluster: Cluster) -> Result<(), Self::Error>;

    /// What stands under a tenant's name.
    ///
    /// # Errors
    ///
    /// The disk's.
    fn tenant(&mut self, name: &TenantName) -> Result<Option<Slot<Tenant>>, Self::Error>;

    /// Tenants that exist with a name above `after`, by name.
    ///
    /// # Errors
    ///
    /// The disk's.
    fn tenants(
        &mut self,
        after: Option<&TenantName>,
        limit: usize,
    ) -> Result<Vec<(TenantName, Tenant)>, Self::Error>;

    /// Writes what stands under a tenant's name.
    ///
    /// # Errors
    ///
    /// The disk's.
    fn put_tenant(&mut self, name: &TenantName, slot: Slot<Tenant>) -> Result<(), Self::Error>;

    /// What stands under a namespace's name.
    ///
    /// # Errors
    ///
    /// The disk's.
    fn namespace(
        &mut self,
        tenant: &TenantName,
        name: &NamespaceName,
    ) -> Result<Option<Slot<Namespace>>, Self::Error>;

    /// Writes what stands under a namespace's name.
    ///
    /// # Errors
    ///
    /// The disk's.
    fn put_namespace(
        &mut self,
        tenant: &TenantName,
        name: &NamespaceName,
        slot: Slot<Namespace>,
    ) -> Result<(), Self::Error>;

    /// Every namespace of a tenant that exists, by name.
    ///
    /// # Errors
    ///
    /// The disk's.
    fn namespaces(
        &mut self,
        tenant: &TenantName,
    ) -> Result<Vec<(NamespaceName, Namespace)>, Self::Error>;

    /// A record, forgotten or not.
    ///
    /// # Errors
    ///
    /// The disk's.
    fn record(&mut self, id: &RecordId) -> Result<Option<Record>, Self::Error>;

    /// Writes a record, or removes it with its history.
    ///
    /// # Errors
    ///
    /// The disk's.
    fn put_record(&mut self, id: &RecordId, record: Option<Record>) -> Result<(), Self::Error>;

    /// The claims of a record that were not granted.
    ///
    /// # Errors
    ///
    /// The disk's.
    fn history(&mut self, id: &RecordId) -> Result<Option<History>, Self::Error>;

    /// Writes the claims of a record that were not granted.
    ///
    /// # Errors
    ///
    /// The disk's.
    fn put_history(&mut self, id: &RecordId, history: History) -> Result<(), Self::Error>;

    /// Records whose sweep time is at or before `up_to`, by (time, namespace, key).
    ///
    /// # Errors
    ///
    /// The disk's.
    fn due(&mut self, up_to: Timestamp, limit: usize) -> Result<Vec<RecordId>, Self::Error>;

    /// Unfinished records of a namespace's life with a key above `after`, by key.
    ///
    /// # Errors
    ///
    /// The disk's.
    fn unfinished(
        &mut self,
        namespace: u64,
        after: Option<&IdempotencyKey>,
        limit: usize,
    ) -> Result<Vec<RecordId>, Self::Error>;

    /// Records of a namespace's life with a key above `after`, by key.
    ///
    /// # Errors
    ///
    /// The disk's.
    fn records(
        &mut self,
        namespace: u64,
        after: Option<&IdempotencyKey>,
        limit: usize,
    ) -> Result<Vec<RecordId>, Self::Error>;

    /// Records of a namespace's life whose request has that fingerprint and that began at or after
    /// `since`, latest first.
    ///
    /// # Errors
    ///
    /// The disk's.
    fn similar(
        &mut self,
        namespace: u64,
        intent: &Intent,
        since: Timestamp,
        limit: usize,
    ) -> Result<Vec<RecordId>, Self::Error>;

    /// Records of a namespace's life that changed after `revision`, by the revision of their latest
    /// change.
    ///
    /// # Errors
    ///
    /// The disk's.
    fn changed(
        &mut self,
        namespace: u64,
        revision: u64,
        limit: usize,
    ) -> Result<Vec<(u64, RecordId)>, Self::Error>;

    /// How much a namespace's life holds.
    ///
    /// # Errors
    ///
    /// The disk's.
    fn usage(&mut self, namespace: u64) -> Result<Usage, Self::Error>;

    /// The deleted namespace's life that is cleared next.
    ///
    /// # Errors
    ///
    /// The disk's.
    fn garbage(&mut self) -> Result<Option<u64>, Self::Error>;

    /// Notes a namespace's life to be cleared (`true`), or that it is cleared (`false`).
    ///
    /// # Errors
    ///
    /// The disk's.
    fn put_garbage(&mut self, namespace: u64, present: bool) -> Result<(), Self::Error>;
}
