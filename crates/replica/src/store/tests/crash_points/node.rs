//! Drives a store through a script, as openraft does, and notes what it acknowledges.

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use futures::{Future, FutureExt as _};
use openraft::storage::{RaftLogStorage as _, RaftSnapshotBuilder as _, RaftStateMachine as _};
use openraft::type_config::TypeConfigExt as _;

use super::super::{CLUSTER, Open};
use super::disk::Disk;
use super::ledger::{Change, Ledger};
use super::world::{THIRD_TERM, World};
use crate::raft::{Entry, IoFlushed, TypeConfig, Vote};
use crate::store::disk::{Disk as Folder, INCOMING_DIR, Storage};
use crate::store::snapshot::{Receiver, SnapshotDir, meta_of};
use crate::store::{LogStore, machine};

/// What a store is told to do.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Open,
    Close,
    Vote(u64),
    /// Appends the agreed entries of a range.
    Append(u64, u64),
    /// Appends entries of a range that nobody agrees on.
    Stray(u64, u64),
    Truncate(u64),
    /// Applies the agreed entries up to an index.
    Apply(u64),
    Snapshot,
    Purge(u64),
    /// Receives half of a snapshot of another node.
    Break(u64),
    Install(u64),
    /// Sends several changes of the log while the first is being written.
    Together(Vec<Step>),
}

/// A store on a disk that may fail.
pub(super) struct Node<'a> {
    pub(super) world: &'a World,
    pub(super) root: &'a Path,
    pub(super) disk: Arc<Disk>,
    pub(super) ledger: Ledger,
    pub(super) store: Option<Open>,
    /// An error that the store has reported and gone on after.
    pub(super) reported: Option<String>,
    /// Whether what a crash has left was looked at, and the store is used again.
    pub(super) went_on: bool,
}

/// Is over once a change is acknowledged.
type Told = Pin<Box<dyn Future<Output = Result<(), String>>>>;

/// Waits for the acknowledgement of a change.
type Waiting = (usize, Told);

/// Has a change sent, which it is when it is first looked at.
fn begin(mut sending: Told) -> Told {
    match sending.as_mut().now_or_never() {
        Some(result) => Box::pin(std::future::ready(result)),
        None => sending,
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl<'a> Node<'a> {
    pub(super) fn new(world: &'a World, root: &'a Path, disk: Arc<Disk>, ledger: Ledger) -> Self {
        Self { world, root, disk, ledger, store: None, reported: None, went_on: false }
    }

    pub(super) async fn run(&mut self, script: &[Step]) -> Result<(), String> {
        for (number, step) in script.iter().enumerate() {
            self.step(step).await.map_err(|error| format!("step {number}, {step:?}: {error}"))?;
        }
        Ok(())
    }

    async fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Open => self.open(),
            Step::Close => {
                if let Some(store) = self.store.take() {
                    store.close().await;
                }
                Ok(())
            }
            Step::Vote(_) | Step::Append(..) | Step::Stray(..) | Step::Truncate(_) => {
                let (number, waiting) = self.send(step).await?;
                waiting.await?;
                self.ledger.acknowledge(number, self.disk.calls());
                Ok(())
            }
            Step::Purge(_) => self.purge(step).await,
            Step::Apply(upto) => self.apply(*upto).await,
            Step::Snapshot => self.snapshot().await,
            Step::Break(index) => {
                let parcel = &self.world.parcels[index];
                let incoming = self.root.join(INCOMING_DIR);
                let mut receiver =
                    Receiver::begin(&incoming, parcel.manifest.clone()).map_err(text)?;
                receiver.take(&parcel.parts[0]).map_err(text)
            }
            Step::Install(index) => self.install(*index).await,
            Step::Together(steps) => self.together(steps).await,
        }
    }

    pub(super) fn store(&mut self) -> &mut Open {
        self.store.as_mut().expect("the script opens the store first")
    }

    pub(super) fn open(&mut self) -> Result<(), String> {
        let folder = Folder::open(self.root, Storage::Journal, CLUSTER, 1).map_err(text)?;
        let folder = Arc::new(folder);
        let log_disk = folder.open_log().map_err(text)?;
        let log_path = log_disk.engine.path().to_path_buf();
        let log = LogStore::open(log_disk).map_err(text)?;
        let opened = machine::open(folder, &log, &log_path, CLUSTER).map_err(text)?;
        let (state_machine, machine) = opened;
        self.store = Some(Open { log, state_machine, machine });
        Ok(())
    }

    /// Sends a change to the log, and does not wait for it.
    async fn send(&mut self, step: &Step) -> Result<Waiting, String> {
        let calls = self.disk.calls();
        let change = self.change(step);
        let number = self.ledger.send(change.clone(), calls);
        let mut log = self.store().log.clone();
        let waiting: Told = match change {
            Change::Vote(vote) => {
                begin(Box::pin(async move { log.save_vote(&vote).await.map_err(text) }))
            }
            Change::Append(entries) => {
                let (done, flushed) = TypeConfig::oneshot();
                log.append(entries, IoFlushed::signal(done)).await.map_err(text)?;
                Box::pin(async move { flushed.await.map_err(text)?.map_err(text) })
            }
            Change::Truncate(from) => {
                let last = from.checked_sub(1).map(|index| self.world.entry(index).log_id);
                begin(Box::pin(async move { log.truncate_after(last).await.map_err(text) }))
            }
            Change::Purge(upto) => {
                log.purge(upto).await.map_err(text)?;
                Box::pin(std::future::ready(Ok(())))
            }
        };
        Ok((number, waiting))
    }

    fn change(&self, step: &Step) -> Change {
        match step {
            Step::Vote(term) => Change::Vote(Vote::new_committed(*term, 1)),
            Step::Append(from, to) => Change::Append(self.world.range(*from, *to)),
            Step::Stray(from, to) => {
                Change::Append((*from..*to).map(|index| self.world.stray(index)).collect())
            }
            Step::Truncate(from) => Change::Truncate(*from),
            Step::Purge(upto) => Change::Purge(self.world.entry(*upto).log_id),
            Step::Open
            | Step::Close
            | Step::Apply(_)
            | Step::Snapshot
            | Step::Break(_)
            | Step::Install(_)
            | Step::Together(_) => panic!("{step:?} is no change to the log"),
        }
    }

    /// Purges. Nobody is told when that is on disk, so this waits until it is written.
    async fn purge(&mut self, step: &Step) -> Result<(), String> {
        let (calls, met) = (self.disk.calls(), self.disk.met());
        drop(self.send(step).await?);
        self.disk.wait_for_call_after(calls);
        if self.disk.met() != met {
            // The writer is gone, which the next change must notice.
            let (number, waiting) = self.send(&Step::Vote(8)).await?;
            waiting.await?;
            self.ledger.acknowledge(number, self.disk.calls());
        }
        Ok(())
    }

    async fn apply(&mut self, upto: u64) -> Result<(), String> {
        let progress = *self.store().machine.progress().borrow();
        let from = progress.applied_index.map_or(0, |index| index + 1);
        let entries = self.world.range(from.min(upto + 1), upto + 1);
        let entries = entries.into_iter().map(|entry: Entry| Ok((entry, None)));
        let stream = futures::stream::iter(entries.collect::<Vec<_>>());
        self.store().state_machine.apply(stream).await.map_err(text)
    }

    async fn snapshot(&mut self) -> Result<(), String> {
        let mut builder = self.store().state_machine.get_snapshot_builder().await;
        let snapshot = builder.build_snapshot().await.map_err(text)?;
        let index = snapshot.meta.last_log_id.map_or(0, |id| id.index);
        self.ledger.snapshot_made(index, self.disk.calls());
        Ok(())
    }

    fn receive(&self, index: u64) -> Result<SnapshotDir, String> {
        let parcel = &self.world.parcels[&index];
        let incoming = self.root.join(INCOMING_DIR);
        let mut receiver = Receiver::begin(&incoming, parcel.manifest.clone()).map_err(text)?;
        for part in &parcel.parts {
            receiver.take(part).map_err(text)?;
        }
        receiver.finish().map_err(text)
    }

    async fn install(&mut self, index: u64) -> Result<(), String> {
        let snapshot = match self.receive(index) {
            Ok(snapshot) => snapshot,
            Err(error) => {
                // The sender is told, and sends it again.
                self.reported = Some(error);
                self.receive(index)?
            }
        };
        let meta = meta_of(snapshot.manifest(), snapshot.path()).map_err(text)?;
        let installed = self.store().state_machine.install_snapshot(&meta, snapshot).await;
        installed.map_err(text)?;
        self.ledger.snapshot_installed(index, self.disk.calls());
        self.ledger.snapshot_made(index, self.disk.calls());
        self.purge(&Step::Purge(index)).await
    }

    async fn together(&mut self, steps: &[Step]) -> Result<(), String> {
        self.disk.close_gate();
        let sent = self.send_together(steps).await;
        self.disk.open_gate();
        let mut result = Ok(());
        for (number, waiting) in sent? {
            match waiting.await {
                Ok(()) => self.ledger.acknowledge(number, self.disk.calls()),
                Err(error) => result = Err(error),
            }
        }
        result
    }

    async fn send_together(&mut self, steps: &[Step]) -> Result<Vec<Waiting>, String> {
        let mut sent = Vec::new();
        for (number, step) in steps.iter().enumerate() {
            let waiting = self.send(step).await?;
            if number == 0 {
                self.disk.wait_at_gate();
            }
            // Nobody is told of this.
            if !matches!(step, Step::Purge(_)) {
                sent.push(waiting);
            }
        }
        Ok(sent)
    }
}

/// The script of a seed. The bounds of what comes together are drawn, the order is always the same.
pub(super) fn script(world: &World) -> Vec<Step> {
    use rand::{Rng as _, SeedableRng as _};
    let mut random = rand::rngs::StdRng::seed_from_u64(world.seed);
    let cut = random.random_range(1..7);
    let applied = random.random_range(12..=15);
    let far = random.random_range(24..=28);
    vec![
        Step::Open,
        Step::Vote(1),
        Step::Append(0, cut),
        Step::Append(cut, 8),
        Step::Apply(random.random_range(0..8)),
        // Another leader does not agree with what this one has sent last.
        Step::Stray(8, random.random_range(9..12)),
        Step::Vote(2),
        Step::Truncate(8),
        Step::Append(8, 12),
        Step::Apply(random.random_range(8..12)),
        Step::Snapshot,
        Step::Purge(random.random_range(2..7)),
        Step::Append(12, 16),
        Step::Apply(applied),
        Step::Together(vec![
            Step::Append(16, 18),
            Step::Stray(18, 20),
            Step::Vote(3),
            Step::Truncate(18),
            Step::Append(18, 20),
        ]),
        Step::Close,
        Step::Open,
        Step::Apply(18),
        Step::Snapshot,
        Step::Close,
        // Nothing was applied since the last snapshot.
        Step::Open,
        Step::Snapshot,
        Step::Purge(10),
        // Another leader has purged what this one would need, and does not agree with what it has.
        Step::Stray(THIRD_TERM, far + 2),
        Step::Break(far),
        Step::Truncate(19),
        Step::Install(far),
        Step::Append(far + 1, far + 3),
        Step::Apply(far + 2),
        Step::Snapshot,
        Step::Append(far + 3, 34),
        // The log holds some of what comes with it.
        Step::Install(far + 4),
        Step::Append(34, 36),
        Step::Apply(35),
        Step::Close,
        Step::Open,
        Step::Vote(4),
        Step::Snapshot,
        Step::Purge(33),
        Step::Close,
    ]
}
