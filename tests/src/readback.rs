//! What the nodes themselves say in the end, each for itself.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use firstclaim_client::v1;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::Outcome;
use crate::check::Stored;
use crate::cluster::Cluster;
use crate::race::{NAMESPACE, TENANT, result};

const SAME_WITHIN: Duration = Duration::from_secs(30);
const READERS: usize = 16;

/// Waits until all nodes stand at one applied index, and compares the hashes of their states there.
/// Returns the index and the hash.
///
/// # Errors
///
/// When the hashes differ, or when no common index is met in time.
pub async fn same_state(cluster: &Cluster) -> Outcome<(u64, Vec<u8>)> {
    let start = Instant::now();
    loop {
        let mut hashes = Vec::new();
        for node in cluster.nodes() {
            let mut operations = node.operations();
            let answer = operations.get_state_hash(v1::GetStateHashRequest {}).await;
            let answer = answer.map_err(|status| {
                format!("ask node {} for its state hash: {}", node.id, status.message())
            })?;
            hashes.push(answer.into_inner());
        }
        let indexes: BTreeSet<u64> = hashes.iter().map(|hash| hash.applied_index).collect();
        if let (Some(first), 1) = (hashes.first(), indexes.len()) {
            let index = first.applied_index;
            if hashes.iter().any(|hash| hash.sha256 != first.sha256 || hash.sha256.len() != 32) {
                return Err(format!("the states differ at index {index}: {hashes:02x?}").into());
            }
            return Ok((index, first.sha256.clone()));
        }
        if start.elapsed() > SAME_WITHIN {
            return Err(format!("no common index within {SAME_WITHIN:?}: {indexes:?}").into());
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// The records of these keys, read from each node for itself.
///
/// # Errors
///
/// When a node does not answer, or when two nodes answer differently.
pub async fn records(
    cluster: &Cluster,
    keys: &BTreeSet<String>,
) -> Outcome<BTreeMap<String, Stored>> {
    let keys: Vec<String> = keys.iter().cloned().collect();
    let mut readers = JoinSet::new();
    for share in keys.chunks(keys.len().div_ceil(READERS).max(1)) {
        let share = share.to_vec();
        let services: Vec<_> =
            cluster.nodes().iter().map(|node| (node.id, node.claims())).collect();
        readers.spawn(async move {
            let mut found = BTreeMap::new();
            for key in share {
                let mut records = Vec::new();
                for (id, service) in &services {
                    let mut service = service.clone();
                    let answer = service.get(request(&key)).await.map_err(|status| {
                        format!("read {key} from node {id}: {}", status.message())
                    })?;
                    records.push(answer.into_inner().record);
                }
                if records.windows(2).any(|pair| pair[0] != pair[1]) {
                    return Err(format!("{key} is not the same everywhere: {records:#?}").into());
                }
                if let Some(Some(record)) = records.pop() {
                    found.insert(key, summary(&record));
                }
            }
            Outcome::Ok(found)
        });
    }
    let mut found = BTreeMap::new();
    while let Some(part) = readers.join_next().await {
        found.append(&mut part??);
    }
    Ok(found)
}

fn request(key: &str) -> v1::GetRequest {
    v1::GetRequest {
        tenant: TENANT.to_owned(),
        namespace: NAMESPACE.to_owned(),
        key: key.to_owned(),
        consistency: v1::Consistency::Local.into(),
    }
}

fn summary(record: &v1::Record) -> Stored {
    let completion = record.completion.as_ref();
    let (epoch, digest) = result(completion).unwrap_or_default();
    Stored {
        completed: record.state() == v1::RecordState::Completed,
        epoch,
        attempt: completion.map(|completion| completion.attempt_id.clone()).unwrap_or_default(),
        digest,
        by_evidence: completion.is_some_and(|completion| completion.by_evidence),
        grants: record.execute_grants,
    }
}
