//! Linearizable reads, and what the leader confirms about store time.
//!
//! No read trusts a clock: the leader asks a majority whether it still leads, and a follower asks
//! the leader.

use std::sync::{Arc, Mutex, PoisonError};

use firstclaim_core::Timestamp;
use firstclaim_core::planted::{self, Planted};
use firstclaim_proto::peer::v1 as proto;
use openraft::ReadPolicy;
use openraft::async_runtime::watch::WatchReceiver as _;
use openraft::errors::{ForwardToLeader, LinearizableReadError, RaftError};
use tokio::time::Instant;

use crate::clock::{Clock, Stamper};
use crate::error::ProposeError;
use crate::limits::PROPOSE_TIMEOUT;
use crate::network::Peers;
use crate::raft::{LogId, Raft, TypeConfig};
use crate::store::machine::Machine;
use crate::wire;

/// What a leader says once a majority has confirmed it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Confirmed {
    /// A state that holds this entry holds every write acknowledged before the question.
    pub(crate) read_log_id: LogId,
    /// Store time at the leader, as it would stamp an entry.
    pub(crate) store_time: Timestamp,
}

/// Answers who asks for a state that is not stale.
pub(crate) struct Reads {
    raft: Raft,
    machine: Arc<Machine>,
    peers: Peers,
    clock: Arc<dyn Clock>,
    stamper: Arc<Stamper>,
    confirmed: Mutex<Option<(Timestamp, Instant)>>,
}

impl Reads {
    pub(crate) fn new(
        raft: Raft,
        machine: Arc<Machine>,
        peers: Peers,
        clock: Arc<dyn Clock>,
        stamper: Arc<Stamper>,
    ) -> Self {
        Self { raft, machine, peers, clock, stamper, confirmed: Mutex::new(None) }
    }

    /// Confirms on this node, which must lead.
    pub(crate) async fn confirm_here(&self) -> Result<Confirmed, ProposeError> {
        let leader = self.raft.as_leader().map_err(not_leader)?;
        let read_log_id = match self.own_word() {
            Some(read_log_id) => read_log_id,
            None => {
                let asked = self.raft.get_read_log_id(ReadPolicy::ReadIndex).await;
                *asked.map_err(read_error)?.0.log_id()
            }
        };
        let election = self.own_election(leader.term()).await?;
        let applied = self.machine.store_time();
        let stamp = self.stamper.stamp(&*self.clock, leader.term(), applied, Some(election));
        Ok(Confirmed { read_log_id, store_time: stamp.max(applied) })
    }

    /// Waits until this leader's own election is applied: before, store time may be further than it knows.
    async fn own_election(&self, term: u64) -> Result<(u64, Timestamp), ProposeError> {
        let mut progress = self.machine.progress();
        loop {
            match self.machine.election() {
                Some((of, time)) if of == term => return Ok((of, time)),
                Some((of, _)) if of > term => return Err(ProposeError::NoLeader),
                Some(_) | None => {}
            }
            progress.changed().await.map_err(|_closed| ProposeError::Stopping)?;
        }
    }

    /// The planted bug: what this node believes to be committed, without asking.
    fn own_word(&self) -> Option<LogId> {
        if !planted::is(Planted::ReadAsksNobody) {
            return None;
        }
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        metrics.local_committed
    }

    /// Waits until this node's state holds every write acknowledged before the call.
    pub(crate) async fn linearize(&self) -> Result<(), ProposeError> {
        let within = async {
            let confirmed = self.confirm().await?;
            if planted::is(Planted::ReadDoesNotWait) {
                return Ok(());
            }
            self.wait_applied(confirmed.read_log_id.index).await
        };
        tokio::time::timeout(PROPOSE_TIMEOUT, within).await.unwrap_or_else(|_| {
            Err(ProposeError::TimedOut { waited_ms: crate::clock::millis(PROPOSE_TIMEOUT) })
        })
    }

    /// Asks whoever leads, and remembers what it says about store time.
    pub(crate) async fn confirm(&self) -> Result<Confirmed, ProposeError> {
        // Taken before the question is sent: so time since the answer is never counted too short.
        let asked = Instant::now();
        let confirmed = match self.raft.as_leader() {
            Ok(_) => self.confirm_here().await?,
            Err(forward) => self.ask_leader(forward).await?,
        };
        let mut newest = self.confirmed.lock().unwrap_or_else(PoisonError::into_inner);
        if newest.is_none_or(|(_, before)| before <= asked) {
            *newest = Some((confirmed.store_time, asked));
        }
        Ok(confirmed)
    }

    async fn ask_leader(
        &self,
        forward: ForwardToLeader<TypeConfig>,
    ) -> Result<Confirmed, ProposeError> {
        let Some(leader) = forward.leader_id else { return Err(ProposeError::NoLeader) };
        let answer = self
            .peers
            .call(leader, forward.leader_node.as_ref(), |mut client| async move {
                client.read_index(proto::ReadIndexRequest {}).await
            })
            .await;
        // A read has no effect, so that the leader cannot be asked is just its absence.
        let answer = answer.map_err(|reason| {
            tracing::debug!(leader, reason, "the leader did not confirm a read");
            ProposeError::NoLeader
        })?;
        let read_log_id = answer.read_log_id.as_ref().map(wire::log_id_from);
        Ok(Confirmed {
            read_log_id: read_log_id.ok_or(ProposeError::NoLeader)?,
            store_time: Timestamp(answer.store_time_ms),
        })
    }

    async fn wait_applied(&self, index: u64) -> Result<(), ProposeError> {
        let mut progress = self.machine.progress();
        let reached = progress
            .wait_for(|progress| progress.applied_index.is_some_and(|applied| applied >= index))
            .await;
        reached.map(|_| ()).map_err(|_closed| ProposeError::Stopping)
    }

    /// The last store time that a leader confirmed, and when it was asked for.
    pub(crate) fn confirmed_store_time(&self) -> Option<(Timestamp, Instant)> {
        *self.confirmed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// This node does not lead.
pub(crate) fn not_leader(forward: ForwardToLeader<TypeConfig>) -> ProposeError {
    match (forward.leader_id, forward.leader_node) {
        (Some(id), Some(node)) => ProposeError::NotLeader { leader: Some((id, node.client_addr)) },
        (Some(_), None) => ProposeError::NotLeader { leader: None },
        (None, _) => ProposeError::NoLeader,
    }
}

fn read_error(error: RaftError<TypeConfig, LinearizableReadError<TypeConfig>>) -> ProposeError {
    match error {
        RaftError::APIError(LinearizableReadError::ForwardToLeader(forward)) => not_leader(forward),
        RaftError::APIError(LinearizableReadError::QuorumNotEnough(_)) => ProposeError::NoQuorum,
        RaftError::Fatal(fatal) => ProposeError::Failed { reason: fatal.to_string() },
    }
}
