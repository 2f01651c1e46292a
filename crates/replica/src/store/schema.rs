//! Every table and every key layout of the disk, and the number of the format they make up.
//!
//! ```text
//! DATA/IDENTITY          whose folder this is, and the format number
//! DATA/LOCK              held while a process uses the folder
//! DATA/raftlog/          Log, Meta                        WAL synced
//! DATA/state/CURRENT     names the generation in use
//! DATA/state/gen-N/      System, Tenants, Namespaces,     WAL not synced
//!                        Records, Expiry, Unfinished,
//!                        Garbage, Similar, Changed,
//!                        History, Usage
//! DATA/snapshot/         the last snapshot built here, to be sent to followers
//! DATA/incoming/         a snapshot on its way in
//! ```
//!
//! Numbers in keys are big-endian, so that the order of the keys is the order of the numbers.

use firstclaim_core::fingerprint::Intent;
use firstclaim_core::{IdempotencyKey, NamespaceName, RecordId, TenantName, Timestamp};

use crate::store::engine::after_prefix;

/// The format of the data that this program writes. Any change to a key layout or to the meaning
/// of a value raises it and needs a migration.
pub(crate) const FORMAT: u32 = 2;

/// The format before it, which is brought to [`FORMAT`] when a folder is opened.
pub(crate) const FORMER_FORMAT: u32 = 1;

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
    /// Records by the request that their key is bound to, latest first. No values.
    Similar,
    /// Records by the revision of their latest change, by namespace id. No values.
    Changed,
    /// Claims that were not granted, by record.
    History,
    /// What a namespace's life holds, by namespace id. No row if it holds nothing.
    Usage,
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
        Self::Similar,
        Self::Changed,
        Self::History,
        Self::Usage,
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
            Self::Similar => "similar",
            Self::Changed => "changed",
            Self::History => "history",
            Self::Usage => "usage",
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
            Self::Similar => 10,
            Self::Changed => 11,
            Self::History => 12,
            Self::Usage => 13,
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
    /// The key of the record that a migration has come to. Only while one is under way.
    pub(crate) const MIGRATED: &[u8] = b"migrated";
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

/// The key of a record, in [`Table::Records`], [`Table::Unfinished`] and [`Table::History`]: namespace
/// id, key.
pub(crate) fn record_key(id: &RecordId) -> Vec<u8> {
    let key = id.key.as_str().as_bytes();
    let mut bytes = Vec::with_capacity(8 + key.len());
    bytes.extend_from_slice(&id.namespace.to_be_bytes());
    bytes.extend_from_slice(key);
    bytes
}

/// The key of a namespace's life, in [`Table::Garbage`] and [`Table::Usage`]: its id.
pub(crate) fn life_key(namespace_id: u64) -> Vec<u8> {
    namespace_id.to_be_bytes().to_vec()
}

/// The id in the key of a namespace's life.
pub(crate) fn life_id(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(key.try_into().ok()?))
}

/// The namespace id that the key of a record begins with.
pub(crate) fn namespace_id(record_key: &[u8]) -> Option<u64> {
    record_key.first_chunk().map(|id| u64::from_be_bytes(*id))
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

/// What the keys of all records of a request start with, in [`Table::Similar`]: namespace id, scheme
/// and a byte in no scheme, length of the digest, digest.
pub(crate) fn similar_prefix(namespace_id: u64, intent: &Intent) -> Vec<u8> {
    let scheme = intent.scheme.as_str().as_bytes();
    let mut bytes = Vec::with_capacity(10 + scheme.len() + intent.digest.len());
    bytes.extend_from_slice(&namespace_id.to_be_bytes());
    bytes.extend_from_slice(scheme);
    bytes.push(0);
    // No digest is longer than a byte can say; were one, it would only share its rows with others.
    bytes.push(u8::try_from(intent.digest.len()).unwrap_or(u8::MAX));
    bytes.extend_from_slice(&intent.digest);
    bytes
}

/// The key of a record in [`Table::Similar`]: the prefix, the time inverted, so that the latest comes
/// first, the key.
pub(crate) fn similar_key(record_key: &[u8], intent: &Intent, began: Timestamp) -> Option<Vec<u8>> {
    let (namespace, key) = record_key.split_first_chunk()?;
    let mut bytes = similar_prefix(u64::from_be_bytes(*namespace), intent);
    bytes.extend_from_slice(&(!began.0).to_be_bytes());
    bytes.extend_from_slice(key);
    Some(bytes)
}

/// The keys of the records of a request that began at or after `since`.
pub(crate) fn similar_range(
    namespace_id: u64,
    intent: &Intent,
    since: Timestamp,
) -> (Vec<u8>, Vec<u8>) {
    let from = similar_prefix(namespace_id, intent);
    let mut last = from.clone();
    last.extend_from_slice(&(!since.0).to_be_bytes());
    (from, after_prefix(&last))
}

/// The record in a key of [`Table::Similar`] that starts with a prefix of `prefix_bytes`.
pub(crate) fn similar_record_id(key: &[u8], prefix_bytes: usize) -> Option<RecordId> {
    let namespace = namespace_id(key)?;
    let key = key.get(prefix_bytes + 8..)?;
    let key = IdempotencyKey::parse(std::str::from_utf8(key).ok()?).ok()?;
    Some(RecordId { namespace, key })
}

/// The key of a record in [`Table::Changed`]: namespace id, revision, key.
pub(crate) fn changed_key(record_key: &[u8], revision: u64) -> Option<Vec<u8>> {
    let (namespace, key) = record_key.split_first_chunk::<8>()?;
    let mut bytes = Vec::with_capacity(16 + key.len());
    bytes.extend_from_slice(namespace);
    bytes.extend_from_slice(&revision.to_be_bytes());
    bytes.extend_from_slice(key);
    Some(bytes)
}

/// The keys of the records of a namespace's life that changed after `revision`.
pub(crate) fn changed_range(namespace_id: u64, revision: u64) -> (Vec<u8>, Vec<u8>) {
    let prefix = namespace_id.to_be_bytes();
    let mut seen = prefix.to_vec();
    seen.extend_from_slice(&revision.to_be_bytes());
    (after_prefix(&seen), after_prefix(&prefix))
}

/// The keys of the records of a namespace's life that changed last at `revision`.
pub(crate) fn revision_range(namespace_id: u64, revision: u64) -> (Vec<u8>, Vec<u8>) {
    let mut prefix = namespace_id.to_be_bytes().to_vec();
    prefix.extend_from_slice(&revision.to_be_bytes());
    let to = after_prefix(&prefix);
    (prefix, to)
}

/// The revision and the record in a key of [`Table::Changed`].
pub(crate) fn changed_record(key: &[u8]) -> Option<(u64, RecordId)> {
    let (namespace, rest) = key.split_first_chunk()?;
    let (revision, key) = rest.split_first_chunk()?;
    let key = IdempotencyKey::parse(std::str::from_utf8(key).ok()?).ok()?;
    let id = RecordId { namespace: u64::from_be_bytes(*namespace), key };
    Some((u64::from_be_bytes(*revision), id))
}
