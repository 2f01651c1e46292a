//! Three replicas in one process over real connections: they elect, replicate, lose a node and get
//! it back.

#![expect(clippy::unwrap_used, reason = "a test ends where it finds something else")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use firstclaim_core::{Answer, Command, Millis, Outcome};
use firstclaim_replica::{
    Fate, Faults, Member, MemoryDisk, OpenError, ProposeError, Replica, ReplicaConfig,
    SnapshotRule, Storage, SystemClock,
};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(20);

/// A cluster of three, each with its folder.
struct Cluster {
    dir: TempDir,
    members: BTreeMap<u64, Member>,
    storages: BTreeMap<u64, Storage>,
    replicas: BTreeMap<u64, Replica>,
    faults: Faults,
}

fn free_addr() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

impl Cluster {
    fn new(storage: impl Fn() -> Storage) -> Self {
        // `RUST_LOG=info` shows what the replicas say. Another test may have asked before.
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
            .with_test_writer();
        drop(subscriber.try_init());
        let member = |id: u64| Member {
            region: format!("region-{id}"),
            peer_addr: free_addr().to_string(),
            client_addr: format!("http://127.0.0.1:{id}"),
        };
        Self {
            dir: tempfile::tempdir().unwrap(),
            members: (1..=3).map(|id| (id, member(id))).collect(),
            storages: (1..=3).map(|id| (id, storage())).collect(),
            replicas: BTreeMap::new(),
            faults: Faults::none(),
        }
    }

    fn data_dir(&self, id: u64) -> PathBuf {
        self.dir.path().join(format!("node-{id}"))
    }

    fn config(&self, id: u64) -> ReplicaConfig {
        ReplicaConfig {
            node_id: id,
            cluster_id: "test".to_owned(),
            data_dir: self.data_dir(id),
            peer_listen: self.members[&id].peer_addr.parse().unwrap(),
            members: self.members.clone(),
            expected_rtt: Millis(10),
            storage: self.storages[&id].clone(),
            snapshots: SnapshotRule { every_entries: 1_000_000, entries_kept: 0 },
        }
    }

    async fn open(&self, id: u64) -> Result<Replica, OpenError> {
        Replica::open(self.config(id), Arc::new(SystemClock::new()), self.faults.clone()).await
    }

    async fn start(&mut self, id: u64) {
        let replica = self.open(id).await.unwrap();
        self.replicas.insert(id, replica);
    }

    async fn start_all(&mut self) {
        for id in 1..=3 {
            self.start(id).await;
        }
    }

    async fn stop(&mut self, id: u64) {
        self.replicas.remove(&id).unwrap().shutdown().await;
    }

    /// The node that leads and can commit.
    async fn leader(&self) -> u64 {
        self.leader_other_than(0).await
    }

    async fn leader_other_than(&self, old: u64) -> u64 {
        let search = async {
            loop {
                for (id, replica) in self.replicas.iter().filter(|(id, _)| **id != old) {
                    if replica.is_leader() && tick(replica).await.is_ok() {
                        return *id;
                    }
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, search).await.expect("no node leads")
    }

    /// Waits until all running nodes have applied the same, and compares their states.
    async fn converge(&self) -> u64 {
        let agree = async {
            loop {
                let mut hashes = Vec::new();
                for replica in self.replicas.values() {
                    hashes.push(replica.state_hash().await.unwrap());
                }
                let applied: Vec<u64> = hashes.iter().map(|(applied, _)| *applied).collect();
                if applied.iter().all(|index| *index == applied[0]) {
                    assert!(hashes.iter().all(|hash| *hash == hashes[0]), "the states differ");
                    return applied[0];
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, agree).await.expect("the nodes do not converge")
    }

    async fn stop_all(&mut self) {
        for id in 1..=3 {
            if self.replicas.contains_key(&id) {
                self.stop(id).await;
            }
        }
    }
}

async fn tick(replica: &Replica) -> Result<Vec<Outcome>, ProposeError> {
    replica.propose(vec![Command::Tick]).await
}

async fn survives(storage: fn() -> Storage) {
    let mut cluster = Cluster::new(storage);
    cluster.start_all().await;
    let leader = cluster.leader().await;

    // One entry with many commands has as many outcomes.
    let outcomes = cluster.replicas[&leader].propose(vec![Command::Tick; 5]).await.unwrap();
    assert_eq!(outcomes.len(), 5);
    assert!(outcomes.iter().all(|outcome| outcome.result == Ok(Answer::Ticked)));

    // A follower says who leads, and takes nothing on.
    let follower = (1..=3).find(|id| *id != leader).unwrap();
    let mut leads = cluster.replicas[&follower].watch_leader();
    let heard = leads.wait_for(|known| *known == Some(leader));
    tokio::time::timeout(PATIENCE, heard).await.expect("the follower hears of no leader").unwrap();
    cluster.converge().await;
    let error = tick(&cluster.replicas[&follower]).await.unwrap_err();
    assert_eq!(error.fate(), Fate::NotProposed);
    assert!(matches!(error, ProposeError::NotLeader { leader: Some((id, _)) } if id == leader));

    // A linearizable read on a follower sees what was acknowledged before.
    let before = cluster.replicas[&leader].status().applied_index.unwrap();
    cluster.replicas[&follower].linearize().await.unwrap();
    let (applied, ()) = cluster.replicas[&follower].read(|_| Ok(())).unwrap();
    assert!(applied >= before, "{applied} < {before}");
    let (confirmed, _) = cluster.replicas[&follower].confirmed_store_time().unwrap();
    assert!(confirmed >= cluster.replicas[&follower].store_time());

    // The leader goes; the others go on; it comes back and catches up.
    let before = cluster.converge().await;
    cluster.stop(leader).await;
    let next = cluster.leader_other_than(leader).await;
    for _ in 0..20 {
        tick(&cluster.replicas[&next]).await.unwrap();
    }
    cluster.start(leader).await;
    assert!(cluster.converge().await > before + 20);

    // All go at once, and come back with everything.
    let before = cluster.converge().await;
    cluster.stop_all().await;
    cluster.start_all().await;
    cluster.leader().await;
    assert!(cluster.converge().await > before);
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_in_memory_survives_its_leader() {
    survives(|| Storage::Memory(MemoryDisk::default())).await;
}

#[cfg(feature = "rocksdb")]
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_on_rocksdb_survives_its_leader() {
    survives(|| Storage::RocksDb).await;
}

async fn catches_up_by_snapshot(storage: fn() -> Storage) {
    let mut cluster = Cluster::new(storage);
    cluster.start_all().await;
    let leader = cluster.leader().await;
    let follower = (1..=3).find(|id| *id != leader).unwrap();
    cluster.converge().await;
    cluster.stop(follower).await;

    let replica = cluster.replicas[&leader].clone();
    for _ in 0..100 {
        replica.propose(vec![Command::Tick; 10]).await.unwrap();
    }
    replica.snapshot().await.unwrap();
    let upto = replica.status().snapshot_index.unwrap();
    replica.purge_log(upto).await.unwrap();
    let purged = async {
        while replica.status().purged_index < Some(upto) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, purged).await.expect("the log is not purged");
    tick(&replica).await.unwrap();

    cluster.start(follower).await;
    assert!(cluster.converge().await > upto);
    assert_eq!(cluster.replicas[&follower].status().snapshot_installs, 1);

    // What was installed is still there after a restart, and nothing is installed twice.
    cluster.stop(follower).await;
    cluster.start(follower).await;
    cluster.converge().await;
    assert_eq!(cluster.replicas[&follower].status().snapshot_installs, 0);
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_in_memory_catches_up_by_snapshot() {
    catches_up_by_snapshot(|| Storage::Memory(MemoryDisk::default())).await;
}

#[cfg(feature = "rocksdb")]
#[tokio::test(flavor = "multi_thread")]
async fn a_node_on_rocksdb_catches_up_by_snapshot() {
    catches_up_by_snapshot(|| Storage::RocksDb).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_cut_off_answers_with_an_unknown_fate() {
    let mut cluster = Cluster::new(|| Storage::Memory(MemoryDisk::default()));
    cluster.start_all().await;
    let old = cluster.leader().await;
    cluster.faults.isolate(old, 1..=3);
    let lost = cluster.replicas[&old].clone();
    let lost = tokio::spawn(async move { tick(&lost).await });
    let new = cluster.leader_other_than(old).await;
    for _ in 0..5 {
        tick(&cluster.replicas[&new]).await.unwrap();
    }
    cluster.faults.heal();
    // Its entry was overwritten, or may yet come through: it cannot know, and says so.
    if let Err(error) = lost.await.unwrap() {
        assert_eq!(error.fate(), Fate::Unknown, "{error}");
    }
    cluster.converge().await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_lost_its_disk_stays_out() {
    let mut cluster = Cluster::new(|| Storage::Memory(MemoryDisk::default()));
    cluster.start_all().await;
    cluster.leader().await;
    cluster.converge().await;
    // Node 1 is the one that forms clusters.
    cluster.stop(1).await;
    std::fs::remove_dir_all(cluster.data_dir(1)).unwrap();
    cluster.storages.insert(1, Storage::Memory(MemoryDisk::default()));
    cluster.start(1).await;
    let reason = tokio::time::timeout(PATIENCE, cluster.replicas[&1].failure()).await.unwrap();
    assert!(reason.contains("the data folder of node 1 is empty"), "{reason}");
    assert!(reason.contains("put back the folder"), "{reason}");
    cluster.stop(1).await;
    cluster.leader().await;
    cluster.converge().await;
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_of_somebody_else_is_refused() {
    let mut cluster = Cluster::new(|| Storage::Memory(MemoryDisk::default()));
    cluster.start(1).await;

    let mut config = cluster.config(1);
    config.peer_listen = free_addr();
    let clock = Arc::new(SystemClock::new());
    let error = Replica::open(config, clock.clone(), Faults::none()).await.unwrap_err().to_string();
    assert!(error.contains("node-1 is in use by another process"), "{error}");

    let mut config = cluster.config(2);
    config.peer_listen = cluster.config(1).peer_listen;
    let error = Replica::open(config, clock.clone(), Faults::none()).await.unwrap_err().to_string();
    assert!(error.contains("listen for peers on 127.0.0.1:"), "{error}");
    cluster.stop(1).await;

    let mut config = cluster.config(2);
    config.data_dir = cluster.data_dir(1);
    let error = Replica::open(config, clock.clone(), Faults::none()).await.unwrap_err().to_string();
    assert!(error.contains("belongs to node 1 of cluster test, not to node 2"), "{error}");

    let mut config = cluster.config(1);
    config.cluster_id = "other".to_owned();
    let error = Replica::open(config, clock, Faults::none()).await.unwrap_err().to_string();
    assert!(error.contains("not to node 1 of cluster other"), "{error}");
}
