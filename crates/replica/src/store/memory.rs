//! The in-memory engine, for tests and the simulator. It knows what a power cut would leave,
//! as a disk does.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use crate::error::StoreError;
use crate::store::engine::{Batch, Durability, Engine, Op, Read, Row};
use crate::store::file::fs;
use crate::store::schema::Table;

#[cfg(feature = "simulated")]
#[path = "../simulated/disk.rs"]
mod simulated;
#[cfg(feature = "simulated")]
pub use simulated::{Logged, LoggedPayload};

/// The one file of a checkpoint.
pub(crate) const ROWS_FILE: &str = "rows";

type Rows = BTreeMap<(Table, Vec<u8>), Vec<u8>>;

/// Rows in memory.
#[derive(Debug)]
pub(crate) struct Memory {
    path: PathBuf,
    state: RwLock<State>,
}

#[derive(Debug, Default)]
struct State {
    live: Rows,
    /// What a power cut leaves behind.
    durable: Rows,
    unsynced: Vec<Batch>,
    #[cfg(feature = "simulated")]
    simulated: simulated::Extra,
}

impl State {
    fn of(rows: Rows) -> Self {
        Self { live: rows.clone(), durable: rows, ..Self::default() }
    }

    fn sync(&mut self) {
        for batch in self.unsynced.drain(..) {
            perform_all(&mut self.durable, batch);
        }
    }
}

impl Memory {
    pub(crate) fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), state: RwLock::default() }
    }

    /// What is left when the power fails now.
    pub(crate) fn durable(&self) -> Self {
        let rows = self.state.read().unwrap_or_else(PoisonError::into_inner).durable.clone();
        Self { path: self.path.clone(), state: RwLock::new(State::of(rows)) }
    }

    /// Reads the rows of a checkpoint.
    pub(crate) fn from_checkpoint(dir: &Path, path: &Path) -> Result<Self, StoreError> {
        let file = dir.join(ROWS_FILE);
        let bytes = fs::read(&file).map_err(|source| StoreError::Io {
            action: "read the rows of a snapshot",
            path: file.clone(),
            source,
        })?;
        let rows = decode_rows(&bytes).map_err(|source| StoreError::Io {
            action: "decode the rows of a snapshot",
            path: file,
            source,
        })?;
        Ok(Self { path: path.to_path_buf(), state: RwLock::new(State::of(rows)) })
    }
}

fn perform_all(rows: &mut Rows, batch: Batch) {
    for op in batch.ops {
        perform(rows, op);
    }
}

fn perform(rows: &mut Rows, op: Op) {
    match op {
        Op::Put(table, key, value) => {
            rows.insert((table, key), value);
        }
        Op::Delete(table, key) => {
            rows.remove(&(table, key));
        }
        Op::DeleteRange(table, from, to) => {
            let doomed: Vec<_> =
                rows.range((table, from)..(table, to)).map(|(key, _)| key.clone()).collect();
            for key in doomed {
                rows.remove(&key);
            }
        }
    }
}

impl Read for Rows {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(BTreeMap::get(self, &(table, key.to_vec())).cloned())
    }

    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Vec<Row>, StoreError> {
        if from >= to {
            return Ok(Vec::new());
        }
        let range = (table, from.to_vec())..(table, to.to_vec());
        let rows = self.range(range).take(limit);
        Ok(rows.map(|((_, key), value)| (key.clone(), value.clone())).collect())
    }

    fn last(&self, table: Table, from: &[u8], to: &[u8]) -> Result<Option<Row>, StoreError> {
        if from >= to {
            return Ok(None);
        }
        let range =
            (Bound::Included((table, from.to_vec())), Bound::Excluded((table, to.to_vec())));
        let row = self.range(range).next_back();
        Ok(row.map(|((_, key), value)| (key.clone(), value.clone())))
    }
}

impl Read for Memory {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Read::get(&self.state.read().unwrap_or_else(PoisonError::into_inner).live, table, key)
    }

    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Vec<Row>, StoreError> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.live.scan(table, from, to, limit)
    }

    fn last(&self, table: Table, from: &[u8], to: &[u8]) -> Result<Option<Row>, StoreError> {
        Read::last(&self.state.read().unwrap_or_else(PoisonError::into_inner).live, table, from, to)
    }
}

impl Engine for Memory {
    fn view(
        &self,
        f: &mut dyn FnMut(&dyn Read) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        // Writers wait for the reader here; RocksDB has real snapshots.
        f(&self.state.read().unwrap_or_else(PoisonError::into_inner).live)
    }

    fn write(&self, batch: Batch, durability: Durability) -> Result<(), StoreError> {
        let mut guard = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *guard;
        #[cfg(feature = "simulated")]
        state.simulated.meet(&batch, durability, &self.path)?;
        perform_all(&mut state.live, batch.clone());
        state.unsynced.push(batch);
        if durability == Durability::Synced {
            state.sync();
        }
        Ok(())
    }

    fn checkpoint(&self, dir: &Path) -> Result<(), StoreError> {
        let bytes = {
            let mut guard = self.state.write().unwrap_or_else(PoisonError::into_inner);
            let state = &mut *guard;
            // A checkpoint makes durable what it captures, as RocksDB's does.
            state.sync();
            encode_rows(&state.live)
        };
        let written = fs::create_dir(dir).and_then(|()| fs::write(dir.join(ROWS_FILE), bytes));
        written.map_err(|source| StoreError::Io {
            action: "write the rows of a snapshot",
            path: dir.to_path_buf(),
            source,
        })
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

/// Each row as table number, key length, key, value length, value.
fn encode_rows(rows: &Rows) -> Vec<u8> {
    let mut bytes = Vec::new();
    for ((table, key), value) in rows {
        bytes.push(table.number());
        bytes.extend_from_slice(&(key.len() as u64).to_be_bytes());
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(&(value.len() as u64).to_be_bytes());
        bytes.extend_from_slice(value);
    }
    bytes
}

fn decode_rows(mut bytes: &[u8]) -> io::Result<Rows> {
    let mut rows = Rows::new();
    while !bytes.is_empty() {
        let mut number = [0];
        bytes.read_exact(&mut number)?;
        let table = Table::from_number(number[0])
            .ok_or_else(|| io::Error::other(format!("unknown table {}", number[0])))?;
        let key = take_field(&mut bytes)?;
        let value = take_field(&mut bytes)?;
        rows.insert((table, key), value);
    }
    Ok(rows)
}

fn take_field(bytes: &mut &[u8]) -> io::Result<Vec<u8>> {
    let mut length = [0; 8];
    bytes.read_exact(&mut length)?;
    let length = usize::try_from(u64::from_be_bytes(length)).map_err(io::Error::other)?;
    let (field, rest) = bytes
        .split_at_checked(length)
        .ok_or_else(|| io::Error::new(io::ErrorKind::UnexpectedEof, "a row is cut off"))?;
    *bytes = rest;
    Ok(field.to_vec())
}
