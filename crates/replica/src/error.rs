//! The ways in which a replica can fail to answer.
//!
//! Three things that look alike are kept apart by type:
//!
//! * A command that was applied and refused has an [`Outcome`](firstclaim_core::Outcome). It is no
//!   error.
//! * A proposal without an outcome has a [`ProposeError`], which says whether it may still happen.
//! * A replica whose own disk or data is bad has a [`StoreError`]. It stops; nobody retries that.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use firstclaim_core::planted::{self, Planted};

/// Why a proposal, or a linearizable read, has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProposeError {
    /// Another replica leads. Try there.
    #[error("this node is not the leader")]
    NotLeader {
        /// The leader's node id and client address, if this replica knows them.
        leader: Option<(u64, String)>,
    },
    /// No replica is known to lead. Try again after an election.
    #[error("no leader is known")]
    NoLeader,
    /// The leader has not heard from a majority for too long, and took nothing on.
    #[error("the leader has no contact to a majority of the voters")]
    NoQuorum,
    /// Too many proposals are under way. Back off, then try again.
    #[error("too many proposals are under way")]
    Overloaded,
    /// A command does not fit a log entry.
    #[error("encode the commands for the log: {reason}")]
    TooLarge {
        /// What is wrong with them.
        reason: String,
    },
    /// The answer did not come in time. Ask again with the same key.
    #[error("no answer within {waited_ms} ms")]
    TimedOut {
        /// How long it was waited for.
        waited_ms: u64,
    },
    /// Leadership was lost while the entry was under way. Ask again with the same key.
    #[error("leadership was lost while the proposal was under way")]
    LeadershipLost,
    /// The replica is being shut down, and took nothing on.
    #[error("this node is stopping")]
    Stopping,
    /// The replica has failed, and what was under way may have happened. Ask another one.
    #[error("this node has failed: {reason}")]
    Failed {
        /// What it failed of.
        reason: String,
    },
}

/// What may be concluded about a proposal that has no outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was never in the log and never will be.
    NotProposed,
    /// It may have been applied, or may be applied yet.
    Unknown,
}

impl ProposeError {
    /// Says whether the proposal may have taken effect.
    #[must_use]
    pub fn fate(&self) -> Fate {
        match self {
            Self::NotLeader { .. }
            | Self::NoLeader
            | Self::NoQuorum
            | Self::Overloaded
            | Self::TooLarge { .. }
            | Self::Stopping => Fate::NotProposed,
            Self::TimedOut { .. } if planted::is(Planted::TimeoutNotApplied) => Fate::NotProposed,
            Self::TimedOut { .. } | Self::LeadershipLost | Self::Failed { .. } => Fate::Unknown,
        }
    }
}

/// The replica's own disk or data is bad. It must stop, or it would answer differently from the
/// others.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The disk refused an operation.
    #[error("{action} in {}", .path.display())]
    Io {
        /// What was being done, as a verb phrase: "append log entries".
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the disk or the storage engine said.
        source: io::Error,
    },
    /// The replica was shut down.
    #[error("the data folder is closed")]
    Closed,
    /// The bytes on disk are not what was written there.
    #[error(
        "the data in {} is damaged: {what}; keep the folder for inspection and restore this node \
         from another replica under a new node id", .path.display()
    )]
    Corrupt {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The data was written by another version of this program.
    #[error(
        "{} holds data format {found}, and this program reads only format {expected}: {}",
        .path.display(),
        if found < expected { "migrate the folder with the version that follows its own" }
        else { "start a newer version of this program" }
    )]
    Format {
        /// The file or folder.
        path: PathBuf,
        /// The format found there.
        found: u32,
        /// The format of this program.
        expected: u32,
    },
    /// Another replica sends a snapshot that another version of this program made.
    #[error(
        "the snapshot that was sent is of data format {found}, and this program takes in only \
         format {expected}: start the same version of this program on all nodes"
    )]
    Snapshot {
        /// The format of the snapshot.
        found: u32,
        /// The format of this program.
        expected: u32,
    },
    /// The version before this one has left work undone that only it can do.
    #[error(
        "the log in {} holds entry {index} of the version before this one, and the state has come \
         only to entry {applied}: start that version on all nodes again, let it run without clients \
         until all have applied the same entries, stop it, then start this one", .path.display()
    )]
    Unapplied {
        /// The folder of the log.
        path: PathBuf,
        /// The index of the entry.
        index: u64,
        /// The index of the last entry in the state.
        applied: u64,
    },
    /// A replica of the version before this one leads, and this one cannot follow it.
    #[error(
        "the log entry {index} in {} was written by the version before this one, which this one \
         cannot apply: start this version on all nodes", .path.display()
    )]
    FormerEntry {
        /// The folder of the log.
        path: PathBuf,
        /// The index of the entry.
        index: u64,
    },
    /// The log holds a command that this version of the program does not know.
    #[error(
        "the log entry {index} in {} cannot be decoded: {reason}; start the version of this \
         program that the other replicas run", .path.display()
    )]
    UnknownCommand {
        /// The folder of the log.
        path: PathBuf,
        /// The index of the entry.
        index: u64,
        /// What is wrong with it.
        reason: String,
    },
}

impl From<StoreError> for io::Error {
    fn from(error: StoreError) -> Self {
        Self::other(error)
    }
}

/// Why a replica could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The configuration contradicts itself.
    #[error("{field}: {problem}")]
    Config {
        /// The field of the configuration.
        field: &'static str,
        /// What is wrong with it, and what to do.
        problem: String,
    },
    /// The data folder belongs to another node or cluster.
    #[error(
        "the data folder {} belongs to {found}, not to {expected}: set data_dir to this node's \
         own folder, or an empty one", .path.display()
    )]
    Owner {
        /// The data folder.
        path: PathBuf,
        /// Whose folder it is.
        found: String,
        /// Whose folder it should be.
        expected: String,
    },
    /// Another process uses the data folder.
    #[error("the data folder {} is in use by another process: stop it first", .path.display())]
    Locked {
        /// The data folder.
        path: PathBuf,
    },
    /// The address for the other replicas cannot be listened on.
    #[error("listen for peers on {addr}: {source}; free the port or set another one")]
    Bind {
        /// The address.
        addr: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The disk or its data is bad.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The consensus engine did not start.
    #[error("start the consensus engine: {reason}")]
    Consensus {
        /// What it said.
        reason: String,
    },
}
