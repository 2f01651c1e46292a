//! Asks the nodes of a dev cluster from outside, over their own API.

use std::net::SocketAddr;
use std::time::Duration;

use firstclaim_proto::v1::cluster_service_client::ClusterServiceClient;
use firstclaim_proto::v1::tenant_service_client::TenantServiceClient;
use firstclaim_proto::v1::{
    CreateNamespaceRequest, CreateTenantRequest, GetStatusRequest, GetStatusResponse, Namespace,
    NodeRole, OnLapse, Policy, Tenant,
};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

use super::options::DevError;
use super::region::Region;

const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
const STATUS_TIMEOUT: Duration = Duration::from_secs(1);

const TENANT: &str = "demo";
const NAMESPACES: [&str; 2] = ["payouts", "emails"];

/// How a node of a dev cluster is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeStatus {
    /// Its region.
    pub region: Region,
    /// `leader`, `follower`, `candidate`, `learner` or `stopped`.
    pub role: &'static str,
    /// Its term.
    pub term: u64,
    /// The leader that it knows.
    pub leader: Option<Region>,
    /// The last entry in its state.
    pub applied_index: u64,
    /// Whether it serves calls.
    pub ready: bool,
    /// If not, why not.
    pub not_ready_reason: String,
}

impl NodeStatus {
    fn new(region: Region, answer: GetStatusResponse) -> Self {
        let role = match answer.role() {
            NodeRole::Leader => "leader",
            NodeRole::Follower => "follower",
            NodeRole::Candidate => "candidate",
            NodeRole::Learner => "learner",
            NodeRole::Stopped | NodeRole::Unspecified => "stopped",
        };
        Self {
            region,
            role,
            term: answer.term,
            leader: answer.leader_id.and_then(Region::of_node),
            applied_index: answer.applied_index,
            ready: answer.ready,
            not_ready_reason: answer.not_ready_reason,
        }
    }
}

/// A connection to the node at `addr`, made when it is first used. Call it inside a tokio runtime.
pub(super) fn connect(addr: SocketAddr) -> Result<Channel, tonic::transport::Error> {
    let endpoint = Endpoint::from_shared(format!("http://{addr}"))?;
    Ok(endpoint.connect_timeout(CONNECT_TIMEOUT).timeout(CALL_TIMEOUT).connect_lazy())
}

/// Asks a node how it is; none if it does not answer.
pub(super) async fn status(region: Region, channel: Channel) -> Option<NodeStatus> {
    let mut request = Request::new(GetStatusRequest {});
    request.set_timeout(STATUS_TIMEOUT);
    let mut client = ClusterServiceClient::new(channel);
    match tokio::time::timeout(STATUS_TIMEOUT, client.get_status(request)).await {
        Ok(Ok(answer)) => Some(NodeStatus::new(region, answer.into_inner())),
        Ok(Err(status)) => {
            tracing::debug!(%region, %status, "ask a node for its status");
            None
        }
        Err(_elapsed) => None,
    }
}

/// Makes the tenant `demo` and its namespaces, unless they are there.
pub(super) async fn seed(channel: Channel) -> Result<(), DevError> {
    let mut client = TenantServiceClient::new(channel);
    let tenant = Tenant { name: TENANT.to_owned(), ..Tenant::default() };
    let request = CreateTenantRequest { tenant: Some(tenant), validate_only: false };
    made(TENANT, client.create_tenant(request).await.map(drop))?;
    for name in NAMESPACES {
        let policy = Policy { on_lapse: OnLapse::Recover.into(), ..Policy::default() };
        let namespace = Namespace {
            tenant: TENANT.to_owned(),
            name: name.to_owned(),
            policy: Some(policy),
            ..Namespace::default()
        };
        let request = CreateNamespaceRequest { namespace: Some(namespace), validate_only: false };
        made(name, client.create_namespace(request).await.map(drop))?;
    }
    Ok(())
}

/// What is there already was made by an earlier start on the same data.
fn made(what: &'static str, answer: Result<(), Status>) -> Result<(), DevError> {
    match answer {
        Ok(()) => Ok(()),
        Err(status) if status.code() == Code::AlreadyExists => Ok(()),
        Err(status) => Err(DevError::Seed { what, reason: status.message().to_owned() }),
    }
}
