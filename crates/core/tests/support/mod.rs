//! A store of ordered maps, for the scripts and the properties.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::ops::Bound::{Excluded, Unbounded};

use firstclaim_core::fingerprint::Intent;
use firstclaim_core::tenant::Cluster;
use firstclaim_core::{
    History, IdempotencyKey, Namespace, NamespaceName, Record, RecordId, Slot, Store, Tenant,
    TenantName, Timestamp, Usage,
};

/// The whole replicated state in memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct MemoryStore {
    pub(crate) cluster: Cluster,
    pub(crate) tenants: BTreeMap<TenantName, Slot<Tenant>>,
    pub(crate) namespaces: BTreeMap<(TenantName, NamespaceName), Slot<Namespace>>,
    pub(crate) records: BTreeMap<RecordId, Record>,
    pub(crate) histories: BTreeMap<RecordId, History>,
    pub(crate) garbage: BTreeSet<u64>,
}

impl MemoryStore {
    fn of(&self, namespace: u64) -> impl Iterator<Item = (&RecordId, &Record)> {
        self.records.iter().filter(move |(id, _)| id.namespace == namespace)
    }

    fn page(
        &self,
        namespace: u64,
        after: Option<&IdempotencyKey>,
        limit: usize,
        wanted: impl Fn(&Record) -> bool,
    ) -> Vec<RecordId> {
        self.of(namespace)
            .filter(|(_, record)| wanted(record))
            .map(|(id, _)| id.clone())
            .filter(|id| after.is_none_or(|after| id.key > *after))
            .take(limit)
            .collect()
    }
}

impl Store for MemoryStore {
    type Error = Infallible;

    fn cluster(&mut self) -> Result<Cluster, Infallible> {
        Ok(self.cluster.clone())
    }

    fn put_cluster(&mut self, cluster: Cluster) -> Result<(), Infallible> {
        self.cluster = cluster;
        Ok(())
    }

    fn tenant(&mut self, name: &TenantName) -> Result<Option<Slot<Tenant>>, Infallible> {
        Ok(self.tenants.get(name).cloned())
    }

    fn tenants(
        &mut self,
        after: Option<&TenantName>,
        limit: usize,
    ) -> Result<Vec<(TenantName, Tenant)>, Infallible> {
        let start = after.map_or(Unbounded, Excluded);
        let live = self.tenants.range::<TenantName, _>((start, Unbounded));
        let live = live.filter_map(|(name, slot)| Some((name.clone(), slot.clone().live()?)));
        Ok(live.take(limit).collect())
    }

    fn put_tenant(&mut self, name: &TenantName, slot: Slot<Tenant>) -> Result<(), Infallible> {
        self.tenants.insert(name.clone(), slot);
        Ok(())
    }

    fn namespace(
        &mut self,
        tenant: &TenantName,
        name: &NamespaceName,
    ) -> Result<Option<Slot<Namespace>>, Infallible> {
        Ok(self.namespaces.get(&(tenant.clone(), name.clone())).cloned())
    }

    fn put_namespace(
        &mut self,
        tenant: &TenantName,
        name: &NamespaceName,
        slot: Slot<Namespace>,
    ) -> Result<(), Infallible> {
        self.namespaces.insert((tenant.clone(), name.clone()), slot);
        Ok(())
    }

    fn namespaces(
        &mut self,
        tenant: &TenantName,
    ) -> Result<Vec<(NamespaceName, Namespace)>, Infallible> {
        let own = self.namespaces.iter().filter(|((owner, _), _)| owner == tenant);
        Ok(own.filter_map(|((_, name), slot)| Some((name.clone(), slot.clone().live()?))).collect())
    }

    fn record(&mut self, id: &RecordId) -> Result<Option<Record>, Infallible> {
        Ok(self.records.get(id).cloned())
    }

    fn put_record(&mut self, id: &RecordId, record: Option<Record>) -> Result<(), Infallible> {
        match record {
            Some(record) => {
                self.records.insert(id.clone(), record);
            }
            None => {
                self.records.remove(id);
                self.histories.remove(id);
            }
        }
        Ok(())
    }

    fn history(&mut self, id: &RecordId) -> Result<Option<History>, Infallible> {
        Ok(self.histories.get(id).cloned())
    }

    fn put_history(&mut self, id: &RecordId, history: History) -> Result<(), Infallible> {
        self.histories.insert(id.clone(), history);
        Ok(())
    }

    fn due(&mut self, up_to: Timestamp, limit: usize) -> Result<Vec<RecordId>, Infallible> {
        let mut due: Vec<_> = self
            .records
            .iter()
            .filter_map(|(id, record)| Some((record.sweep_time()?, id.clone())))
            .filter(|(time, _)| *time <= up_to)
            .collect();
        due.sort();
        Ok(due.into_iter().map(|(_, id)| id).take(limit).collect())
    }

    fn unfinished(
        &mut self,
        namespace: u64,
        after: Option<&IdempotencyKey>,
        limit: usize,
    ) -> Result<Vec<RecordId>, Infallible> {
        Ok(self.page(namespace, after, limit, Record::is_unfinished))
    }

    fn records(
        &mut self,
        namespace: u64,
        after: Option<&IdempotencyKey>,
        limit: usize,
    ) -> Result<Vec<RecordId>, Infallible> {
        Ok(self.page(namespace, after, limit, |_| true))
    }

    fn similar(
        &mut self,
        namespace: u64,
        intent: &Intent,
        since: Timestamp,
        limit: usize,
    ) -> Result<Vec<RecordId>, Infallible> {
        let mut similar: Vec<_> = self
            .of(namespace)
            .flat_map(|(id, record)| record.intents().into_iter().map(move |it| (it, id.clone())))
            .filter(|((its, began), _)| its == intent && *began >= since)
            .map(|((_, began), id)| (Reverse(began), id))
            .collect();
        similar.sort();
        Ok(similar.into_iter().map(|(_, id)| id).take(limit).collect())
    }

    fn changed(
        &mut self,
        namespace: u64,
        revision: u64,
        limit: usize,
    ) -> Result<Vec<(u64, RecordId)>, Infallible> {
        let changed = self.of(namespace).filter(|(_, record)| record.revision > revision);
        let mut changed: Vec<_> = changed.map(|(id, it)| (it.revision, id.clone())).collect();
        changed.sort();
        changed.truncate(limit);
        Ok(changed)
    }

    fn usage(&mut self, namespace: u64) -> Result<Usage, Infallible> {
        Ok(Usage { records: self.of(namespace).count() as u64 })
    }

    fn garbage(&mut self) -> Result<Option<u64>, Infallible> {
        Ok(self.garbage.first().copied())
    }

    fn put_garbage(&mut self, namespace: u64, present: bool) -> Result<(), Infallible> {
        if present {
            self.garbage.insert(namespace);
        } else {
            self.garbage.remove(&namespace);
        }
        Ok(())
    }
}
