//! `std::fs` as the store sees it in tests: on a disk of [`super::disk`] where one was put, else on the
//! real one.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::disk::{Call, Disk};
use super::tree::Id;

static DISKS: Mutex<BTreeMap<PathBuf, Arc<Disk>>> = Mutex::new(BTreeMap::new());

/// Puts a disk where a folder is. What was there before is still in the hands of who has it open.
pub(super) fn put(root: &Path, disk: Arc<Disk>) {
    DISKS.lock().unwrap_or_else(PoisonError::into_inner).insert(root.to_path_buf(), disk);
}

/// A file on a disk, and its names from the disk's folder on.
struct Place {
    disk: Arc<Disk>,
    path: Vec<String>,
}

fn place(path: &Path) -> Option<Place> {
    let disks = DISKS.lock().unwrap_or_else(PoisonError::into_inner);
    let (root, disk) = path.ancestors().find_map(|root| Some((root, disks.get(root)?)))?;
    let below = path.strip_prefix(root).expect("an ancestor");
    let path = below.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    Some(Place { disk: Arc::clone(disk), path })
}

/// Where the log's writer can be held back.
pub(super) fn pass_gate(path: &Path) {
    if let Some(place) = place(path) {
        place.disk.pass_gate();
    }
}

pub(crate) enum File {
    Real(std::fs::File),
    Simulated(Handle),
}

pub(crate) struct Handle {
    disk: Arc<Disk>,
    id: Id,
    /// How far it was read. Writes go to the end.
    at: AtomicUsize,
}

impl Handle {
    fn opened(disk: Arc<Disk>, id: Id) -> File {
        File::Simulated(Self { disk, id, at: AtomicUsize::new(0) })
    }

    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.disk.call_and(&Call::Read(self.id), |tree, id| {
            let at = self.at.load(Ordering::Relaxed);
            let left = &tree.content(id)?[at..];
            let length = left.len().min(buffer.len());
            buffer[..length].copy_from_slice(&left[..length]);
            self.at.store(at + length, Ordering::Relaxed);
            Ok(length)
        })
    }
}

impl File {
    pub(crate) fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        let Some(place) = place(path) else { return std::fs::File::open(path).map(Self::Real) };
        let id = place.disk.call(&Call::Open(&place.path))?;
        Ok(Handle::opened(place.disk, id))
    }

    pub(crate) fn create(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        let Some(place) = place(path) else { return std::fs::File::create(path).map(Self::Real) };
        let id = place.disk.call(&Call::Create(&place.path))?;
        Ok(Handle::opened(place.disk, id))
    }

    pub(crate) fn sync_all(&self) -> io::Result<()> {
        match self {
            Self::Real(file) => file.sync_all(),
            Self::Simulated(file) => file.disk.call(&Call::Sync(file.id)).map(drop),
        }
    }
}

impl Read for &File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            File::Real(file) => (&*file).read(buffer),
            File::Simulated(file) => file.read(buffer),
        }
    }
}

impl Read for File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }
}

impl Write for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Real(file) => file.write(bytes),
            Self::Simulated(file) => {
                file.disk.call(&Call::Append(file.id, bytes)).map(|_| bytes.len())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(crate) fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let path = path.as_ref();
    let Some(place) = place(path) else { return std::fs::read(path) };
    place.disk.call_and(&Call::Open(&place.path), |tree, id| tree.content(id).map(<[u8]>::to_vec))
}

pub(crate) fn write(path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> io::Result<()> {
    File::create(path)?.write_all(content.as_ref())
}

pub(crate) fn exists(path: impl AsRef<Path>) -> io::Result<bool> {
    let path = path.as_ref();
    let Some(place) = place(path) else { return std::fs::exists(path) };
    match place.disk.call(&Call::Look(&place.path)) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

pub(crate) fn create_dir(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    let Some(place) = place(path) else { return std::fs::create_dir(path) };
    place.disk.call(&Call::MakeDir(&place.path)).map(drop)
}

pub(crate) fn create_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    let Some(place) = place(path) else { return std::fs::create_dir_all(path) };
    for length in 1..=place.path.len() {
        let dir = &place.path[..length];
        if place.disk.peek(|tree| tree.find(dir).is_err()) {
            place.disk.call(&Call::MakeDir(dir))?;
        }
    }
    let is_dir =
        place.disk.peek(|tree| tree.find(&place.path).is_ok_and(|id| tree.names(id).is_ok()));
    if is_dir { Ok(()) } else { Err(io::ErrorKind::AlreadyExists.into()) }
}

pub(crate) fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    let (from, to) = (from.as_ref(), to.as_ref());
    match (place(from), place(to)) {
        (Some(from), Some(to)) => from.disk.call(&Call::Rename(&from.path, &to.path)).map(drop),
        (_, _) => std::fs::rename(from, to),
    }
}

pub(crate) fn hard_link(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    let (from, to) = (from.as_ref(), to.as_ref());
    match (place(from), place(to)) {
        (Some(from), Some(to)) => from.disk.call(&Call::Link(&from.path, &to.path)).map(drop),
        (_, _) => std::fs::hard_link(from, to),
    }
}

pub(crate) fn copy(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<u64> {
    let content = read(from)?;
    write(to, &content)?;
    Ok(content.len() as u64)
}

/// Removes one file after the other, so that a crash may come in between.
pub(crate) fn remove_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    match place(path) {
        Some(place) => {
            place.disk.peek(|tree| tree.names(tree.find(&place.path)?).map(drop))?;
            remove_all(&place.disk, &place.path)
        }
        None => std::fs::remove_dir_all(path),
    }
}

fn remove_all(disk: &Disk, path: &[String]) -> io::Result<()> {
    let names = disk.peek(|tree| {
        let names = tree.names(tree.find(path)?).map(|names| names.keys().cloned().collect());
        // A file has no names in it.
        Ok::<Vec<String>, io::Error>(names.unwrap_or_default())
    })?;
    for name in names {
        let mut below = path.to_vec();
        below.push(name);
        remove_all(disk, &below)?;
    }
    disk.call(&Call::Remove(path)).map(drop)
}

pub(super) fn remove_file(path: &Path) -> io::Result<()> {
    match place(path) {
        Some(place) => {
            place.disk.peek(|tree| tree.content(tree.find(&place.path)?).map(drop))?;
            place.disk.call(&Call::Remove(&place.path)).map(drop)
        }
        None => std::fs::remove_file(path),
    }
}

pub(crate) struct DirEntry(OsString);

impl DirEntry {
    pub(crate) fn file_name(&self) -> OsString {
        self.0.clone()
    }
}

pub(crate) fn read_dir(
    path: impl AsRef<Path>,
) -> io::Result<impl Iterator<Item = io::Result<DirEntry>>> {
    let path = path.as_ref();
    let names: Vec<io::Result<DirEntry>> = match place(path) {
        Some(place) => place.disk.call_and(&Call::List(&place.path), |tree, id| {
            let names = tree.names(id)?.keys();
            Ok(names.map(|name| Ok(DirEntry(name.into()))).collect())
        })?,
        None => std::fs::read_dir(path)?
            .map(|entry| entry.map(|entry| DirEntry(entry.file_name())))
            .collect(),
    };
    Ok(names.into_iter())
}
