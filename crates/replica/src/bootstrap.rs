//! How a cluster forms by itself, and why a node that has lost its disk does not join again.
//!
//! The node with the smallest id forms the cluster: once it reaches all members and all of them
//! are empty, it asks each to note that it is a member, and then writes the first entry. So from
//! the first entry on, every member either has something in its log or has the note.
//!
//! A node with neither, in a cluster that already runs, has lost its disk. It may have voted for
//! or acknowledged what it no longer knows, so it takes no part: it stops and says why.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use firstclaim_proto::peer::v1 as proto;

use crate::config::ReplicaConfig;
use crate::error::StoreError;
use crate::network::Peers;
use crate::raft::Raft;
use crate::store::disk::Disk;
use crate::store::{LogStore, file};

const ADMITTED_FILE: &str = "ADMITTED";
const RETRY_EVERY: Duration = Duration::from_millis(250);
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Whether this node is a member.
pub(crate) struct Admission {
    path: PathBuf,
    log: LogStore,
    admitted: AtomicBool,
}

impl Admission {
    pub(crate) fn open(disk: &Disk, log: LogStore) -> Result<Self, StoreError> {
        let path = disk.path(ADMITTED_FILE);
        let admitted = !log.is_pristine() || file::read(&path)?.is_some();
        Ok(Self { path, log, admitted: AtomicBool::new(admitted) })
    }

    pub(crate) fn is_admitted(&self) -> bool {
        self.admitted.load(Ordering::Acquire)
    }

    /// Whether this node has never voted and holds no log entry.
    pub(crate) fn is_pristine(&self) -> bool {
        self.log.is_pristine()
    }

    /// Notes for good that this node is a member.
    pub(crate) fn admit(&self) -> Result<(), StoreError> {
        if !self.is_admitted() {
            file::replace(&self.path, b"")?;
            self.admitted.store(true, Ordering::Release);
        }
        Ok(())
    }
}

/// Forms the cluster, or waits until another node has.
///
/// # Errors
///
/// If this node must not take part.
pub(crate) async fn join(
    config: &ReplicaConfig,
    peers: &Peers,
    raft: &Raft,
    admission: &Arc<Admission>,
) -> Result<(), String> {
    let founds = config.members.keys().next() == Some(&config.node_id);
    loop {
        if !admission.is_pristine() {
            return Ok(());
        }
        let probes = probe_all(config, peers, false).await;
        let runs = probes.iter().any(|probe| matches!(probe, Ok(answer) if !answer.pristine));
        if runs {
            // The note is made before the first entry is, so it is looked at after the answer.
            if admission.is_admitted() {
                return Ok(());
            }
            return Err(format!(
                "the data folder of node {} is empty, but its cluster already runs: a node that \
                 lost its disk may have made promises that it no longer knows, so put back the \
                 folder, or add the node under a new id",
                config.node_id
            ));
        }
        if founds && probes.iter().all(Result::is_ok) {
            match found(config, peers, raft, admission).await {
                Ok(()) => return Ok(()),
                Err(reason) => tracing::warn!(reason, "the cluster could not be formed yet"),
            }
        } else if let (true, Some(reason)) = (founds, probes.into_iter().find_map(Result::err)) {
            tracing::debug!(reason, "waiting for all members before the cluster is formed");
        }
        tokio::time::sleep(RETRY_EVERY).await;
    }
}

async fn found(
    config: &ReplicaConfig,
    peers: &Peers,
    raft: &Raft,
    admission: &Admission,
) -> Result<(), String> {
    for answer in probe_all(config, peers, true).await {
        if !answer?.pristine {
            return Err("a member has just joined a cluster".to_owned());
        }
    }
    admission.admit().map_err(|error| error.to_string())?;
    raft.initialize(config.members.clone()).await.map_err(|error| error.to_string())
}

async fn probe_all(
    config: &ReplicaConfig,
    peers: &Peers,
    admit: bool,
) -> Vec<Result<proto::ProbeResponse, String>> {
    let others = config.members.iter().filter(|(id, _)| **id != config.node_id);
    let probes = others.map(|(id, member)| async move {
        let request = proto::ProbeRequest { admit };
        let call =
            peers.call(*id, Some(member), |mut client| async move { client.probe(request).await });
        match tokio::time::timeout(PROBE_TIMEOUT, call).await {
            Ok(answer) => answer.map_err(|reason| format!("node {id}: {reason}")),
            Err(_) => Err(format!("node {id} did not answer")),
        }
    });
    futures::future::join_all(probes).await
}
