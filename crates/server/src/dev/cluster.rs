//! Three nodes, their addresses, and what can be done to them.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use firstclaim_core::Millis;
use firstclaim_replica::{Faults, Member};
use futures::future::join_all;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};
use tonic::transport::Channel;

use super::node::Node;
use super::options::{DevError, DevOptions, LinkDelay, Ports};
use super::probe::{self, NodeStatus};
use super::region::Region;
use crate::Config;
use crate::config::{Listen, LogConfig};

/// How long a start may take until a leader serves.
const READY_WAIT: Duration = Duration::from_secs(30);
const READY_PAUSE: Duration = Duration::from_millis(20);
/// How long the removal of a temporary folder is tried.
const REMOVE_WAIT: Duration = Duration::from_secs(2);
/// The round trip on loopback that elections are timed by, before any delay.
const LOOPBACK_RTT: Duration = Duration::from_millis(20);
/// Ports of one node, and from one node to the next.
const PORTS_PER_NODE: u16 = 3;
const PORTS_STEP: u16 = 10;

/// Where a node listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// For clients.
    pub grpc: SocketAddr,
    /// For metrics and health.
    pub http: SocketAddr,
    /// For the other nodes.
    pub peer: SocketAddr,
}

/// A cluster of three nodes in this process.
///
/// Dropping it ends the nodes as a kill would, and removes a temporary data folder.
#[derive(Debug)]
pub struct DevCluster {
    nodes: BTreeMap<Region, Node>,
    addresses: BTreeMap<Region, Addresses>,
    channels: BTreeMap<Region, Channel>,
    delays: BTreeMap<(Region, Region), Duration>,
    cuts: Vec<(Region, Region)>,
    faults: Faults,
    data: DataFolder,
}

#[derive(Debug)]
enum DataFolder {
    Kept(PathBuf),
    Temporary(TempDir),
}

impl DataFolder {
    fn open(kept: Option<&Path>) -> Result<Self, DevError> {
        match kept {
            Some(path) => match std::fs::create_dir_all(path) {
                Ok(()) => Ok(Self::Kept(path.to_owned())),
                Err(source) => Err(DevError::Folder { path: path.to_owned(), source }),
            },
            None => match tempfile::Builder::new().prefix("firstclaim-dev-").tempdir() {
                Ok(folder) => Ok(Self::Temporary(folder)),
                Err(source) => Err(DevError::Folder { path: std::env::temp_dir(), source }),
            },
        }
    }

    fn path(&self) -> &Path {
        match self {
            Self::Kept(path) => path,
            Self::Temporary(folder) => folder.path(),
        }
    }
}

impl DevCluster {
    /// Starts three nodes and returns when a leader serves and the tenant `demo` is there, with the
    /// namespaces `payouts` and `emails`.
    ///
    /// # Errors
    ///
    /// [`DevError`], if a port is taken, the data is another cluster's, or no leader is found.
    pub async fn start(options: &DevOptions) -> Result<Self, DevError> {
        let data = DataFolder::open(options.data_dir.as_deref())?;
        let addresses = addresses(options.ports)?;
        let faults = Faults::none();
        let rtt = LOOPBACK_RTT + options.longest_round_trip();
        let mut cluster = Self {
            nodes: BTreeMap::new(),
            channels: channels(&addresses)?,
            addresses,
            delays: BTreeMap::new(),
            cuts: Vec::new(),
            faults,
            data,
        };
        for link in &options.delays {
            cluster.delay(*link);
        }
        for region in Region::ALL {
            let config = cluster.config(region, rtt);
            let node = Node::new(region, config, cluster.faults.clone());
            cluster.nodes.insert(region, node);
        }
        for started in join_all(cluster.nodes.values_mut().map(Node::start)).await {
            started?;
        }
        let leader = cluster.wait_ready().await?;
        probe::seed(cluster.channels[&leader].clone()).await?;
        Ok(cluster)
    }

    fn config(&self, region: Region, rtt: Duration) -> Config {
        let members = self.addresses.iter().map(|(region, addresses)| {
            let member = Member {
                region: region.name().to_owned(),
                peer_addr: addresses.peer.to_string(),
                client_addr: format!("http://{}", addresses.grpc),
            };
            (region.node_id(), member)
        });
        let own = self.addresses[&region];
        Config {
            cluster_id: "dev".to_owned(),
            expected_rtt: Millis(u64::try_from(rtt.as_millis()).unwrap_or(u64::MAX)),
            members: members.collect(),
            node_id: region.node_id(),
            data_dir: self.data.path().join(region.name()),
            listen: Listen {
                grpc: own.grpc,
                http: own.http,
                peer: own.peer,
                insecure_no_auth: false,
            },
            log: LogConfig::default(),
        }
    }

    /// Waits until a leader serves, and all nodes that run know it.
    ///
    /// # Errors
    ///
    /// [`DevError::NotReady`] after 30 s, with what each node says.
    pub async fn wait_ready(&self) -> Result<Region, DevError> {
        let give_up = Instant::now() + READY_WAIT;
        loop {
            let all = self.status().await;
            let running: Vec<&NodeStatus> = all.iter().flatten().collect();
            let expected = self.nodes.values().filter(|node| node.is_running()).count();
            let leader = running.first().and_then(|node| node.leader);
            let agreed = running.iter().all(|node| node.ready && node.leader == leader);
            if let Some(leader) = leader
                && agreed
                && running.len() == expected
            {
                return Ok(leader);
            }
            if Instant::now() >= give_up {
                let problem = describe(&all);
                return Err(DevError::NotReady { waited: READY_WAIT, problem });
            }
            sleep(READY_PAUSE).await;
        }
    }

    /// How the nodes are doing, in the order of [`Region::ALL`]; none for one that does not answer.
    pub async fn status(&self) -> [Option<NodeStatus>; 3] {
        let ask = |region: Region| probe::status(region, self.channels[&region].clone());
        let [one, two, three] = Region::ALL;
        let (one, two, three) = tokio::join!(ask(one), ask(two), ask(three));
        [one, two, three]
    }

    /// The node that leads, if one says of itself that it does. Of two, the one of the later term.
    pub async fn leader(&self) -> Option<Region> {
        let all = self.status().await;
        let leading = all.iter().flatten().filter(|node| node.leader == Some(node.region));
        leading.max_by_key(|node| node.term).map(|node| node.region)
    }

    /// Where a node listens.
    #[must_use]
    pub fn addresses(&self, region: Region) -> Addresses {
        self.addresses[&region]
    }

    /// Where clients reach the nodes, `host:port`, the one of `nearest` first.
    #[must_use]
    pub fn endpoints_near(&self, nearest: Region) -> Vec<String> {
        let mut regions = Region::ALL.to_vec();
        regions.sort_by_key(|region| *region != nearest);
        regions.iter().map(|region| self.addresses[region].grpc.to_string()).collect()
    }

    /// Where clients reach the nodes, `host:port`.
    #[must_use]
    pub fn endpoints(&self) -> Vec<String> {
        self.endpoints_near(Region::EuWest)
    }

    /// Whether the node of a region runs.
    #[must_use]
    pub fn is_running(&self, region: Region) -> bool {
        self.nodes[&region].is_running()
    }

    /// The folder that holds the data of all nodes.
    #[must_use]
    pub fn data_dir(&self) -> &Path {
        self.data.path()
    }

    /// Whether the data is removed in the end.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        matches!(self.data, DataFolder::Temporary(_))
    }

    /// Stops a node in the middle of whatever it does, as near to `kill -9` as it can be done inside
    /// one process: nothing is drained, no leadership is handed over, connections just end.
    ///
    /// # Errors
    ///
    /// [`DevError::WrongState`] if it does not run.
    pub async fn kill(&mut self, region: Region) -> Result<(), DevError> {
        self.node(region).kill().await
    }

    /// Starts a killed node again on its data.
    ///
    /// # Errors
    ///
    /// [`DevError::WrongState`] if it runs, [`DevError::Start`] if it does not start.
    pub async fn restart(&mut self, region: Region) -> Result<(), DevError> {
        self.node(region).start().await
    }

    fn node(&mut self, region: Region) -> &mut Node {
        self.nodes.get_mut(&region).expect("a node for every region")
    }

    /// Delays every message between two regions, in both directions.
    pub fn delay(&mut self, link: LinkDelay) {
        let (one, other) = (link.one.min(link.other), link.one.max(link.other));
        self.faults.delay(one.node_id(), other.node_id(), link.delay);
        self.faults.delay(other.node_id(), one.node_id(), link.delay);
        self.delays.insert((one, other), link.delay);
    }

    /// The delay of every message between two regions.
    #[must_use]
    pub fn delay_between(&self, one: Region, other: Region) -> Duration {
        self.delays.get(&(one.min(other), one.max(other))).copied().unwrap_or_default()
    }

    /// Lets nothing through between two regions, until [`Self::heal`].
    pub fn cut(&mut self, one: Region, other: Region) {
        let (one, other) = (one.min(other), one.max(other));
        self.faults.cut(one.node_id(), other.node_id());
        self.faults.cut(other.node_id(), one.node_id());
        if !self.cuts.contains(&(one, other)) {
            self.cuts.push((one, other));
        }
    }

    /// Takes all cuts away. Delays stay.
    pub fn heal(&mut self) {
        self.faults.heal();
        self.cuts.clear();
    }

    /// The pairs of regions that are cut off from each other.
    #[must_use]
    pub fn cuts(&self) -> &[(Region, Region)] {
        &self.cuts
    }

    /// The round trip that the elections of this cluster are timed by.
    #[must_use]
    pub fn expected_rtt(&self) -> Duration {
        Duration::from_millis(self.nodes[&Region::EuWest].config().expected_rtt.0)
    }

    /// Stops all nodes at once, and removes a temporary data folder. What was acknowledged is on
    /// the disks by then, so there is nothing to wait for.
    pub async fn shutdown(mut self) {
        let running = self.nodes.values_mut().filter(|node| node.is_running());
        for ended in join_all(running.map(Node::kill)).await {
            if let Err(error) = ended {
                tracing::warn!(%error, "stop a node");
            }
        }
        if let DataFolder::Temporary(folder) = &self.data {
            remove(folder.path()).await;
        }
    }
}

/// Removes a folder, also while the last thread of a node still writes to it.
async fn remove(path: &Path) {
    let give_up = Instant::now() + REMOVE_WAIT;
    while let Err(error) = std::fs::remove_dir_all(path) {
        if Instant::now() >= give_up {
            tracing::warn!(path = %path.display(), %error, "remove the temporary data folder");
            return;
        }
        sleep(READY_PAUSE).await;
    }
}

fn describe(all: &[Option<NodeStatus>; 3]) -> String {
    let words = Region::ALL.iter().zip(all).map(|(region, status)| match status {
        None => format!("{region} does not answer"),
        Some(node) if node.ready => format!("{region} is ready"),
        Some(node) => format!("{region} is not ready ({})", node.not_ready_reason),
    });
    words.collect::<Vec<_>>().join(", ")
}

fn channels(
    addresses: &BTreeMap<Region, Addresses>,
) -> Result<BTreeMap<Region, Channel>, DevError> {
    addresses
        .iter()
        .map(|(region, addresses)| match probe::connect(addresses.grpc) {
            Ok(channel) => Ok((*region, channel)),
            Err(error) => Err(DevError::Start { region: *region, source: error.into() }),
        })
        .collect()
}

/// Chooses the addresses of all nodes, and finds out whether they are free before any node starts.
fn addresses(ports: Ports) -> Result<BTreeMap<Region, Addresses>, DevError> {
    // Held until all are chosen, so that no free port is handed out twice.
    let mut held = Vec::new();
    let mut chosen = BTreeMap::new();
    for (step, region) in (0..).zip(Region::ALL) {
        let mut own = Vec::new();
        for offset in 0..PORTS_PER_NODE {
            let listener = reserve(ports, step * PORTS_STEP + offset)?;
            own.push(listener.local_addr().map_err(DevError::NoPorts)?);
            held.push(listener);
        }
        if let [grpc, http, peer] = own[..] {
            chosen.insert(region, Addresses { grpc, http, peer });
        }
    }
    drop(held);
    Ok(chosen)
}

fn reserve(ports: Ports, offset: u16) -> Result<TcpListener, DevError> {
    let localhost = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    match ports {
        Ports::Free => TcpListener::bind(localhost(0)).map_err(DevError::NoPorts),
        Ports::From(base) => {
            let port = base.checked_add(offset).ok_or(DevError::PortsTooHigh { base })?;
            let addr = localhost(port);
            TcpListener::bind(addr).map_err(|source| DevError::PortInUse { addr, source })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::TcpListener;

    use super::{DevError, Ports, addresses};

    #[test]
    fn free_ports_are_all_different() {
        let chosen = addresses(Ports::Free).unwrap();
        let ports: BTreeSet<u16> = chosen
            .values()
            .flat_map(|node| [node.grpc.port(), node.http.port(), node.peer.port()])
            .collect();
        assert_eq!(ports.len(), 9);
    }

    #[test]
    fn a_port_in_use_is_named_with_a_way_out() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = addresses(Ports::From(port)).unwrap_err().to_string();
        assert!(error.contains(&format!("port {port} is in use")), "{error}");
        assert!(error.contains("--ports free"), "{error}");
    }

    #[test]
    fn ports_end_at_65535() {
        let error = addresses(Ports::From(65530)).unwrap_err();
        assert!(matches!(
            error,
            DevError::PortsTooHigh { base: 65530 } | DevError::PortInUse { .. }
        ));
    }
}
