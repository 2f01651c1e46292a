//! The machines of a cluster: what runs on them, and what happens to them.

mod strike;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use firstclaim_core::Millis;
use firstclaim_replica::simulated::{self, Answering, Logged, Process, Request, Response};
use firstclaim_replica::{
    Faults, Member, MemoryDisk, Replica, ReplicaConfig, Role, SnapshotRule, Status, Storage,
};
use tokio::time::sleep;
use tonic::codegen::BoxFuture;

use crate::chance::Chance;
use crate::clock::NodeClock;
use crate::disk::{self, Habits};
use crate::faults::{Family, Swarm};
use crate::network::Network;
use crate::reach::{Mark, Reached};
use crate::trace::Trace;

/// What processes meet.
#[derive(Debug)]
struct Surroundings {
    chance: Chance,
    habits: Habits,
    network: Network,
}

impl simulated::World for Surroundings {
    fn chance(&self) -> u64 {
        self.chance.number()
    }

    fn write_takes(&self, _node: u64) -> (Duration, Duration) {
        self.habits.write_takes(&self.chance)
    }

    fn call(&self, call: simulated::Call, request: Request) -> BoxFuture<Response, tonic::Status> {
        self.network.call(call, request)
    }

    fn listen(&self, node: u64, answering: Option<Answering>) {
        self.network.listen(node, answering);
    }
}

/// A machine.
struct Node {
    disk: MemoryDisk,
    clock: Arc<NodeClock>,
    running: Option<(Process, Option<Replica>)>,
    /// Whether its disk was told to refuse.
    troubled: bool,
    starts: u64,
}

/// What was seen of a node that runs, in the order in which it was seen.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Which node.
    pub node: u64,
    /// How often it had been started.
    pub start: u64,
    /// True time, in microseconds.
    pub at: u64,
    /// What it says.
    pub status: Status,
}

/// A cluster on simulated machines. Clones are handles to the same one.
#[derive(Clone)]
pub struct Cluster {
    shared: Arc<Shared>,
}

struct Shared {
    swarm: Swarm,
    dir: PathBuf,
    surroundings: Arc<Surroundings>,
    network: Network,
    chance: Chance,
    trace: Trace,
    reached: Reached,
    nodes: Mutex<BTreeMap<u64, Node>>,
    faults: Mutex<Told>,
}

/// How far the committed entries of a process were taken down.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    installs: u64,
    upto: Option<u64>,
}

/// What is told at the end.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// Faults by family.
    pub faults: BTreeMap<Family, u64>,
    /// Starts of processes, the first ones aside.
    pub restarts: u64,
    /// What nodes should not have done.
    pub complaints: Vec<String>,
    /// State hashes by the index that they are of, with the node.
    pub hashes: Vec<(u64, u64, [u8; 32])>,
    /// What was seen of the nodes.
    pub seen: Vec<Seen>,
    /// Every entry that some node has applied, as its log kept it.
    pub committed: BTreeMap<u64, Vec<u8>>,
    /// How far that was taken down, by node.
    taken: BTreeMap<u64, Taken>,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("swarm", &self.shared.swarm).finish_non_exhaustive()
    }
}

impl Cluster {
    /// Machines that are off.
    pub fn new(
        swarm: Swarm,
        dir: PathBuf,
        chance: &Chance,
        (trace, reached): (&Trace, &Reached),
    ) -> Self {
        let network = Network::new(swarm.weather, chance.clone(), trace.clone(), reached.clone());
        let surroundings =
            Surroundings { chance: chance.clone(), habits: swarm.habits, network: network.clone() };
        let offset = |chance: &Chance| {
            let by = chance.below(2 * swarm.offset_max + 1);
            by.cast_signed() - swarm.offset_max.cast_signed()
        };
        let node = |_| Node {
            disk: MemoryDisk::default(),
            clock: Arc::new(NodeClock::new(chance.below(201).cast_signed() - 100, offset(chance))),
            running: None,
            troubled: false,
            starts: 0,
        };
        let nodes = (1..=swarm.voters).map(|id| (id, node(id))).collect();
        if swarm.voters == 5 {
            reached.mark(Mark::FiveVoters);
        }
        Self {
            shared: Arc::new(Shared {
                swarm,
                dir,
                surroundings: Arc::new(surroundings),
                network,
                chance: chance.clone(),
                trace: trace.clone(),
                reached: reached.clone(),
                nodes: Mutex::new(nodes),
                faults: Mutex::default(),
            }),
        }
    }

    fn nodes(&self) -> MutexGuard<'_, BTreeMap<u64, Node>> {
        self.shared.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn told_mut(&self) -> MutexGuard<'_, Told> {
        self.shared.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is told at the end.
    pub fn told(&self) -> Told {
        self.told_mut().clone()
    }

    /// What may go wrong.
    pub fn swarm(&self) -> &Swarm {
        &self.shared.swarm
    }

    /// The generator.
    pub fn chance(&self) -> &Chance {
        &self.shared.chance
    }

    /// The trace.
    pub fn trace(&self) -> &Trace {
        &self.shared.trace
    }

    /// What was come to see.
    pub fn reached(&self) -> &Reached {
        &self.shared.reached
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.shared.network
    }

    /// The disk of a machine; an empty one if there is no such machine.
    fn disk(&self, node: u64) -> MemoryDisk {
        self.nodes().get(&node).map(|machine| machine.disk.clone()).unwrap_or_default()
    }

    /// The numbers of the machines.
    pub fn ids(&self) -> Vec<u64> {
        (1..=self.shared.swarm.voters).collect()
    }

    /// Notes what a node should not have done.
    pub fn complain(&self, what: String) {
        self.shared.trace.tell(|| format!("COMPLAINT {what}"));
        self.told_mut().complaints.push(what);
    }

    /// What runs on a machine.
    pub fn running(&self, node: u64) -> Option<(Process, Replica)> {
        let nodes = self.nodes();
        let (process, replica) = nodes.get(&node)?.running.as_ref()?;
        Some((process.clone(), replica.clone()?))
    }

    /// Who leads, as the nodes see themselves.
    pub fn leaders(&self) -> Vec<u64> {
        let leads = |id: &u64| self.running(*id).is_some_and(|(_, replica)| replica.is_leader());
        self.ids().into_iter().filter(leads).collect()
    }

    fn config(&self, node: u64, disk: MemoryDisk) -> ReplicaConfig {
        let member = |id: u64| Member {
            region: format!("region-{id}"),
            peer_addr: format!("node-{id}"),
            client_addr: format!("client-{id}"),
        };
        ReplicaConfig {
            node_id: node,
            cluster_id: "simulated".to_owned(),
            data_dir: self.shared.dir.join(format!("node-{node}")),
            peer_listen: ([127, 0, 0, 1], 1).into(),
            members: self.ids().into_iter().map(|id| (id, member(id))).collect(),
            expected_rtt: Millis(self.shared.swarm.expected_rtt),
            storage: Storage::Memory(disk),
            snapshots: SnapshotRule {
                every_entries: self.shared.swarm.snapshot_every,
                entries_kept: self.shared.swarm.entries_kept,
            },
        }
    }

    /// Starts a machine that is off.
    pub async fn start(&self, node: u64) {
        let process = {
            let mut nodes = self.nodes();
            let Some(machine) = nodes.get_mut(&node).filter(|it| it.running.is_none()) else {
                return;
            };
            let process = Process::new(node, Arc::clone(&self.shared.surroundings) as _);
            machine.running = Some((process.clone(), None));
            machine.starts += 1;
            machine.disk.relent();
            machine.troubled = false;
            if machine.starts > 1 {
                self.told_mut().restarts += 1;
            }
            process
        };
        self.shared.network.lit(node);
        let (disk, clock) = {
            let nodes = self.nodes();
            let Some(machine) = nodes.get(&node) else { return };
            (machine.disk.clone(), Arc::clone(&machine.clock))
        };
        self.shared.trace.tell(|| format!("start {node}"));
        self.check_log(node, &disk);
        let config = self.config(node, disk);
        let opened = process.run(Replica::open(config, clock, Faults::none())).await;
        if process.has_ended() {
            return;
        }
        let replica = match opened {
            Ok(Ok(replica)) => replica,
            Ok(Err(error)) => {
                self.complain(format!("node {node} does not open: {error}"));
                return;
            }
            Err(error) => {
                self.complain(format!("node {node} does not open: {error}"));
                return;
            }
        };
        let cluster = self.clone();
        let failing = replica.clone();
        let fails = process.run(async move { failing.failure().await });
        let of = process.clone();
        tokio::spawn(async move {
            if let Ok(reason) = fails.await {
                cluster.failed(node, &of, &reason).await;
            }
        });
        let (cluster, of) = (self.clone(), process.clone());
        tokio::spawn(async move {
            of.ended().await;
            cluster.ended_itself(node, &of).await;
        });
        // What it had applied before, it has told of before. Its log may still hold what a snapshot has
        // overruled since, for the power can fail between the two.
        let upto = replica.status().applied_index;
        self.told_mut().taken.insert(node, Taken { installs: 0, upto });
        if let Some(machine) = self.nodes().get_mut(&node)
            && let Some((running, slot)) = &mut machine.running
            && !running.has_ended()
        {
            *slot = Some(replica);
        }
    }

    /// Checks what a disk holds of the log: no gaps, and no entry of an earlier term after a later one.
    fn check_log(&self, node: u64, disk: &MemoryDisk) {
        let mut before: Option<Logged> = None;
        for (index, bytes) in disk.held() {
            let entry = match Logged::decode(index, &bytes) {
                Ok(entry) => entry,
                Err(reason) => {
                    self.complain(format!("the log of node {node}: {reason}"));
                    return;
                }
            };
            if let Some(before) = before
                && (before.index + 1 != index || before.term > entry.term)
            {
                let (at, term) = (before.index, before.term);
                let now = entry.term;
                self.complain(format!(
                    "the log of node {node} has entry {index} of term {now} after entry {at} of \
                     term {term}"
                ));
                return;
            }
            before = Some(entry);
        }
    }

    /// Whether a process is what runs on a machine.
    fn is_running(&self, node: u64, process: &Process) -> bool {
        let nodes = self.nodes();
        let running = nodes.get(&node).and_then(|machine| machine.running.as_ref());
        running.is_some_and(|(running, _)| running.is(process))
    }

    /// A replica says that it must stop.
    async fn failed(&self, node: u64, process: &Process, reason: &str) {
        if !self.is_running(node, process) {
            return;
        }
        let troubled = self.nodes().get(&node).is_some_and(|machine| machine.troubled);
        if troubled {
            self.shared.trace.tell(|| format!("node {node} fails with its disk: {reason}"));
            self.shared.reached.mark(Mark::EndedItself);
        } else {
            self.complain(format!("node {node} has failed: {reason}"));
        }
        self.stop(node, false).await;
        self.come_back(node);
    }

    /// A process is gone, and nobody killed it.
    async fn ended_itself(&self, node: u64, process: &Process) {
        if !self.is_running(node, process) {
            return;
        }
        let troubled = self.nodes().get(&node).is_some_and(|machine| machine.troubled);
        if troubled {
            self.shared.trace.tell(|| format!("node {node} ends itself"));
            self.shared.reached.mark(Mark::EndedItself);
        } else {
            self.complain(format!("node {node} has ended itself"));
        }
        self.stop(node, false).await;
        self.come_back(node);
    }

    /// Starts a machine again, after a while.
    fn come_back(&self, node: u64) {
        let after = self.shared.chance.weighted(&[(4, 500), (3, 3_000), (2, 12_000)]);
        let after = self.shared.chance.between(20, after);
        let cluster = self.clone();
        tokio::spawn(async move {
            sleep(Duration::from_millis(after)).await;
            cluster.start(node).await;
        });
    }

    /// Ends what runs on a machine; if it is `dark`, its power goes, too.
    pub async fn stop(&self, node: u64, dark: bool) {
        let Some((process, replica)) =
            self.nodes().get_mut(&node).and_then(|machine| machine.running.take())
        else {
            return;
        };
        self.shared.trace.tell(|| format!("stop {node} dark {dark}"));
        if let Some(replica) = replica {
            self.take_down(node, &replica.status());
        }
        process.kill();
        self.shared.network.gone(node, dark);
        if let Some(machine) = self.nodes().get_mut(&node) {
            let Shared { chance, reached, .. } = &*self.shared;
            machine.disk = disk::after_end(&machine.disk, dark, chance, reached);
        }
        // Its tasks go one by one, and the last of them lets go of the folder.
        for _ in 0..64 {
            tokio::task::yield_now().await;
        }
    }

    /// Looks at all nodes.
    pub fn look(&self) {
        let at = self.shared.trace.now();
        for id in self.ids() {
            let Some((_, replica)) = self.running(id) else { continue };
            let status = replica.status();
            let start = self.nodes().get(&id).map_or(0, |machine| machine.starts);
            self.take_down(id, &status);
            self.told_mut().seen.push(Seen { node: id, start, at, status });
        }
    }

    /// Takes down which entries a node has applied. All that its log holds up to there is committed;
    /// what it held before it was purged is, too. After a snapshot has come in, the log may for a moment
    /// still hold what the snapshot overruled, so then nothing is taken from there.
    fn take_down(&self, node: u64, status: &Status) {
        let Some(applied) = status.applied_index else { return };
        let installs = status.snapshot_installs;
        let disk = self.disk(node);
        let mut told = self.told_mut();
        let taken = told.taken.entry(node).or_default();
        let overruled = taken.installs != installs;
        let from = if overruled { applied + 1 } else { taken.upto.map_or(0, |upto| upto + 1) };
        *taken = Taken { installs, upto: Some(applied) };
        let mut clashes = Vec::new();
        for (index, bytes) in disk.entries(from..=applied) {
            match told.committed.get(&index) {
                None => drop(told.committed.insert(index, bytes)),
                Some(known) if *known == bytes => {}
                Some(_) => clashes.push(index),
            }
        }
        drop(told);
        for index in clashes {
            self.complain(format!("node {node} has applied another entry {index} than others"));
        }
        if status.snapshot_index.is_some() {
            self.shared.reached.mark(Mark::Snapshot);
        }
        if status.purged_index.is_some() {
            self.shared.reached.mark(Mark::Purge);
        }
        if installs > 0 {
            self.shared.reached.mark(Mark::Install);
        }
    }

    /// Hashes the state of a node.
    pub async fn hash(&self, node: u64) -> Option<(u64, [u8; 32])> {
        let (process, replica) = self.running(node)?;
        let hash = process.run(async move { replica.state_hash().await }).await.ok()?;
        let (index, hash) = hash.ok()?;
        self.told_mut().hashes.push((node, index, hash));
        Some((index, hash))
    }

    /// Ends all faults: the network is whole, every machine runs.
    pub async fn calm(&self) {
        self.shared.trace.tell(|| "calm".to_owned());
        self.shared.network.heal();
        self.shared.network.set_weather(self.swarm().calm());
        for id in self.ids() {
            self.shared.network.slow(id, 0);
            if let Some((process, _)) = self.running(id) {
                process.resume();
            }
            // What was told to its disk may yet strike: it starts again on a good one.
            let troubled = self.nodes().get(&id).is_some_and(|machine| machine.troubled);
            if troubled {
                self.stop(id, false).await;
            }
            self.start(id).await;
        }
    }

    /// Ends all processes.
    pub async fn end(&self) {
        for id in self.ids() {
            self.stop(id, false).await;
        }
    }

    /// Whether a node leads by its own word.
    pub fn leads(status: &Status) -> bool {
        status.role == Role::Leader
    }
}
