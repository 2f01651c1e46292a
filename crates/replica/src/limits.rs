//! Every bound and interval of this crate, and what they owe each other.
//!
//! None of them decides an answer: they only bound memory, messages and waiting.

use std::time::Duration;

use firstclaim_core::limits::PEER_MESSAGE_BYTES_MAX;

use crate::store::PAYLOAD_BYTES_MAX;

/// Entries in one append message, together. One entry may exceed it, and travels alone.
pub(crate) const APPEND_BYTES_MAX: usize = 2 << 20;

const _: () = assert!(
    APPEND_BYTES_MAX + PAYLOAD_BYTES_MAX < PEER_MESSAGE_BYTES_MAX,
    "an append must fit a message"
);

/// How much a peer may send ahead. At a round trip of 250 ms this allows 64 MB/s.
#[cfg_attr(feature = "simulated", expect(dead_code, reason = "nothing is sent ahead there"))]
pub(crate) const PEER_WINDOW_BYTES: u32 = 16 << 20;

/// Log entries kept in memory once they are on disk.
pub(crate) const TAIL_BYTES_MAX: usize = 64 << 20;

/// What the log writer puts into one synced batch, about.
pub(crate) const GROUP_BYTES_MAX: usize = 4 << 20;

/// Entries that are applied in one batch.
pub(crate) const APPLY_ENTRIES_MAX: usize = 128;

/// A piece of a snapshot on the wire.
pub(crate) const SNAPSHOT_PART_BYTES: usize = 1 << 20;

/// A snapshot is made after this many entries ...
pub(crate) const SNAPSHOT_EVERY_ENTRIES: u64 = 50_000;
/// ... and this many before it stay in the log, so that a replica that was away for a while can
/// still catch up from there.
pub(crate) const LOG_ENTRIES_KEPT: u64 = 200_000;

/// Entries purged at a time: each purge leaves a range tombstone.
pub(crate) const PURGE_BATCH: u64 = 1024;

/// A proposal that was not answered by then has an unknown fate.
pub(crate) const PROPOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// A leader stamps an entry at least this often, so that store time does not stand still. Windows
/// of grace open after 6 s without a stamp.
pub(crate) const TICK_EVERY: Duration = Duration::from_secs(4);
/// How often the leader looks whether it should.
pub(crate) const TICK_CHECK: Duration = Duration::from_millis(500);

/// How often a follower asks the leader for the confirmed store time.
pub(crate) const CONFIRM_EVERY: Duration = Duration::from_secs(1);
