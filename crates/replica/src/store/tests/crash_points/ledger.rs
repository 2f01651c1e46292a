//! What was asked of a store, and what it has acknowledged, each with the number of calls that the disk
//! had seen by then.

use std::collections::BTreeMap;

use crate::raft::{Entry, LogId, Vote};

/// A change to the log.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Vote(Vote),
    Append(Vec<Entry>),
    Truncate(u64),
    Purge(LogId),
}

/// What a log holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Log {
    pub(super) vote: Option<Vote>,
    pub(super) purged: Option<LogId>,
    pub(super) entries: BTreeMap<u64, Entry>,
}

impl Log {
    fn perform(&mut self, change: &Change) {
        match change {
            Change::Vote(vote) => self.vote = Some(*vote),
            Change::Append(entries) => {
                self.entries
                    .extend(entries.iter().map(|entry| (entry.log_id.index, entry.clone())));
            }
            Change::Truncate(from) => drop(self.entries.split_off(from)),
            Change::Purge(upto) => {
                self.purged = Some(*upto);
                self.entries = self.entries.split_off(&(upto.index + 1));
            }
        }
    }

    /// The position of the last entry, which may be purged.
    pub(super) fn last(&self) -> Option<LogId> {
        self.entries.values().next_back().map(|entry| entry.log_id).max(self.purged)
    }
}

#[derive(Clone, Debug)]
struct Sent {
    change: Change,
    at: u64,
    acknowledged: Option<u64>,
}

/// Everything that was asked for, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    /// What the log held before.
    base: Log,
    sent: Vec<Sent>,
    /// The indexes of snapshots that were made, and of those that were installed.
    made: Vec<(u64, u64)>,
    installed: Vec<(u64, u64)>,
}

impl Ledger {
    /// The ledger of who goes on with a log as it was found. What was known before still holds.
    pub(super) fn continued(&self, found: Log, before: u64) -> Self {
        let known = |facts: &[(u64, u64)]| {
            facts
                .iter()
                .filter(|(calls, _)| *calls < before)
                .map(|(_, index)| (0, *index))
                .collect()
        };
        let (made, installed) = (known(&self.made), known(&self.installed));
        Self { base: found, sent: Vec::new(), made, installed }
    }

    /// Notes a change that is on its way, and gives it a number.
    pub(super) fn send(&mut self, change: Change, calls: u64) -> usize {
        self.sent.push(Sent { change, at: calls, acknowledged: None });
        self.sent.len() - 1
    }

    pub(super) fn acknowledge(&mut self, number: usize, calls: u64) {
        self.sent[number].acknowledged = Some(calls);
    }

    pub(super) fn snapshot_made(&mut self, index: u64, calls: u64) {
        self.made.push((calls, index));
    }

    pub(super) fn snapshot_installed(&mut self, index: u64, calls: u64) {
        self.installed.push((calls, index));
    }

    /// Whether a log may be found so, if the disk stopped just before a call: it is what the first so
    /// many changes have made of it, and all that were acknowledged are among them.
    pub(super) fn allows(&self, found: &Log, before: u64) -> Result<(), String> {
        let is_known = |sent: &Sent| sent.acknowledged.is_some_and(|calls| calls < before);
        let least = self.sent.iter().rposition(is_known).map_or(0, |last| last + 1);
        let most = self.sent.iter().take_while(|sent| sent.at < before).count();
        let mut log = self.base.clone();
        for (number, sent) in self.sent.iter().enumerate().take(most) {
            if number >= least && log == *found {
                return Ok(());
            }
            log.perform(&sent.change);
        }
        if log == *found {
            return Ok(());
        }
        let indexes = found.entries.keys().next().zip(found.entries.keys().next_back());
        Err(format!(
            "the log has vote {:?}, purged {:?}, entries {indexes:?}, and not what the first {least} to \
             {most} changes make: at most vote {:?}, purged {:?}, last {:?}",
            found.vote,
            found.purged,
            log.vote,
            log.purged,
            log.last(),
        ))
    }

    /// The index that a snapshot must have at least.
    pub(super) fn snapshot_at_least(&self, before: u64) -> Option<u64> {
        known(&self.made, before)
    }

    /// The index that the state must have at least.
    pub(super) fn state_at_least(&self, before: u64) -> Option<u64> {
        known(&self.installed, before).max(known(&self.made, before))
    }
}

fn known(facts: &[(u64, u64)], before: u64) -> Option<u64> {
    facts.iter().filter(|(calls, _)| *calls < before).map(|(_, index)| *index).max()
}
