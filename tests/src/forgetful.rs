//! A disk that forgets on command what was not synced, as a power cut lets it. It can also be full, fail
//! at its syncs, or lie about them.
//!
//! Files and folders are kept in memory, as they are and as a power cut would leave them. A write, and a
//! new length, is kept for certain once its file was synced; a new, renamed or removed name, once one of
//! its folders was. What was not is kept by chance: the oldest changes of names up to some point, and of
//! a file's writes any, one of them torn.

mod mount;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{Error, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

pub use mount::Mounted;

/// The number of the uppermost folder.
const ROOT: u64 = 1;

/// How a disk behaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mood {
    /// It does what it is told.
    #[default]
    Good,
    /// It has no room for another byte.
    Full,
    /// Its syncs fail.
    Failing,
    /// It says that it has synced a file, and has not.
    Lying,
}

/// What was done to a disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Writes.
    pub writes: u64,
    /// Syncs of files and folders.
    pub syncs: u64,
    /// Writes and changes of names that power cuts took away, in whole or in part.
    pub forgotten: u64,
    /// Calls that were refused.
    pub refused: u64,
}

/// A disk. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Disk(Arc<Mutex<Tree>>);

impl Disk {
    /// Changes how it behaves from now on.
    pub fn set_mood(&self, mood: Mood) {
        self.tree().mood = mood;
    }

    /// What was done to it so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.tree().counts
    }

    /// The power fails. Nobody may have it mounted.
    pub fn cut_power(&self, chance: &mut StdRng) {
        let share = part(chance);
        self.tree().cut_power(share, chance);
    }

    /// The power fails, and nothing is left of what was not synced.
    pub fn forget_all(&self) {
        self.tree().cut_power(0.0, &mut StdRng::seed_from_u64(0));
    }

    fn tree(&self) -> MutexGuard<'_, Tree> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a file's name or a folder's name stands for.
#[derive(Clone, Debug)]
enum Content {
    File(Vec<u8>),
    Folder(BTreeMap<OsString, u64>),
}

/// A change of a file that was not synced.
#[derive(Clone, Debug)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Length(usize),
}

/// A change of names that was not synced. All of it is kept, or nothing.
#[derive(Clone, Debug, Default)]
struct Naming {
    removed: Option<(u64, OsString)>,
    added: Option<(u64, OsString, u64)>,
}

impl Naming {
    fn is_in(&self, folder: u64) -> bool {
        self.removed.as_ref().is_some_and(|(at, _)| *at == folder)
            || self.added.as_ref().is_some_and(|(at, _, _)| *at == folder)
    }
}

type Nodes = BTreeMap<u64, Content>;

#[derive(Debug)]
struct Tree {
    mood: Mood,
    counts: Counts,
    next: u64,
    /// As it is.
    live: Nodes,
    /// As it was synced.
    durable: Nodes,
    /// Of files.
    unsynced: BTreeMap<u64, Vec<Change>>,
    namings: Vec<Naming>,
}

impl Default for Tree {
    fn default() -> Self {
        let root = Nodes::from([(ROOT, Content::Folder(BTreeMap::new()))]);
        Self {
            mood: Mood::Good,
            counts: Counts::default(),
            next: ROOT + 1,
            live: root.clone(),
            durable: root,
            unsynced: BTreeMap::new(),
            namings: Vec::new(),
        }
    }
}

type Done<T> = Result<T, Error>;

impl Tree {
    fn content(&self, node: u64) -> Done<&Content> {
        self.live.get(&node).ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn file(&mut self, node: u64) -> Done<&mut Vec<u8>> {
        match self.live.get_mut(&node) {
            Some(Content::File(bytes)) => Ok(bytes),
            Some(Content::Folder(_)) => Err(ErrorKind::IsADirectory.into()),
            None => Err(ErrorKind::NotFound.into()),
        }
    }

    fn folder(&self, node: u64) -> Done<&BTreeMap<OsString, u64>> {
        match self.content(node)? {
            Content::Folder(names) => Ok(names),
            Content::File(_) => Err(ErrorKind::NotADirectory.into()),
        }
    }

    fn find(&self, folder: u64, name: &OsStr) -> Done<u64> {
        self.folder(folder)?.get(name).copied().ok_or_else(|| ErrorKind::NotFound.into())
    }

    /// Refuses what needs room when there is none.
    fn needs_room(&mut self) -> Done<()> {
        if self.mood == Mood::Full {
            self.counts.refused += 1;
            return Err(ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    fn create(&mut self, folder: u64, name: &OsStr, content: Content) -> Done<u64> {
        self.needs_room()?;
        if self.folder(folder)?.contains_key(name) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let node = self.next;
        self.next += 1;
        let empty = match &content {
            Content::File(_) => Content::File(Vec::new()),
            Content::Folder(_) => Content::Folder(BTreeMap::new()),
        };
        self.live.insert(node, content);
        self.durable.insert(node, empty);
        self.name(Naming { removed: None, added: Some((folder, name.to_owned(), node)) });
        Ok(node)
    }

    fn link(&mut self, node: u64, folder: u64, name: &OsStr) -> Done<()> {
        self.needs_room()?;
        if self.folder(folder)?.contains_key(name) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        self.file(node)?;
        self.name(Naming { removed: None, added: Some((folder, name.to_owned(), node)) });
        Ok(())
    }

    fn remove(&mut self, folder: u64, name: &OsStr) -> Done<()> {
        let node = self.find(folder, name)?;
        if self.folder(node).is_ok_and(|names| !names.is_empty()) {
            return Err(ErrorKind::DirectoryNotEmpty.into());
        }
        self.name(Naming { removed: Some((folder, name.to_owned())), added: None });
        Ok(())
    }

    fn rename(&mut self, from: (u64, &OsStr), to: (u64, &OsStr)) -> Done<()> {
        let node = self.find(from.0, from.1)?;
        if let Ok(replaced) = self.find(to.0, to.1)
            && self.folder(replaced).is_ok_and(|names| !names.is_empty())
        {
            return Err(ErrorKind::DirectoryNotEmpty.into());
        }
        let removed = Some((from.0, from.1.to_owned()));
        self.name(Naming { removed, added: Some((to.0, to.1.to_owned(), node)) });
        Ok(())
    }

    fn name(&mut self, naming: Naming) {
        perform_naming(&mut self.live, &naming);
        self.namings.push(naming);
    }

    fn write(&mut self, node: u64, offset: usize, bytes: &[u8]) -> Done<()> {
        self.needs_room()?;
        self.counts.writes += 1;
        let change = Change::Write { offset, bytes: bytes.to_vec() };
        perform(self.file(node)?, &change);
        self.unsynced.entry(node).or_default().push(change);
        Ok(())
    }

    fn set_length(&mut self, node: u64, length: usize) -> Done<()> {
        let change = Change::Length(length);
        perform(self.file(node)?, &change);
        self.unsynced.entry(node).or_default().push(change);
        Ok(())
    }

    fn sync_file(&mut self, node: u64) -> Done<()> {
        self.may_sync()?;
        if self.mood == Mood::Lying {
            return Ok(());
        }
        let Some(Content::File(bytes)) = self.durable.get_mut(&node) else { return Ok(()) };
        for change in self.unsynced.remove(&node).unwrap_or_default() {
            perform(bytes, &change);
        }
        Ok(())
    }

    fn sync_folder(&mut self, node: u64) -> Done<()> {
        self.may_sync()?;
        for naming in self.namings.extract_if(.., |naming| naming.is_in(node)) {
            perform_naming(&mut self.durable, &naming);
        }
        Ok(())
    }

    fn may_sync(&mut self) -> Done<()> {
        self.counts.syncs += 1;
        if self.mood == Mood::Failing {
            self.counts.refused += 1;
            return Err(Error::other("the disk has failed"));
        }
        Ok(())
    }

    fn cut_power(&mut self, share: f64, chance: &mut StdRng) {
        let mut kept = true;
        for naming in self.namings.drain(..) {
            kept = kept && chance.random_bool(share);
            if kept {
                perform_naming(&mut self.durable, &naming);
            } else {
                self.counts.forgotten += 1;
            }
        }
        for (node, changes) in std::mem::take(&mut self.unsynced) {
            let Some(Content::File(bytes)) = self.durable.get_mut(&node) else { continue };
            for mut change in changes {
                if !chance.random_bool(share) {
                    self.counts.forgotten += 1;
                    continue;
                }
                if let Change::Write { bytes, .. } = &mut change
                    && share < 1.0
                    && chance.random_bool(0.1)
                {
                    self.counts.forgotten += 1;
                    bytes.truncate(chance.random_range(0..=bytes.len()));
                }
                perform(bytes, &change);
            }
        }
        self.live = self.durable.clone();
    }
}

/// How much of what was not synced is kept: nothing, all, or something between.
fn part(chance: &mut StdRng) -> f64 {
    match chance.random_range(0..4) {
        0 => 0.0,
        1 => 1.0,
        _ => chance.random_range(0.0..1.0),
    }
}

fn perform(file: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Length(length) => file.resize(*length, 0),
        Change::Write { offset, bytes } => {
            let end = offset + bytes.len();
            if file.len() < end {
                file.resize(end, 0);
            }
            file[*offset..end].copy_from_slice(bytes);
        }
    }
}

fn perform_naming(nodes: &mut Nodes, naming: &Naming) {
    if let Some((folder, name)) = &naming.removed
        && let Some(Content::Folder(names)) = nodes.get_mut(folder)
    {
        names.remove(name);
    }
    if let Some((folder, name, node)) = &naming.added
        && let Some(Content::Folder(names)) = nodes.get_mut(folder)
    {
        names.insert(name.clone(), *node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(disk: &Disk, name: &str, content: &[u8]) -> u64 {
        let mut tree = disk.tree();
        let node = tree.create(ROOT, OsStr::new(name), Content::File(Vec::new())).unwrap();
        tree.write(node, 0, content).unwrap();
        node
    }

    /// The content of a file after a power cut, if it is there.
    fn after_cut(disk: &Disk, name: &str, seed: u64) -> Option<Vec<u8>> {
        disk.cut_power(&mut StdRng::seed_from_u64(seed));
        let mut tree = disk.tree();
        let node = tree.find(ROOT, OsStr::new(name)).ok()?;
        Some(tree.file(node).unwrap().clone())
    }

    #[test]
    fn what_was_synced_is_there_after_every_power_cut() {
        for seed in 0..200 {
            let disk = Disk::default();
            let node = file(&disk, "log", b"acknowledged");
            disk.tree().sync_file(node).unwrap();
            disk.tree().sync_folder(ROOT).unwrap();
            disk.tree().write(node, 12, b" and more").unwrap();
            let found = after_cut(&disk, "log", seed).expect("the name was synced");
            assert!(found.starts_with(b"acknowledged"), "seed {seed}: {found:?}");
        }
    }

    #[test]
    fn what_was_not_synced_may_be_gone_or_there_or_torn() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let disk = Disk::default();
            let node = file(&disk, "log", b"abcdef");
            disk.tree().sync_folder(ROOT).unwrap();
            disk.tree().write(node, 6, b"ghi").unwrap();
            seen.insert(after_cut(&disk, "log", seed).map(|bytes| bytes.len()));
            let nameless = Disk::default();
            let node = file(&nameless, "log", b"abcdef");
            nameless.tree().sync_file(node).unwrap();
            seen.insert(after_cut(&nameless, "log", seed).map(|_| 0));
        }
        assert!([None, Some(0), Some(6), Some(9)].iter().all(|it| seen.contains(it)), "{seen:?}");
        assert!(seen.len() > 4, "{seen:?}");
    }

    #[test]
    fn a_lying_disk_forgets_what_it_has_acknowledged() {
        let lost = (0..50).filter(|seed| {
            let disk = Disk::default();
            let node = file(&disk, "log", b"acknowledged");
            disk.tree().sync_folder(ROOT).unwrap();
            disk.set_mood(Mood::Lying);
            disk.tree().sync_file(node).unwrap();
            after_cut(&disk, "log", *seed).as_deref() != Some(b"acknowledged")
        });
        assert!(lost.count() > 10);
    }
}
