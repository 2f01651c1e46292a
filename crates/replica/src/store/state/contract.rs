//! The state as the contract's store.

use std::collections::BTreeMap;

use firstclaim_core::fingerprint::Intent;
use firstclaim_core::tenant::Cluster;
use firstclaim_core::{
    History, IdempotencyKey, Namespace, NamespaceName, Record, RecordId, Slot, Store, Tenant,
    TenantName, Timestamp, Usage,
};

use super::{Cell, Marks, State, index};
use crate::error::StoreError;
use crate::store::engine::after_prefix;
use crate::store::schema::{self, Table, system};

fn name_of(key: &[u8]) -> Option<&str> {
    std::str::from_utf8(key).ok()
}

/// The first key after `key`.
fn just_after(mut key: Vec<u8>) -> Vec<u8> {
    key.push(0);
    key
}

/// The keys of a namespace's records above `after`.
fn record_range(namespace: u64, after: Option<&IdempotencyKey>) -> (Vec<u8>, Vec<u8>) {
    let prefix = namespace.to_be_bytes();
    let from = match after {
        Some(key) => just_after(schema::record_key(&RecordId { namespace, key: key.clone() })),
        None => prefix.to_vec(),
    };
    (from, after_prefix(&prefix))
}

impl State<'_> {
    /// Counts a record that came or went.
    fn count(&mut self, namespace: u64, change: impl FnOnce(u64) -> u64) -> Result<(), StoreError> {
        let cell = self.cached_usage(namespace)?;
        let records = change(cell.value.unwrap_or_default().records);
        *cell = Cell { value: (records > 0).then_some(Usage { records }), changed: true };
        Ok(())
    }

    /// Removes the history of a record, if it has one.
    fn remove_history(&mut self, key: &[u8]) -> Result<(), StoreError> {
        let cell = self.cached_history(key)?;
        if cell.value.is_some() {
            *cell = Cell { value: None, changed: true };
        }
        Ok(())
    }
}

impl Store for State<'_> {
    type Error = StoreError;

    fn cluster(&mut self) -> Result<Cluster, StoreError> {
        let cell = match &self.cluster {
            Some(cell) => cell,
            None => {
                let cell = self.source.load(Table::System, system::CLUSTER)?;
                self.cluster.insert(cell)
            }
        };
        Ok(cell.value.clone().unwrap_or_default())
    }

    fn put_cluster(&mut self, cluster: Cluster) -> Result<(), StoreError> {
        self.cluster = Some(Cell { value: Some(cluster), changed: true });
        Ok(())
    }

    fn tenant(&mut self, name: &TenantName) -> Result<Option<Slot<Tenant>>, StoreError> {
        if let Some(cell) = self.tenants.get(name) {
            return Ok(cell.value.clone());
        }
        let cell: Cell<Slot<Tenant>> =
            self.source.load(Table::Tenants, &schema::tenant_key(name))?;
        let value = cell.value.clone();
        self.tenants.insert(name.clone(), cell);
        Ok(value)
    }

    fn tenants(
        &mut self,
        after: Option<&TenantName>,
        limit: usize,
    ) -> Result<Vec<(TenantName, Tenant)>, StoreError> {
        let mut found = Vec::new();
        let mut from = after.map_or_else(Vec::new, |name| just_after(schema::tenant_key(name)));
        let end = after_prefix(&[]);
        let changed = self.tenants.iter().filter(|(_, cell)| cell.changed);
        let changes: Marks = changed.map(|(name, _)| (schema::tenant_key(name), true)).collect();
        // Graves are passed over, so it may take several looks to find enough.
        while found.len() < limit {
            let keys = self.merged(Table::Tenants, Some(&changes), (&from, &end), limit)?;
            let Some(last) = keys.last() else { break };
            from = just_after(last.clone());
            for key in &keys {
                let name = name_of(key).and_then(|text| TenantName::parse(text).ok());
                let name = name.ok_or_else(|| self.source.bad_key(Table::Tenants))?;
                if let Some(Slot::Live(tenant)) = self.tenant(&name)? {
                    found.push((name, tenant));
                }
            }
        }
        found.truncate(limit);
        Ok(found)
    }

    fn put_tenant(&mut self, name: &TenantName, slot: Slot<Tenant>) -> Result<(), StoreError> {
        self.tenants.insert(name.clone(), Cell { value: Some(slot), changed: true });
        Ok(())
    }

    fn namespace(
        &mut self,
        tenant: &TenantName,
        name: &NamespaceName,
    ) -> Result<Option<Slot<Namespace>>, StoreError> {
        if let Some(cell) = self.namespaces.get(tenant).and_then(|names| names.get(name)) {
            return Ok(cell.value.clone());
        }
        let cell: Cell<Slot<Namespace>> =
            self.source.load(Table::Namespaces, &schema::namespace_key(tenant, name))?;
        let value = cell.value.clone();
        self.namespaces.entry(tenant.clone()).or_default().insert(name.clone(), cell);
        Ok(value)
    }

    fn put_namespace(
        &mut self,
        tenant: &TenantName,
        name: &NamespaceName,
        slot: Slot<Namespace>,
    ) -> Result<(), StoreError> {
        let cell = Cell { value: Some(slot), changed: true };
        self.namespaces.entry(tenant.clone()).or_default().insert(name.clone(), cell);
        Ok(())
    }

    fn namespaces(
        &mut self,
        tenant: &TenantName,
    ) -> Result<Vec<(NamespaceName, Namespace)>, StoreError> {
        let prefix = schema::namespaces_prefix(tenant);
        let rows = self.source.read.scan(
            Table::Namespaces,
            &prefix,
            &after_prefix(&prefix),
            usize::MAX,
        )?;
        let mut found = BTreeMap::new();
        for (key, value) in rows {
            let name = key.get(prefix.len()..).and_then(name_of);
            let name = name.and_then(|text| NamespaceName::parse(text).ok());
            let name = name.ok_or_else(|| self.source.bad_key(Table::Namespaces))?;
            let slot: Slot<Namespace> = self.source.decode(Table::Namespaces, &value)?;
            found.insert(name, slot);
        }
        if let Some(cached) = self.namespaces.get(tenant) {
            for (name, cell) in cached {
                if let Cell { value: Some(slot), changed: true } = cell {
                    found.insert(name.clone(), slot.clone());
                }
            }
        }
        Ok(found.into_iter().filter_map(|(name, slot)| Some((name, slot.live()?))).collect())
    }

    fn record(&mut self, id: &RecordId) -> Result<Option<Record>, StoreError> {
        Ok(self.cached_record(&schema::record_key(id))?.value.clone())
    }

    fn put_record(&mut self, id: &RecordId, record: Option<Record>) -> Result<(), StoreError> {
        let key = schema::record_key(id);
        let cell = self.cached_record(&key)?;
        let rows =
            |record: Option<&Record>| record.map_or_else(Vec::new, |it| index::rows(&key, it));
        let (before, after) = (rows(cell.value.as_ref()), rows(record.as_ref()));
        let (was, is) = (cell.value.is_some(), record.is_some());
        *cell = Cell { value: record, changed: true };
        for (table, row) in before.iter().filter(|row| !after.contains(row)) {
            self.mark(*table, row.clone(), false);
        }
        for (table, row) in after.into_iter().filter(|row| !before.contains(row)) {
            self.mark(table, row, true);
        }
        match (was, is) {
            (false, true) => self.count(id.namespace, |records| records.saturating_add(1)),
            (true, false) => {
                self.remove_history(&key)?;
                self.count(id.namespace, |records| records.saturating_sub(1))
            }
            (false, false) | (true, true) => Ok(()),
        }
    }

    fn history(&mut self, id: &RecordId) -> Result<Option<History>, StoreError> {
        Ok(self.cached_history(&schema::record_key(id))?.value.clone())
    }

    fn put_history(&mut self, id: &RecordId, history: History) -> Result<(), StoreError> {
        let cell = Cell { value: Some(history), changed: true };
        self.histories.insert(schema::record_key(id), cell);
        Ok(())
    }

    fn due(&mut self, up_to: Timestamp, limit: usize) -> Result<Vec<RecordId>, StoreError> {
        let end = after_prefix(&up_to.0.to_be_bytes());
        let keys = self.merged(Table::Expiry, self.marked(Table::Expiry), (&[], &end), limit)?;
        self.record_ids(Table::Expiry, &keys, schema::expiry_record_id)
    }

    fn unfinished(
        &mut self,
        namespace: u64,
        after: Option<&IdempotencyKey>,
        limit: usize,
    ) -> Result<Vec<RecordId>, StoreError> {
        let (from, to) = record_range(namespace, after);
        let marks = self.marked(Table::Unfinished);
        let keys = self.merged(Table::Unfinished, marks, (&from, &to), limit)?;
        self.record_ids(Table::Unfinished, &keys, schema::record_id)
    }

    fn records(
        &mut self,
        namespace: u64,
        after: Option<&IdempotencyKey>,
        limit: usize,
    ) -> Result<Vec<RecordId>, StoreError> {
        let (from, to) = record_range(namespace, after);
        let changes = self.changed_records((&from, &to));
        let keys = self.merged(Table::Records, Some(&changes), (&from, &to), limit)?;
        self.record_ids(Table::Records, &keys, schema::record_id)
    }

    fn similar(
        &mut self,
        namespace: u64,
        intent: &Intent,
        since: Timestamp,
        limit: usize,
    ) -> Result<Vec<RecordId>, StoreError> {
        let (from, to) = schema::similar_range(namespace, intent, since);
        let keys = self.merged(Table::Similar, self.marked(Table::Similar), (&from, &to), limit)?;
        self.record_ids(Table::Similar, &keys, |key| schema::similar_record_id(key, from.len()))
    }

    fn changed(
        &mut self,
        namespace: u64,
        revision: u64,
        limit: usize,
    ) -> Result<Vec<(u64, RecordId)>, StoreError> {
        let (from, to) = schema::changed_range(namespace, revision);
        let keys = self.merged(Table::Changed, self.marked(Table::Changed), (&from, &to), limit)?;
        let bad_key = || self.source.bad_key(Table::Changed);
        keys.iter().map(|key| schema::changed_record(key).ok_or_else(bad_key)).collect()
    }

    fn usage(&mut self, namespace: u64) -> Result<Usage, StoreError> {
        Ok(self.cached_usage(namespace)?.value.unwrap_or_default())
    }

    fn garbage(&mut self) -> Result<Option<u64>, StoreError> {
        let all = (&[][..], &after_prefix(&[])[..]);
        let keys = self.merged(Table::Garbage, self.marked(Table::Garbage), all, 1)?;
        keys.first()
            .map(|key| schema::life_id(key).ok_or_else(|| self.source.bad_key(Table::Garbage)))
            .transpose()
    }

    fn put_garbage(&mut self, namespace: u64, present: bool) -> Result<(), StoreError> {
        self.mark(Table::Garbage, schema::life_key(namespace), present);
        Ok(())
    }
}
