//! Every table and every key layout of the disk, and the number of the format they make up.
//!
//! ```text
//! DATA/IDENTITY          whose folder this is, and the format number
//! DATA/LOCK              held while a process uses the folder
//! DATA/raftlog/          Log, Meta                        WAL synced
//! DATA/state/CURRENT     names the generation in use
//! DATA/state/gen-N/      System, Tenants, Namespaces,     WAL not synced
//!                        Records, Expiry, Unfinished,
//!                        Garbage
//! DATA/snapshot/         the last snapshot built here, to be sent to followers
//! DATA/incoming/         a snapshot on its way in
//! ```
//!
//! Numbers in keys are big-endian, so that the order of the keys is the order of the numbers.

use firstclaim_core::{IdempotencyKey, NamespaceName, RecordId, TenantName, Timestamp};

/// The format of the data that this program writes. Any change to a key layout or to the meaning
/// of a value raises it and needs a migration.
pub(crate) const FORMAT: u32 = 1;

/// No key of ours is longer.
pub(crate) const KEY_BYTES_MAX: usize = 1024;

/// The replication group. Keys of the log carry it from the start; there is one.
pub(crate) const GROUP: u32 = 0;

/// A table of rows. The declared order is the order of the state hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Table {
    /// Log entries by index.
    Log,
    /// What the log knows about itself: vote, purge position.
    Meta,
    /// What the state knows about itself: the last entry in it, members, the cluster's own row.
    System,
    /// Tenants by name.
    Tenants,
    /// Namespaces by tenant and name.
    Namespaces,
    /// Records by namespace id and key.
    Records,
    /// Records by the time they are due for the sweeper. No values.
    Expiry,
    /// Records whose claim is not finished, by namespace id. No values.
    Unfinished,
    /// The ids of deleted namespaces that still have records. No values.
    Garbage,
}

impl Table {
    /// The tables of the log's database.
    pub(crate) const LOG: &'static [Self] = &[Self::Log, Self::Meta];
    /// The tables of the state's database.
    pub(crate) const STATE: &'static [Self] = &[
        Self::System,
        Self::Tenants,
        Self::Namespaces,
        Self::Records,
        Self::Expiry,
        Self::Unfinished,
        Self::Garbage,
    ];

    /// The name of its column family. Part of the format.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Meta => "meta",
            Self::System => "system",
            Self::Tenants => "tenants",
            Self::Namespaces => "namespaces",
            Self::Records => "records",
            Self::Expiry => "expiry",
            Self::Unfinished => "unfinished",
            Self::Garbage => "garbage",
        }
    }

    /// Its number in files. Part of the format.
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Log => 1,
            Self::Meta => 2,
            Self::System => 3,
            Self::Tenants => 4,
            Self::Namespaces => 5,
            Self::Records => 6,
            Self::Expiry => 7,
            Self::Unfinished => 8,
            Self::Garbage => 9,
        }
    }

    pub(crate) fn from_number(number: u8) -> Option<Self> {
        Self::LOG.iter().chain(Self::STATE).copied().find(|table| table.number() == number)
    }
}

/// Rows of the table [`Table::Meta`].
pub(crate) mod meta {
    pub(crate) const FORMAT: &[u8] = b"format";
    pub(crate) const VOTE: &[u8] = b"vote";
    pub(crate) const PURGED: &[u8] = b"purged";
}

/// Rows of the table [`Table::System`].
pub(crate) mod system {
    pub(crate) const FORMAT: &[u8] = b"format";
    pub(crate) const APPLIED: &[u8] = b"applied";
    pub(crate) const MEMBERSHIP: &[u8] = b"membership";
    pub(crate) const CLUSTER: &[u8] = b"cluster";
}

/// The key of a log entry: group, index.
pub(crate) fn log_key(index: u64) -> Vec<u8> {
    let mut key = Vec::with_capacity(12);
    key.extend_from_slice(&GROUP.to_be_bytes());
    key.extend_from_slice(&index.to_be_bytes());
    key
}

/// The key after the last log entry of the group.
pub(crate) fn log_end() -> Vec<u8> {
    (GROUP + 1).to_be_bytes().to_vec()
}

/// The index in the key of a log entry.
pub(crate) fn log_index(key: &[u8]) -> Option<u64> {
    let index = key.get(4..12)?;
    Some(u64::from_be_bytes(index.try_into().ok()?))
}

/// The key of a tenant: its name.
pub(crate) fn tenant_key(tenant: &TenantName) -> Vec<u8> {
    tenant.as_str().as_bytes().to_vec()
}

/// What the keys of all namespaces of a tenant start with: its name, and a byte in no name.
pub(crate) fn namespaces_prefix(tenant: &TenantName) -> Vec<u8> {
    let mut key = tenant_key(tenant);
    key.push(0);
    key
}

/// The key of a namespace.
pub(crate) fn namespace_key(tenant: &TenantName, namespace: &NamespaceName) -> Vec<u8> {
    let mut key = namespaces_prefix(tenant);
    key.extend_from_slice(namespace.as_str().as_bytes());
    key
}

/// The key of a record, in [`Table::Records`] and [`Table::Unfinished`]: namespace id, key.
pub(crate) fn record_key(id: &RecordId) -> Vec<u8> {
    let key = id.key.as_str().as_bytes();
    let mut bytes = Vec::with_capacity(8 + key.len());
    bytes.extend_from_slice(&id.namespace.to_be_bytes());
    bytes.extend_from_slice(key);
    bytes
}

/// The key of a deleted namespace: its id.
pub(crate) fn garbage_key(namespace_id: u64) -> Vec<u8> {
    namespace_id.to_be_bytes().to_vec()
}

/// The id in the key of a deleted namespace.
pub(crate) fn garbage_id(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(key.try_into().ok()?))
}

/// The namespace id and the key in the key of a record.
pub(crate) fn record_id(key: &[u8]) -> Option<RecordId> {
    let (namespace, key) = key.split_first_chunk()?;
    let key = IdempotencyKey::parse(std::str::from_utf8(key).ok()?).ok()?;
    Some(RecordId { namespace: u64::from_be_bytes(*namespace), key })
}

/// The record in a key of [`Table::Expiry`].
pub(crate) fn expiry_record_id(key: &[u8]) -> Option<RecordId> {
    record_id(key.get(8..)?)
}

/// The key of a record in [`Table::Expiry`]: time, namespace id, key.
pub(crate) fn expiry_key(time: Timestamp, record_key: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(8 + record_key.len());
    bytes.extend_from_slice(&time.0.to_be_bytes());
    bytes.extend_from_slice(record_key);
    bytes
}
