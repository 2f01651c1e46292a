//! A whole node: opened, served, drained and closed.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use firstclaim_core::Command;
use firstclaim_core::limits::CLIENT_MESSAGE_BYTES_MAX;
use firstclaim_core::name::Region;
use firstclaim_proto::v1::claim_service_server::ClaimServiceServer;
use firstclaim_proto::v1::cluster_service_server::ClusterServiceServer;
use firstclaim_proto::v1::record_service_server::RecordServiceServer;
use firstclaim_proto::v1::tenant_service_server::TenantServiceServer;
use firstclaim_replica::{
    Faults, OpenError, Replica, ReplicaConfig, SnapshotRule, Storage, SystemClock,
};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::transport::server::{Router, TcpIncoming};
use tonic_health::server::HealthReporter;
use tower::util::MapResponseLayer;

use crate::admission::Gate;
use crate::config::{Config, ConfigError};
use crate::duplicates::DuplicateLines;
use crate::forward::Forwarder;
use crate::listen::{self, ListenError};
use crate::metrics::Metrics;
use crate::node::Node;
use crate::proposer::Proposer;
use crate::rate::RateLimiter;
use crate::service::{Claims, ClusterInfo, Records, Tenants};
use crate::sightings::{self, Sightings};
use crate::transport::{CONNECTION_WINDOW_BYTES, STREAM_WINDOW_BYTES, STREAMS_MAX};
use crate::waiting::Waiters;
use crate::watching::Watchers;
use crate::{readiness, sampler, sweeper, undecodable, web};

/// How long calls under way may take to end once the node goes down.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// How long another node may take to lead once it was asked to.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(3);
/// How long connections may take to close after that.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// How often an idle connection of a client is tried.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// How often what the health service says is brought up to date.
const HEALTH_EVERY: Duration = Duration::from_millis(500);

/// Why a server did not start. Each says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The configuration contradicts itself.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A port is taken, or an address is not ours.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The data folder or what is in it cannot be used.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The descriptors of the API cannot be served.
    #[error("serve the API's descriptors: {reason}")]
    Reflection {
        /// What is wrong with them.
        reason: String,
    },
}

/// The server ended although nobody asked it to.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{reason}")]
pub struct StopError {
    /// Why.
    pub reason: String,
}

/// Starts servers.
#[derive(Debug)]
pub struct Server;

/// A server that runs until it is shut down, or fails.
#[derive(Debug)]
pub struct RunningServer {
    node: Arc<Node>,
    grpc_addr: SocketAddr,
    http_addr: SocketAddr,
    health: HealthReporter,
    stop: CancellationToken,
    tasks: TaskTracker,
    end: watch::Sender<End>,
}

/// Whether a server still runs.
#[derive(Clone, Debug)]
enum End {
    Running,
    Stopped,
    Failed(String),
}

impl Server {
    /// Opens the node's data, listens, and joins the cluster. Returns once calls are taken; the
    /// cluster may have no leader yet.
    ///
    /// # Errors
    ///
    /// [`StartError`], which says what to do.
    pub async fn start(config: Config) -> Result<RunningServer, StartError> {
        Self::start_with_faults(config, Faults::none()).await
    }

    /// As [`Self::start`], over a peer network with `faults`.
    ///
    /// # Errors
    ///
    /// [`StartError`], which says what to do.
    pub async fn start_with_faults(
        config: Config,
        faults: Faults,
    ) -> Result<RunningServer, StartError> {
        config.check()?;
        warn_if_exposed(&config);
        let (grpc, grpc_addr) = listen::bind("grpc", config.listen.grpc).await?;
        let (web_listener, http_addr) = listen::bind("http", config.listen.http).await?;
        let replica = Replica::open(replica_config(&config), Arc::new(SystemClock::new()), faults)
            .await
            .map_err(open_error)?;

        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let node = node(config, replica, &tasks, &stop);
        let (health, router) = router(&node)?;
        let server = RunningServer {
            node,
            grpc_addr,
            http_addr,
            health,
            stop,
            tasks,
            end: watch::channel(End::Running).0,
        };
        server.serve(router, grpc, web_listener);
        tracing::info!(
            node_id = server.node.config.node_id,
            region = server.node.config.region(),
            grpc = %grpc_addr,
            http = %http_addr,
            peer = %server.peer_addr(),
            "firstclaim is up"
        );
        Ok(server)
    }
}

fn warn_if_exposed(config: &Config) {
    for (name, addr) in config.listen.exposed() {
        tracing::warn!(
            listener = name,
            %addr,
            "listens off loopback without authentication (insecure_no_auth): whoever reaches this \
             port can claim, complete and delete"
        );
    }
}

fn replica_config(config: &Config) -> ReplicaConfig {
    ReplicaConfig {
        node_id: config.node_id,
        cluster_id: config.cluster_id.clone(),
        data_dir: config.data_dir.clone(),
        peer_listen: config.listen.peer,
        members: config.members.clone(),
        expected_rtt: config.expected_rtt,
        storage: Storage::RocksDb,
        snapshots: SnapshotRule::default(),
    }
}

/// A taken peer port reads like any other taken port.
fn open_error(error: OpenError) -> StartError {
    match error {
        OpenError::Bind { addr, source } => ListenError { name: "peer", addr, source }.into(),
        OpenError::Config { .. }
        | OpenError::Owner { .. }
        | OpenError::Locked { .. }
        | OpenError::Store(_)
        | OpenError::Consensus { .. }
        | _ => error.into(),
    }
}

fn node(
    config: Config,
    replica: Replica,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) -> Arc<Node> {
    let metrics = Metrics::new();
    // The configuration was checked: this is for one that was put together in this process.
    let region = Region::parse(config.region()).unwrap_or_else(|_| Region::unknown());
    let log = replica.clone();
    let propose = move |commands: Vec<Command>| {
        let log = log.clone();
        async move { log.propose(commands).await }
    };
    Arc::new(Node {
        proposer: Proposer::start(propose, Arc::clone(&metrics), tasks, stop.clone()),
        forwarder: Forwarder::new(Arc::clone(&metrics), region.clone()),
        gate: Gate::default(),
        started: Instant::now(),
        region,
        rate: RateLimiter::default(),
        sightings: Sightings::default(),
        duplicate_lines: DuplicateLines::default(),
        waiters: Waiters::default(),
        watchers: Watchers::default(),
        config,
        replica,
        metrics,
    })
}

type Response = http::Response<tonic::body::Body>;
type Layered = tower::layer::util::Stack<
    MapResponseLayer<fn(Response) -> Response>,
    tower::layer::util::Identity,
>;

fn router(node: &Arc<Node>) -> Result<(HealthReporter, Router<Layered>), StartError> {
    let descriptors = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(firstclaim_proto::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let failed = |error: tonic_reflection::server::Error| StartError::Reflection {
        reason: error.to_string(),
    };
    let (health, health_service) = tonic_health::server::health_reporter();
    let explain: fn(Response) -> Response = undecodable::explain;
    let router = tonic::transport::Server::builder()
        .http2_keepalive_interval(Some(KEEP_ALIVE))
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .max_concurrent_streams(STREAMS_MAX)
        .layer(MapResponseLayer::new(explain))
        .add_service(
            ClaimServiceServer::new(Claims(Arc::clone(node)))
                .max_decoding_message_size(CLIENT_MESSAGE_BYTES_MAX),
        )
        .add_service(
            RecordServiceServer::new(Records(Arc::clone(node)))
                .max_decoding_message_size(CLIENT_MESSAGE_BYTES_MAX),
        )
        .add_service(
            TenantServiceServer::new(Tenants(Arc::clone(node)))
                .max_decoding_message_size(CLIENT_MESSAGE_BYTES_MAX),
        )
        .add_service(ClusterServiceServer::new(ClusterInfo(Arc::clone(node))))
        .add_service(health_service)
        .add_service(descriptors().build_v1().map_err(failed)?)
        .add_service(descriptors().build_v1alpha().map_err(failed)?);
    Ok((health, router))
}

impl RunningServer {
    /// Where clients reach it by gRPC.
    #[must_use]
    pub fn grpc_addr(&self) -> SocketAddr {
        self.grpc_addr
    }

    /// Where metrics and probes are.
    #[must_use]
    pub fn http_addr(&self) -> SocketAddr {
        self.http_addr
    }

    /// Where other members reach it.
    #[must_use]
    pub fn peer_addr(&self) -> SocketAddr {
        self.node.replica.peer_addr()
    }

    /// Its replica.
    #[must_use]
    pub fn replica(&self) -> &Replica {
        &self.node.replica
    }

    fn serve(&self, router: Router<Layered>, grpc: TcpListener, web_listener: TcpListener) {
        let incoming = TcpIncoming::from(grpc).with_nodelay(Some(true));
        let stopped = self.stop.clone().cancelled_owned();
        let end = self.end.clone();
        self.tasks.spawn(async move {
            if let Err(error) = router.serve_with_incoming_shutdown(incoming, stopped).await {
                fail(&end, format!("the gRPC listener ended: {error}"));
            }
        });

        let routes = web::routes(Arc::clone(&self.node));
        let stopped = self.stop.clone().cancelled_owned();
        let end = self.end.clone();
        self.tasks.spawn(async move {
            let served = axum::serve(web_listener, routes).with_graceful_shutdown(stopped).await;
            if let Err(error) = served {
                fail(&end, format!("the HTTP listener ended: {error}"));
            }
        });

        self.beside(sweeper::run(Arc::clone(&self.node)));
        self.beside(sightings::run(Arc::clone(&self.node)));
        self.beside(sampler::run(Arc::clone(&self.node)));
        self.beside(report_health(Arc::clone(&self.node), self.health.clone()));
        let (node, end) = (Arc::clone(&self.node), self.end.clone());
        self.beside(async move {
            let reason = node.replica.failure().await;
            fail(&end, format!("the replica has failed: {reason}"));
        });
    }

    /// Runs a task until the server stops.
    fn beside(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            stop.run_until_cancelled(task).await;
        });
    }

    /// Waits until the server has ended.
    ///
    /// # Errors
    ///
    /// [`StopError`] if it failed; the process should then exit with an error.
    ///
    /// # Cancel safety
    ///
    /// Safe.
    pub async fn stopped(&self) -> Result<(), StopError> {
        let mut end = self.end.subscribe();
        let ended = end.wait_for(|end| !matches!(end, End::Running)).await;
        match ended.as_deref() {
            Ok(End::Failed(reason)) => Err(StopError { reason: reason.clone() }),
            Ok(End::Running | End::Stopped) | Err(_) => Ok(()),
        }
    }

    /// Takes no more calls, lets those under way end, hands leadership over, and closes the data.
    pub async fn shutdown(&self) {
        tracing::info!(node_id = self.node.config.node_id, "firstclaim goes down");
        set_health(&self.health, false).await;
        let left = self.node.gate.drain(DRAIN_TIMEOUT).await;
        if left > 0 {
            tracing::warn!(left, "calls did not end in time, and have no answer");
        }
        self.hand_over().await;
        self.stop.cancel();
        self.tasks.close();
        if tokio::time::timeout(CLOSE_TIMEOUT, self.tasks.wait()).await.is_err() {
            tracing::info!("connections were still open and are closed with the process");
        }
        self.node.replica.shutdown().await;
        self.end.send_if_modified(|end| {
            let running = matches!(end, End::Running);
            if running {
                *end = End::Stopped;
            }
            running
        });
    }

    /// Makes another node lead, if this one does and another one can.
    async fn hand_over(&self) {
        let replica = &self.node.replica;
        if !replica.is_leader() {
            return;
        }
        let status = replica.status();
        let heir = status
            .members
            .iter()
            .filter(|member| member.node_id != status.node_id && member.voter)
            .max_by_key(|member| (member.match_index, std::cmp::Reverse(member.contact_age_ms)));
        let Some(heir) = heir.map(|member| member.node_id) else { return };
        if let Err(error) = replica.transfer_leader(heir).await {
            tracing::warn!(%error, heir, "leadership was not handed over");
            return;
        }
        let own = status.node_id;
        let mut leader = replica.watch_leader();
        let moved = leader.wait_for(|leader| leader.is_some_and(|leader| leader != own));
        match tokio::time::timeout(TRANSFER_TIMEOUT, moved).await {
            Ok(Ok(_)) => tracing::info!(heir, "leadership was handed over"),
            Ok(Err(_)) | Err(_) => {
                tracing::warn!(heir, "nobody took leadership over; the others will elect");
            }
        }
    }
}

fn fail(end: &watch::Sender<End>, reason: String) {
    tracing::error!(reason, "the server has failed");
    end.send_if_modified(|end| {
        let first = matches!(end, End::Running);
        if first {
            *end = End::Failed(reason);
        }
        first
    });
}

/// Keeps what the health service says true.
async fn report_health(node: Arc<Node>, health: HealthReporter) {
    let mut told = None;
    loop {
        let ready = readiness::not_ready(&node).is_none();
        if told != Some(ready) {
            set_health(&health, ready).await;
            told = Some(ready);
        }
        tokio::time::sleep(HEALTH_EVERY).await;
    }
}

async fn set_health(health: &HealthReporter, ready: bool) {
    let status = if ready {
        tonic_health::ServingStatus::Serving
    } else {
        tonic_health::ServingStatus::NotServing
    };
    for service in [
        "",
        "firstclaim.v1.ClaimService",
        "firstclaim.v1.RecordService",
        "firstclaim.v1.TenantService",
        "firstclaim.v1.ClusterService",
    ] {
        health.set_service_status(service, status).await;
    }
}
