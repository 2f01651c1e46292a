//! The thread that writes the log: everything queued becomes one synced batch.
//!
//! A disk that fails to write or to sync has lost pages that nobody can name. So the process ends
//! at once, and nothing that was not on disk is ever acknowledged.

use std::io;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use tokio::sync::oneshot;

use crate::error::StoreError;
use crate::limits::GROUP_BYTES_MAX;
use crate::raft::{Entry, IoFlushed, LogId, Vote};
use crate::store::codec;
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
pub(crate) struct Writer {
    /// None once the writer is told to end.
    ops: Option<mpsc::Sender<Op>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(crate) fn start(shared: Arc<Shared>) -> io::Result<Self> {
        let (ops, queue) = mpsc::channel();
        let thread =
            std::thread::Builder::new().name("log-writer".to_owned()).spawn(move || {
                while let Ok(first) = queue.recv() {
                    write_group(&shared, gather(first, &queue));
                }
            })?;
        Ok(Self { ops: Some(ops), thread: Some(thread) })
    }

    pub(crate) fn send(&self, op: Op) -> io::Result<()> {
        let sent = self.ops.as_ref().is_some_and(|ops| ops.send(op).is_ok());
        if sent { Ok(()) } else { Err(io::Error::other("the log writer has stopped")) }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.ops = None;
        let own = std::thread::current().id();
        if let Some(thread) = self.thread.take().filter(|thread| thread.thread().id() != own) {
            // A panic of the writer has ended the process already.
            drop(thread.join());
        }
    }
}

/// Takes what else is queued, up to the size of a group.
fn gather(first: Op, queue: &mpsc::Receiver<Op>) -> Vec<Op> {
    let mut bytes = size(&first);
    let mut group = vec![first];
    while bytes < GROUP_BYTES_MAX {
        let Ok(op) = queue.try_recv() else { break };
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

fn write_group(shared: &Shared, group: Vec<Op>) {
    let mut batch = Batch::default();
    let mut waiters = Vec::with_capacity(group.len());
    let mut durability = Durability::Process;
    for op in group {
        match op {
            Op::Append { entries, number, callback } => {
                for entry in &entries {
                    let value = codec::encode_message(&wire::entry_to(entry));
                    batch.put(Table::Log, log_key(entry.log_id.index), value);
                }
                durability = Durability::Synced;
                waiters.push(Waiter::Append { number, callback });
            }
            Op::Vote { vote, done } => {
                let value = codec::encode_message(&wire::vote_to(&vote));
                batch.put(Table::Meta, meta::VOTE.to_vec(), value);
                durability = Durability::Synced;
                waiters.push(Waiter::Other(done));
            }
            Op::Truncate { from } => batch.delete_range(Table::Log, log_key(from), log_end()),
            Op::Purge { upto } => {
                let value = codec::encode_message(&wire::log_id_to(&upto));
                batch.put(Table::Meta, meta::PURGED.to_vec(), value);
                batch.delete_range(Table::Log, log_key(0), log_key(upto.index + 1));
            }
        }
    }
    match shared.disk.engine.write(batch, durability) {
        Ok(()) => acknowledge(shared, waiters),
        Err(error) => fail(waiters, &error),
    }
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
    std::process::abort();
}
