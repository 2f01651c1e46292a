//! The log as openraft sees it.
//!
//! ```text
//! append ─▶ tail (readable at once) ─┐
//!                                    ├─▶ writer thread ─▶ one synced batch ─▶ callbacks, in order
//! save_vote, truncate, purge ────────┘
//! ```
//!
//! All changes form one stream, in the order in which openraft made them, and one thread writes it.
//! So a vote is never on disk later than the entries of its term, and while one batch is being
//! synced the next one gathers by itself. No call on openraft's own task touches the disk.
//!
//! The tail holds what is not flushed yet, and as many older entries as fit; it is what followers
//! and the state machine read nearly always.

use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use firstclaim_core::planted::{self, Planted};
use firstclaim_proto::weigh::Shaped;
use futures::Stream;
use openraft::storage::{RaftLogReader, RaftLogStorage};
use tokio::sync::{oneshot, watch};

use crate::error::StoreError;
use crate::limits::{APPEND_BYTES_MAX, TAIL_BYTES_MAX};
use crate::raft::{Entry, IoFlushed, LogId, LogState, TypeConfig, Vote};
use crate::store::codec::{self, Fault};
use crate::store::disk::LogDisk;
use crate::store::engine::Engine;
use crate::store::log_end::LogEnd;
use crate::store::schema::{Table, log_end, log_index, log_key, meta};
use crate::store::tail::Tail;
use crate::store::writer::{Op, Writer};
use crate::wire;

/// Rows read from the disk at a time.
const ROWS_PER_READ: usize = 1024;

/// The log of one replica.
#[derive(Clone)]
pub(crate) struct LogStore {
    shared: Arc<Shared>,
    writer: Arc<Writer>,
}

/// What the store, its readers and its writer have in common.
pub(crate) struct Shared {
    pub(crate) disk: LogDisk,
    state: Mutex<State>,
    /// The number of the last append that is on disk.
    pub(crate) flushed: watch::Sender<u64>,
}

pub(crate) struct State {
    pub(crate) tail: Tail,
    vote: Option<Vote>,
    /// The index of the first entry that is in the log.
    first: Option<u64>,
    last: Option<LogId>,
    purged: Option<LogId>,
    /// Counts appends.
    appends: u64,
}

impl Shared {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn damaged(&self, index: u64, fault: &Fault) -> StoreError {
        let path = self.disk.engine.path().to_path_buf();
        match fault {
            Fault::Damaged(what) => {
                StoreError::Corrupt { path, what: format!("log entry {index}: {what}") }
            }
            Fault::Unknown(reason) => {
                StoreError::UnknownCommand { path, index, reason: reason.clone() }
            }
        }
    }

    /// Entries from the disk, in `[start, end)`, until they are more than `bytes_max`.
    fn read_disk(&self, start: u64, end: u64, bytes_max: usize) -> Result<Vec<Entry>, StoreError> {
        let mut entries = Vec::new();
        let mut bytes = 0;
        let mut next = start;
        while next < end && (bytes < bytes_max || entries.is_empty()) {
            let rows =
                self.disk.engine.scan(Table::Log, &log_key(next), &log_key(end), ROWS_PER_READ)?;
            if rows.is_empty() {
                return Err(self.damaged(next, &Fault::Damaged("it is missing".to_owned())));
            }
            for (key, value) in rows {
                let entry = self.decode(next, &key, &value)?;
                if !entries.is_empty() && bytes + value.len() > bytes_max {
                    return Ok(entries);
                }
                bytes += value.len();
                entries.push(entry);
                next += 1;
            }
        }
        Ok(entries)
    }

    fn decode(&self, index: u64, key: &[u8], value: &[u8]) -> Result<Entry, StoreError> {
        if log_index(key) != Some(index) {
            return Err(self.damaged(index, &Fault::Damaged("it is missing".to_owned())));
        }
        let entry = codec::decode_message(value)
            .and_then(|entry| {
                wire::entry_from(entry).map_err(|error| Fault::Damaged(error.to_string()))
            })
            .map_err(|fault| self.damaged(index, &fault))?;
        if entry.log_id.index == index {
            Ok(entry)
        } else {
            let what = format!("it says it is entry {}", entry.log_id.index);
            Err(self.damaged(index, &Fault::Damaged(what)))
        }
    }

    /// Entries in `[start, end)`, as far as there are any, until they are more than `bytes_max`.
    fn read(&self, start: u64, end: u64, bytes_max: usize) -> Result<Vec<Entry>, StoreError> {
        let (start, end, cached_from, cached) = {
            let state = self.state();
            // The disk may still hold what was purged or truncated a moment ago.
            let start = start.max(state.first.unwrap_or(u64::MAX));
            let end = end.min(next_index(state.last.as_ref()));
            let from = state.tail.first().map_or(end, |first| first.clamp(start, end.max(start)));
            (start, end, from, state.tail.read(from, end, bytes_max))
        };
        if start >= end {
            return Ok(Vec::new());
        }
        if start >= cached_from {
            return Ok(cached);
        }
        let mut entries = self.read_disk(start, cached_from, bytes_max)?;
        let complete = entries.last().is_some_and(|entry| entry.log_id.index + 1 == cached_from);
        if complete {
            let mut bytes: usize = entries.iter().map(wire::entry_bytes).sum();
            for entry in cached {
                bytes += wire::entry_bytes(&entry);
                if bytes > bytes_max {
                    break;
                }
                entries.push(entry);
            }
        }
        Ok(entries)
    }
}

fn next_index(id: Option<&LogId>) -> u64 {
    id.map_or(0, |id| id.index + 1)
}

impl LogStore {
    /// Opens the log on an engine and starts its writer.
    ///
    /// # Errors
    ///
    /// If the log is damaged.
    pub(crate) fn open(disk: LogDisk) -> Result<Self, StoreError> {
        let engine = &disk.engine;
        let path = engine.path().to_path_buf();
        let damaged = |what: &str, reason: String| StoreError::Corrupt {
            path: path.clone(),
            what: format!("{what}: {reason}"),
        };
        let vote = read_meta::<firstclaim_proto::peer::v1::Vote>(&**engine, meta::VOTE)?
            .filter(|_| !planted::is(Planted::VoteForgotten))
            .map(|vote| wire::vote_from(&vote));
        let purged = read_meta::<firstclaim_proto::peer::v1::LogId>(&**engine, meta::PURGED)?
            .map(|id| wire::log_id_from(&id));
        let last = match engine.last(Table::Log, &log_key(0), &log_end())? {
            None => purged,
            Some((key, value)) => {
                let index = log_index(&key)
                    .ok_or_else(|| damaged("a log entry", "its key is cut off".to_owned()))?;
                let entry = codec::decode_message::<firstclaim_proto::peer::v1::Entry>(&value)
                    .map_err(|fault| damaged(&format!("log entry {index}"), fault.to_string()))?;
                let entry = wire::entry_from(entry)
                    .map_err(|error| damaged(&format!("log entry {index}"), error.to_string()))?;
                Some(entry.log_id).max(purged)
            }
        };
        let (end, noted) = (next_index(last.as_ref()), disk.end.as_ref().map_or(0, LogEnd::noted));
        if end < noted {
            let reason = format!(
                "the next entry is {end}, but the log once held those below {noted}: its end was cut off"
            );
            return Err(damaged("the log", reason));
        }
        let from = log_key(next_index(purged.as_ref()));
        let first = engine.scan(Table::Log, &from, &log_end(), 1)?;
        let first = first.first().and_then(|(key, _)| log_index(key));
        let (flushed, _) = watch::channel(0);
        let state = State { tail: Tail::default(), vote, first, last, purged, appends: 0 };
        let shared = Arc::new(Shared { disk, state: Mutex::new(state), flushed });
        let writer = Writer::start(Arc::clone(&shared)).map_err(|source| StoreError::Io {
            action: "start the log writer",
            path,
            source,
        })?;
        Ok(Self { shared, writer: Arc::new(writer) })
    }

    /// Another handle that reads entries.
    pub(crate) fn reader(&self) -> LogReader {
        LogReader { shared: Arc::clone(&self.shared) }
    }

    /// Waits until the log's entry at `index` is on this disk.
    ///
    /// The state is written without a sync. Were it ahead of the log when the power fails, it would
    /// hold an entry that the log may get another one for.
    pub(crate) fn flush_gate(&self) -> FlushGate {
        FlushGate { shared: Arc::clone(&self.shared), flushed: self.shared.flushed.subscribe() }
    }

    /// The position of the last entry, and of the last one purged.
    pub(crate) fn bounds(&self) -> (Option<LogId>, Option<LogId>) {
        let state = self.shared.state();
        (state.last, state.purged)
    }

    /// Whether nothing was ever stored here.
    pub(crate) fn is_pristine(&self) -> bool {
        let state = self.shared.state();
        state.vote.is_none() && state.last.is_none()
    }

    #[cfg(test)]
    pub(crate) fn engine(&self) -> &dyn Engine {
        &*self.shared.disk.engine
    }

    fn send(&self, op: Op) -> io::Result<()> {
        self.writer.send(op)
    }

    /// Comes back once what is sent is on disk.
    async fn send_and_wait(&self, op: impl FnOnce(oneshot::Sender<()>) -> Op) -> io::Result<()> {
        let (done, written) = oneshot::channel();
        self.send(op(done))?;
        written.await.map_err(io::Error::other)
    }
}

impl Debug for LogStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogStore")
            .field("path", &self.shared.disk.engine.path())
            .finish_non_exhaustive()
    }
}

fn read_meta<M: Shaped>(engine: &dyn Engine, key: &[u8]) -> Result<Option<M>, StoreError> {
    let Some(bytes) = engine.get(Table::Meta, key)? else {
        return Ok(None);
    };
    let message = codec::decode_message(&bytes).map_err(|fault| {
        let what = format!("the log's row {}: {fault}", String::from_utf8_lossy(key));
        StoreError::Corrupt { path: engine.path().to_path_buf(), what }
    })?;
    Ok(Some(message))
}

impl RaftLogStorage<TypeConfig> for LogStore {
    type LogReader = LogReader;

    async fn get_log_state(&mut self) -> Result<LogState, io::Error> {
        let (last_log_id, last_purged_log_id) = self.bounds();
        Ok(LogState { last_purged_log_id, last_log_id })
    }

    async fn get_log_reader(&mut self) -> LogReader {
        self.reader()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), io::Error> {
        self.send_and_wait(|done| Op::Vote { vote: *vote, done }).await?;
        self.shared.state().vote = Some(*vote);
        Ok(())
    }

    async fn append<I>(&mut self, entries: I, callback: IoFlushed) -> Result<(), io::Error>
    where
        I: IntoIterator<Item = Entry> + Send,
        I::IntoIter: Send,
    {
        let entries: Vec<Entry> = entries.into_iter().collect();
        let number = {
            let mut state = self.shared.state();
            state.appends += 1;
            let number = state.appends;
            if let Some(entry) = entries.first() {
                state.first.get_or_insert(entry.log_id.index);
            }
            for entry in &entries {
                state.tail.push(entry.clone(), number);
            }
            if let Some(entry) = entries.last() {
                state.last = Some(entry.log_id);
            }
            number
        };
        self.send(Op::Append { entries, number, callback })
    }

    /// Comes back once the entries are gone from this disk. A snapshot of another leader may come in
    /// next: were it on disk and the entries that it overrules still there when the power fails, the
    /// log would end in an older term than the state, and openraft would not start on that.
    async fn truncate_after(&mut self, last: Option<LogId>) -> Result<(), io::Error> {
        let from = next_index(last.as_ref());
        {
            let mut state = self.shared.state();
            if next_index(state.last.as_ref()) <= from {
                return Ok(());
            }
            state.tail.truncate(from);
            state.first = state.first.filter(|first| *first < from);
            state.last = last.max(state.purged);
        }
        self.send_and_wait(|done| Op::Truncate { from, done }).await
    }

    async fn purge(&mut self, upto: LogId) -> Result<(), io::Error> {
        {
            let mut state = self.shared.state();
            state.tail.purge(upto.index);
            state.purged = state.purged.max(Some(upto));
            if next_index(state.last.as_ref()) <= upto.index + 1 {
                state.last = Some(upto);
                state.first = None;
            } else {
                state.first = state.first.map(|first| first.max(upto.index + 1));
            }
        }
        self.send(Op::Purge { upto })
    }
}

/// Reads the log.
#[derive(Clone)]
pub(crate) struct LogReader {
    shared: Arc<Shared>,
}

impl Debug for LogReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogReader").finish_non_exhaustive()
    }
}

fn bounds_of<R: RangeBounds<u64>>(range: &R) -> (u64, u64) {
    let start = match range.start_bound() {
        Bound::Included(start) => *start,
        Bound::Excluded(start) => start.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(end) => end.saturating_add(1),
        Bound::Excluded(end) => *end,
        Bound::Unbounded => u64::MAX,
    };
    (start, end)
}

impl RaftLogReader<TypeConfig> for LogReader {
    async fn try_get_log_entries<R: RangeBounds<u64> + Clone + Debug + Send>(
        &mut self,
        range: R,
    ) -> Result<Vec<Entry>, io::Error> {
        let (start, end) = bounds_of(&range);
        Ok(self.shared.read(start, end, usize::MAX)?)
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, io::Error> {
        Ok(self.shared.state().vote)
    }

    async fn limited_get_log_entries(
        &mut self,
        start: u64,
        end: u64,
    ) -> Result<Vec<Entry>, io::Error> {
        let entries = self.shared.read(start, end, APPEND_BYTES_MAX)?;
        // Entries after a gap would be taken for those that were asked for. With none, the follower
        // gets a heartbeat until openraft has noticed that it needs a snapshot.
        let gap = entries.first().is_some_and(|entry| entry.log_id.index != start);
        Ok(if gap { Vec::new() } else { entries })
    }

    async fn entries_stream<R>(
        &mut self,
        range: R,
    ) -> impl Stream<Item = Result<Entry, io::Error>> + Send
    where
        R: RangeBounds<u64> + Clone + Debug + Send,
    {
        // Piece by piece, so that a replica that is far behind does not load all it has to apply.
        let (start, end) = bounds_of(&range);
        let shared = Arc::clone(&self.shared);
        let pieces = futures::stream::unfold(start, move |next| {
            let piece =
                if next < end { shared.read(next, end, APPEND_BYTES_MAX) } else { Ok(Vec::new()) };
            let step = match piece {
                Ok(entries) => entries
                    .last()
                    .map(|entry| entry.log_id.index + 1)
                    .map(|following| (entries.into_iter().map(Ok).collect::<Vec<_>>(), following)),
                Err(error) => Some((vec![Err(io::Error::from(error))], end)),
            };
            std::future::ready(step)
        });
        Box::pin(futures::StreamExt::flat_map(pieces, futures::stream::iter))
    }
}

/// Holds the state machine back until the log is on this disk.
pub(crate) struct FlushGate {
    shared: Arc<Shared>,
    flushed: watch::Receiver<u64>,
}

impl FlushGate {
    /// Waits until the log's entry at `index`, as it is now, is on this disk.
    pub(crate) async fn pass(&mut self, index: u64) -> io::Result<()> {
        if planted::is(Planted::ApplyAheadOfFlush) {
            return Ok(());
        }
        // What has left the tail was flushed before.
        let Some(number) = self.shared.state().tail.append_number(index) else { return Ok(()) };
        self.flushed
            .wait_for(|flushed| *flushed >= number)
            .await
            .map(|_| ())
            .map_err(|_closed| io::Error::other("the log writer has stopped"))
    }
}

/// Drops flushed entries from the tail once it is too long.
pub(crate) fn flushed(shared: &Shared, number: u64) {
    shared.state().tail.evict(number, TAIL_BYTES_MAX);
    shared.flushed.send_replace(number);
}
