//! Three nodes in this process, over real gRPC on loopback.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use firstclaim_core::Millis;
use firstclaim_proto::v1::claim_service_client::ClaimServiceClient;
use firstclaim_proto::v1::cluster_service_client::ClusterServiceClient;
use firstclaim_proto::v1::record_service_client::RecordServiceClient;
use firstclaim_proto::v1::tenant_service_client::TenantServiceClient;
use firstclaim_proto::v1::{self, GetStatusRequest};
use firstclaim_replica::Member;
use firstclaim_server::config::{Config, Listen, LogConfig};
use firstclaim_server::{RunningServer, Server};
use tokio::time::Instant;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};
use tonic_types::{ErrorInfo, StatusExt as _};

const REGIONS: [&str; 3] = ["eu-west", "us-east", "ap-south"];
const READY_WAIT: Duration = Duration::from_secs(30);

pub(crate) struct Three {
    pub(crate) nodes: BTreeMap<u64, RunningServer>,
    pub(crate) channels: BTreeMap<u64, Channel>,
    _data: tempfile::TempDir,
}

fn free_addresses<const N: usize>() -> [SocketAddr; N] {
    let held: Vec<_> =
        (0..N).map(|_| std::net::TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
    std::array::from_fn(|at| held[at].local_addr().expect("bound"))
}

impl Three {
    pub(crate) async fn start() -> Self {
        let data = tempfile::tempdir().expect("a folder");
        let addresses: [SocketAddr; 9] = free_addresses();
        let of = |at: usize| (addresses[3 * at], addresses[3 * at + 1], addresses[3 * at + 2]);
        let members: BTreeMap<u64, Member> = (0..3)
            .map(|at| {
                let (grpc, _, peer) = of(at);
                let member = Member {
                    region: REGIONS[at].to_owned(),
                    peer_addr: peer.to_string(),
                    client_addr: format!("http://{grpc}"),
                };
                (at as u64 + 1, member)
            })
            .collect();
        let (mut nodes, mut channels) = (BTreeMap::new(), BTreeMap::new());
        for (at, region) in REGIONS.into_iter().enumerate() {
            let (grpc, http, peer) = of(at);
            let node_id = at as u64 + 1;
            let config = Config {
                cluster_id: "test".to_owned(),
                expected_rtt: Millis(10),
                members: members.clone(),
                node_id,
                data_dir: data.path().join(region),
                listen: Listen { grpc, http, peer, insecure_no_auth: false },
                log: LogConfig::default(),
            };
            nodes.insert(node_id, Server::start(config).await.expect("the node starts"));
            let endpoint = Endpoint::from_shared(format!("http://{grpc}")).expect("an address");
            channels.insert(node_id, endpoint.connect_lazy());
        }
        let three = Self { nodes, channels, _data: data };
        three.wait_ready(&[1, 2, 3]).await;
        three
    }

    /// Waits until `nodes` are ready and agree on a leader among them; returns it.
    pub(crate) async fn wait_ready(&self, nodes: &[u64]) -> u64 {
        let give_up = Instant::now() + READY_WAIT;
        loop {
            let mut leaders = Vec::new();
            for node in nodes {
                let mut client = ClusterServiceClient::new(self.channels[node].clone());
                if let Ok(status) = client.get_status(GetStatusRequest {}).await {
                    let status = status.into_inner();
                    leaders.push(status.leader_id.filter(|_| status.ready));
                }
            }
            if leaders.len() == nodes.len()
                && let Some(Some(leader)) = leaders.first()
                && nodes.contains(leader)
                && leaders.iter().all(|one| one == &Some(*leader))
            {
                return *leader;
            }
            assert!(Instant::now() < give_up, "no leader within {READY_WAIT:?}: {leaders:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub(crate) async fn leader(&self) -> u64 {
        let nodes: Vec<u64> = self.nodes.keys().copied().collect();
        self.wait_ready(&nodes).await
    }

    pub(crate) async fn follower(&self) -> u64 {
        let leader = self.leader().await;
        *self.nodes.keys().find(|node| **node != leader).expect("a follower")
    }

    pub(crate) fn claims(&self, node: u64) -> ClaimServiceClient<Channel> {
        ClaimServiceClient::new(self.channels[&node].clone())
    }

    pub(crate) fn records(&self, node: u64) -> RecordServiceClient<Channel> {
        RecordServiceClient::new(self.channels[&node].clone())
    }

    pub(crate) fn tenants(&self, node: u64) -> TenantServiceClient<Channel> {
        TenantServiceClient::new(self.channels[&node].clone())
    }

    /// Creates the tenant `acme` with the namespace `payouts`, by way of `node`.
    pub(crate) async fn seed(&self, node: u64) {
        let tenant = v1::Tenant { name: "acme".to_owned(), ..v1::Tenant::default() };
        let request = v1::CreateTenantRequest { tenant: Some(tenant), validate_only: false };
        self.tenants(node).create_tenant(request).await.expect("the tenant is created");
        self.namespace(node, "payouts", v1::Policy::default()).await;
    }

    /// Creates a namespace of the tenant `acme` with a policy of its own.
    pub(crate) async fn namespace(&self, node: u64, name: &str, policy: v1::Policy) {
        let namespace = v1::Namespace {
            tenant: "acme".to_owned(),
            name: name.to_owned(),
            policy: Some(policy),
            ..v1::Namespace::default()
        };
        let request =
            v1::CreateNamespaceRequest { namespace: Some(namespace), validate_only: false };
        self.tenants(node).create_namespace(request).await.expect("the namespace is created");
    }

    pub(crate) async fn stop(self) {
        for node in self.nodes.values() {
            node.shutdown().await;
        }
    }
}

pub(crate) fn claim(key: &str, attempt: &str) -> v1::ClaimRequest {
    v1::ClaimRequest {
        tenant: "acme".to_owned(),
        namespace: "payouts".to_owned(),
        key: key.to_owned(),
        attempt_id: attempt.to_owned(),
        owner: format!("worker of {attempt}"),
        fingerprints: vec![v1::Fingerprint {
            scheme: "v1".to_owned(),
            digest: vec![7; 32],
            ..v1::Fingerprint::default()
        }],
        ..v1::ClaimRequest::default()
    }
}

pub(crate) fn complete(key: &str, attempt: &str, epoch: u64, result: &[u8]) -> v1::CompleteRequest {
    v1::CompleteRequest {
        tenant: "acme".to_owned(),
        namespace: "payouts".to_owned(),
        key: key.to_owned(),
        attempt_id: attempt.to_owned(),
        epoch,
        disposition: v1::Disposition::Succeeded.into(),
        result: Some(v1::Result {
            content_type: "text/plain".to_owned(),
            body: Some(v1::result::Body::Inline(result.to_vec())),
            ..v1::Result::default()
        }),
        ..v1::CompleteRequest::default()
    }
}

pub(crate) fn info(status: &Status) -> ErrorInfo {
    let details = status.get_details_error_info();
    details.unwrap_or_else(|| panic!("no error info in {status:?}"))
}

/// What a claim acquired.
pub(crate) fn acquired(response: v1::ClaimResponse) -> v1::Acquired {
    match response.outcome {
        Some(v1::claim_response::Outcome::Acquired(acquired)) => acquired,
        other => panic!("not acquired: {other:?}"),
    }
}

pub(crate) fn seconds(seconds: i64) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds, nanos: 0 })
}

pub(crate) fn content(text: &str) -> Option<v1::Content> {
    Some(v1::Content {
        content_type: "text/plain".to_owned(),
        data: text.as_bytes().to_vec(),
        ..v1::Content::default()
    })
}

/// An effect at the bank, which knows repeats by their key for a day.
pub(crate) fn dispatch(effect_id: &str) -> v1::Dispatch {
    v1::Dispatch {
        effect_id: effect_id.to_owned(),
        slot: effect_id.to_owned(),
        provider: "bank".to_owned(),
        provider_key: format!("pk-{effect_id}"),
        dedup_window: Some(v1::IdentityRetention {
            kind: Some(v1::identity_retention::Kind::Duration(prost_types::Duration {
                seconds: 86_400,
                nanos: 0,
            })),
        }),
        request: content("pay 12.50"),
        ..v1::Dispatch::default()
    }
}

pub(crate) fn committed() -> Option<v1::Verdict> {
    Some(v1::Verdict { kind: Some(v1::verdict::Kind::Committed(v1::Committed {})) })
}

pub(crate) fn settlement(uid: &str, verdict: Option<v1::Verdict>) -> v1::EffectSettlement {
    let effect = uid.split_once('/').map(|(_, effect)| effect.to_owned());
    v1::EffectSettlement {
        uid: uid.to_owned(),
        provider: effect.as_ref().map(|_| "bank".to_owned()).unwrap_or_default(),
        provider_key: effect.map(|effect| format!("pk-{effect}")).unwrap_or_default(),
        verdict,
        evidence: content("receipt 7"),
    }
}

/// What the HTTP listener of a node answers: status line and body.
pub(crate) async fn http_get(node: &RunningServer, path: &str) -> (String, String) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = tokio::net::TcpStream::connect(node.http_addr()).await.expect("connected");
    let request = format!("GET {path} HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("answered");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    (head.lines().next().unwrap_or_default().to_owned(), body.to_owned())
}
