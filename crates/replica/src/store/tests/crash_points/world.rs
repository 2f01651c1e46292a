//! What a store is fed with: the entries that the cluster agrees on, what the state is after each, and
//! snapshots of another node.

use std::collections::BTreeMap;
use std::path::Path;

use firstclaim_proto::peer::v1::SnapshotManifest;
use openraft::storage::{RaftSnapshotBuilder as _, RaftStateMachine as _};

use super::super::{append, apply, open, random};
use super::disk::Disk;
use super::fs;
use super::tree::Tree;
use crate::raft::{Entry, EntryPayload, Membership, Payload, log_id};
use crate::store::codec;
use crate::store::disk::Storage;

pub(super) const ENTRIES: u64 = 40;

/// Entries of the second term begin here.
pub(super) const SECOND_TERM: u64 = 8;

/// Entries of the third term begin here.
pub(super) const THIRD_TERM: u64 = 20;

/// A snapshot on its way.
pub(super) struct Parcel {
    pub(super) manifest: SnapshotManifest,
    pub(super) parts: Vec<Vec<u8>>,
}

pub(super) struct World {
    pub(super) seed: u64,
    /// By index.
    pub(super) entries: Vec<Entry>,
    /// By the number of entries in the state.
    pub(super) hashes: Vec<[u8; 32]>,
    /// By the index of the last entry in them.
    pub(super) parcels: BTreeMap<u64, Parcel>,
}

fn term(index: u64) -> u64 {
    1 + u64::from(index >= SECOND_TERM) + u64::from(index >= THIRD_TERM)
}

fn entries(seed: u64) -> Vec<Entry> {
    let batches = random::entries(seed);
    let entry = |(index, (time, commands)): (u64, &random::Batch)| {
        let payload = match index {
            3 => EntryPayload::Membership(Membership::new_with_defaults(vec![], [])),
            SECOND_TERM | THIRD_TERM => EntryPayload::Blank,
            _ => {
                let bytes = codec::encode_payload(firstclaim_core::Timestamp(*time), commands);
                EntryPayload::Normal(Payload(bytes.unwrap()))
            }
        };
        Entry { log_id: log_id(term(index), index), payload }
    };
    (0..ENTRIES).zip(&batches).map(entry).collect()
}

impl World {
    /// Plays all entries on a node whose disk does what it is asked.
    pub(super) async fn new(seed: u64) -> Self {
        let entries = entries(seed);
        let dir = tempfile::tempdir().unwrap();
        fs::put(dir.path(), Disk::new(Tree::default()));
        let mut store = open(dir.path(), Storage::Journal).unwrap();
        append(&mut store.log, entries.clone()).await;
        let mut hashes = vec![store.machine.state_hash().unwrap().1];
        let mut parcels = BTreeMap::new();
        for entry in &entries {
            apply(&mut store.state_machine, vec![entry.clone()]).await;
            hashes.push(store.machine.state_hash().unwrap().1);
            let mut builder = store.state_machine.get_snapshot_builder().await;
            let snapshot = builder.build_snapshot().await.unwrap().snapshot;
            let mut reader = snapshot.reader();
            let parts = std::iter::from_fn(|| reader.next_part().unwrap()).collect();
            let manifest = snapshot.manifest().clone();
            parcels.insert(entry.log_id.index, Parcel { manifest, parts });
        }
        store.close().await;
        Self { seed, entries, hashes, parcels }
    }

    /// An entry of a leader that was not obeyed: of the term before, and with what is the next one's.
    pub(super) fn stray(&self, index: u64) -> Entry {
        let payload = self.entry(index + 1).payload.clone();
        Entry { log_id: log_id(term(index) - 1, index), payload }
    }

    pub(super) fn entry(&self, index: u64) -> &Entry {
        &self.entries[usize::try_from(index).unwrap()]
    }

    pub(super) fn range(&self, from: u64, to: u64) -> Vec<Entry> {
        self.entries[usize::try_from(from).unwrap()..usize::try_from(to).unwrap()].to_vec()
    }

    /// The digest of the state after the entry at an index.
    pub(super) fn hash_at(&self, applied: Option<u64>) -> [u8; 32] {
        let count = applied.map_or(0, |index| index + 1);
        self.hashes[usize::try_from(count).unwrap()]
    }
}

/// A disk that can be lost where a folder is.
pub(super) fn put_disk(root: &Path, tree: Tree) -> std::sync::Arc<Disk> {
    let disk = Disk::new(tree);
    fs::put(root, std::sync::Arc::clone(&disk));
    disk
}
