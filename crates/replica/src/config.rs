//! What a replica is told when it is opened, and the timers that follow from it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use firstclaim_core::Millis;
use openraft::SnapshotPolicy;

use crate::error::OpenError;
use crate::limits::{LOG_ENTRIES_KEPT, PURGE_BATCH, SNAPSHOT_EVERY_ENTRIES};
use crate::{Member, Storage};

/// How to open a replica.
#[derive(Clone, Debug)]
pub struct ReplicaConfig {
    /// This node.
    pub node_id: u64,
    /// The cluster. A node of another cluster is refused.
    pub cluster_id: String,
    /// This node's folder. It is created if it is not there.
    pub data_dir: PathBuf,
    /// Where to listen for the other nodes.
    pub peer_listen: SocketAddr,
    /// The voters, this node among them. The same on all nodes.
    pub members: BTreeMap<u64, Member>,
    /// The longest round trip between two nodes. The same on all nodes, since elections are timed
    /// by it.
    pub expected_rtt: Millis,
    /// Where the rows are kept.
    pub storage: Storage,
    /// When snapshots are made and the log is cut.
    pub snapshots: SnapshotRule,
}

/// When snapshots are made and the log is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotRule {
    /// A snapshot is made after this many entries.
    pub every_entries: u64,
    /// So many entries before it stay in the log, for nodes that were away.
    pub entries_kept: u64,
}

impl Default for SnapshotRule {
    fn default() -> Self {
        Self { every_entries: SNAPSHOT_EVERY_ENTRIES, entries_kept: LOG_ENTRIES_KEPT }
    }
}

/// The timers of elections, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timers {
    pub(crate) heartbeat: u64,
    pub(crate) election_min: u64,
    pub(crate) election_max: u64,
}

impl Timers {
    /// At least two round trips to a heartbeat, three heartbeats to an election, and two round
    /// trips between the earliest candidate and the latest.
    fn for_rtt(rtt: Millis) -> Self {
        match rtt.0 {
            0..=30 => Self { heartbeat: 100, election_min: 350, election_max: 500 },
            31..=80 => Self { heartbeat: 250, election_min: 750, election_max: 1_000 },
            81..=250 => Self { heartbeat: 600, election_min: 1_800, election_max: 2_400 },
            rtt => Self {
                heartbeat: rtt.saturating_mul(5) / 2,
                election_min: rtt.saturating_mul(15) / 2,
                election_max: rtt.saturating_mul(10),
            },
        }
    }

    /// How long a silent connection is trusted.
    pub(crate) fn silence(&self) -> Duration {
        Duration::from_millis(self.election_max)
    }
}

impl ReplicaConfig {
    pub(crate) fn timers(&self) -> Timers {
        Timers::for_rtt(self.expected_rtt)
    }

    pub(crate) fn check(&self) -> Result<(), OpenError> {
        let fault =
            |field, problem: &str| Err(OpenError::Config { field, problem: problem.to_owned() });
        if self.node_id == 0 {
            return fault("node_id", "is 0: number the nodes from 1");
        }
        if self.cluster_id.is_empty() || self.cluster_id.chars().any(char::is_control) {
            return fault("cluster_id", "is empty or has control characters: give it a plain name");
        }
        if !self.members.contains_key(&self.node_id) {
            return fault("members", "do not contain this node: add it");
        }
        Ok(())
    }

    pub(crate) fn consensus(&self) -> Result<openraft::Config, OpenError> {
        let timers = self.timers();
        let config = openraft::Config {
            cluster_name: self.cluster_id.clone(),
            heartbeat_interval: timers.heartbeat,
            election_timeout_min: timers.election_min,
            election_timeout_max: timers.election_max,
            quorum_loss_probe_interval: Some(2 * timers.election_max),
            enable_pre_vote: Some(true),
            // A restarted leader must win a new term, whose first entry bounds linearizable reads.
            enable_leader_restore: Some(false),
            max_payload_entries: 512,
            api_channel_size: Some(4096),
            snapshot_policy: SnapshotPolicy::LogsSinceLast(self.snapshots.every_entries),
            max_in_snapshot_log_to_keep: self.snapshots.entries_kept,
            purge_batch_size: PURGE_BATCH,
            backoff: "100ms 200ms ...1s".to_owned(),
            ..openraft::Config::default()
        };
        config.validate().map_err(|error| OpenError::Consensus { reason: error.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_leave_room_for_round_trips() {
        for rtt in [1, 30, 31, 80, 81, 250, 251, 1_000] {
            let timers = Timers::for_rtt(Millis(rtt));
            assert!(timers.heartbeat >= 2 * rtt, "{rtt}: {timers:?}");
            assert!(timers.election_min >= 3 * timers.heartbeat, "{rtt}: {timers:?}");
            assert!(timers.election_max - timers.election_min >= 2 * rtt, "{rtt}: {timers:?}");
        }
    }
}
