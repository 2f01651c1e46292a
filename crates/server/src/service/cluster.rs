//! `ClusterService`: how this node is, and what operators ask of it.

use std::sync::Arc;
use std::time::Duration;

use firstclaim_core::Millis;
use firstclaim_proto::convert::time;
use firstclaim_proto::v1;
use firstclaim_proto::v1::cluster_service_server::ClusterService;
use firstclaim_replica::{MemberStatus, ProposeError, Role};
use tokio::time::Instant;
use tonic::{Request, Response, Status};

use crate::node::{Fail, Method, Node};
use crate::readiness;
use crate::status::Failure;
use crate::version;

macro_rules! method {
    ($name:literal) => {
        Method { name: $name, path: concat!("/firstclaim.v1.ClusterService/", $name) }
    };
}

const GET_STATUS: Method = method!("GetStatus");
const LIST_MEMBERS: Method = method!("ListMembers");
const GET_STATE_HASH: Method = method!("GetStateHash");
const TRIGGER_SNAPSHOT: Method = method!("TriggerSnapshot");
const PURGE_LOG: Method = method!("PurgeLog");

/// A member that was heard of this long ago counts as reachable.
const REACHABLE_WITHIN: Duration = Duration::from_secs(5);
/// How long a purge may take to show.
const PURGE_WAIT: Duration = Duration::from_secs(5);
const PURGE_PAUSE: Duration = Duration::from_millis(20);

/// The service.
#[derive(Clone, Debug)]
pub(crate) struct ClusterInfo(pub(crate) Arc<Node>);

#[tonic::async_trait]
impl ClusterService for ClusterInfo {
    async fn get_status(
        &self,
        request: Request<v1::GetStatusRequest>,
    ) -> Result<Response<v1::GetStatusResponse>, Status> {
        let node = &self.0;
        node.serve(GET_STATUS, request, async |_call, _message| Ok(Response::new(status(node))))
            .await
    }

    async fn list_members(
        &self,
        request: Request<v1::ListMembersRequest>,
    ) -> Result<Response<v1::ListMembersResponse>, Status> {
        let node = &self.0;
        node.serve(LIST_MEMBERS, request, async |_call, _message| {
            let status = node.replica.status();
            let leader_id = node.replica.leader().map(|(id, _)| id);
            let leads = node.replica.is_leader();
            let member = |one: &MemberStatus| member(one, leader_id, leads);
            Ok(Response::new(v1::ListMembersResponse {
                members: status.members.iter().map(member).collect(),
                leader_id,
                answered_by: status.node_id,
            }))
        })
        .await
    }

    async fn get_state_hash(
        &self,
        request: Request<v1::GetStateHashRequest>,
    ) -> Result<Response<v1::GetStateHashResponse>, Status> {
        let node = &self.0;
        node.serve(GET_STATE_HASH, request, async |_call, _message| {
            let (applied_index, hash) = node.replica.state_hash().await.map_err(|error| {
                tracing::error!(%error, "the state cannot be hashed");
                Failure::internal("hash its state")
            })?;
            Ok(Response::new(v1::GetStateHashResponse { applied_index, sha256: hash.to_vec() }))
        })
        .await
    }

    async fn trigger_snapshot(
        &self,
        request: Request<v1::TriggerSnapshotRequest>,
    ) -> Result<Response<v1::TriggerSnapshotResponse>, Status> {
        let node = &self.0;
        node.serve(TRIGGER_SNAPSHOT, request, async |_call, _message| {
            node.replica.snapshot().await.map_err(|error| operation("build a snapshot", &error))?;
            let snapshot_index = node.replica.status().snapshot_index.unwrap_or(0);
            Ok(Response::new(v1::TriggerSnapshotResponse { snapshot_index }))
        })
        .await
    }

    async fn purge_log(
        &self,
        request: Request<v1::PurgeLogRequest>,
    ) -> Result<Response<v1::PurgeLogResponse>, Status> {
        let node = &self.0;
        node.serve(PURGE_LOG, request, async |_call, message| {
            let covered = node.replica.status().snapshot_index.unwrap_or(0);
            let up_to =
                if message.up_to_index == 0 { covered } else { message.up_to_index.min(covered) };
            node.replica
                .purge_log(up_to)
                .await
                .map_err(|error| operation("purge its log", &error))?;
            let give_up = Instant::now() + PURGE_WAIT;
            let purged = || node.replica.status().purged_index.unwrap_or(0);
            while purged() < up_to && Instant::now() < give_up {
                tokio::time::sleep(PURGE_PAUSE).await;
            }
            Ok(Response::new(v1::PurgeLogResponse { purged_index: purged() }))
        })
        .await
    }
}

/// An operation on this node that did not come to its end.
fn operation(doing: &str, error: &ProposeError) -> Fail {
    tracing::warn!(%error, doing, "an operation failed");
    Failure::internal(doing).into()
}

/// How this node is.
pub(crate) fn status(node: &Node) -> v1::GetStatusResponse {
    let status = node.replica.status();
    let leader = node.replica.leader();
    let not_ready = readiness::not_ready(node);
    let uptime = Millis(u64::try_from(node.started.elapsed().as_millis()).unwrap_or(u64::MAX));
    v1::GetStatusResponse {
        cluster_id: status.cluster_id,
        node_id: status.node_id,
        region: status.region,
        role: role(status.role).into(),
        term: status.term,
        leader_id: leader.as_ref().map(|(id, _)| *id),
        leader_address: leader.map(|(_, member)| member.client_addr).unwrap_or_default(),
        last_log_index: status.last_log_index.unwrap_or(0),
        committed_index: status.committed_index.unwrap_or(0),
        applied_index: status.applied_index.unwrap_or(0),
        snapshot_index: status.snapshot_index.unwrap_or(0),
        purged_index: status.purged_index.unwrap_or(0),
        snapshot_installs: status.snapshot_installs,
        store_time: Some(time::timestamp(status.store_time)),
        ready: not_ready.is_none(),
        not_ready_reason: not_ready.unwrap_or_default(),
        version: version::VERSION.to_owned(),
        build_id: version::build_id().to_owned(),
        uptime: Some(time::duration(uptime)),
    }
}

fn role(role: Role) -> v1::NodeRole {
    match role {
        Role::Leader => v1::NodeRole::Leader,
        Role::Follower => v1::NodeRole::Follower,
        Role::Candidate => v1::NodeRole::Candidate,
        Role::Learner => v1::NodeRole::Learner,
        Role::Stopped => v1::NodeRole::Stopped,
    }
}

fn member(one: &MemberStatus, leader: Option<u64>, asked_leads: bool) -> v1::Member {
    let is_leader = leader == Some(one.node_id);
    // A leader does not hear from itself.
    let contact = if asked_leads && is_leader { Some(0) } else { one.contact_age_ms };
    let within = |age: u64| Duration::from_millis(age) <= REACHABLE_WITHIN;
    v1::Member {
        node_id: one.node_id,
        region: one.member.region.clone(),
        peer_address: one.member.peer_addr.clone(),
        client_address: one.member.client_addr.clone(),
        voter: one.voter,
        leader: is_leader,
        matched_index: one.match_index,
        lag: one.lag,
        last_contact: contact.map(|age| time::duration(Millis(age))),
        reachable: asked_leads.then(|| contact.is_some_and(within)),
    }
}
