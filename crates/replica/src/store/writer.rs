//! The worker that writes the log: everything queued becomes one synced batch.
//!
//! A disk that fails to write or to sync has lost pages that nobody can name. So the process ends
//! at once, and nothing that was not on disk is ever acknowledged.

use std::io;
use std::sync::Arc;

use firstclaim_core::planted::{self, Planted};
use tokio::sync::oneshot;

use crate::error::StoreError;
use crate::limits::GROUP_BYTES_MAX;
use crate::raft::{Entry, IoFlushed, LogId, Vote};
use crate::runtime::{self, Queue, Worker};
use crate::store::codec;
use crate::store::disk::LogDisk;
use crate::store::engine::{Batch, Durability};
use crate::store::log::{Shared, flushed};
use crate::store::schema::{Table, log_end, log_key, meta};
use crate::wire;

/// A change to the log.
pub(crate) enum Op {
    Append {
        entries: Vec<Entry>,
        number: u64,
        callback: IoFlushed,
    },
    Vote {
        vote: Vote,
        done: oneshot::Sender<()>,
    },
    /// Drops the entries from this index on.
    Truncate {
        from: u64,
        done: oneshot::Sender<()>,
    },
    Purge {
        upto: LogId,
    },
}

/// Whom to tell once a group is on disk.
enum Waiter {
    Append { number: u64, callback: IoFlushed },
    Other(oneshot::Sender<()>),
}

/// The way to the writer. Dropping it waits until the writer has written what is queued and has let go
/// of the database: a process that ends while a database is open may be aborted by its threads.
pub(crate) struct Writer(Worker<Op>);

impl Writer {
    pub(crate) fn start(shared: Arc<Shared>) -> io::Result<Self> {
        let told = Arc::clone(&shared);
        let worker = Worker::start(
            "log-writer",
            move |first, queue| write_group(&shared, gather(first, queue)),
            move |waiters| acknowledge(&told, waiters),
        )?;
        Ok(Self(worker))
    }

    pub(crate) fn send(&self, op: Op) -> io::Result<()> {
        if self.0.send(op) { Ok(()) } else { Err(io::Error::other("the log writer has stopped")) }
    }
}

/// Takes what else is queued, up to the size of a group.
fn gather(first: Op, queue: &mut Queue<Op>) -> Vec<Op> {
    let mut bytes = size(&first);
    let mut group = vec![first];
    while bytes < GROUP_BYTES_MAX {
        let Some(op) = queue.try_next() else { break };
        bytes += size(&op);
        group.push(op);
    }
    group
}

fn size(op: &Op) -> usize {
    match op {
        Op::Append { entries, .. } => entries.iter().map(wire::entry_bytes).sum(),
        Op::Vote { .. } | Op::Truncate { .. } | Op::Purge { .. } => 0,
    }
}

/// Writes a group, and says whom to tell.
fn write_group(shared: &Shared, group: Vec<Op>) -> Vec<Waiter> {
    let mut batch = Batch::default();
    let mut waiters = Vec::with_capacity(group.len());
    let mut durability = Durability::Unsynced;
    // The index behind the last entry: where the group takes it back to, and where it ends.
    let (mut cut, mut end) = (None, None);
    for op in group {
        match op {
            Op::Append { entries, number, callback } => {
                for entry in &entries {
                    let value = codec::encode_message(&wire::entry_to(entry));
                    batch.put(Table::Log, log_key(entry.log_id.index), value);
                }
                end = entries.last().map(|entry| entry.log_id.index + 1).or(end);
                if !planted::is(Planted::FlushBeforeSync) {
                    durability = Durability::Synced;
                }
                waiters.push(Waiter::Append { number, callback });
            }
            Op::Vote { vote, done } => {
                let value = codec::encode_message(&wire::vote_to(&vote));
                batch.put(Table::Meta, meta::VOTE.to_vec(), value);
                if !planted::is(Planted::VoteNotSynced) {
                    durability = Durability::Synced;
                }
                waiters.push(Waiter::Other(done));
            }
            // Were it lost and entries after it kept, an end of another leader would follow them.
            Op::Truncate { from, done } => {
                batch.delete_range(Table::Log, log_key(from), log_end());
                (cut, end) = (Some(cut.map_or(from, |cut: u64| cut.min(from))), None);
                durability = Durability::Synced;
                waiters.push(Waiter::Other(done));
            }
            Op::Purge { upto } => {
                let value = codec::encode_message(&wire::log_id_to(&upto));
                batch.put(Table::Meta, meta::PURGED.to_vec(), value);
                let too_far = if planted::is(Planted::PurgeTooFar) { 5 } else { 0 };
                batch.delete_range(Table::Log, log_key(0), log_key(upto.index + 1 + too_far));
            }
        }
    }
    match write(&shared.disk, batch, durability, cut, end) {
        Ok(()) => waiters,
        Err(error) => fail(waiters, &error),
    }
}

/// Writes a batch, and notes where the log ends.
fn write(
    disk: &LogDisk,
    batch: Batch,
    durability: Durability,
    cut: Option<u64>,
    end: Option<u64>,
) -> Result<(), StoreError> {
    if let (Some(note), Some(cut)) = (&disk.end, cut) {
        note.go_back_to(cut)?;
    }
    disk.engine.write(batch, durability)?;
    if let (Some(note), Some(end)) = (&disk.end, end) {
        note.come_to(end)?;
    }
    Ok(())
}

fn acknowledge(shared: &Shared, waiters: Vec<Waiter>) {
    for waiter in waiters {
        match waiter {
            Waiter::Append { number, callback } => {
                flushed(shared, number);
                callback.io_completed(Ok(()));
            }
            // Nobody waits any more when openraft is being shut down.
            Waiter::Other(done) => drop(done.send(())),
        }
    }
}

fn fail(waiters: Vec<Waiter>, error: &StoreError) -> ! {
    tracing::error!(%error, "the log cannot be written, this process ends");
    for waiter in waiters {
        if let Waiter::Append { callback, .. } = waiter {
            callback.io_completed(Err(io::Error::other(error.to_string())));
        }
    }
    runtime::end()
}
