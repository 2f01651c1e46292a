//! Three nodes of firstclaim, each a process with its own folder, ports and configuration.

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use firstclaim_client::v1;
use firstclaim_client::v1::claim_service_client::ClaimServiceClient;
use firstclaim_client::v1::cluster_service_client::ClusterServiceClient;
use firstclaim_client::{Client, ClientConfig};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};
use tonic::transport::{Channel, Endpoint};

use crate::hosts::{self, Hosts};
use crate::links::Links;
use crate::process::{Process, command, tail};
use crate::{Fault, Outcome, binary, say};

/// The regions, in the order of the node ids.
pub const REGIONS: [&str; 3] = ["eu-west", "us-east", "ap-south"];
/// The id of every cluster that is started here.
pub const CLUSTER_ID: &str = "under-test";

const READY_WITHIN: Duration = Duration::from_secs(30);
const LEADER_WITHIN: Duration = Duration::from_secs(30);
const STOP_WITHIN: Duration = Duration::from_secs(20);
const STATUS_WITHIN: Duration = Duration::from_secs(2);

/// Where a node listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// The address of its host.
    pub host: Ipv4Addr,
    /// For clients.
    pub grpc: u16,
    /// For probes and metrics.
    pub http: u16,
    /// For the other nodes.
    pub peer: u16,
}

/// A node: where it is, and the process if it runs.
#[derive(Debug)]
pub struct Node {
    /// Its id, from 1.
    pub id: u64,
    /// Where it listens.
    pub ports: Ports,
    /// Its configuration file.
    pub config: PathBuf,
    /// Its data folder.
    pub data: PathBuf,
    folder: PathBuf,
    /// What its command begins with.
    prefix: Vec<String>,
    process: Option<Process>,
    channel: Channel,
    starts: u32,
    environment: BTreeMap<String, String>,
}

/// Three nodes. Dropping it kills them and removes their folders.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Node>,
    folder: Option<TempDir>,
    binary: PathBuf,
    links: Option<Links>,
    /// They outlive the processes on them.
    _hosts: Option<Hosts>,
}

impl Cluster {
    /// Writes the configuration of three nodes and starts none.
    ///
    /// # Errors
    ///
    /// When there is no binary of this tree, or no folder can be made.
    pub fn prepare(name: &str) -> Outcome<Self> {
        Self::with(name, &local_ports()?, None, None)
    }

    /// The same with links between the nodes that can be slowed down and cut.
    ///
    /// # Errors
    ///
    /// As [`Cluster::prepare`], or when a link cannot be made.
    pub fn prepare_linked(name: &str) -> Outcome<Self> {
        let ports = local_ports()?;
        let peers = (1..).zip(&ports).map(|(id, ports)| (id, ports.peer)).collect();
        Self::with(name, &ports, Some(Links::relayed(&peers)?), None)
    }

    /// The same with each node on a host of its own, so that the links carry packets and lose them.
    ///
    /// # Errors
    ///
    /// As [`Cluster::prepare`], or when this is not [`hosts::Ground::Own`].
    pub fn prepare_on_hosts(name: &str) -> Outcome<Self> {
        let ids = (1..).zip(REGIONS).map(|(id, _)| id);
        let hosts = Hosts::new(ids.clone())?;
        let ports: Vec<Ports> = ids
            .map(|id| Ports { host: hosts::address(id), grpc: 4360, http: 4361, peer: 4362 })
            .collect();
        Self::with(name, &ports, Some(hosts.wire()?), Some(hosts))
    }

    fn with(
        name: &str,
        ports: &[Ports],
        links: Option<Links>,
        hosts: Option<Hosts>,
    ) -> Outcome<Self> {
        let binary = binary::firstclaim()?;
        let folder = tempfile::Builder::new().prefix(&format!("firstclaim-{name}-")).tempdir()?;
        let mut nodes = Vec::new();
        for (id, own) in (1..).zip(ports) {
            let config = folder.path().join(format!("node-{id}.toml"));
            let data = folder.path().join(format!("node-{id}"));
            let seen: Vec<Ports> = (1..)
                .zip(ports)
                .map(|(other, ports)| {
                    let relay = links.as_ref().and_then(|links| links.port(id, other));
                    Ports { peer: relay.unwrap_or(ports.peer), ..*ports }
                })
                .collect();
            fs::write(&config, configuration(id, &data, &seen))?;
            nodes.push(Node {
                id,
                ports: *own,
                config,
                data,
                folder: folder.path().to_path_buf(),
                prefix: hosts.as_ref().map(|hosts| hosts.prefix(id)).unwrap_or_default(),
                process: None,
                channel: channel_to((own.host, own.grpc).into())?,
                starts: 0,
                environment: BTreeMap::new(),
            });
        }
        Ok(Self { nodes, folder: Some(folder), binary, links, _hosts: hosts })
    }

    /// Starts three nodes and waits until they serve.
    ///
    /// # Errors
    ///
    /// When one of them does not come up; the end of its log is in the message.
    pub async fn start(name: &str) -> Outcome<Self> {
        let mut cluster = Self::prepare(name)?;
        for at in 0..cluster.nodes.len() {
            cluster.start_node(at)?;
        }
        cluster.wait_ready().await?;
        Ok(cluster)
    }

    /// The binary that the nodes run.
    #[must_use]
    pub fn binary(&self) -> &Path {
        &self.binary
    }

    /// The folder of everything that belongs to it.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_ref().map(TempDir::path)
    }

    /// The links between the nodes, if it was prepared with them.
    #[must_use]
    pub fn links(&self) -> Option<&Links> {
        self.links.as_ref()
    }

    /// The nodes.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The node at a position.
    #[must_use]
    pub fn node(&self, at: usize) -> &Node {
        &self.nodes[at]
    }

    /// The node at a position, to change its process.
    pub fn node_mut(&mut self, at: usize) -> &mut Node {
        &mut self.nodes[at]
    }

    /// Where clients reach the nodes, as `host:port`.
    #[must_use]
    pub fn endpoints(&self) -> Vec<String> {
        self.nodes.iter().map(Node::endpoint).collect()
    }

    /// The SDK, over all nodes.
    ///
    /// # Errors
    ///
    /// When the addresses are none.
    pub fn client(&self) -> Outcome<Client> {
        let config = ClientConfig::new(self.endpoints()).with_timeout(Duration::from_secs(30));
        Ok(Client::lazy(config)?)
    }

    /// Starts the process of a node.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub fn start_node(&mut self, at: usize) -> Outcome<()> {
        let binary = self.binary.clone();
        self.nodes[at].start(&binary, &[])
    }

    /// Waits until every node whose process runs says that it is ready.
    ///
    /// # Errors
    ///
    /// When one ends instead, or takes too long.
    pub async fn wait_ready(&mut self) -> Outcome<()> {
        for node in &mut self.nodes {
            if node.process.is_some() {
                node.wait_ready().await?;
            }
        }
        Ok(())
    }

    /// Kills every node with SIGKILL, all before the first is waited for.
    pub fn kill_all(&mut self) {
        for node in &mut self.nodes {
            if let Some(process) = &mut node.process {
                process.send_kill();
            }
        }
        for node in &mut self.nodes {
            node.kill();
        }
    }

    /// The position of the node that leads, by the word of a majority and of itself.
    ///
    /// # Errors
    ///
    /// When no leader is found in time.
    pub async fn leader(&self) -> Outcome<usize> {
        let start = Instant::now();
        loop {
            let mut votes = vec![0_usize; self.nodes.len()];
            let mut seen = String::new();
            for node in self.nodes.iter().filter(|node| node.runs()) {
                match node.status().await {
                    Ok(status) => {
                        let leader = status.leader_id.and_then(|id| usize::try_from(id).ok());
                        if let Some(votes) = leader.and_then(|id| votes.get_mut(id.wrapping_sub(1)))
                        {
                            *votes += 1;
                        }
                        let role = status.role().as_str_name();
                        write!(seen, " node {}: {role}, leader {:?};", node.id, status.leader_id)?;
                    }
                    Err(error) => write!(seen, " node {}: {error};", node.id)?,
                }
            }
            let majority = self.nodes.len() / 2 + 1;
            let found = votes.iter().position(|count| *count >= majority);
            if let Some(at) = found.filter(|at| self.nodes[*at].runs())
                && self.nodes[at].status().await.is_ok_and(|s| s.role() == v1::NodeRole::Leader)
            {
                return Ok(at);
            }
            if start.elapsed() > LEADER_WITHIN {
                return Err(format!("no leader within {LEADER_WITHIN:?}:{seen}").into());
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// A fault with the end of every log.
    #[must_use]
    pub fn explain(&self, fault: &Fault) -> String {
        let logs: Vec<String> = self.nodes.iter().map(Node::tail).collect();
        format!("{fault}\n{}", logs.join("\n"))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for node in &self.nodes {
                say(&node.tail());
            }
        }
        self.kill_all();
        if env::var_os("FIRSTCLAIM_KEEP").is_some()
            && let Some(folder) = self.folder.take()
        {
            say(&format!("kept {}", folder.keep().display()));
        }
    }
}

impl Node {
    /// Where clients reach it, as `host:port`.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("{}:{}", self.ports.host, self.ports.grpc)
    }

    /// A connection to this node and no other; it comes back after a restart.
    #[must_use]
    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// Calls about claims, to this node.
    #[must_use]
    pub fn claims(&self) -> ClaimServiceClient<Channel> {
        ClaimServiceClient::new(self.channel())
    }

    /// Calls about the cluster, to this node.
    #[must_use]
    pub fn operations(&self) -> ClusterServiceClient<Channel> {
        ClusterServiceClient::new(self.channel())
    }

    /// Whether its process runs, as far as the test has seen.
    #[must_use]
    pub fn runs(&self) -> bool {
        self.process.is_some()
    }

    /// The command that starts it.
    #[must_use]
    pub fn command(&self, binary: &Path, arguments: &[&str]) -> std::process::Command {
        let mut words = self.prefix.iter().map(Path::new).chain([binary]);
        let mut command = command(words.next().unwrap_or(binary));
        command.args(words).arg("server").arg("-c").arg(&self.config).args(arguments);
        command
    }

    /// Starts its process with more arguments.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub fn start(&mut self, binary: &Path, arguments: &[&str]) -> Outcome<()> {
        self.starts += 1;
        let mut command = self.command(binary, arguments);
        command.envs(&self.environment);
        let name = format!("node {}", self.id);
        self.process = Some(Process::start(&name, &mut command, &self.log())?);
        Ok(())
    }

    /// Sets the variables that its next process sees besides.
    pub fn set_environment(&mut self, environment: BTreeMap<String, String>) {
        self.environment = environment;
    }

    /// Its process.
    pub fn process(&mut self) -> Option<&mut Process> {
        self.process.as_mut()
    }

    /// Kills its process with SIGKILL.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Stops its process with SIGTERM.
    ///
    /// # Errors
    ///
    /// When it takes too long, or does not end with success.
    pub async fn stop(&mut self) -> Outcome<()> {
        let Some(mut process) = self.process.take() else { return Ok(()) };
        let status = process.stop(STOP_WITHIN).await?;
        if status.success() {
            return Ok(());
        }
        Err(format!("node {} ended with {status} on SIGTERM\n{}", self.id, process.tail()).into())
    }

    /// Its status, by its own word.
    ///
    /// # Errors
    ///
    /// When it does not answer at once.
    pub async fn status(&self) -> Outcome<v1::GetStatusResponse> {
        let mut operations = self.operations();
        let asked = operations.get_status(v1::GetStatusRequest {});
        let answer = tokio::time::timeout(STATUS_WITHIN, asked)
            .await
            .map_err(|_elapsed| format!("no status within {STATUS_WITHIN:?}"))?;
        Ok(answer.map_err(|status| status.message().to_owned())?.into_inner())
    }

    /// Waits until it says that it is ready.
    ///
    /// # Errors
    ///
    /// When its process ends instead, or when it takes too long.
    pub async fn wait_ready(&mut self) -> Outcome<()> {
        let start = Instant::now();
        loop {
            let process = self.process.as_mut().ok_or("the node was not started")?;
            if let Some(status) = process.ended() {
                return Err(format!("node {} ended with {status}\n{}", self.id, self.tail()).into());
            }
            let last = match self.status().await {
                Ok(status) if status.ready => return Ok(()),
                Ok(status) => status.not_ready_reason,
                Err(error) => error.to_string(),
            };
            if start.elapsed() > READY_WITHIN {
                let id = self.id;
                let tail = self.tail();
                return Err(format!(
                    "node {id} is not ready within {READY_WITHIN:?}: {last}\n{tail}"
                )
                .into());
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// All that its present process, or its last one, has written.
    #[must_use]
    pub fn output(&self) -> String {
        fs::read(self.log())
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// The end of its log.
    #[must_use]
    pub fn tail(&self) -> String {
        tail(&format!("node {}", self.id), &self.log())
    }

    fn log(&self) -> PathBuf {
        self.folder.join(format!("node-{}.{}.log", self.id, self.starts))
    }
}

/// A connection to a port of this machine that is made when it is used.
///
/// # Errors
///
/// Never, as far as is known.
pub fn channel(port: u16) -> Outcome<Channel> {
    channel_to((Ipv4Addr::LOCALHOST, port).into())
}

/// The same, to any address.
fn channel_to(address: SocketAddr) -> Outcome<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))?
        .connect_timeout(Duration::from_secs(1))
        .tcp_nodelay(true);
    Ok(endpoint.connect_lazy())
}

/// The configuration of a node.
#[must_use]
pub fn configuration(id: u64, data: &Path, ports: &[Ports]) -> String {
    let mut text = format!("[cluster]\nid = \"{CLUSTER_ID}\"\nexpected_rtt = \"60ms\"\n");
    for ((member, ports), region) in (1_u64..).zip(ports).zip(REGIONS) {
        let Ports { host, grpc, peer, .. } = ports;
        text += &format!(
            "\n[[cluster.members]]\nid = {member}\nregion = \"{region}\"\n\
             peer = \"{host}:{peer}\"\nclient = \"http://{host}:{grpc}\"\n"
        );
    }
    let own = usize::try_from(id).ok().and_then(|id| ports.get(id.wrapping_sub(1)));
    if let Some(Ports { host, grpc, http, peer }) = own {
        // Nobody else is on a wire between hosts of a test.
        let apart = !host.is_loopback();
        text += &format!(
            "\n[node]\nid = {id}\ndata_dir = {data:?}\n\n[listen]\ngrpc = \"{host}:{grpc}\"\n\
             http = \"{host}:{http}\"\npeer = \"{host}:{peer}\"\ninsecure_no_auth = {apart}\n\n\
             [log]\nformat = \"text\"\nlevel = \"info\"\n"
        );
    }
    text
}

/// Three ports on loopback for each node, that nobody listens on.
///
/// They lie below the range from which the system takes the near ends of connections, so that a port
/// stays free while its node is down.
fn local_ports() -> Outcome<Vec<Ports>> {
    let three = |_| {
        let host = Ipv4Addr::LOCALHOST;
        Ok(Ports { host, grpc: free_port()?, http: free_port()?, peer: free_port()? })
    };
    REGIONS.iter().map(three).collect()
}

/// A port that nobody listens on.
///
/// # Errors
///
/// When there is none.
pub fn free_port() -> Outcome<u16> {
    const FIRST: u16 = 12_000;
    const COUNT: u16 = 20_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = NEXT.load(Ordering::Relaxed);
    if start == 0 {
        NEXT.store(rand::random_range(1..COUNT), Ordering::Relaxed);
    }
    for _ in 0..COUNT {
        let port = FIRST + NEXT.fetch_add(1, Ordering::Relaxed) % COUNT;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    Err("no free port".into())
}
