//! The end of the log, in memory: what is not on disk yet, and as many older entries as fit.

use std::collections::VecDeque;

use crate::raft::Entry;
use crate::wire;

/// Consecutive entries up to the last one of the log.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    entries: VecDeque<Cached>,
    bytes: usize,
}

#[derive(Debug)]
struct Cached {
    entry: Entry,
    bytes: usize,
    /// The number of the append that brought it.
    append: u64,
}

impl Tail {
    /// The index of the first entry held here.
    pub(crate) fn first(&self) -> Option<u64> {
        self.entries.front().map(|cached| cached.entry.log_id.index)
    }

    pub(crate) fn push(&mut self, entry: Entry, append: u64) {
        let follows = self
            .entries
            .back()
            .is_none_or(|last| last.entry.log_id.index + 1 == entry.log_id.index);
        assert!(follows, "a log entry was appended out of order");
        let bytes = wire::entry_bytes(&entry);
        self.bytes += bytes;
        self.entries.push_back(Cached { entry, bytes, append });
    }

    /// Drops the entries from the index `from` on.
    pub(crate) fn truncate(&mut self, from: u64) {
        while let Some(last) = self.entries.pop_back() {
            if last.entry.log_id.index < from {
                self.entries.push_back(last);
                break;
            }
            self.bytes -= last.bytes;
        }
    }

    /// Drops the entries up to the index `upto`.
    pub(crate) fn purge(&mut self, upto: u64) {
        while let Some(first) = self.entries.pop_front() {
            if first.entry.log_id.index > upto {
                self.entries.push_front(first);
                break;
            }
            self.bytes -= first.bytes;
        }
    }

    /// Drops entries that are on disk, the oldest first, while there are more than `bytes_max`.
    pub(crate) fn evict(&mut self, flushed: u64, bytes_max: usize) {
        while self.bytes > bytes_max {
            let Some(first) = self.entries.pop_front() else { break };
            if first.append > flushed {
                self.entries.push_front(first);
                break;
            }
            self.bytes -= first.bytes;
        }
    }

    /// The number of the append that brought the entry at `index`, if it is held here.
    pub(crate) fn append_number(&self, index: u64) -> Option<u64> {
        self.at(index).map(|cached| cached.append)
    }

    /// The entries in `[start, end)` until they are more than `bytes_max`, but at least one.
    pub(crate) fn read(&self, start: u64, end: u64, bytes_max: usize) -> Vec<Entry> {
        let mut entries = Vec::new();
        let mut bytes = 0;
        for index in start..end {
            let Some(cached) = self.at(index) else { break };
            if !entries.is_empty() && bytes + cached.bytes > bytes_max {
                break;
            }
            bytes += cached.bytes;
            entries.push(cached.entry.clone());
        }
        entries
    }

    fn at(&self, index: u64) -> Option<&Cached> {
        let offset = index.checked_sub(self.first()?)?;
        self.entries.get(usize::try_from(offset).ok()?)
    }
}
