//! Many entries in one batch do the same as a batch for each, on both engines, and the indexes hold
//! what the records say.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use firstclaim_core::{Record, Usage};

use super::random::{ENTRIES, apply, entries, run};
use crate::store::codec;
use crate::store::engine::{Durability, Engine, Read as _, after_prefix};
use crate::store::memory::Memory;
use crate::store::schema::Table;
use crate::store::state::{State, index};

/// The index rows and counts of a state, and what its records say they should be.
fn check_derived(engine: &dyn Engine, context: &str) {
    let all = |table| engine.scan(table, &[], &after_prefix(&[]), usize::MAX).unwrap();
    let mut rows = BTreeSet::new();
    let mut counts: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
    let records: BTreeMap<_, _> = all(Table::Records).into_iter().collect();
    for (key, value) in &records {
        let record: Record = codec::decode_value(value).unwrap();
        rows.extend(index::rows(key, &record));
        *counts.entry(key[..8].to_vec()).or_default() += 1;
    }
    for table in [Table::Expiry, Table::Unfinished, Table::Similar, Table::Changed] {
        let found: Vec<_> = all(table).into_iter().map(|(key, _)| (table, key)).collect();
        let expected: Vec<_> = rows.iter().filter(|row| row.0 == table).cloned().collect();
        assert_eq!(found, expected, "{context}: {}", table.name());
    }
    let found = all(Table::Usage).into_iter().map(|(key, value)| {
        let usage: Usage = codec::decode_value(&value).unwrap();
        (key, usage.records)
    });
    assert_eq!(found.collect::<BTreeMap<_, _>>(), counts, "{context}");
    for (key, _) in all(Table::History) {
        assert!(records.contains_key(&key), "{context}: a history without a record");
    }
}

#[test]
fn indexes_and_counts_are_what_the_records_say() {
    let mut seen = BTreeSet::new();
    for seed in 0..20 {
        let engine = Memory::new("memory");
        let mut index = 0;
        for chunk in entries(seed).chunks(5) {
            let mut state = State::new(&engine, Path::new("state"));
            for entry in chunk {
                apply(&mut state, index, entry);
                index += 1;
            }
            engine.write(state.into_batch().unwrap(), Durability::Unsynced).unwrap();
            check_derived(&engine, &format!("seed {seed}, entry {index}"));
            for table in Table::STATE {
                if !engine.scan(*table, &[], &after_prefix(&[]), 1).unwrap().is_empty() {
                    seen.insert(*table);
                }
            }
        }
    }
    assert_eq!(seen.len(), Table::STATE.len(), "a table never had a row: {seen:?}");
}

/// Reported elsewhere: case 16, case 88.
#[test]
fn batches_and_engines_do_not_matter() {
    for seed in 0..20 {
        let entries = entries(seed);
        let expected = run(&Memory::new("memory"), &entries, 1);
        for per_batch in [2, 7, ENTRIES] {
            let found = run(&Memory::new("memory"), &entries, per_batch);
            assert_eq!(found, expected, "seed {seed}, {per_batch} entries in a batch");
        }
        #[cfg(feature = "rocksdb")]
        if seed < 2 {
            use crate::store::rocks::{Rocks, Use};
            for per_batch in [1, 32] {
                let dir = tempfile::tempdir().unwrap();
                let engine = Rocks::open(&dir.path().join("db"), Use::State).unwrap();
                let found = run(&engine, &entries, per_batch);
                assert_eq!(found, expected, "seed {seed}, {per_batch} entries in a batch");
            }
        }
    }
}
