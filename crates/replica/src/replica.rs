//! A replica: open it, propose commands, read the state, ask how it is, close it.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use firstclaim_core::command::Claim;
use firstclaim_core::planted::{self, Planted};
use firstclaim_core::{Command, Outcome, RecordId, Timestamp};
use openraft::ServerState;
use openraft::async_runtime::watch::WatchReceiver as _;
use openraft::errors::{ClientWriteError, ForwardReason};
use openraft::impls::ProgressResponder;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::Member;
use crate::bootstrap::{self, Admission};
use crate::clock::{Clock, Stamper, millis};
use crate::config::ReplicaConfig;
use crate::error::{OpenError, ProposeError, StoreError};
use crate::faults::Faults;
use crate::limits::{CONFIRM_EVERY, PROPOSE_TIMEOUT, TICK_CHECK, TICK_EVERY};
use crate::local::{self, Look};
use crate::network::{Network, Peers};
use crate::peer::{Parts, Peer};
use crate::raft::{Payload, Raft};
use crate::reads::{Reads, not_leader};
use crate::runtime;
use crate::status::{Status, status_of};
use crate::store::disk::Disk;
use crate::store::machine::Machine;
use crate::store::{LogStore, Progress, State, codec, machine};
use crate::transport::Listener;
use crate::wakes::Changes;

/// How long a replica that is closed waits for its last readers.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// How often it looks whether they are gone.
const CLOSE_CHECK: Duration = Duration::from_millis(5);

/// One node's copy of the log and the state. Clones are handles to the same one.
#[derive(Clone)]
pub struct Replica {
    inner: Arc<Inner>,
}

struct Inner {
    config: ReplicaConfig,
    raft: Raft,
    /// None once the replica is closed.
    log: Mutex<Option<LogStore>>,
    service: Peer,
    machine: Arc<Machine>,
    clock: Arc<dyn Clock>,
    stamper: Arc<Stamper>,
    reads: Arc<Reads>,
    peers: Peers,
    peer_addr: SocketAddr,
    /// When this node last proposed a stamped entry.
    stamped: Mutex<Option<Instant>>,
    leader: watch::Sender<Option<u64>>,
    /// Why the replica must stop.
    failure: watch::Sender<Option<String>>,
    stopping: CancellationToken,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl std::fmt::Debug for Replica {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replica")
            .field("node_id", &self.inner.config.node_id)
            .finish_non_exhaustive()
    }
}

impl Replica {
    /// Opens the data folder, listens for the other nodes and takes part in the cluster.
    ///
    /// A new cluster forms by itself once all its members are up. Returns before that.
    ///
    /// # Errors
    ///
    /// [`OpenError`], which says what to do.
    pub async fn open(
        config: ReplicaConfig,
        clock: Arc<dyn Clock>,
        faults: Faults,
    ) -> Result<Self, OpenError> {
        config.check()?;
        let addr = config.peer_listen;
        let bind = |source| OpenError::Bind { addr, source };
        let listener = Listener::bind(addr).await.map_err(bind)?;
        let peer_addr = listener.addr();

        let disk = Disk::open(
            &config.data_dir,
            config.storage.clone(),
            &config.cluster_id,
            config.node_id,
        )?;
        let disk = Arc::new(disk);
        let log_disk = disk.open_log()?;
        let log_path = log_disk.engine.path().to_path_buf();
        let log = LogStore::open(log_disk)?;
        let admission = Arc::new(Admission::open(&disk, log.clone())?);
        let (state_machine, machine) =
            machine::open(Arc::clone(&disk), &log, &log_path, &config.cluster_id)?;

        let peers = Peers::new(&config, faults);
        let consensus = Arc::new(config.consensus()?);
        let network = Network { peers: peers.clone() };
        let raft = Raft::new(config.node_id, consensus, network, log.clone(), state_machine).await;
        let raft = raft.map_err(|fatal| OpenError::Consensus { reason: fatal.to_string() })?;

        let stamper = Arc::new(Stamper::default());
        let reads = Arc::new(Reads::new(
            raft.clone(),
            Arc::clone(&machine),
            peers.clone(),
            Arc::clone(&clock),
            Arc::clone(&stamper),
        ));
        let stopping = CancellationToken::new();
        let parts = Parts {
            raft: raft.clone(),
            reads: Arc::clone(&reads),
            admission: Arc::clone(&admission),
            disk,
        };
        let service = Peer::new(&config, parts, stopping.clone());
        let replica = Self {
            inner: Arc::new(Inner {
                config,
                raft,
                log: Mutex::new(Some(log)),
                service: service.clone(),
                machine,
                clock,
                stamper,
                reads,
                peers,
                peer_addr,
                stamped: Mutex::new(None),
                leader: watch::channel(None).0,
                failure: watch::channel(None).0,
                stopping,
                tasks: Mutex::default(),
            }),
        };
        replica.start(listener, service, admission);
        Ok(replica)
    }

    /// Starts what runs beside the consensus engine.
    fn start(&self, listener: Listener, service: Peer, admission: Arc<Admission>) {
        // It ends by itself, so that it can close its connections.
        let serving = runtime::spawn(serve(Arc::clone(&self.inner), listener, service));
        self.inner.tasks.lock().unwrap_or_else(PoisonError::into_inner).push(serving);
        self.spawn(watch_raft(Arc::clone(&self.inner)));
        self.spawn(keep_time(self.clone()));
        self.spawn(keep_confirming(Arc::clone(&self.inner)));
        let inner = Arc::clone(&self.inner);
        self.spawn(async move {
            let joined =
                bootstrap::join(&inner.config, &inner.peers, &inner.raft, &admission).await;
            if let Err(reason) = joined {
                inner.fail(&reason);
            }
        });
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stopping = self.inner.stopping.clone();
        let task = runtime::spawn(async move {
            tokio::select! {
                biased;
                () = stopping.cancelled() => {}
                () = task => {}
            }
        });
        self.inner.tasks.lock().unwrap_or_else(PoisonError::into_inner).push(task);
    }

    /// Replicates `commands` as one log entry and returns what they decided, by position.
    ///
    /// Returns once the entry is applied here, so every linearizable read that starts later, on
    /// any replica, sees what it did. A refusal is an `Ok`: it went through the log like any other
    /// outcome, and asking again would only repeat it.
    ///
    /// # Errors
    ///
    /// [`ProposeError`] if there is no outcome to return. Look at [`ProposeError::fate`] before
    /// concluding that nothing happened.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the wait, not the proposal. Treat it like
    /// [`Fate::Unknown`](crate::Fate::Unknown).
    pub async fn propose(&self, commands: Vec<Command>) -> Result<Vec<Outcome>, ProposeError> {
        self.propose_at(commands).await.map(|(_, outcomes)| outcomes)
    }

    /// Does the same as [`Self::propose`], and says at which index of the log.
    ///
    /// # Errors
    ///
    /// The same.
    pub async fn propose_at(
        &self,
        commands: Vec<Command>,
    ) -> Result<(u64, Vec<Outcome>), ProposeError> {
        let inner = &self.inner;
        if inner.stopping.is_cancelled() {
            return Err(ProposeError::Stopping);
        }
        let leader = inner.raft.as_leader().map_err(not_leader)?;
        let applied = inner.machine.store_time();
        let election = inner.machine.election();
        let stamp = inner.stamper.stamp(&*inner.clock, leader.term(), applied, election);
        let payload = codec::encode_payload(stamp, &commands)
            .map_err(|reason| ProposeError::TooLarge { reason })?;
        let (responder, answer) = ProgressResponder::complete_only();
        // Only in the term that the stamp was made for.
        inner
            .raft
            .write(Payload(payload))
            .responder(responder)
            .with_leader(leader.to_committed_leader_id())
            .await
            .map_err(|fatal| ProposeError::Failed { reason: fatal.to_string() })?;
        *inner.stamped.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        match tokio::time::timeout(PROPOSE_TIMEOUT, answer).await {
            Ok(Ok(Ok(written))) => Ok((written.log_id.index, written.data.0)),
            Ok(Ok(Err(error))) => Err(write_error(error)),
            Ok(Err(_)) => Err(ProposeError::Failed {
                reason: "the consensus engine dropped the proposal".to_owned(),
            }),
            Err(_) => Err(ProposeError::TimedOut { waited_ms: millis(PROPOSE_TIMEOUT) }),
        }
    }

    /// Waits until [`Self::read`] sees every write that was acknowledged before this call, on any
    /// replica. Trusts no clock: a majority is asked.
    ///
    /// # Errors
    ///
    /// [`ProposeError`]. A read has no effect, so all of them may be tried again.
    ///
    /// # Cancel safety
    ///
    /// Safe.
    pub async fn linearize(&self) -> Result<(), ProposeError> {
        self.inner.reads.linearize().await
    }

    /// Reads this node's state as it is after some entry, and says which. What `f` writes is
    /// dropped.
    ///
    /// # Errors
    ///
    /// The disk's.
    pub fn read<T>(
        &self,
        f: impl FnOnce(&mut State<'_>) -> Result<T, StoreError>,
    ) -> Result<(u64, T), StoreError> {
        self.inner.machine.read(f)
    }

    /// Looks at a claim in this node's own state: it may be a duplicate that needs no log.
    ///
    /// # Errors
    ///
    /// The disk's.
    pub fn look(&self, claim: &Claim) -> Result<Look, StoreError> {
        let latest = local::latest_store_time(self.confirmed_store_time(), &*self.inner.clock);
        let (_, look) = self.read(|state| local::look_at(state, claim, latest))?;
        Ok(look)
    }

    /// How this replica is.
    #[must_use]
    pub fn status(&self) -> Status {
        let metrics = {
            let metrics = self.inner.raft.metrics();
            let metrics = metrics.borrow_watched();
            metrics.clone()
        };
        let mut status = status_of(&self.inner.config, &metrics, &self.inner.machine);
        if let Some(reason) = &*self.inner.failure.borrow() {
            status.failure = Some(reason.clone());
        }
        status
    }

    /// Whether this node leads, as far as it knows.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        *self.inner.leader.borrow() == Some(self.inner.config.node_id)
    }

    /// Who leads, as far as this node knows.
    #[must_use]
    pub fn leader(&self) -> Option<(u64, Member)> {
        let leader = (*self.inner.leader.borrow())?;
        let member = self.inner.config.members.get(&leader)?;
        Some((leader, member.clone()))
    }

    /// Follows who leads.
    #[must_use]
    pub fn watch_leader(&self) -> watch::Receiver<Option<u64>> {
        self.inner.leader.subscribe()
    }

    /// Store time in this node's state.
    #[must_use]
    pub fn store_time(&self) -> Timestamp {
        self.inner.machine.store_time()
    }

    /// Follows how far this node's state has come.
    #[must_use]
    pub fn watch_applied(&self) -> watch::Receiver<Progress> {
        self.inner.machine.progress()
    }

    /// Tells when a record is written or removed on this node.
    #[must_use]
    pub fn watch_record(&self, id: &RecordId) -> Changes {
        self.inner.machine.wakes().record(id)
    }

    /// Tells when any record of a namespace's life is written or removed on this node.
    #[must_use]
    pub fn watch_namespace(&self, namespace: u64) -> Changes {
        self.inner.machine.wakes().namespace(namespace)
    }

    /// The last store time that a leader has confirmed since this process started, and an instant
    /// at which it cannot have been later than that.
    #[must_use]
    pub fn confirmed_store_time(&self) -> Option<(Timestamp, Instant)> {
        self.inner.reads.confirmed_store_time()
    }

    /// A digest of the whole state, and the index of the last entry in it. Equal on all replicas at
    /// one index.
    ///
    /// # Errors
    ///
    /// The disk's.
    pub async fn state_hash(&self) -> Result<(u64, [u8; 32]), StoreError> {
        let machine = Arc::clone(&self.inner.machine);
        let hash = runtime::blocking(move || machine.state_hash()).await;
        hash.unwrap_or_else(|error| {
            Err(StoreError::Io {
                action: "hash the state",
                path: self.inner.config.data_dir.clone(),
                source: error,
            })
        })
    }

    /// Makes a snapshot of the state now. Returns once it is complete.
    ///
    /// # Errors
    ///
    /// [`ProposeError::Failed`] if the replica has stopped, [`ProposeError::TimedOut`] if it takes
    /// too long.
    pub async fn snapshot(&self) -> Result<(), ProposeError> {
        let failed = |reason: String| ProposeError::Failed { reason };
        let applied = self.status().applied_index;
        let raft = &self.inner.raft;
        raft.trigger().snapshot().await.map_err(|fatal| failed(fatal.to_string()))?;
        let mut metrics = raft.metrics();
        let made = metrics.wait_until(|metrics| {
            metrics.running_state.is_err() || metrics.snapshot.map(|id| id.index) >= applied
        });
        match tokio::time::timeout(PROPOSE_TIMEOUT * 3, made).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(failed(error.to_string())),
            Err(_) => Err(ProposeError::TimedOut { waited_ms: millis(PROPOSE_TIMEOUT * 3) }),
        }
    }

    /// Purges the log up to the entry `upto`, as far as a snapshot covers it, whatever else the
    /// configuration keeps.
    ///
    /// # Errors
    ///
    /// [`ProposeError::Failed`] if the replica has stopped.
    pub async fn purge_log(&self, upto: u64) -> Result<(), ProposeError> {
        let purged = self.inner.raft.trigger().purge_log(upto).await;
        purged.map_err(|fatal| ProposeError::Failed { reason: fatal.to_string() })
    }

    /// Hands leadership to another node, which must have all of the log.
    ///
    /// # Errors
    ///
    /// [`ProposeError::Failed`] if the replica has stopped.
    pub async fn transfer_leader(&self, to: u64) -> Result<(), ProposeError> {
        let sent = self.inner.raft.trigger().transfer_leader(to).await;
        sent.map_err(|fatal| ProposeError::Failed { reason: fatal.to_string() })
    }

    /// Where this replica listens for the others.
    #[must_use]
    pub fn peer_addr(&self) -> SocketAddr {
        self.inner.peer_addr
    }

    /// Waits until this replica has failed, and says why. The process should end then.
    pub async fn failure(&self) -> String {
        let mut failure = self.inner.failure.subscribe();
        // The guard must not live on into the wait: it would keep the future on one thread.
        let reason = failure.wait_for(Option::is_some).await.map(|reason| reason.clone());
        match reason {
            Ok(reason) => reason.unwrap_or_default(),
            Err(_) => std::future::pending().await,
        }
    }

    /// Stops taking part and closes the data folder.
    pub async fn shutdown(&self) {
        let inner = &self.inner;
        inner.stopping.cancel();
        if let Err(error) = inner.raft.shutdown().await {
            tracing::warn!(%error, "the consensus engine did not stop cleanly");
        }
        inner.service.close();
        let tasks: Vec<_> =
            inner.tasks.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect();
        let joined = tokio::time::timeout(CLOSE_TIMEOUT, futures::future::join_all(tasks)).await;
        if joined.is_err() {
            tracing::warn!("a task did not stop in time");
        }
        drop(inner.log.lock().unwrap_or_else(PoisonError::into_inner).take());
        let folder = inner.machine.close();
        let free = async {
            while folder.strong_count() > 0 {
                tokio::time::sleep(CLOSE_CHECK).await;
            }
        };
        if tokio::time::timeout(CLOSE_TIMEOUT, free).await.is_err() {
            tracing::warn!("the data folder is still in use");
        }
    }
}

impl Inner {
    fn fail(&self, reason: &str) {
        tracing::error!(node_id = self.config.node_id, reason, "the replica has failed");
        self.failure.send_if_modified(|failure| {
            let first = failure.is_none();
            if first {
                *failure = Some(reason.to_owned());
            }
            first
        });
    }
}

/// Answers the other nodes.
async fn serve(inner: Arc<Inner>, listener: Listener, service: Peer) {
    let silence = inner.config.timers().silence();
    let served = listener.serve(service, silence, inner.stopping.clone()).await;
    if let Err(error) = served {
        inner.fail(&format!("the listener for peers ended: {error}"));
    }
}

/// Follows who leads, and whether the consensus engine runs.
async fn watch_raft(inner: Arc<Inner>) {
    let mut metrics = inner.raft.metrics();
    loop {
        let (leader, failed) = {
            let metrics = metrics.borrow_and_update();
            let leads = metrics.state == ServerState::Leader;
            let own = inner.config.node_id;
            // A node that has restarted still names itself until it hears of another leader.
            let leader = metrics.current_leader.filter(|leader| *leader != own || leads);
            (leader, metrics.running_state.as_ref().err().map(ToString::to_string))
        };
        inner.leader.send_if_modified(|known| std::mem::replace(known, leader) != leader);
        if let Some(reason) = failed {
            if !inner.stopping.is_cancelled() {
                inner.fail(&reason);
            }
            return;
        }
        if metrics.changed().await.is_err() {
            return;
        }
    }
}

/// Stamps an entry when a leader has not for a while, so that store time does not stand still.
async fn keep_time(replica: Replica) {
    loop {
        tokio::time::sleep(TICK_CHECK).await;
        let last = *replica.inner.stamped.lock().unwrap_or_else(PoisonError::into_inner);
        let due = last.is_none_or(|at| at.elapsed() >= TICK_EVERY);
        if due
            && replica.is_leader()
            && let Err(error) = replica.propose(vec![Command::Tick]).await
        {
            tracing::debug!(%error, "a tick got no answer");
        }
    }
}

/// Keeps the confirmed store time fresh.
async fn keep_confirming(inner: Arc<Inner>) {
    loop {
        let confirmed = tokio::time::timeout(PROPOSE_TIMEOUT, inner.reads.confirm()).await;
        if let Ok(Err(error)) = confirmed {
            tracing::trace!(%error, "no leader confirmed store time");
        }
        tokio::time::sleep(CONFIRM_EVERY).await;
    }
}

/// What a refused or lost write means to who proposed it.
fn write_error(error: ClientWriteError<crate::raft::TypeConfig>) -> ProposeError {
    match error {
        ClientWriteError::ForwardToLeader(forward) => match forward.reason {
            // It still leads as far as it knows, but took nothing on.
            ForwardReason::LeaseExpired => ProposeError::NoQuorum,
            ForwardReason::NotLeader | ForwardReason::LeadershipTransfer => not_leader(forward),
        },
        ClientWriteError::LogEntryDiscarded(_) if planted::is(Planted::ForwardNotApplied) => {
            ProposeError::NoLeader
        }
        // It was in the log, and may have been committed under another leader.
        ClientWriteError::LogEntryDiscarded(_) => ProposeError::LeadershipLost,
        // Neither is ever asked for by a proposal.
        ClientWriteError::ChangeMembershipError(error) => {
            ProposeError::Failed { reason: error.to_string() }
        }
        ClientWriteError::PreconditionFailed(error) => {
            ProposeError::Failed { reason: error.to_string() }
        }
    }
}
