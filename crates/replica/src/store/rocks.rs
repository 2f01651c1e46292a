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

const LOG_MEMTABLE_BYTES: usize = 64 << 20;
/// A start after a crash repeats at most the commands that fill it.
const STATE_MEMTABLE_BYTES: usize = 32 << 20;
const INFO_LOG_BYTES: usize = 8 << 20;
const INFO_LOGS_KEPT: usize = 3;

/// What a database is for, which decides how it is tuned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Appended, read once by followers that lag, purged at the head. Its WAL is synced.
    Log,
    /// Read and written by key. It has no WAL, since the log can repeat what it lost. One that is not
    /// synced is worse than none: a loss of power may leave a hole in it, which RocksDB takes for
    /// preallocated room and skips, so a batch would be missing with later ones in place.
    State,
}

impl Use {
    fn tables(self) -> &'static [Table] {
        match self {
            Self::Log => Table::LOG,
            Self::State => Table::STATE,
        }
    }

    fn memtable_bytes(self) -> usize {
        match self {
            Self::Log => LOG_MEMTABLE_BYTES,
            Self::State => STATE_MEMTABLE_BYTES,
        }
    }
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
        Self::open_with(path, purpose, purpose.memtable_bytes())
    }

    fn open_with(path: &Path, purpose: Use, memtable_bytes: usize) -> Result<Self, StoreError> {
        let options = family_options(purpose, memtable_bytes);
        let families = purpose
            .tables()
            .iter()
            .map(|table| ColumnFamilyDescriptor::new(table.name(), options.clone()));
        let db = DB::open_cf_descriptors(&database_options(purpose), path, families)
            .map_err(|error| broken("open the database", path, &error))?;
        Ok(Self { db, path: path.to_path_buf(), purpose })
    }

    /// Makes all that was written durable.
    fn flush(&self) -> Result<(), StoreError> {
        let tables = self.purpose.tables();
        let families: Vec<_> =
            tables.iter().map(|table| self.family(*table)).collect::<Result<_, _>>()?;
        let flushed = self.db.flush_cfs_opt(&families, &FlushOptions::default());
        flushed.map_err(|error| self.error("flush the tables", &error))
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

fn database_options(purpose: Use) -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options.set_paranoid_checks(true);
    // What a loss of power tore off at the end of the WAL was never acknowledged. That nothing
    // more is missing is checked against the state when a replica opens.
    options.set_wal_recovery_mode(DBRecoveryMode::PointInTime);
    options.set_track_and_verify_wals_in_manifest(true);
    // Without a WAL the files are all that is left after a crash: those of all tables are of one moment.
    options.set_atomic_flush(purpose == Use::State);
    options.set_max_background_jobs(2);
    options.set_max_log_file_size(INFO_LOG_BYTES);
    options.set_keep_log_file_num(INFO_LOGS_KEPT);
    options
}

fn family_options(purpose: Use, memtable_bytes: usize) -> Options {
    let mut options = Options::default();
    options.set_write_buffer_size(memtable_bytes);
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
        let synced = durability == Durability::Synced;
        let mut options = WriteOptions::default();
        match self.purpose {
            Use::Log => options.set_sync(synced),
            Use::State => options.disable_wal(true),
        }
        self.db.write_opt(writes, &options).map_err(|error| self.error("write a batch", &error))?;
        if synced && self.purpose == Use::State {
            self.flush()?;
        }
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
        // Without it the next start would only repeat more of the log.
        if self.purpose == Use::State
            && let Err(error) = self.flush()
        {
            tracing::warn!(%error, "could not flush the state at its close");
        }
        self.db.cancel_all_background_work(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::engine::after_prefix;

    const BATCHES: u32 = 4_000;

    fn rows(rocks: &Rocks, table: Table) -> usize {
        rocks.scan(table, &[], &after_prefix(&[]), usize::MAX).unwrap().len()
    }

    /// What a killed process leaves.
    fn copy_of_files(from: &Path, to: &Path) {
        std::fs::create_dir(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }

    fn wals(path: &Path) -> impl Iterator<Item = PathBuf> {
        let paths = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        paths.filter(|path| path.extension().is_some_and(|it| it == "log"))
    }

    /// Why a state has no WAL, and why the log syncs all that a later write relies on.
    #[test]
    fn a_lost_write_to_a_wal_is_skipped_without_a_word() {
        const WRITE: usize = 1024;
        const OTHER_THAN_VALUE: usize = 28;
        let dir = tempfile::tempdir().unwrap();
        let (lived, left) = (dir.path().join("lived"), dir.path().join("left"));
        let rocks = Rocks::open(&lived, Use::Log).unwrap();
        for number in 0..100_u32 {
            let mut batch = Batch::default();
            let value = vec![7; WRITE - OTHER_THAN_VALUE];
            batch.put(Table::Log, number.to_be_bytes().to_vec(), value);
            rocks.write(batch, Durability::Unsynced).unwrap();
        }
        copy_of_files(&lived, &left);
        let wal = wals(&left).find(|path| path.metadata().unwrap().len() > 0).unwrap();
        let mut bytes = std::fs::read(&wal).unwrap();
        assert_eq!(bytes.len(), 100 * WRITE);
        bytes[10 * WRITE..11 * WRITE].fill(0);
        std::fs::write(&wal, bytes).unwrap();
        let found = Rocks::open(&left, Use::Log).unwrap();
        let row = |number: u32| found.get(Table::Log, &number.to_be_bytes()).unwrap();
        assert!(row(9).is_some() && row(10).is_none() && row(99).is_some());
    }

    /// Rows of two tables in each batch, of very different sizes, so that one table would fill up long
    /// before the other.
    #[test]
    fn after_a_crash_the_tables_of_a_state_are_of_one_moment() {
        let dir = tempfile::tempdir().unwrap();
        let (lived, left) = (dir.path().join("lived"), dir.path().join("left"));
        let rocks = Rocks::open_with(&lived, Use::State, 256 << 10).unwrap();
        for number in 0..BATCHES {
            let key = number.to_be_bytes().to_vec();
            let mut batch = Batch::default();
            batch.put(Table::Records, key.clone(), vec![7; 300]);
            batch.put(Table::Usage, key, vec![7]);
            rocks.write(batch, Durability::Unsynced).unwrap();
        }
        let wal_bytes: u64 = wals(&lived).map(|path| path.metadata().unwrap().len()).sum();
        assert_eq!(wal_bytes, 0, "a WAL that is never synced could lose its middle");
        copy_of_files(&lived, &left);
        let found = Rocks::open(&left, Use::State).unwrap();
        let records = rows(&found, Table::Records);
        assert_eq!(rows(&found, Table::Usage), records);
        assert!(records > 0, "nothing was flushed meanwhile");
        assert!(records < BATCHES as usize, "nothing was lost");
        for number in 0..u32::try_from(records).unwrap() {
            let row = found.get(Table::Records, &number.to_be_bytes()).unwrap();
            assert!(row.is_some(), "row {number} is missing below row {records}");
        }
    }

    #[test]
    fn what_was_synced_survives_a_crash() {
        for purpose in [Use::Log, Use::State] {
            let dir = tempfile::tempdir().unwrap();
            let (lived, left) = (dir.path().join("lived"), dir.path().join("left"));
            let rocks = Rocks::open(&lived, purpose).unwrap();
            let table = purpose.tables()[0];
            for (number, durability) in [(0, Durability::Unsynced), (1, Durability::Synced)] {
                let mut batch = Batch::default();
                batch.put(table, vec![number], vec![number]);
                rocks.write(batch, durability).unwrap();
            }
            copy_of_files(&lived, &left);
            assert_eq!(rows(&Rocks::open(&left, purpose).unwrap(), table), 2, "{purpose:?}");
        }
    }
}
