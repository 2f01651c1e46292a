//! Files and folders of which only what was synced is sure to survive a loss of power.
//!
//! It promises no more than POSIX does: a synced file keeps its content, a synced folder its names, a
//! rename is whole or has not happened. What was not synced survives in any mixture.

use std::collections::BTreeMap;
use std::io;

use rand::Rng as _;
use rand::rngs::StdRng;

/// A disk loses a write in pieces of this size.
const SECTOR_BYTES: usize = 512;

/// The number of a file or folder, whatever its name.
pub(super) type Id = usize;

type Names = BTreeMap<String, Id>;

/// What of the unsynced survives a loss of power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Survives {
    Nothing,
    Everything,
    /// The names, but no content.
    Names,
    /// The content, but no names.
    Contents,
    /// The names, and of each content a piece, perhaps with holes.
    Torn,
    /// Of each folder and of each file something else.
    Some,
}

impl Survives {
    pub(super) const ALL: [Self; 6] =
        [Self::Nothing, Self::Everything, Self::Names, Self::Contents, Self::Torn, Self::Some];
}

/// A change to the names of a folder.
#[derive(Clone, Debug)]
enum Renaming {
    Put(String, Id),
    Remove(String),
    /// The old name goes and the new one comes, or neither.
    Move(String, String, Id),
}

impl Renaming {
    fn perform(&self, names: &mut Names) {
        match self {
            Self::Put(name, id) => {
                names.insert(name.clone(), *id);
            }
            Self::Remove(name) => {
                names.remove(name);
            }
            Self::Move(from, to, id) => {
                names.remove(from);
                names.insert(to.clone(), *id);
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Node {
    File { durable: Vec<u8>, live: Vec<u8> },
    Dir { durable: Names, live: Names, unsynced: Vec<Renaming> },
}

impl Node {
    fn dir(names: Names) -> Self {
        Self::Dir { durable: names.clone(), live: names, unsynced: Vec::new() }
    }

    fn file(content: Vec<u8>) -> Self {
        Self::File { durable: content.clone(), live: content }
    }
}

/// All files and folders. The first one is the data folder, which is there from the start.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    nodes: Vec<Node>,
}

impl Default for Tree {
    fn default() -> Self {
        Self { nodes: vec![Node::dir(Names::new())] }
    }
}

fn not_found() -> io::Error {
    io::ErrorKind::NotFound.into()
}

fn not_a_directory() -> io::Error {
    io::ErrorKind::NotADirectory.into()
}

impl Tree {
    pub(super) fn find(&self, path: &[String]) -> io::Result<Id> {
        let mut id = 0;
        for name in path {
            id = *self.names(id)?.get(name).ok_or_else(not_found)?;
        }
        Ok(id)
    }

    fn parent<'a>(&self, path: &'a [String]) -> io::Result<(Id, &'a str)> {
        let (name, parent) = path.split_last().ok_or_else(not_a_directory)?;
        Ok((self.find(parent)?, name))
    }

    /// The names in a folder.
    pub(super) fn names(&self, id: Id) -> io::Result<&Names> {
        match &self.nodes[id] {
            Node::Dir { live, .. } => Ok(live),
            Node::File { .. } => Err(not_a_directory()),
        }
    }

    pub(super) fn content(&self, id: Id) -> io::Result<&[u8]> {
        match &self.nodes[id] {
            Node::File { live, .. } => Ok(live),
            Node::Dir { .. } => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    fn change_names(&mut self, dir: Id, change: Renaming) -> io::Result<()> {
        let Node::Dir { live, unsynced, .. } = &mut self.nodes[dir] else {
            return Err(not_a_directory());
        };
        change.perform(live);
        unsynced.push(change);
        Ok(())
    }

    fn add(&mut self, path: &[String], node: Node) -> io::Result<Id> {
        let (dir, name) = self.parent(path)?;
        if self.names(dir)?.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.nodes.push(node);
        let id = self.nodes.len() - 1;
        self.change_names(dir, Renaming::Put(name.to_owned(), id))?;
        Ok(id)
    }

    /// Creates a file, or empties the one that is there.
    pub(super) fn create(&mut self, path: &[String]) -> io::Result<Id> {
        let Ok(id) = self.find(path) else { return self.add(path, Node::file(Vec::new())) };
        match &mut self.nodes[id] {
            Node::File { live, .. } => live.clear(),
            Node::Dir { .. } => return Err(io::ErrorKind::IsADirectory.into()),
        }
        Ok(id)
    }

    pub(super) fn make_dir(&mut self, path: &[String]) -> io::Result<Id> {
        self.add(path, Node::dir(Names::new()))
    }

    pub(super) fn append(&mut self, id: Id, bytes: &[u8]) -> io::Result<()> {
        match &mut self.nodes[id] {
            Node::File { live, .. } => live.extend_from_slice(bytes),
            Node::Dir { .. } => return Err(io::ErrorKind::IsADirectory.into()),
        }
        Ok(())
    }

    /// Makes the content of a file, or the names in a folder, durable.
    pub(super) fn sync(&mut self, id: Id) {
        match &mut self.nodes[id] {
            Node::File { durable, live } => durable.clone_from(live),
            Node::Dir { durable, live, unsynced } => {
                durable.clone_from(live);
                unsynced.clear();
            }
        }
    }

    /// Gives another name in the same folder.
    pub(super) fn rename(&mut self, from: &[String], to: &[String]) -> io::Result<()> {
        let (id, (dir, old), (into, new)) =
            (self.find(from)?, self.parent(from)?, self.parent(to)?);
        assert_eq!(dir, into, "a rename from one folder to another is two changes on some disks");
        if let Ok(replaced) = self.find(to) {
            match (self.names(id).is_ok(), self.names(replaced)) {
                (true, Ok(names)) if !names.is_empty() && replaced != id => {
                    return Err(io::ErrorKind::DirectoryNotEmpty.into());
                }
                (true, Ok(_)) | (false, Err(_)) => {}
                (true, Err(_)) => return Err(not_a_directory()),
                (false, Ok(_)) => return Err(io::ErrorKind::IsADirectory.into()),
            }
            if replaced == id {
                // Two names of one file both stay.
                return Ok(());
            }
        }
        self.change_names(dir, Renaming::Move(old.to_owned(), new.to_owned(), id))
    }

    pub(super) fn link(&mut self, from: &[String], to: &[String]) -> io::Result<()> {
        let (id, (dir, name)) = (self.find(from)?, self.parent(to)?);
        if self.names(dir)?.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if self.names(id).is_ok() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        self.change_names(dir, Renaming::Put(name.to_owned(), id))
    }

    /// Removes a file, or a folder that is empty.
    pub(super) fn remove(&mut self, path: &[String]) -> io::Result<()> {
        let (id, (dir, name)) = (self.find(path)?, self.parent(path)?);
        if self.names(id).is_ok_and(|names| !names.is_empty()) {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        self.change_names(dir, Renaming::Remove(name.to_owned()))
    }

    /// What is left after a loss of power. All of that is durable.
    pub(super) fn after_power_cut(&self, survives: Survives, random: &mut StdRng) -> Self {
        let left = self.nodes.iter().map(|node| match node {
            Node::File { durable, live } => {
                Node::file(content_left(survives, durable, live, random))
            }
            Node::Dir { durable, unsynced, .. } => {
                Node::dir(names_left(survives, durable, unsynced, random))
            }
        });
        Self { nodes: left.collect() }
    }

    /// All files by path, with their content, and all folders.
    pub(super) fn all(&self) -> BTreeMap<String, Option<Vec<u8>>> {
        let mut all = BTreeMap::new();
        let mut left = vec![(String::new(), 0)];
        while let Some((path, id)) = left.pop() {
            match &self.nodes[id] {
                Node::File { live, .. } => {
                    all.insert(path, Some(live.clone()));
                }
                Node::Dir { live, .. } => {
                    left.extend(live.iter().map(|(name, id)| (format!("{path}/{name}"), *id)));
                    all.insert(path, None);
                }
            }
        }
        all
    }
}

fn names_left(
    survives: Survives,
    durable: &Names,
    unsynced: &[Renaming],
    random: &mut StdRng,
) -> Names {
    let mut names = durable.clone();
    // Most file systems keep the order of the changes, but none has promised it.
    let in_order = random.random();
    let count = random.random_range(0..=unsynced.len());
    for (number, change) in unsynced.iter().enumerate() {
        let kept = match survives {
            Survives::Nothing | Survives::Contents => false,
            Survives::Everything | Survives::Names | Survives::Torn => true,
            Survives::Some if in_order => number < count,
            Survives::Some => random.random(),
        };
        if kept {
            change.perform(&mut names);
        }
    }
    names
}

fn content_left(survives: Survives, durable: &[u8], live: &[u8], random: &mut StdRng) -> Vec<u8> {
    match survives {
        Survives::Nothing | Survives::Names => durable.to_vec(),
        Survives::Everything | Survives::Contents => live.to_vec(),
        Survives::Torn => torn(durable, live, random),
        Survives::Some => match random.random_range(0..3) {
            0 => durable.to_vec(),
            1 => live.to_vec(),
            _ => torn(durable, live, random),
        },
    }
}

/// The synced part, and a piece of the rest, in which sectors may be empty.
fn torn(durable: &[u8], live: &[u8], random: &mut StdRng) -> Vec<u8> {
    let base = if live.starts_with(durable) { durable.len() } else { 0 };
    if base == 0 && !durable.is_empty() && random.random() {
        return durable.to_vec();
    }
    let mut end = random.random_range(base..=live.len());
    if random.random() {
        end = (end / SECTOR_BYTES * SECTOR_BYTES).max(base);
    }
    let mut left = live[..end].to_vec();
    if random.random() {
        for sector in left[base..].chunks_mut(SECTOR_BYTES) {
            if random.random_range(0..4) == 0 {
                sector.fill(0);
            }
        }
    }
    left
}
