//! A whole folder that the version before has written is brought to format 2, once.
//!
//! `tests/formats/v1/folder.hex` holds its files. In it, tenant `acme` has namespace `payouts` with a key
//! of each kind, `mails` with a key that was taken over, and `gone`, which was deleted with a live claim.

use std::collections::BTreeMap;
use std::path::Path;

use firstclaim_core::fingerprint::Intent;
use firstclaim_core::{NamespaceName, Record, Slot, Store as _, TenantName, Timestamp};

use super::formats::unpack;
use super::former::{CLUSTER, identity};
use super::{Open, open_as};
use crate::store::disk::Storage;
use crate::store::state::{Page, State};

/// The records of the two namespaces of the folder, by key.
pub(super) fn records(dir: &Path) -> BTreeMap<String, Record> {
    unpack("v1/folder", dir);
    let open = open_as(dir, Storage::RocksDb, CLUSTER).unwrap();
    let mut found = BTreeMap::new();
    for namespace in ["payouts", "mails"] {
        let (_, page) = open
            .machine
            .read(|state| {
                let id = life_of(state, namespace);
                state.record_page(id, Page { after: None, prefix: "", limit: 100 })
            })
            .unwrap();
        found.extend(page.into_iter().map(|(id, record)| (id.key.as_str().to_owned(), record)));
    }
    found
}

fn life_of(state: &mut State<'_>, namespace: &str) -> u64 {
    let tenant = TenantName::parse("acme").unwrap();
    let slot = state.namespace(&tenant, &NamespaceName::parse(namespace).unwrap()).unwrap();
    slot.and_then(Slot::live).expect("the namespace").id
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_is_migrated_once() {
    let dir = tempfile::tempdir().unwrap();
    unpack("v1/folder", dir.path());
    assert!(identity(dir.path()).starts_with("format 1\n"));

    let open = open_as(dir.path(), Storage::RocksDb, CLUSTER).unwrap();
    assert!(identity(dir.path()).starts_with("format 2\n"));
    let (applied, hash) = open.machine.state_hash().unwrap();
    assert!(applied > 20, "the state has come to entry {applied}");
    // What the state holds is in no log any more: whoever needs it gets a snapshot.
    let (last, purged) = open.log.bounds();
    assert_eq!(purged.map(|id| id.index), Some(applied));
    assert!(last >= purged);
    check_tables(&open);
    open.close().await;

    let open = open_as(dir.path(), Storage::RocksDb, CLUSTER).unwrap();
    assert_eq!(open.machine.state_hash().unwrap(), (applied, hash), "a second open changed it");
    assert_eq!(open.log.bounds(), (last, purged));
    open.close().await;
}

/// What the new tables say about the folder.
fn check_tables(open: &Open) {
    let page = Page { after: None, prefix: "", limit: 100 };
    let read = open.machine.read(|state| {
        let (payouts, mails) = (life_of(state, "payouts"), life_of(state, "mails"));
        assert_eq!(state.usage(payouts)?.records, 8);
        assert_eq!(state.usage(mails)?.records, 1);
        let unfinished = state.unfinished_page(payouts, page)?;
        let keys: Vec<_> = unfinished.iter().map(|(id, _)| id.key.as_str()).collect();
        assert_eq!(keys, ["live-1", "rebound-1", "recovered-1", "unknown-1"]);
        assert_eq!(state.unfinished_page(mails, page)?.len(), 1);
        // Nothing has changed since there are revisions.
        assert_eq!(state.changed(payouts, 0, 100)?, []);
        let records = state.record_page(payouts, page)?;
        for (id, record) in &records {
            for (intent, _) in record.intents() {
                let similar = state.similar(payouts, &intent, Timestamp(0), 100)?;
                assert_eq!(similar, std::slice::from_ref(id));
                let later = record.bound_time.after(firstclaim_core::Millis(1));
                assert_eq!(state.similar(payouts, &intent, later, 100)?, []);
                let other = Intent { digest: vec![0; 32], ..intent };
                assert_eq!(state.similar(payouts, &other, Timestamp(0), 100)?, []);
            }
            // The key that stands for nothing is not similar to anything.
            assert_eq!(record.intents().is_empty(), id.key.as_str() == "unbound-1");
        }
        // Every record is forgotten one day, but for those that are open or kept for ever.
        let due = state.due(Timestamp(u64::MAX), 100)?;
        assert!(due.iter().any(|id| id.key.as_str() == "done-1"), "{due:?}");
        Ok(())
    });
    read.unwrap();
}
