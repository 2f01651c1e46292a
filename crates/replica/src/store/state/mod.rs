//! The state as the contract sees it: typed rows, with what the present batch changed on top.
//!
//! Reads see the changes before them, so many entries can be applied before one batch is written.
//! The indexes and the counts are kept here, by what the records say of themselves.

mod contract;
pub(crate) mod index;
mod pages;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;

use firstclaim_core::tenant::Cluster;
use firstclaim_core::{
    History, Namespace, NamespaceName, Record, RecordId, Slot, Tenant, TenantName, Usage,
};

use crate::error::StoreError;
use crate::store::codec::{self, Stored};
use crate::store::engine::{Batch, Read, Row};
use crate::store::schema::{self, Table, system};

pub use pages::Page;

/// A row that was looked up.
struct Cell<T> {
    value: Option<T>,
    changed: bool,
}

/// Rows without values that were added (`true`) or removed (`false`).
type Marks = BTreeMap<Vec<u8>, bool>;

/// The rows below, and where they are, for messages.
#[derive(Clone, Copy)]
struct Source<'a> {
    read: &'a dyn Read,
    path: &'a Path,
}

/// Typed access to the rows of the state.
pub struct State<'a> {
    source: Source<'a>,
    cluster: Option<Cell<Cluster>>,
    tenants: BTreeMap<TenantName, Cell<Slot<Tenant>>>,
    namespaces: BTreeMap<TenantName, BTreeMap<NamespaceName, Cell<Slot<Namespace>>>>,
    records: BTreeMap<Vec<u8>, Cell<Record>>,
    histories: BTreeMap<Vec<u8>, Cell<History>>,
    usages: BTreeMap<u64, Cell<Usage>>,
    /// Rows of tables that have no values.
    marks: BTreeMap<Table, Marks>,
}

impl std::fmt::Debug for State<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("path", &self.source.path).finish_non_exhaustive()
    }
}

impl<'a> State<'a> {
    pub(crate) fn new(read: &'a dyn Read, path: &'a Path) -> Self {
        Self {
            source: Source { read, path },
            cluster: None,
            tenants: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            records: BTreeMap::new(),
            histories: BTreeMap::new(),
            usages: BTreeMap::new(),
            marks: BTreeMap::new(),
        }
    }

    /// The changes, as rows.
    pub(crate) fn into_batch(self) -> Result<Batch, StoreError> {
        let path = self.source.path;
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
        put_or_delete(&mut batch, path, Table::Records, self.records)?;
        put_or_delete(&mut batch, path, Table::History, self.histories)?;
        let usages = self.usages.into_iter().map(|(id, cell)| (schema::life_key(id), cell));
        put_or_delete(&mut batch, path, Table::Usage, usages)?;
        for (table, marks) in self.marks {
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

    fn cached_record(&mut self, key: &[u8]) -> Result<&mut Cell<Record>, StoreError> {
        cached(&mut self.records, key.to_vec(), || self.source.load(Table::Records, key))
    }

    fn cached_history(&mut self, key: &[u8]) -> Result<&mut Cell<History>, StoreError> {
        cached(&mut self.histories, key.to_vec(), || self.source.load(Table::History, key))
    }

    fn cached_usage(&mut self, namespace: u64) -> Result<&mut Cell<Usage>, StoreError> {
        let key = schema::life_key(namespace);
        cached(&mut self.usages, namespace, || self.source.load(Table::Usage, &key))
    }

    /// The changes to a table without values.
    fn marked(&self, table: Table) -> Option<&Marks> {
        self.marks.get(&table)
    }

    fn mark(&mut self, table: Table, key: Vec<u8>, present: bool) {
        self.marks.entry(table).or_default().insert(key, present);
    }

    /// Up to `limit` rows in `[from, to)` of a table, with `changes` on top of it. An added row has no
    /// value here.
    fn merged_rows(
        &self,
        table: Table,
        changes: Option<&Marks>,
        (from, to): (&[u8], &[u8]),
        limit: usize,
    ) -> Result<Vec<Row>, StoreError> {
        if from >= to {
            return Ok(Vec::new());
        }
        let changes = || changes.into_iter().flat_map(|all| all.range(from.to_vec()..to.to_vec()));
        let removed = changes().filter(|(_, present)| !**present).count();
        let rows = self.source.read.scan(table, from, to, limit.saturating_add(removed))?;
        let mut changes = changes().peekable();
        if changes.peek().is_none() {
            return Ok(rows);
        }
        let mut rows: BTreeMap<Vec<u8>, Vec<u8>> = rows.into_iter().collect();
        for (key, present) in changes {
            if *present {
                rows.insert(key.clone(), Vec::new());
            } else {
                rows.remove(key);
            }
        }
        Ok(rows.into_iter().take(limit).collect())
    }

    /// The keys of [`Self::merged_rows`].
    fn merged(
        &self,
        table: Table,
        changes: Option<&Marks>,
        range: (&[u8], &[u8]),
        limit: usize,
    ) -> Result<Vec<Vec<u8>>, StoreError> {
        let rows = self.merged_rows(table, changes, range, limit)?;
        Ok(rows.into_iter().map(|(key, _)| key).collect())
    }

    /// Records that were changed, within a range of keys: `false` if removed.
    fn changed_records(&self, (from, to): (&[u8], &[u8])) -> Marks {
        if from >= to {
            return Marks::new();
        }
        self.records
            .range(from.to_vec()..to.to_vec())
            .filter(|(_, cell)| cell.changed)
            .map(|(key, cell)| (key.clone(), cell.value.is_some()))
            .collect()
    }

    fn record_ids(
        &self,
        table: Table,
        keys: &[Vec<u8>],
        id: impl Fn(&[u8]) -> Option<RecordId>,
    ) -> Result<Vec<RecordId>, StoreError> {
        keys.iter().map(|key| id(key).ok_or_else(|| self.source.bad_key(table))).collect()
    }
}

impl Source<'_> {
    fn load<T: Stored>(&self, table: Table, key: &[u8]) -> Result<Cell<T>, StoreError> {
        let value = match self.read.get(table, key)? {
            Some(bytes) => Some(self.decode(table, &bytes)?),
            None => None,
        };
        Ok(Cell { value, changed: false })
    }

    fn decode<T: Stored>(&self, table: Table, bytes: &[u8]) -> Result<T, StoreError> {
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
}

/// The cell under `key`, which is loaded if it was not yet.
fn cached<K: Ord, T>(
    cells: &mut BTreeMap<K, Cell<T>>,
    key: K,
    load: impl FnOnce() -> Result<Cell<T>, StoreError>,
) -> Result<&mut Cell<T>, StoreError> {
    match cells.entry(key) {
        Entry::Occupied(place) => Ok(place.into_mut()),
        Entry::Vacant(place) => Ok(place.insert(load()?)),
    }
}

/// Puts what was changed, and deletes what was removed.
fn put_or_delete<T: Stored>(
    batch: &mut Batch,
    path: &Path,
    table: Table,
    cells: impl IntoIterator<Item = (Vec<u8>, Cell<T>)>,
) -> Result<(), StoreError> {
    for (key, cell) in cells.into_iter().filter(|(_, cell)| cell.changed) {
        match &cell.value {
            Some(value) => put(batch, path, table, key, value)?,
            None => batch.delete(table, key),
        }
    }
    Ok(())
}

/// Puts a value.
pub(crate) fn put<T: Stored>(
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
