//! What a simulated disk can do besides: lose what was not synced, refuse writes, and show its log.

use std::collections::BTreeMap;
use std::io;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use firstclaim_core::{Command, Timestamp};
use firstclaim_proto::peer::v1 as proto;

use super::{Memory, Rows, State, perform_all};
use crate::error::StoreError;
use crate::raft::{EntryPayload, Payload};
use crate::store::codec;
use crate::store::disk::{MemoryDisk, MemoryState};
use crate::store::engine::{Batch, Durability, Op};
use crate::store::schema::{Table, log_index, log_key, meta};
use crate::wire;

/// What only a simulated disk knows.
#[derive(Debug, Default)]
pub(super) struct Extra {
    /// How many writes go well before they fail, and of what.
    trouble: Option<(u64, io::ErrorKind)>,
    /// Every entry that the log still held when it was purged, or holds now.
    entries: BTreeMap<u64, Vec<u8>>,
    /// How often something was synced.
    syncs: u64,
}

impl Extra {
    /// Refuses a write, or notes what it does.
    pub(super) fn meet(
        &mut self,
        batch: &Batch,
        durability: Durability,
        path: &Path,
    ) -> Result<(), StoreError> {
        match &mut self.trouble {
            Some((0, kind)) => {
                let source = io::Error::new(*kind, "the simulated disk refuses");
                let path = path.to_path_buf();
                return Err(StoreError::Io { action: "write rows", path, source });
            }
            Some((left, _)) => *left -= 1,
            None => {}
        }
        self.syncs += u64::from(durability == Durability::Synced);
        for op in &batch.ops {
            match op {
                Op::Put(Table::Log, key, value) => {
                    if let Some(index) = log_index(key) {
                        self.entries.insert(index, value.clone());
                    }
                }
                // A purge begins at the first entry, a truncation after one that stays.
                Op::DeleteRange(Table::Log, from, _) if *from != log_key(0) => {
                    if let Some(index) = log_index(from) {
                        self.entries.split_off(&index);
                    }
                }
                Op::Put(..) | Op::Delete(..) | Op::DeleteRange(..) => {}
            }
        }
        Ok(())
    }
}

/// An entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    /// Its place.
    pub index: u64,
    /// The term that it was proposed in.
    pub term: u64,
    /// What it asks for.
    pub payload: LoggedPayload,
}

/// What an entry asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoggedPayload {
    /// Nothing.
    Blank,
    /// Other members.
    Membership(String),
    /// Commands, with their stamp.
    Commands(Timestamp, Vec<Command>),
}

impl Logged {
    /// Reads what a log keeps at an index.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub fn decode(index: u64, bytes: &[u8]) -> Result<Self, String> {
        decode(index, bytes)
    }
}

fn decode(index: u64, bytes: &[u8]) -> Result<Logged, String> {
    let entry: proto::Entry = codec::decode_message(bytes).map_err(|fault| fault.to_string())?;
    let entry = wire::entry_from(entry).map_err(|error| error.to_string())?;
    if entry.log_id.index != index {
        return Err(format!("entry {index} says that it is {}", entry.log_id.index));
    }
    let payload = match entry.payload {
        EntryPayload::Blank => LoggedPayload::Blank,
        EntryPayload::Membership(members) => LoggedPayload::Membership(format!("{members:?}")),
        EntryPayload::Normal(Payload(bytes)) => {
            let decoded = codec::decode_payload(&bytes).map_err(|fault| fault.to_string())?;
            LoggedPayload::Commands(decoded.time, decoded.commands)
        }
    };
    Ok(Logged { index, term: entry.log_id.leader_id.term, payload })
}

impl Memory {
    /// What is left when the power fails now, and `keep` of the unsynced batches made it.
    fn cut(&self, keep: &mut dyn FnMut(usize) -> usize) -> Self {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let mut rows = state.durable.clone();
        let kept = keep(state.unsynced.len());
        for batch in state.unsynced.iter().take(kept) {
            perform_all(&mut rows, batch.clone());
        }
        // Of what was purged, all is known. The rest is what there is.
        let mut entries = state.simulated.entries.clone();
        entries.split_off(&purged(&rows).map_or(0, |index| index + 1));
        entries.extend(log_rows(&rows));
        let mut survivor = State::of(rows);
        survivor.simulated = Extra { trouble: None, entries, syncs: state.simulated.syncs };
        Self { path: self.path.clone(), state: RwLock::new(survivor) }
    }
}

fn purged(rows: &Rows) -> Option<u64> {
    let purged = rows.get(&(Table::Meta, meta::PURGED.to_vec()))?;
    codec::decode_message::<proto::LogId>(purged).ok().map(|id| id.index)
}

fn log_rows(rows: &Rows) -> impl Iterator<Item = (u64, Vec<u8>)> {
    let rows = rows.range((Table::Log, Vec::new())..);
    rows.take_while(|((table, _), _)| *table == Table::Log)
        .filter_map(|((_, key), value)| Some((log_index(key)?, value.clone())))
}

impl MemoryDisk {
    /// What a power cut at this moment leaves behind, where `keep` says for the log and then for the
    /// state how many of so many unsynced batches made it to the disk. A batch is never torn: its
    /// checksum says that it is not whole.
    #[must_use]
    pub fn after_power_cut_keeping(&self, mut keep: impl FnMut(usize) -> usize) -> Self {
        let log = Arc::new(self.log.cut(&mut keep));
        Self { log, state: self.state_cut(&mut keep) }
    }

    /// What a killed process leaves behind, where `keep` says for the state how many of so many
    /// unsynced batches made it to the disk: it has no WAL. The log has one.
    #[must_use]
    pub fn after_kill_keeping(&self, mut keep: impl FnMut(usize) -> usize) -> Self {
        Self { log: Arc::clone(&self.log), state: self.state_cut(&mut keep) }
    }

    fn state_cut(&self, keep: &mut dyn FnMut(usize) -> usize) -> Arc<Mutex<MemoryState>> {
        let state = self.state();
        state.with_rows_left(state.current.cut(keep))
    }

    /// Lets so many writes of the log, or of the state, go well, and refuses all after them.
    pub fn refuse(&self, log: bool, after: u64, kind: io::ErrorKind) {
        let state = if log { Arc::clone(&self.log) } else { Arc::clone(&self.state().current) };
        let mut state = state.state.write().unwrap_or_else(PoisonError::into_inner);
        state.simulated.trouble = Some((after, kind));
    }

    /// Refuses nothing any more.
    pub fn relent(&self) {
        for memory in [Arc::clone(&self.log), Arc::clone(&self.state().current)] {
            let mut state = memory.state.write().unwrap_or_else(PoisonError::into_inner);
            state.simulated.trouble = None;
        }
    }

    /// The entries in the range that this log holds, or held until they were purged, as it keeps them.
    #[must_use]
    pub fn entries(&self, range: RangeInclusive<u64>) -> Vec<(u64, Vec<u8>)> {
        if range.is_empty() {
            return Vec::new();
        }
        let state = self.log.state.read().unwrap_or_else(PoisonError::into_inner);
        let entries = state.simulated.entries.range(range);
        entries.map(|(index, bytes)| (*index, bytes.clone())).collect()
    }

    /// The entries that this log holds, as it keeps them.
    #[must_use]
    pub fn held(&self) -> Vec<(u64, Vec<u8>)> {
        let state = self.log.state.read().unwrap_or_else(PoisonError::into_inner);
        log_rows(&state.live).collect()
    }

    /// How often the log was synced.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        self.log.state.read().unwrap_or_else(PoisonError::into_inner).simulated.syncs
    }
}
