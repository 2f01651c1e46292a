//! The seam to the disk: ordered rows in tables, written in atomic batches.
//!
//! Two engines stand behind it: RocksDB, and an in-memory one for tests and the simulator. The log
//! and the state are two engines, never two tables of one, so that a snapshot of the state can
//! replace it as a whole.

use std::path::Path;

use crate::error::StoreError;
use crate::store::schema::Table;

/// A key with its value.
pub(crate) type Row = (Vec<u8>, Vec<u8>);

/// How far a batch must have come when a write returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// It is seen by every reader. A crash may take it, with all that was written after it.
    Unsynced,
    /// It, and all that was written before it, survives a loss of power.
    Synced,
}

/// A change to one row, or to a range of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Put(Table, Vec<u8>, Vec<u8>),
    Delete(Table, Vec<u8>),
    /// Deletes from the first key up to, but not including, the second.
    DeleteRange(Table, Vec<u8>, Vec<u8>),
}

/// Changes that are written together or not at all, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batch {
    pub(crate) ops: Vec<Op>,
}

impl Batch {
    pub(crate) fn put(&mut self, table: Table, key: Vec<u8>, value: Vec<u8>) {
        self.ops.push(Op::Put(table, key, value));
    }

    pub(crate) fn delete(&mut self, table: Table, key: Vec<u8>) {
        self.ops.push(Op::Delete(table, key));
    }

    pub(crate) fn delete_range(&mut self, table: Table, from: Vec<u8>, to: Vec<u8>) {
        self.ops.push(Op::DeleteRange(table, from, to));
    }
}

/// Reads rows.
pub(crate) trait Read {
    /// The value of a row.
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// Up to `limit` rows from the key `from` on, below the key `to`, in the order of the keys.
    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Vec<Row>, StoreError>;

    /// The last row below the key `to`, if it is not below `from`.
    fn last(&self, table: Table, from: &[u8], to: &[u8]) -> Result<Option<Row>, StoreError>;
}

/// A disk with tables of rows.
pub(crate) trait Engine: Read + Send + Sync {
    /// Runs `f` on a view of the rows that no write changes.
    fn view(
        &self,
        f: &mut dyn FnMut(&dyn Read) -> Result<(), StoreError>,
    ) -> Result<(), StoreError>;

    /// Writes a batch as a whole.
    fn write(&self, batch: Batch, durability: Durability) -> Result<(), StoreError>;

    /// Puts a copy of all rows, as they are now, into a folder that must not exist yet.
    fn checkpoint(&self, dir: &Path) -> Result<(), StoreError>;

    /// Where the rows are, for messages.
    fn path(&self) -> &Path;
}

/// Reads a value out of a consistent view.
pub(crate) fn in_view<T>(
    engine: &dyn Engine,
    f: impl FnOnce(&dyn Read) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let mut f = Some(f);
    let mut result = None;
    engine.view(&mut |read| {
        if let Some(f) = f.take() {
            result = Some(f(read)?);
        }
        Ok(())
    })?;
    result.ok_or_else(|| StoreError::Io {
        action: "read a consistent view",
        path: engine.path().to_path_buf(),
        source: std::io::Error::other("the engine did not run the reader"),
    })
}

/// The first key after all keys that start with `prefix`.
pub(crate) fn after_prefix(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    // All bytes were 0xff (or there were none): only a longer key than any of ours is after it.
    vec![u8::MAX; crate::store::schema::KEY_BYTES_MAX + 1]
}
