//! The rows by which records are found otherwise than by their key.
//!
//! A record says itself where it is listed, so its rows can be made again from nothing else.

use firstclaim_core::Record;

use crate::store::schema::{self, Table};

/// A row without a value.
pub(crate) type IndexRow = (Table, Vec<u8>);

/// The index rows of a record, in no particular order.
pub(crate) fn rows(key: &[u8], record: &Record) -> Vec<IndexRow> {
    let mut rows = Vec::with_capacity(4);
    if let Some(time) = record.sweep_time() {
        rows.push((Table::Expiry, schema::expiry_key(time, key)));
    }
    if record.is_unfinished() {
        rows.push((Table::Unfinished, key.to_vec()));
    }
    // Revision 0 is that of records which have not changed since there are revisions.
    if record.revision > 0 {
        rows.extend(schema::changed_key(key, record.revision).map(|row| (Table::Changed, row)));
    }
    for (intent, began) in record.intents() {
        rows.extend(schema::similar_key(key, &intent, began).map(|row| (Table::Similar, row)));
    }
    rows
}
