//! What a replica says about itself and, if it leads, about the others.

use firstclaim_core::Timestamp;
use openraft::metrics::RaftMetrics;
use openraft::{ServerState, TokioInstant};

use crate::Member;
use crate::config::ReplicaConfig;
use crate::raft::{LogId, TypeConfig};
use crate::store::machine::Machine;

/// What a replica is in its term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It proposes.
    Leader,
    /// It follows a leader, or waits for one.
    Follower,
    /// It asks for votes.
    Candidate,
    /// It has no vote.
    Learner,
    /// It is stopped.
    Stopped,
}

impl Role {
    /// Its name in text.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Leader => "leader",
            Self::Follower => "follower",
            Self::Candidate => "candidate",
            Self::Learner => "learner",
            Self::Stopped => "stopped",
        }
    }
}

/// The state of a replica at one moment.
#[derive(Clone, Debug)]
pub struct Status {
    /// This node.
    pub node_id: u64,
    /// The cluster.
    pub cluster_id: String,
    /// The region that this node is in.
    pub region: String,
    /// What it is.
    pub role: Role,
    /// The term that it is in.
    pub term: u64,
    /// Who leads, as far as it knows.
    pub leader: Option<u64>,
    /// Index of the last entry in its log.
    pub last_log_index: Option<u64>,
    /// Index of the last entry that it knows to be committed.
    pub committed_index: Option<u64>,
    /// Index of the last entry in its state.
    pub applied_index: Option<u64>,
    /// Index of the last entry in its last snapshot.
    pub snapshot_index: Option<u64>,
    /// Index of the last entry that was purged from its log.
    pub purged_index: Option<u64>,
    /// How many snapshots of other nodes it has installed since its start.
    pub snapshot_installs: u64,
    /// Store time in its state.
    pub store_time: Timestamp,
    /// If it leads: ms since a majority last confirmed that.
    pub quorum_ack_age_ms: Option<u64>,
    /// The members, this node among them.
    pub members: Vec<MemberStatus>,
    /// Why it failed, if it did.
    pub failure: Option<String>,
}

/// A member as the asked replica sees it.
#[derive(Clone, Debug)]
pub struct MemberStatus {
    /// The node.
    pub node_id: u64,
    /// Where it is.
    pub member: Member,
    /// Whether it votes.
    pub voter: bool,
    /// If the asked replica leads: the last entry that it knows to be in that member's log.
    pub match_index: Option<u64>,
    /// If the asked replica leads: by how many entries that is behind its own log.
    pub lag: Option<u64>,
    /// If the asked replica leads: ms since that member last answered.
    pub contact_age_ms: Option<u64>,
}

pub(crate) fn status_of(
    config: &ReplicaConfig,
    metrics: &RaftMetrics<TypeConfig>,
    machine: &Machine,
) -> Status {
    let index = |id: &Option<LogId>| id.as_ref().map(|id| id.index);
    let progress = *machine.progress().borrow();
    let role = match metrics.state {
        ServerState::Leader => Role::Leader,
        ServerState::Follower => Role::Follower,
        ServerState::Candidate => Role::Candidate,
        ServerState::Learner => Role::Learner,
        ServerState::Shutdown => Role::Stopped,
    };
    let own_region = config.members.get(&config.node_id).map(|member| member.region.clone());
    Status {
        node_id: config.node_id,
        cluster_id: config.cluster_id.clone(),
        region: own_region.unwrap_or_default(),
        role,
        term: metrics.current_term,
        leader: metrics.current_leader,
        last_log_index: metrics.last_log_index,
        committed_index: index(&metrics.local_committed),
        applied_index: progress.applied_index,
        snapshot_index: index(&metrics.snapshot),
        purged_index: index(&metrics.purged),
        snapshot_installs: machine.snapshot_installs(),
        store_time: progress.store_time,
        quorum_ack_age_ms: metrics.last_quorum_acked.as_ref().map(age_ms),
        members: members_of(config, metrics),
        failure: metrics.running_state.as_ref().err().map(ToString::to_string),
    }
}

fn age_ms(at: &impl std::ops::Deref<Target = TokioInstant>) -> u64 {
    crate::clock::millis(openraft::Instant::elapsed(&**at))
}

fn members_of(config: &ReplicaConfig, metrics: &RaftMetrics<TypeConfig>) -> Vec<MemberStatus> {
    let stored = &metrics.membership_config;
    let voters: Vec<u64> = stored.voter_ids().collect();
    let known: Vec<(u64, Member)> = if voters.is_empty() {
        config.members.iter().map(|(id, member)| (*id, member.clone())).collect()
    } else {
        // An address in the configuration is newer than the one in the log.
        let newest =
            |(id, logged): (&u64, &Member)| (*id, config.members.get(id).unwrap_or(logged).clone());
        stored.nodes().map(newest).collect()
    };
    known
        .into_iter()
        .map(|(node_id, member)| {
            let matched = metrics.replication.as_ref().and_then(|all| all.get(&node_id));
            let match_index = matched.and_then(|id| id.as_ref().map(|id| id.index));
            let heard = metrics.heartbeat.as_ref().and_then(|all| all.get(&node_id));
            let contact = heard.and_then(|at| at.as_ref());
            MemberStatus {
                node_id,
                member,
                voter: voters.contains(&node_id),
                match_index,
                lag: match_index
                    .zip(metrics.last_log_index)
                    .map(|(at, last)| last.saturating_sub(at)),
                contact_age_ms: contact.map(age_ms),
            }
        })
        .collect()
}
