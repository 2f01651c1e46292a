//! Opens what a crash has left, and says what is wrong with it.

use std::path::Path;

use openraft::storage::{RaftLogReader as _, RaftStateMachine as _};

use super::disk::Fault;
use super::journal::Journal;
use super::ledger::{Ledger, Log};
use super::node::{Node, Step};
use super::tree::Tree;
use super::world::{ENTRIES, World, put_disk};
use crate::raft::Snapshot;
use crate::store::file;
use crate::store::machine::hash_rows;

/// Only what was acknowledged before this call has to be there.
pub(super) type Before = u64;

/// Nothing happens after this call.
pub(super) const END: Before = Before::MAX;

/// What is wrong, if anything.
pub(super) type Verdict = Result<(), String>;

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(what()) }
}

/// Opens what is left, looks at it, and goes on with it to the end of the log.
pub(super) async fn check(
    world: &World,
    root: &Path,
    left: Tree,
    ledger: &Ledger,
    before: Before,
) -> Verdict {
    let mut node = Node::new(world, root, put_disk(root, left), ledger.clone());
    go_on(&mut node, before).await
}

/// The same, but the power fails at a call of that. Gives what the disk is then, what it is known to have
/// acknowledged, and up to which call.
pub(super) async fn interrupt(
    world: &World,
    root: &Path,
    left: Tree,
    ledger: &Ledger,
    (before, call): (Before, u64),
) -> Result<(Tree, Ledger, Before), String> {
    let mut node = Node::new(world, root, put_disk(root, left), ledger.clone());
    node.disk.plan(call, Fault::PowerCut);
    let verdict = go_on(&mut node, before).await;
    if node.disk.met().is_none() {
        verdict?;
    }
    let tree = node.disk.end_process();
    // Until the log was looked at, the ledger is the one that it came with.
    let before = if node.went_on { END } else { before };
    Ok((tree, node.ledger.clone(), before))
}

async fn go_on(node: &mut Node<'_>, before: Before) -> Verdict {
    node.open().map_err(|error| format!("it does not open: {error}"))?;
    let log = look(node, before).await?;
    node.ledger = node.ledger.continued(log.clone(), before);
    node.went_on = true;
    finish(node, &log).await.map_err(|error| format!("it cannot go on: {error}"))?;
    node.run(&[Step::Close, Step::Open]).await.map_err(|error| format!("at the end: {error}"))?;
    look(node, END).await.map_err(|error| format!("at the end: {error}"))?;
    let applied = node.store().machine.progress().borrow().applied_index;
    ensure(applied == Some(ENTRIES - 1), || format!("the state has come only to {applied:?}"))?;
    node.run(&[Step::Close]).await
}

/// Checks all that must hold after a start, and gives what the log holds.
async fn look(node: &mut Node<'_>, before: Before) -> Result<Log, String> {
    let log = read_log(node).await?;
    node.ledger.allows(&log, before)?;
    check_state(node, &log, before)?;
    check_snapshot(node, before).await?;
    check_leftovers(node.root)?;
    Ok(log)
}

async fn read_log(node: &mut Node<'_>) -> Result<Log, String> {
    let log = &node.store().log;
    let (mut reader, (last, purged)) = (log.reader(), log.bounds());
    let entries = reader.try_get_log_entries(..).await.map_err(|error| error.to_string())?;
    let vote = reader.read_vote().await.map_err(|error| error.to_string())?;
    let entries = entries.into_iter().map(|entry| (entry.log_id.index, entry)).collect();
    let log = Log { vote, purged, entries };
    ensure(log.last() == last, || format!("the log says it ends at {last:?}: {:?}", log.last()))?;
    Ok(log)
}

/// The state is what the entries up to some index make of it, and the log can repeat the others.
fn check_state(node: &mut Node<'_>, log: &Log, before: Before) -> Verdict {
    let least = node.ledger.state_at_least(before);
    let world = node.world;
    let machine = &node.store().machine;
    let applied = machine.progress().borrow().applied_index;
    let (_, hash) = machine.state_hash().map_err(|error| error.to_string())?;
    ensure(hash == world.hash_at(applied), || {
        format!("the state is not what the entries up to {applied:?} make of it")
    })?;
    ensure(applied >= least, || {
        format!("the state has come to {applied:?}, and was at {least:?} for sure")
    })?;
    let purged = log.purged.map(|id| id.index);
    ensure(purged <= applied, || {
        format!("the log is purged up to {purged:?}, and the state has come only to {applied:?}")
    })?;
    // What a snapshot has left behind in the log, openraft takes away only below its end.
    let applied = applied.map(|index| world.entry(index).log_id);
    let last = log.last();
    ensure(last >= applied || last.map(|id| id.index) < applied.map(|id| id.index), || {
        format!("the log ends with {last:?}, and the state is that of {applied:?}")
    })
}

/// The snapshot for followers is whole, and no older than the last one that was made for sure.
async fn check_snapshot(node: &mut Node<'_>, before: Before) -> Verdict {
    let least = node.ledger.snapshot_at_least(before);
    let world = node.world;
    let current = node.store().state_machine.get_current_snapshot().await;
    let Some(Snapshot { snapshot, meta }) = current.map_err(|error| error.to_string())? else {
        return ensure(least.is_none(), || format!("the snapshot at {least:?} is gone"));
    };
    let index = meta.last_log_id.map(|id| id.index);
    ensure(index >= least, || format!("the snapshot at {least:?} is gone, there is {index:?}"))?;
    for expected in &snapshot.manifest().files {
        let content = file::read(&snapshot.path().join(&expected.name)).ok().flatten();
        let whole = content.is_some_and(|content| {
            content.len() as u64 == expected.bytes && crc32c::crc32c(&content) == expected.crc32c
        });
        ensure(whole, || format!("the snapshot's file {} is damaged or missing", expected.name))?;
    }
    let (_, rows) = Journal::load(snapshot.path()).map_err(|error| error.to_string())?;
    let hash = hash_rows(&rows).map_err(|error| error.to_string())?;
    ensure(hash == world.hash_at(index), || {
        format!("the snapshot is not what the entries up to {index:?} make")
    })
}

fn check_leftovers(root: &Path) -> Verdict {
    let names = |dir: &Path| file::names(dir).map_err(|error| error.to_string());
    let all = names(root)?;
    ensure(all == ["IDENTITY", "raftlog", "snapshot", "state"], || {
        format!("the data folder holds {all:?}")
    })?;
    let state = names(&root.join("state"))?;
    ensure(state.len() == 2 && state[0] == "CURRENT", || format!("state holds {state:?}"))?;
    let snapshots = names(&root.join("snapshot"))?;
    ensure(snapshots.len() <= 1, || format!("snapshot holds {snapshots:?}"))
}

/// Brings the log and the state to the end, as a leader would.
async fn finish(node: &mut Node<'_>, log: &Log) -> Verdict {
    let applied = node.store().machine.progress().borrow().applied_index;
    let last = log.last().map(|id| id.index);
    let mut steps = vec![Step::Vote(9)];
    let wrong = log.entries.iter().find(|(index, entry)| node.world.entry(**index) != *entry);
    let mut next = last.map_or(0, |index| index + 1);
    if let Some((index, _)) = wrong {
        steps.push(Step::Truncate(*index));
        next = *index;
    }
    if let Some(applied) = applied.filter(|applied| *applied >= next) {
        // A snapshot was installed, and the log not purged yet.
        steps.push(Step::Purge(applied));
        next = applied + 1;
    }
    if next < ENTRIES {
        steps.push(Step::Append(next, ENTRIES));
    }
    steps.extend([Step::Apply(ENTRIES - 1), Step::Snapshot, Step::Purge(ENTRIES - 5)]);
    if log.purged.is_some_and(|id| id.index >= ENTRIES - 5) {
        steps.pop();
    }
    node.run(&steps).await
}
