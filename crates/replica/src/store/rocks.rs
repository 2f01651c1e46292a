//! The RocksDB engine.

use std::path::{Path, PathBuf};

use rocksdb::checkpoint::Checkpoint;
use rocksdb::{
    ColumnFamily, ColumnFamilyDescriptor, DB, DBCompressionType, DBRawIteratorWithThreadMode,
    DBRecoveryMode, FlushOptions, Options, ReadOptions, SnapshotWithThreadMode, WriteBatch,
    WriteOptions,
};

use crate::error::StoreError;
use crate::store::engine::{Batch, Durability, Engine, Op, Read, Row};
use crate::store::schema::Table;

const MEMTABLE_BYTES: usize = 64 << 20;
/// Deletions at the head of the log leave tombstones; whole files in the range are dropped.
const INFO_LOG_BYTES: usize = 8 << 20;
const INFO_LOGS_KEPT: usize = 3;

/// What a database is for, which decides how it is tuned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Appended, read once by followers that lag, purged at the head. Its WAL is synced.
    Log,
    /// Read and written by key. Its WAL is never synced, since the log can repeat what it lost.
    State,
}

/// Rows in RocksDB.
pub(crate) struct Rocks {
    db: DB,
    path: PathBuf,
    purpose: Use,
}

impl Rocks {
    /// Opens the database in the folder `path`, or creates it.
    pub(crate) fn open(path: &Path, purpose: Use) -> Result<Self, StoreError> {
        let tables = match purpose {
            Use::Log => Table::LOG,
            Use::State => Table::STATE,
        };
        let families = tables
            .iter()
            .map(|table| ColumnFamilyDescriptor::new(table.name(), family_options(purpose)));
        let db = DB::open_cf_descriptors(&database_options(), path, families)
            .map_err(|error| broken("open the database", path, &error))?;
        Ok(Self { db, path: path.to_path_buf(), purpose })
    }

    fn family(&self, table: Table) -> Result<&ColumnFamily, StoreError> {
        self.db.cf_handle(table.name()).ok_or_else(|| StoreError::Corrupt {
            path: self.path.clone(),
            what: format!("the table {} is missing", table.name()),
        })
    }

    fn error(&self, action: &'static str, error: &rocksdb::Error) -> StoreError {
        broken(action, &self.path, error)
    }
}

impl std::fmt::Debug for Rocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rocks").field("path", &self.path).finish_non_exhaustive()
    }
}

fn database_options() -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options.set_paranoid_checks(true);
    // What a loss of power tore off at the end of the WAL was never acknowledged. That nothing
    // more is missing is checked against the state when a replica opens.
    options.set_wal_recovery_mode(DBRecoveryMode::PointInTime);
    options.set_track_and_verify_wals_in_manifest(true);
    options.set_max_background_jobs(2);
    options.set_max_log_file_size(INFO_LOG_BYTES);
    options.set_keep_log_file_num(INFO_LOGS_KEPT);
    options
}

fn family_options(purpose: Use) -> Options {
    let mut options = Options::default();
    options.set_write_buffer_size(MEMTABLE_BYTES);
    match purpose {
        Use::Log => options.set_compression_type(DBCompressionType::None),
        Use::State => {
            options.set_compression_type(DBCompressionType::Lz4);
            options.set_bottommost_compression_type(DBCompressionType::Zstd);
        }
    }
    options
}

fn broken(action: &'static str, path: &Path, error: &rocksdb::Error) -> StoreError {
    let path = path.to_path_buf();
    if error.kind() == rocksdb::ErrorKind::Corruption {
        return StoreError::Corrupt { path, what: format!("cannot {action}: {}", error.as_ref()) };
    }
    StoreError::Io { action, path, source: std::io::Error::other(error.as_ref().to_owned()) }
}

type Cursor<'a> = DBRawIteratorWithThreadMode<'a, DB>;

/// Collects rows of a cursor that was opened with `to` as its upper bound.
fn collect(cursor: &mut Cursor<'_>, from: &[u8], limit: usize) -> Result<Vec<Row>, rocksdb::Error> {
    let mut rows = Vec::new();
    cursor.seek(from);
    while rows.len() < limit {
        let Some((key, value)) = cursor.item() else { break };
        rows.push((key.to_vec(), value.to_vec()));
        cursor.next();
    }
    cursor.status()?;
    Ok(rows)
}

fn find_last(cursor: &mut Cursor<'_>, from: &[u8]) -> Result<Option<Row>, rocksdb::Error> {
    cursor.seek_to_last();
    let row = cursor
        .item()
        .filter(|(key, _)| *key >= from)
        .map(|(key, value)| (key.to_vec(), value.to_vec()));
    cursor.status()?;
    Ok(row)
}

fn below(to: &[u8]) -> ReadOptions {
    let mut options = ReadOptions::default();
    options.set_iterate_upper_bound(to);
    options
}

impl Read for Rocks {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let value = self.db.get_cf(self.family(table)?, key);
        value.map_err(|error| self.error("read a row", &error))
    }

    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Vec<Row>, StoreError> {
        let mut cursor = self.db.raw_iterator_cf_opt(self.family(table)?, below(to));
        collect(&mut cursor, from, limit).map_err(|error| self.error("scan rows", &error))
    }

    fn last(&self, table: Table, from: &[u8], to: &[u8]) -> Result<Option<Row>, StoreError> {
        let mut cursor = self.db.raw_iterator_cf_opt(self.family(table)?, below(to));
        find_last(&mut cursor, from).map_err(|error| self.error("read the last row", &error))
    }
}

/// A view that later writes do not change.
struct View<'a> {
    rocks: &'a Rocks,
    snapshot: SnapshotWithThreadMode<'a, DB>,
}

impl Read for View<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let value = self.snapshot.get_cf(self.rocks.family(table)?, key);
        value.map_err(|error| self.rocks.error("read a row", &error))
    }

    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Vec<Row>, StoreError> {
        let mut cursor = self.snapshot.raw_iterator_cf_opt(self.rocks.family(table)?, below(to));
        collect(&mut cursor, from, limit).map_err(|error| self.rocks.error("scan rows", &error))
    }

    fn last(&self, table: Table, from: &[u8], to: &[u8]) -> Result<Option<Row>, StoreError> {
        let mut cursor = self.snapshot.raw_iterator_cf_opt(self.rocks.family(table)?, below(to));
        find_last(&mut cursor, from).map_err(|error| self.rocks.error("read the last row", &error))
    }
}

impl Engine for Rocks {
    fn view(
        &self,
        f: &mut dyn FnMut(&dyn Read) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        f(&View { rocks: self, snapshot: self.db.snapshot() })
    }

    fn write(&self, batch: Batch, durability: Durability) -> Result<(), StoreError> {
        let mut writes = WriteBatch::default();
        for op in &batch.ops {
            match op {
                Op::Put(table, key, value) => writes.put_cf(self.family(*table)?, key, value),
                Op::Delete(table, key) => writes.delete_cf(self.family(*table)?, key),
                Op::DeleteRange(table, from, to) => {
                    writes.delete_range_cf(self.family(*table)?, from, to);
                }
            }
        }
        let mut options = WriteOptions::default();
        options.set_sync(durability == Durability::Synced);
        self.db.write_opt(writes, &options).map_err(|error| self.error("write a batch", &error))?;
        Ok(())
    }

    fn checkpoint(&self, dir: &Path) -> Result<(), StoreError> {
        // It flushes the memtables first, so the live state is durable up to the same point.
        Checkpoint::new(&self.db)
            .and_then(|checkpoint| checkpoint.create_checkpoint(dir))
            .map_err(|error| self.error("create a checkpoint", &error))
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Rocks {
    fn drop(&mut self) {
        if self.purpose == Use::State {
            // Without it the next start would only repeat a little more of the log.
            let options = FlushOptions::default();
            for table in Table::STATE {
                let flushed = self
                    .db
                    .cf_handle(table.name())
                    .map_or(Ok(()), |family| self.db.flush_cf_opt(family, &options));
                if let Err(error) = flushed {
                    tracing::warn!(path = %self.path.display(), %error, "could not flush the state at its close");
                }
            }
        }
        self.db.cancel_all_background_work(true);
    }
}
