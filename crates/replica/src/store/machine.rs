//! The state as openraft sees it: decode, apply, write, answer.
//!
//! Many entries become one batch, which also holds how far the state has come. So the state is
//! always exactly that of some entry, whatever a crash takes away, and the log repeats the rest.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use firstclaim_core::planted::{self, Planted};
use firstclaim_core::{Outcome, Stamp, Store as _, Timestamp};
use futures::{Stream, StreamExt as _};
use openraft::storage::{ApplyResponder, RaftSnapshotBuilder, RaftStateMachine};
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

use crate::error::StoreError;
use crate::limits::APPLY_ENTRIES_MAX;
use crate::raft::{
    Applied, Entry, EntryPayload, EntryResponder, LogId, Payload, Snapshot, SnapshotMeta,
    StoredMembership, TypeConfig, term_of,
};
use crate::runtime;
use crate::store::codec::{self, Fault};
use crate::store::disk::{Disk, SNAPSHOT_DIR};
use crate::store::engine::{Batch, Durability, Op, Read, after_prefix, in_view};
use crate::store::file;
use crate::store::generation::Generation;
use crate::store::log::{FlushGate, LogStore};
use crate::store::schema::{Table, system};
use crate::store::snapshot::{SnapshotDir, partial_dir};
use crate::store::state::State;
use crate::wakes::Wakes;
use crate::wire;

/// Rows hashed at a time.
const ROWS_PER_READ: usize = 1024;

/// Whom to tell, and what, once the batch is written.
type Applying = (Option<ApplyResponder<TypeConfig>>, Applied);

/// How far the state has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Index of the last entry in it; none before the first.
    pub applied_index: Option<u64>,
    /// Store time in it.
    pub store_time: Timestamp,
}

impl Progress {
    fn at(last_applied: Option<&LogId>, store_time: Timestamp) -> Self {
        Self { applied_index: last_applied.map(|id| id.index), store_time }
    }
}

/// What the state machine shares with those who read the state.
pub(crate) struct Machine {
    disk: Arc<Disk>,
    cluster_id: String,
    /// None once the replica is closed.
    generation: RwLock<Option<Arc<Generation>>>,
    progress: watch::Sender<Progress>,
    /// The term of the last election that was applied, and store time at it.
    election: Mutex<Option<(u64, Timestamp)>>,
    wakes: Arc<Wakes>,
    /// What followers that lag are sent.
    snapshot: Mutex<Option<SnapshotDir>>,
    installs: AtomicU64,
}

/// The state machine of one replica.
pub(crate) struct StateMachine {
    machine: Arc<Machine>,
    gate: FlushGate,
    last_applied: Option<LogId>,
    membership: StoredMembership,
    snapshots_made: u64,
    /// Where entries come from, for messages.
    log_path: PathBuf,
}

impl std::fmt::Debug for StateMachine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StateMachine")
            .field("last_applied", &self.last_applied)
            .finish_non_exhaustive()
    }
}

impl Machine {
    fn generation(&self) -> Result<Arc<Generation>, StoreError> {
        let generation = self.generation.read().unwrap_or_else(PoisonError::into_inner);
        generation.clone().ok_or(StoreError::Closed)
    }

    /// Closes the state once its last reader is done, and says how to see whether the folder is
    /// free.
    pub(crate) fn close(&self) -> Weak<File> {
        *self.generation.write().unwrap_or_else(PoisonError::into_inner) = None;
        self.wakes.close();
        self.disk.close()
    }

    /// Store time in the state.
    pub(crate) fn store_time(&self) -> Timestamp {
        self.progress.borrow().store_time
    }

    /// The term of the last election that this process has applied, and store time at it: all that earlier
    /// leaders have stamped is in there.
    pub(crate) fn election(&self) -> Option<(u64, Timestamp)> {
        *self.election.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows how far the state has come.
    pub(crate) fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// Wakes who waits for records.
    pub(crate) fn wakes(&self) -> &Arc<Wakes> {
        &self.wakes
    }

    /// How many snapshots of other replicas were installed since the start.
    pub(crate) fn snapshot_installs(&self) -> u64 {
        self.installs.load(Ordering::Relaxed)
    }

    /// Makes a snapshot the one that followers get, unless there is a newer one.
    fn offer(&self, snapshot: SnapshotDir) {
        let mut current = self.snapshot.lock().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_some_and(|current| current.index() > snapshot.index()) {
            return;
        }
        snapshot.keep(true);
        if let Some(old) = current.replace(snapshot) {
            old.keep(false);
        }
    }

    /// Reads the state as it is after some entry, and says which.
    pub(crate) fn read<T>(
        &self,
        f: impl FnOnce(&mut State<'_>) -> Result<T, StoreError>,
    ) -> Result<(u64, T), StoreError> {
        let generation = self.generation()?;
        let engine = generation.engine();
        in_view(engine, |read| {
            let (applied, _) = load_position(read, engine.path())?;
            let value = f(&mut State::new(read, engine.path()))?;
            Ok((applied.map_or(0, |id| id.index), value))
        })
    }

    /// A digest of all rows in the order of their keys, and the index of the last entry in them.
    pub(crate) fn state_hash(&self) -> Result<(u64, [u8; 32]), StoreError> {
        let generation = self.generation()?;
        let engine = generation.engine();
        in_view(engine, |read| {
            let (applied, _) = load_position(read, engine.path())?;
            Ok((applied.map_or(0, |id| id.index), hash_rows(read)?))
        })
    }
}

/// A digest of all rows of a state.
pub(crate) fn hash_rows<R: Read + ?Sized>(read: &R) -> Result<[u8; 32], StoreError> {
    let mut hash = Sha256::new();
    for table in Table::STATE {
        hash_table(read, *table, &mut hash)?;
    }
    Ok(hash.finalize().into())
}

fn hash_table<R: Read + ?Sized>(
    read: &R,
    table: Table,
    hash: &mut Sha256,
) -> Result<(), StoreError> {
    let mut from = Vec::new();
    let end = after_prefix(&[]);
    loop {
        let rows = read.scan(table, &from, &end, ROWS_PER_READ)?;
        let Some((last, _)) = rows.last() else { return Ok(()) };
        from.clone_from(last);
        from.push(0);
        for (key, value) in &rows {
            hash.update([table.number()]);
            for field in [key, value] {
                hash.update((field.len() as u64).to_be_bytes());
                hash.update(field);
            }
        }
    }
}

/// The last entry in the state, and the members at it.
pub(crate) fn load_position(
    read: &dyn Read,
    path: &Path,
) -> Result<(Option<LogId>, StoredMembership), StoreError> {
    let damaged = |what: &str, reason: String| StoreError::Corrupt {
        path: path.to_path_buf(),
        what: format!("{what}: {reason}"),
    };
    let applied = match read.get(Table::System, system::APPLIED)? {
        None => None,
        Some(bytes) => {
            let id = codec::decode_message::<firstclaim_proto::peer::v1::LogId>(&bytes);
            let id = id.map_err(|fault| damaged("the applied position", fault.to_string()))?;
            Some(wire::log_id_from(&id))
        }
    };
    let membership = match read.get(Table::System, system::MEMBERSHIP)? {
        None => StoredMembership::default(),
        Some(bytes) => {
            let stored = codec::decode_message(&bytes)
                .map_err(|fault| damaged("the members", fault.to_string()))?;
            wire::stored_membership_from(stored)
                .map_err(|error| damaged("the members", error.to_string()))?
        }
    };
    Ok((applied, membership))
}

/// Opens the state of a data folder, and checks that the log goes as far as the state.
///
/// # Errors
///
/// If either is damaged, or if the log has lost its end.
pub(crate) fn open(
    disk: Arc<Disk>,
    log: &LogStore,
    log_path: &Path,
    cluster_id: &str,
) -> Result<(StateMachine, Arc<Machine>), StoreError> {
    let (generation, installed) = disk.open_state()?;
    let engine = generation.engine();
    let (last_applied, membership) = load_position(engine, engine.path())?;
    check_log_end(log, log_path, last_applied, installed)?;
    let store_time = State::new(engine, engine.path()).cluster()?.clock.now();
    let snapshot = SnapshotDir::newest(&disk.path(SNAPSHOT_DIR))?;
    if let Some(snapshot) = &snapshot {
        snapshot.keep(true);
    }
    let snapshot = Mutex::new(snapshot);
    let (progress, _) = watch::channel(Progress::at(last_applied.as_ref(), store_time));
    let machine = Arc::new(Machine {
        disk,
        cluster_id: cluster_id.to_owned(),
        generation: RwLock::new(Some(Arc::new(generation))),
        progress,
        election: Mutex::default(),
        wakes: Arc::default(),
        snapshot,
        installs: AtomicU64::new(0),
    });
    let state_machine = StateMachine {
        machine: Arc::clone(&machine),
        gate: log.flush_gate(),
        last_applied,
        membership,
        snapshots_made: 0,
        log_path: log_path.to_path_buf(),
    };
    Ok((state_machine, machine))
}

/// The state only ever takes in what the log has on disk. So a log that ends before the state was
/// cut off, and may also have lost what this replica has voted for or acknowledged.
fn check_log_end(
    log: &LogStore,
    log_path: &Path,
    last_applied: Option<LogId>,
    installed: u64,
) -> Result<(), StoreError> {
    let (last, _) = log.bounds();
    let (Some(applied), last) = (last_applied, last.map_or(0, |id| id.index)) else {
        return Ok(());
    };
    // After a snapshot was installed, the state is ahead until the log is purged.
    if applied.index <= last || applied.index <= installed {
        return Ok(());
    }
    Err(StoreError::Corrupt {
        path: log_path.to_path_buf(),
        what: format!(
            "the log ends at entry {last}, but the state already holds entry {}: the end of the \
             log was cut off",
            applied.index
        ),
    })
}

impl StateMachine {
    fn apply_entries(&mut self, entries: Vec<EntryResponder>) -> Result<Vec<Applying>, StoreError> {
        let generation = self.machine.generation()?;
        let engine = generation.engine();
        let mut state = State::new(engine, engine.path());
        let (mut membership, mut election) = (None, None);
        let mut answers = Vec::with_capacity(entries.len());
        for (entry, responder) in entries {
            let log_id = entry.log_id;
            let outcomes = match entry.payload {
                EntryPayload::Blank => {
                    election = Some((term_of(&log_id), state.cluster()?.clock.now()));
                    Vec::new()
                }
                EntryPayload::Normal(payload) => self.apply_one(&mut state, log_id, &payload)?,
                EntryPayload::Membership(members) => {
                    membership = Some(StoredMembership::new(Some(log_id), members));
                    Vec::new()
                }
            };
            self.last_applied = Some(log_id);
            answers.push((responder, Applied(outcomes)));
        }
        let store_time = state.cluster()?.clock.now();
        let mut batch = state.into_batch()?;
        if planted::is(Planted::AppliedApart) {
            let mut position = Batch::default();
            self.put_position(&mut position, membership.clone());
            engine.write(position, Durability::Unsynced)?;
        }
        self.put_position(&mut batch, membership);
        let changed = changed_records(&batch);
        engine.write(batch, Durability::Unsynced)?;
        if election.is_some() {
            *self.machine.election.lock().unwrap_or_else(PoisonError::into_inner) = election;
        }
        let progress = Progress::at(self.last_applied.as_ref(), store_time);
        self.machine.progress.send_replace(progress);
        self.machine.wakes.wake(changed.iter().map(Vec::as_slice));
        Ok(answers)
    }

    fn apply_one(
        &self,
        state: &mut State<'_>,
        log_id: LogId,
        Payload(bytes): &Payload,
    ) -> Result<Vec<Outcome>, StoreError> {
        let index = log_id.index;
        let decoded = codec::decode_payload(bytes).map_err(|fault| match fault {
            Fault::Damaged(reason) | Fault::Unknown(reason) => {
                StoreError::UnknownCommand { path: self.log_path.clone(), index, reason }
            }
        })?;
        if !decoded.is_applicable() {
            return Err(StoreError::FormerEntry { path: self.log_path.clone(), index });
        }
        let stamp = Stamp { term: term_of(&log_id), index, time: decoded.time };
        let mut outcomes = firstclaim_core::apply(state, stamp, &decoded.commands)?;
        if planted::is(Planted::OutcomesOutOfOrder) {
            outcomes.reverse();
        }
        if decoded.former {
            // So the state is the same as if it had been migrated after this entry.
            let mut cluster = state.cluster()?;
            cluster.clock.forget_past();
            state.put_cluster(cluster)?;
        }
        Ok(outcomes)
    }

    fn put_position(&mut self, batch: &mut Batch, membership: Option<StoredMembership>) {
        if let Some(id) = &self.last_applied {
            let value = codec::encode_message(&wire::log_id_to(id));
            batch.put(Table::System, system::APPLIED.to_vec(), value);
        }
        if let Some(membership) = membership {
            let value = codec::encode_message(&wire::stored_membership_to(&membership));
            batch.put(Table::System, system::MEMBERSHIP.to_vec(), value);
            self.membership = membership;
        }
    }

    /// Takes a checkpoint of the state as it is.
    fn checkpoint(&mut self) -> Result<SnapshotBuilder, StoreError> {
        let parent = self.machine.disk.path(SNAPSHOT_DIR);
        let index = self.last_applied.map_or(0, |id| id.index);
        // Another name than all there are: its last reader removes an old one by its name. The count
        // begins anew with each start.
        let name = loop {
            self.snapshots_made += 1;
            let name = format!("{index:020}-{}", self.snapshots_made);
            if !file::exists(&parent.join(&name))? {
                break name;
            }
        };
        let partial = partial_dir(&parent, &name)?;
        file::sync_dir(&parent)?;
        if !planted::is(Planted::SnapshotMetadataOutsideView) {
            self.machine.generation()?.engine().checkpoint(&partial)?;
        }
        let meta = SnapshotMeta {
            last_log_id: self.last_applied,
            last_membership: self.membership.clone(),
        };
        Ok(SnapshotBuilder { taken: Some(Ok((partial, meta))), machine: Arc::clone(&self.machine) })
    }

    fn install(&mut self, meta: &SnapshotMeta, snapshot: &SnapshotDir) -> Result<(), StoreError> {
        let old = self.machine.generation()?;
        let generation = self.machine.disk.stage(snapshot, old.number())?;
        let engine = generation.engine();
        let (last_applied, membership) = load_position(engine, engine.path())?;
        if last_applied != meta.last_log_id {
            return Err(StoreError::Corrupt {
                path: snapshot.path().to_path_buf(),
                what: format!(
                    "the snapshot holds the state at {last_applied:?}, not at {:?}",
                    meta.last_log_id
                ),
            });
        }
        let store_time = State::new(engine, engine.path()).cluster()?.clock.now();
        let installed = last_applied.map_or(0, |id| id.index);
        self.machine.disk.activate(&generation, installed)?;
        *self.machine.generation.write().unwrap_or_else(PoisonError::into_inner) =
            Some(Arc::new(generation));
        old.retire();
        self.last_applied = last_applied;
        self.membership = membership;
        self.machine.installs.fetch_add(1, Ordering::Relaxed);
        self.machine.progress.send_replace(Progress::at(last_applied.as_ref(), store_time));
        self.machine.wakes.wake_all();
        Ok(())
    }
}

/// The keys of the records that a batch writes or removes.
fn changed_records(batch: &Batch) -> Vec<Vec<u8>> {
    let keys = batch.ops.iter().filter_map(|op| match op {
        Op::Put(Table::Records, key, _) | Op::Delete(Table::Records, key) => Some(key.clone()),
        Op::Put(..) | Op::Delete(..) | Op::DeleteRange(..) => None,
    });
    keys.collect()
}

impl RaftStateMachine<TypeConfig> for StateMachine {
    type SnapshotData = SnapshotDir;
    type SnapshotBuilder = SnapshotBuilder;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), io::Error> {
        Ok((self.last_applied, self.membership.clone()))
    }

    async fn apply<S>(&mut self, entries: S) -> Result<(), io::Error>
    where
        S: Stream<Item = Result<EntryResponder, io::Error>> + Unpin + Send,
    {
        let mut entries = entries.fuse();
        loop {
            let mut chunk: Vec<EntryResponder> = Vec::new();
            while chunk.len() < APPLY_ENTRIES_MAX
                && let Some(entry) = entries.next().await
            {
                chunk.push(entry?);
            }
            let Some((Entry { log_id, .. }, _)) = chunk.last() else { return Ok(()) };
            self.gate.pass(log_id.index).await?;
            for (responder, applied) in self.apply_entries(chunk)? {
                if let Some(responder) = responder {
                    responder.send(applied);
                }
            }
        }
    }

    async fn try_create_snapshot_builder(&mut self, _force: bool) -> Option<SnapshotBuilder> {
        Some(self.get_snapshot_builder().await)
    }

    async fn get_snapshot_builder(&mut self) -> SnapshotBuilder {
        // Between two applies: so the checkpoint holds exactly what the meta data say.
        let machine = Arc::clone(&self.machine);
        self.checkpoint()
            .unwrap_or_else(|error| SnapshotBuilder { taken: Some(Err(error)), machine })
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta,
        snapshot: SnapshotDir,
    ) -> Result<(), io::Error> {
        self.install(meta, &snapshot)?;
        // It replaces the older one, which followers could not go on from.
        self.checkpoint()?.build_snapshot().await?;
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot>, io::Error> {
        let current = self.machine.snapshot.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(snapshot) = current else { return Ok(None) };
        Ok(Some(Snapshot { meta: snapshot.meta()?, snapshot }))
    }
}

/// Completes a checkpoint.
pub(crate) struct SnapshotBuilder {
    taken: Option<Result<(PathBuf, SnapshotMeta), StoreError>>,
    machine: Arc<Machine>,
}

impl std::fmt::Debug for SnapshotBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SnapshotBuilder").field("taken", &self.taken).finish_non_exhaustive()
    }
}

impl RaftSnapshotBuilder<TypeConfig> for SnapshotBuilder {
    type SnapshotData = SnapshotDir;

    async fn build_snapshot(&mut self) -> Result<Snapshot, io::Error> {
        let taken = self.taken.take();
        let taken = taken.ok_or_else(|| io::Error::other("the snapshot was built before"))?;
        let (partial, meta) = taken?;
        let machine = Arc::clone(&self.machine);
        if planted::is(Planted::SnapshotMetadataOutsideView) {
            // As long as it may take to copy what is not linked.
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        let build = move || {
            if planted::is(Planted::SnapshotMetadataOutsideView) {
                machine.generation()?.engine().checkpoint(&partial)?;
            }
            let snapshot = SnapshotDir::complete(&partial, &meta, &machine.cluster_id)?;
            machine.offer(snapshot.clone());
            Ok::<_, StoreError>(Snapshot { meta, snapshot })
        };
        Ok(runtime::blocking(build).await??)
    }
}
