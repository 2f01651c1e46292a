//! V12, I5: at one index, all nodes have one state, whether it came by the log or by a snapshot.

use std::collections::BTreeMap;

use crate::run::Evidence;

pub(super) fn check(evidence: &Evidence) -> Vec<String> {
    let mut known: BTreeMap<u64, (u64, [u8; 32])> = BTreeMap::new();
    let mut faults = Vec::new();
    for (node, index, hash) in &evidence.told.hashes {
        let (other, expected) = known.entry(*index).or_insert((*node, *hash));
        if expected != hash {
            faults.push(format!("state (V12): nodes {other} and {node} differ at entry {index}"));
        }
    }
    faults.truncate(5);
    faults
}
