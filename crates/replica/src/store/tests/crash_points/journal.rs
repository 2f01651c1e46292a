//! A small database in files: what RocksDB promises of its own, and no more.
//!
//! ```text
//! CURRENT        the number N of the files in use
//! rows-N.sst     all rows as they were when N began; never changed
//! wal-N          the batches since then
//! ```
//!
//! A batch that is not whole ends the journal. An open folds what it finds into the next number, so that
//! it is durable before anything is built on it. As RocksDB, it does not make its own folder's name
//! durable, and it takes a folder without CURRENT for an empty database.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::fs::{self, File};
use crate::error::StoreError;
use crate::store::engine::{Batch, Durability, Engine, Op, Read, Row, after_prefix};
use crate::store::file::{self, failed};
use crate::store::memory::Memory;
use crate::store::schema::Table;

const CURRENT_FILE: &str = "CURRENT";

/// Rows in memory and in a journal.
pub(crate) struct Journal {
    dir: PathBuf,
    rows: Memory,
    file: Mutex<File>,
}

fn rows_file(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("rows-{number}.sst"))
}

fn journal_file(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("wal-{number}"))
}

impl Journal {
    /// Opens the database in a folder, or creates it.
    pub(crate) fn open(dir: &Path) -> Result<Self, StoreError> {
        fs::create_dir_all(dir).map_err(failed("create a folder", dir))?;
        let (mut number, rows) = Self::load(dir)?;
        let batches = file::read(&journal_file(dir, number))?.unwrap_or_default();
        if !batches.is_empty() {
            replay(&rows, &batches)?;
            number += 1;
            fold(dir, number, &rows)?;
        }
        let path = journal_file(dir, number);
        let file = Mutex::new(File::create(&path).map_err(failed("create a journal", &path))?);
        file::sync_dir(dir)?;
        if !batches.is_empty() {
            file::replace(&dir.join(CURRENT_FILE), number.to_string().as_bytes())?;
        }
        let journal = Self { dir: dir.to_path_buf(), rows, file };
        journal.remove_old(number)?;
        Ok(journal)
    }

    /// The rows that the present number began with.
    pub(super) fn load(dir: &Path) -> Result<(u64, Memory), StoreError> {
        let damaged = |what: &str| StoreError::Corrupt { path: dir.into(), what: what.to_owned() };
        let rows = Memory::new(dir);
        let Some(current) = file::read(&dir.join(CURRENT_FILE))? else { return Ok((0, rows)) };
        let number = String::from_utf8_lossy(&current).parse();
        let number = number.map_err(|_bad| damaged("CURRENT has no number"))?;
        let content = file::read(&rows_file(dir, number))?;
        let content = content.ok_or_else(|| damaged("the rows are missing"))?;
        if replay(&rows, &content)? != 1 {
            return Err(damaged("the rows are not whole"));
        }
        Ok((number, rows))
    }

    fn remove_old(&self, number: u64) -> Result<(), StoreError> {
        let kept = [rows_file(&self.dir, number), journal_file(&self.dir, number)];
        for name in file::names(&self.dir)? {
            let path = self.dir.join(&name);
            let ours = name.starts_with("rows-") || name.starts_with("wal-");
            if ours && !kept.contains(&path) {
                fs::remove_file(&path).map_err(failed("remove a file", &path))?;
            }
        }
        Ok(())
    }
}

/// Writes all rows as those of the next number.
fn fold(dir: &Path, number: u64, rows: &Memory) -> Result<(), StoreError> {
    let path = rows_file(dir, number);
    let written = File::create(&path).and_then(|mut file| {
        file.write_all(&all_rows(rows).map_err(io::Error::other)?)?;
        file.sync_all()
    });
    written.map_err(failed("write the rows", &path))
}

fn all_rows(rows: &Memory) -> Result<Vec<u8>, StoreError> {
    let mut batch = Batch::default();
    for table in Table::LOG.iter().chain(Table::STATE) {
        for (key, value) in rows.scan(*table, &[], &after_prefix(&[]), usize::MAX)? {
            batch.put(*table, key, value);
        }
    }
    Ok(encode(&batch))
}

/// Every batch begins with it, so that none is empty: an empty one looks like a lost sector.
const BATCH: u8 = 0xb7;

/// The length of a batch, its checksum, a mark, then each change as a kind, a table and two fields.
fn encode(batch: &Batch) -> Vec<u8> {
    let mut body = vec![BATCH];
    for op in &batch.ops {
        let (kind, table, one, two) = match op {
            Op::Put(table, key, value) => (0, table, key.as_slice(), value.as_slice()),
            Op::Delete(table, key) => (1, table, key.as_slice(), [].as_slice()),
            Op::DeleteRange(table, from, to) => (2, table, from.as_slice(), to.as_slice()),
        };
        body.extend([kind, table.number()]);
        for field in [one, two] {
            body.extend((field.len() as u64).to_be_bytes());
            body.extend(field);
        }
    }
    let mut bytes = (body.len() as u64).to_be_bytes().to_vec();
    bytes.extend(crc32c::crc32c(&body).to_be_bytes());
    bytes.extend(body);
    bytes
}

fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::try_from(u64::from_be_bytes(*length)).ok()?)
}

fn decode(body: &[u8]) -> Option<Batch> {
    let mut body = body.strip_prefix(&[BATCH])?;
    let mut batch = Batch::default();
    while let Some(([kind, table], rest)) = body.split_first_chunk() {
        let (one, rest) = split(rest)?;
        let (two, rest) = split(rest)?;
        let (table, one, two) = (Table::from_number(*table)?, one.to_vec(), two.to_vec());
        batch.ops.push(match kind {
            0 => Op::Put(table, one, two),
            1 => Op::Delete(table, one),
            _ => Op::DeleteRange(table, one, two),
        });
        body = rest;
    }
    Some(batch)
}

/// Performs the batches up to the first that is not whole, and says how many.
fn replay(rows: &Memory, mut bytes: &[u8]) -> Result<usize, StoreError> {
    let mut count = 0;
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let Some((crc, rest)) = rest.split_first_chunk() else { break };
        let length = usize::try_from(u64::from_be_bytes(*length)).unwrap_or(usize::MAX);
        let Some((body, rest)) = rest.split_at_checked(length) else { break };
        if crc32c::crc32c(body) != u32::from_be_bytes(*crc) {
            break;
        }
        let Some(batch) = decode(body) else { break };
        rows.write(batch, Durability::Synced)?;
        count += 1;
        bytes = rest;
    }
    Ok(count)
}

impl Read for Journal {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.rows.get(table, key)
    }

    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Vec<Row>, StoreError> {
        self.rows.scan(table, from, to, limit)
    }

    fn last(&self, table: Table, from: &[u8], to: &[u8]) -> Result<Option<Row>, StoreError> {
        self.rows.last(table, from, to)
    }
}

impl Engine for Journal {
    fn view(
        &self,
        f: &mut dyn FnMut(&dyn Read) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.rows.view(f)
    }

    fn write(&self, batch: Batch, durability: Durability) -> Result<(), StoreError> {
        if self.dir.ends_with("raftlog") {
            fs::pass_gate(&self.dir);
        }
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let written = file.write_all(&encode(&batch)).and_then(|()| match durability {
            Durability::Unsynced => Ok(()),
            Durability::Synced => file.sync_all(),
        });
        written.map_err(failed("write a batch", &self.dir))?;
        self.rows.write(batch, durability)
    }

    fn checkpoint(&self, dir: &Path) -> Result<(), StoreError> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        // RocksDB flushes its memtables first.
        file.sync_all().map_err(failed("sync a journal", &self.dir))?;
        let written = fs::create_dir(dir)
            .and_then(|()| all_rows(&self.rows).map_err(io::Error::other))
            .and_then(|rows| fs::write(rows_file(dir, 1), rows))
            .and_then(|()| fs::write(dir.join(CURRENT_FILE), "1"));
        written.map_err(failed("write a checkpoint", dir))
    }

    fn path(&self) -> &Path {
        &self.dir
    }
}
