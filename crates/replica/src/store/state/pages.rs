//! Pages of records, for those who list and watch them.

use firstclaim_core::{IdempotencyKey, Record, RecordId, Store as _};

use super::State;
use crate::error::StoreError;
use crate::store::engine::after_prefix;
use crate::store::schema::{self, Table};

/// Which records of a namespace's life, by key.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    /// Only keys above this one.
    pub after: Option<&'a IdempotencyKey>,
    /// Only keys that start with this; all start with nothing.
    pub prefix: &'a str,
    /// At most so many.
    pub limit: usize,
}

impl Page<'_> {
    /// The keys of rows that begin with the key of a record.
    fn range(&self, namespace: u64) -> (Vec<u8>, Vec<u8>) {
        let mut prefix = namespace.to_be_bytes().to_vec();
        prefix.extend_from_slice(self.prefix.as_bytes());
        let to = after_prefix(&prefix);
        let after = self.after.map(|key| {
            let mut key = schema::record_key(&RecordId { namespace, key: key.clone() });
            key.push(0);
            key
        });
        (after.map_or_else(|| prefix.clone(), |after| after.max(prefix.clone())), to)
    }
}

impl State<'_> {
    /// Records of a namespace's life, by key. Fewer than the limit: there are no more.
    ///
    /// # Errors
    ///
    /// The disk's.
    pub fn record_page(
        &mut self,
        namespace: u64,
        page: Page<'_>,
    ) -> Result<Vec<(RecordId, Record)>, StoreError> {
        let (from, to) = page.range(namespace);
        let changes = self.changed_records((&from, &to));
        let rows = self.merged_rows(Table::Records, Some(&changes), (&from, &to), page.limit)?;
        let mut found = Vec::with_capacity(rows.len());
        for (key, value) in rows {
            let record = match self.records.get(&key).and_then(|cell| cell.value.as_ref()) {
                Some(record) => record.clone(),
                None => self.source.decode(Table::Records, &value)?,
            };
            let id = schema::record_id(&key).ok_or_else(|| self.source.bad_key(Table::Records))?;
            found.push((id, record));
        }
        Ok(found)
    }

    /// Records whose claim is not finished, by key: claimed (live or lapsed) or unresolved. Fewer than
    /// the limit: there are no more.
    ///
    /// # Errors
    ///
    /// The disk's.
    pub fn unfinished_page(
        &mut self,
        namespace: u64,
        page: Page<'_>,
    ) -> Result<Vec<(RecordId, Record)>, StoreError> {
        let (from, to) = page.range(namespace);
        let marks = self.marked(Table::Unfinished);
        let keys = self.merged(Table::Unfinished, marks, (&from, &to), page.limit)?;
        let ids = self.record_ids(Table::Unfinished, &keys, schema::record_id)?;
        self.listed(ids, Table::Unfinished)
    }

    /// Records of a namespace's life whose latest change came after `revision`, by that revision.
    ///
    /// About `limit` of them: all that changed at the revision of the last one are there, so a caller
    /// can go on after it. Removed records are not listed.
    ///
    /// # Errors
    ///
    /// The disk's.
    pub fn changed_page(
        &mut self,
        namespace: u64,
        revision: u64,
        limit: usize,
    ) -> Result<Vec<(RecordId, Record)>, StoreError> {
        let mut changed = self.changed(namespace, revision, limit)?;
        if let Some((last, _)) = changed.last().filter(|_| changed.len() >= limit) {
            // One command may change many records, and so share its revision among them.
            let last = *last;
            changed.retain(|(at, _)| *at < last);
            let (from, to) = schema::revision_range(namespace, last);
            let marks = self.marked(Table::Changed);
            let keys = self.merged(Table::Changed, marks, (&from, &to), usize::MAX)?;
            for key in &keys {
                let row = schema::changed_record(key);
                changed.push(row.ok_or_else(|| self.source.bad_key(Table::Changed))?);
            }
        }
        self.listed(changed.into_iter().map(|(_, id)| id), Table::Changed)
    }

    /// The records that an index lists.
    fn listed(
        &mut self,
        ids: impl IntoIterator<Item = RecordId>,
        index: Table,
    ) -> Result<Vec<(RecordId, Record)>, StoreError> {
        let mut found = Vec::new();
        for id in ids {
            let record = self.record(&id)?.ok_or_else(|| StoreError::Corrupt {
                path: self.source.path.to_path_buf(),
                what: format!("the table {} lists a record that is not there", index.name()),
            })?;
            found.push((id, record));
        }
        Ok(found)
    }
}
