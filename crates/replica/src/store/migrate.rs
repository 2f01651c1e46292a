//! Brings a data folder of format 1 to format 2.
//!
//! ```text
//! look      is all that the log holds in the state? else refuse, and change nothing
//! begin     drop the old index rows and note that the records have to be gone through (synced)
//! log       drop the entries that the state holds, set the log's format         (synced)
//! records   rewrite them in batches, with their index rows and the counts
//! end       rewrite the cluster's row, set the state's format                   (synced)
//! ```
//!
//! A crash anywhere leaves a folder that the next start goes on with: each batch also holds how far it
//! has come. What comes out depends on nothing but the state that went in, so replicas that had applied
//! the same entries have the same state again.
//!
//! Entries of format 1 are never applied by today's rules, which decide some things otherwise: so the
//! look at the beginning, and so the log is dropped. A follower that lags behind that gets a snapshot.

use std::collections::BTreeMap;

use firstclaim_core::tenant::Cluster;
use firstclaim_core::{Record, Usage};

use crate::error::StoreError;
use crate::raft::{EntryPayload, LogId, Payload};
use crate::store::codec::{self, Fault, Stored};
use crate::store::engine::{Batch, Durability, Engine, after_prefix};
use crate::store::machine::load_position;
use crate::store::schema::{self, FORMAT, FORMER_FORMAT, Table, log_end, log_key, meta, system};
use crate::store::state::{index, put};
use crate::store::v1;
use crate::wire;

/// Records that are rewritten in one batch. A record is hardly ever above 1 MiB.
const RECORDS_PER_BATCH: usize = 64;
/// Entries that are looked at at a time.
const ENTRIES_PER_READ: usize = 64;

/// The indexes and counts, which are made anew.
const DERIVED: [Table; 5] =
    [Table::Expiry, Table::Unfinished, Table::Similar, Table::Changed, Table::Usage];

/// Brings both databases of a folder to the present format, or goes on where it stopped.
///
/// # Errors
///
/// [`StoreError::Unapplied`] if the version before has to finish its work first. The folder is as it
/// was then. Else if a database is damaged, or of yet another format.
pub(crate) fn migrate(log: &dyn Engine, state: &dyn Engine) -> Result<(), StoreError> {
    migrate_by(log, state, RECORDS_PER_BATCH)
}

/// The same, with so many records in one batch.
pub(crate) fn migrate_by(
    log: &dyn Engine,
    state: &dyn Engine,
    records_per_batch: usize,
) -> Result<(), StoreError> {
    let log_is_former = is_former(log, Table::Meta, meta::FORMAT)?;
    let state_is_former = is_former(state, Table::System, system::FORMAT)?;
    if !log_is_former && !state_is_former {
        return Ok(());
    }
    let (applied, _) = load_position(state, state.path())?;
    if log_is_former {
        check_applied(log, applied.as_ref())?;
    }
    if state_is_former {
        begin(state)?;
    }
    if log_is_former {
        drop_applied(log, applied.as_ref())?;
    }
    if state_is_former {
        let records = rewrite_records(state, records_per_batch)?;
        end(state)?;
        tracing::info!(path = %state.path().display(), records, "the state was migrated to format {FORMAT}");
    }
    Ok(())
}

/// Whether a database is of the former format. A new one is not.
fn is_former(engine: &dyn Engine, table: Table, key: &[u8]) -> Result<bool, StoreError> {
    let Some(bytes) = engine.get(table, key)? else { return Ok(false) };
    // What else may be there is for the check that every start makes.
    Ok(bytes == FORMER_FORMAT.to_be_bytes())
}

/// Refuses a log with entries that the state has not taken in, ticks aside.
fn check_applied(log: &dyn Engine, applied: Option<&LogId>) -> Result<(), StoreError> {
    let mut from = log_key(applied.map_or(0, |id| id.index + 1));
    loop {
        let rows = log.scan(Table::Log, &from, &log_end(), ENTRIES_PER_READ)?;
        let Some((last, _)) = rows.last() else { return Ok(()) };
        from.clone_from(last);
        from.push(0);
        for (key, value) in &rows {
            let index = schema::log_index(key).unwrap_or_default();
            let applicable = is_applicable(value)
                .map_err(|fault| damaged(log, &format!("log entry {index}"), &fault))?;
            if !applicable {
                let path = log.path().to_path_buf();
                let applied = applied.map_or(0, |id| id.index);
                return Err(StoreError::Unapplied { path, index, applied });
            }
        }
    }
}

/// Whether a log entry may be applied by this version.
fn is_applicable(value: &[u8]) -> Result<bool, Fault> {
    let entry = codec::decode_message(value)?;
    let entry = wire::entry_from(entry).map_err(|error| Fault::Damaged(error.to_string()))?;
    match entry.payload {
        EntryPayload::Normal(Payload(bytes)) => Ok(codec::decode_payload(&bytes)?.is_applicable()),
        EntryPayload::Blank | EntryPayload::Membership(_) => Ok(true),
    }
}

fn damaged(engine: &dyn Engine, what: &str, fault: &Fault) -> StoreError {
    // A key may be personal, so the message does not name it.
    StoreError::Corrupt { path: engine.path().to_path_buf(), what: format!("{what}: {fault}") }
}

/// Makes durable what the state holds, before the log that could repeat it goes.
fn begin(state: &dyn Engine) -> Result<(), StoreError> {
    if state.get(Table::System, system::MIGRATED)?.is_some() {
        return Ok(());
    }
    let mut batch = Batch::default();
    for table in DERIVED {
        batch.delete_range(table, Vec::new(), after_prefix(&[]));
    }
    batch.put(Table::System, system::MIGRATED.to_vec(), Vec::new());
    state.write(batch, Durability::Synced)
}

fn drop_applied(log: &dyn Engine, applied: Option<&LogId>) -> Result<(), StoreError> {
    let mut batch = Batch::default();
    if let Some(applied) = applied {
        let value = codec::encode_message(&wire::log_id_to(applied));
        batch.put(Table::Meta, meta::PURGED.to_vec(), value);
        batch.delete_range(Table::Log, log_key(0), log_key(applied.index + 1));
    }
    batch.put(Table::Meta, meta::FORMAT.to_vec(), FORMAT.to_be_bytes().to_vec());
    log.write(batch, Durability::Synced)
}

/// Goes through the records that are left, and says how many there were.
fn rewrite_records(state: &dyn Engine, records_per_batch: usize) -> Result<u64, StoreError> {
    let path = state.path();
    let mut count = 0;
    let mut come = state.get(Table::System, system::MIGRATED)?.unwrap_or_default();
    loop {
        let mut from = come.clone();
        if !from.is_empty() {
            from.push(0);
        }
        let rows = state.scan(Table::Records, &from, &after_prefix(&[]), records_per_batch)?;
        let Some((last, _)) = rows.last() else { return Ok(count) };
        come.clone_from(last);
        count += rows.len() as u64;
        let mut batch = Batch::default();
        let mut usages = BTreeMap::new();
        for (key, value) in rows {
            let namespace = schema::namespace_id(&key).ok_or_else(|| {
                damaged(state, "a record", &Fault::Damaged("its key is cut off".to_owned()))
            })?;
            *usages.entry(namespace).or_insert(0) += 1;
            let record: v1::Record = decode(state, "a record", &value)?;
            let record = Record::from(record);
            for (table, row) in index::rows(&key, &record) {
                batch.put(table, row, Vec::new());
            }
            put(&mut batch, path, Table::Records, key, &record)?;
        }
        for (namespace, more) in usages {
            let key = schema::life_key(namespace);
            let known = state.get(Table::Usage, &key)?;
            let known: Option<Usage> =
                known.map(|value| decode(state, "a count", &value)).transpose()?;
            let records = known.unwrap_or_default().records + more;
            put(&mut batch, path, Table::Usage, key, &Usage { records })?;
        }
        batch.put(Table::System, system::MIGRATED.to_vec(), come.clone());
        state.write(batch, Durability::Unsynced)?;
    }
}

fn end(state: &dyn Engine) -> Result<(), StoreError> {
    let mut batch = Batch::default();
    if let Some(value) = state.get(Table::System, system::CLUSTER)? {
        let cluster: v1::Cluster = decode(state, "the cluster's row", &value)?;
        let cluster = Cluster::from(cluster);
        put(&mut batch, state.path(), Table::System, system::CLUSTER.to_vec(), &cluster)?;
    }
    batch.delete(Table::System, system::MIGRATED.to_vec());
    batch.put(Table::System, system::FORMAT.to_vec(), FORMAT.to_be_bytes().to_vec());
    state.write(batch, Durability::Synced)
}

fn decode<T: Stored>(engine: &dyn Engine, what: &str, value: &[u8]) -> Result<T, StoreError> {
    codec::decode_value(value).map_err(|fault| damaged(engine, what, &fault))
}
