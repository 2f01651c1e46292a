//! The state as the contract sees it: typed rows, with what the present batch changed on top.
//!
//! Reads see the changes before them, so many entries can be applied before one batch is written.
//! The indexes are kept here, by what the records say of themselves.

use std::collections::BTreeMap;
use std::path::Path;

use firstclaim_core::tenant::Cluster;
use firstclaim_core::{
    IdempotencyKey, Namespace, NamespaceName, Record, RecordId, Slot, Store, Tenant, TenantName,
    Timestamp,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::StoreError;
use crate::store::codec;
use crate::store::engine::{Batch, Read, after_prefix};
use crate::store::schema::{self, Table, system};

/// A row that was looked up.
struct Cell<T> {
    value: Option<T>,
    changed: bool,
}

/// Rows without values that were added (`true`) or removed (`false`).
type Marks = BTreeMap<Vec<u8>, bool>;

/// Typed access to the rows of the state.
pub struct State<'a> {
    read: &'a dyn Read,
    path: &'a Path,
    cluster: Option<Cell<Cluster>>,
    tenants: BTreeMap<TenantName, Cell<Slot<Tenant>>>,
    namespaces: BTreeMap<TenantName, BTreeMap<NamespaceName, Cell<Slot<Namespace>>>>,
    records: BTreeMap<Vec<u8>, Cell<Record>>,
    due: Marks,
    unfinished: Marks,
    garbage: Marks,
}

impl std::fmt::Debug for State<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("path", &self.path).finish_non_exhaustive()
    }
}

impl<'a> State<'a> {
    pub(crate) fn new(read: &'a dyn Read, path: &'a Path) -> Self {
        Self {
            read,
            path,
            cluster: None,
            tenants: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            records: BTreeMap::new(),
            due: Marks::new(),
            unfinished: Marks::new(),
            garbage: Marks::new(),
        }
    }

    /// The changes, as rows.
    pub(crate) fn into_batch(self) -> Result<Batch, StoreError> {
        let path = self.path;
        let mut batch = Batch::default();
        if let Some(Cell { value: Some(cluster), changed: true }) = &self.cluster {
            put(&mut batch, path, Table::System, system::CLUSTER.to_vec(), cluster)?;
        }
        for (name, cell) in &self.tenants {
            if let Cell { value: Some(slot), changed: true } = cell {
                put(&mut batch, path, Table::Tenants, schema::tenant_key(name), slot)?;
            }
        }
        for (tenant, namespaces) in &self.namespaces {
            for (name, cell) in namespaces {
                if let Cell { value: Some(slot), changed: true } = cell {
                    let key = schema::namespace_key(tenant, name);
                    put(&mut batch, path, Table::Namespaces, key, slot)?;
                }
            }
        }
        for (key, cell) in self.records.into_iter().filter(|(_, cell)| cell.changed) {
            match &cell.value {
                Some(record) => put(&mut batch, path, Table::Records, key, record)?,
                None => batch.delete(Table::Records, key),
            }
        }
        let marks = [
            (Table::Expiry, self.due),
            (Table::Unfinished, self.unfinished),
            (Table::Garbage, self.garbage),
        ];
        for (table, marks) in marks {
            for (key, present) in marks {
                if present {
                    batch.put(table, key, Vec::new());
                } else {
                    batch.delete(table, key);
                }
            }
        }
        Ok(batch)
    }

    fn load<T: DeserializeOwned>(&self, table: Table, key: &[u8]) -> Result<Cell<T>, StoreError> {
        let value = match self.read.get(table, key)? {
            Some(bytes) => Some(self.decode(table, &bytes)?),
            None => None,
        };
        Ok(Cell { value, changed: false })
    }

    fn decode<T: DeserializeOwned>(&self, table: Table, bytes: &[u8]) -> Result<T, StoreError> {
        // The key may be personal, so the message does not name it.
        codec::decode_value(bytes).map_err(|fault| StoreError::Corrupt {
            path: self.path.to_path_buf(),
            what: format!("a row of the table {}: {fault}", table.name()),
        })
    }

    fn bad_key(&self, table: Table) -> StoreError {
        StoreError::Corrupt {
            path: self.path.to_path_buf(),
            what: format!("a key of the table {} is malformed", table.name()),
        }
    }

    fn cached_record(&mut self, key: &[u8]) -> Result<&mut Cell<Record>, StoreError> {
        let loaded = if self.records.contains_key(key) {
            None
        } else {
            Some(self.load(Table::Records, key)?)
        };
        let empty = Cell { value: None, changed: false };
        Ok(self.records.entry(key.to_vec()).or_insert_with(|| loaded.unwrap_or(empty)))
    }

    /// Up to `limit` keys in `[from, to)` of a table, with `changes` on top of it.
    fn merged(
        &self,
        table: Table,
        changes: &Marks,
        (from, to): (&[u8], &[u8]),
        limit: usize,
    ) -> Result<Vec<Vec<u8>>, StoreError> {
        if from >= to {
            return Ok(Vec::new());
        }
        let changes = || changes.range(from.to_vec()..to.to_vec());
        let removed = changes().filter(|(_, present)| !**present).count();
        let rows = self.read.scan(table, from, to, limit.saturating_add(removed))?;
        let mut keys: BTreeMap<Vec<u8>, ()> = rows.into_iter().map(|(key, _)| (key, ())).collect();
        for (key, present) in changes() {
            if *present {
                keys.insert(key.clone(), ());
            } else {
                keys.remove(key);
            }
        }
        Ok(keys.into_keys().take(limit).collect())
    }

    fn record_ids(
        &self,
        table: Table,
        keys: &[Vec<u8>],
        id: impl Fn(&[u8]) -> Option<RecordId>,
    ) -> Result<Vec<RecordId>, StoreError> {
        keys.iter().map(|key| id(key).ok_or_else(|| self.bad_key(table))).collect()
    }
}

fn put<T: Serialize>(
    batch: &mut Batch,
    path: &Path,
    table: Table,
    key: Vec<u8>,
    value: &T,
) -> Result<(), StoreError> {
    let bytes = codec::encode_value(value).map_err(|reason| StoreError::Io {
        action: "encode a row",
        path: path.to_path_buf(),
        source: std::io::Error::other(format!("table {}: {reason}", table.name())),
    })?;
    batch.put(table, key, bytes);
    Ok(())
}

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

impl Store for State<'_> {
    type Error = StoreError;

    fn cluster(&mut self) -> Result<Cluster, StoreError> {
        let cell = match &self.cluster {
            Some(cell) => cell,
            None => {
                let cell = self.load(Table::System, system::CLUSTER)?;
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
        let cell: Cell<Slot<Tenant>> = self.load(Table::Tenants, &schema::tenant_key(name))?;
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
        let changes: Marks = self
            .tenants
            .iter()
            .filter(|(_, cell)| cell.changed)
            .map(|(name, _)| (schema::tenant_key(name), true))
            .collect();
        // Graves are passed over, so it may take several looks to find enough.
        while found.len() < limit {
            let keys = self.merged(Table::Tenants, &changes, (&from, &end), limit)?;
            let Some(last) = keys.last() else { break };
            from = just_after(last.clone());
            for key in &keys {
                let name = name_of(key).and_then(|text| TenantName::parse(text).ok());
                let name = name.ok_or_else(|| self.bad_key(Table::Tenants))?;
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
            self.load(Table::Namespaces, &schema::namespace_key(tenant, name))?;
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
        let rows =
            self.read.scan(Table::Namespaces, &prefix, &after_prefix(&prefix), usize::MAX)?;
        let mut found = BTreeMap::new();
        for (key, value) in rows {
            let name = key.get(prefix.len()..).and_then(name_of);
            let name = name.and_then(|text| NamespaceName::parse(text).ok());
            let name = name.ok_or_else(|| self.bad_key(Table::Namespaces))?;
            let slot: Slot<Namespace> = self.decode(Table::Namespaces, &value)?;
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
        let time = |record: &Option<Record>| record.as_ref().and_then(Record::sweep_time);
        let open = |record: &Option<Record>| record.as_ref().is_some_and(Record::is_unfinished);
        let (time_before, time_after) = (time(&cell.value), time(&record));
        let (open_before, open_after) = (open(&cell.value), open(&record));
        *cell = Cell { value: record, changed: true };
        if time_before != time_after {
            if let Some(time) = time_before {
                self.due.insert(schema::expiry_key(time, &key), false);
            }
            if let Some(time) = time_after {
                self.due.insert(schema::expiry_key(time, &key), true);
            }
        }
        if open_before != open_after {
            self.unfinished.insert(key, open_after);
        }
        Ok(())
    }

    fn due(&mut self, up_to: Timestamp, limit: usize) -> Result<Vec<RecordId>, StoreError> {
        let end = after_prefix(&up_to.0.to_be_bytes());
        let keys = self.merged(Table::Expiry, &self.due, (&[], &end), limit)?;
        self.record_ids(Table::Expiry, &keys, schema::expiry_record_id)
    }

    fn unfinished(
        &mut self,
        namespace: u64,
        after: Option<&IdempotencyKey>,
        limit: usize,
    ) -> Result<Vec<RecordId>, StoreError> {
        let (from, to) = record_range(namespace, after);
        let keys = self.merged(Table::Unfinished, &self.unfinished, (&from, &to), limit)?;
        self.record_ids(Table::Unfinished, &keys, schema::record_id)
    }

    fn records(
        &mut self,
        namespace: u64,
        after: Option<&IdempotencyKey>,
        limit: usize,
    ) -> Result<Vec<RecordId>, StoreError> {
        let (from, to) = record_range(namespace, after);
        let changes: Marks = self
            .records
            .range(from.clone()..to.clone())
            .filter(|(_, cell)| cell.changed)
            .map(|(key, cell)| (key.clone(), cell.value.is_some()))
            .collect();
        let keys = self.merged(Table::Records, &changes, (&from, &to), limit)?;
        self.record_ids(Table::Records, &keys, schema::record_id)
    }

    fn garbage(&mut self) -> Result<Option<u64>, StoreError> {
        let keys = self.merged(Table::Garbage, &self.garbage, (&[], &after_prefix(&[])), 1)?;
        keys.first()
            .map(|key| schema::garbage_id(key).ok_or_else(|| self.bad_key(Table::Garbage)))
            .transpose()
    }

    fn put_garbage(&mut self, namespace: u64, present: bool) -> Result<(), StoreError> {
        self.garbage.insert(schema::garbage_key(namespace), present);
        Ok(())
    }
}
