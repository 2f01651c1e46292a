//! A snapshot: a folder of files with a manifest that says what they are and what they hold.
//!
//! It is a checkpoint of the state, taken between two applies, so that it holds exactly what its
//! manifest says. RocksDB's files never change once written, so a checkpoint is hard links and
//! nothing loads all records into memory.

use std::io::{Read as _, Write as _};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use firstclaim_proto::peer::v1::{SnapshotFile, SnapshotManifest};
use firstclaim_proto::weigh;
use prost::Message as _;

use crate::error::StoreError;
use crate::limits::SNAPSHOT_PART_BYTES;
use crate::raft::SnapshotMeta;
use crate::store::file::fs::{self, File};
use crate::store::file::{self, failed};
use crate::store::schema::FORMAT;
use crate::wire;

const MANIFEST_FILE: &str = "MANIFEST.firstclaim";
const PARTIAL_SUFFIX: &str = ".partial";

/// A complete snapshot. Its folder is removed with the last handle, unless it is kept.
#[derive(Clone, Debug)]
pub(crate) struct SnapshotDir {
    folder: Arc<Folder>,
}

#[derive(Debug)]
struct Folder {
    path: PathBuf,
    manifest: SnapshotManifest,
    kept: AtomicBool,
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.kept.load(Ordering::Relaxed)
            && let Err(error) = file::remove_dir(&self.path)
        {
            tracing::warn!(%error, "could not remove an old snapshot, the next start will");
        }
    }
}

impl SnapshotDir {
    /// Describes the files of a checkpoint at `partial`, and gives the folder its final name.
    pub(crate) fn complete(
        partial: &Path,
        meta: &SnapshotMeta,
        cluster_id: &str,
    ) -> Result<Self, StoreError> {
        let mut files = Vec::new();
        for name in file::names(partial)? {
            let (bytes, crc32c) = checksum(&partial.join(&name))?;
            files.push(SnapshotFile { name, bytes, crc32c });
        }
        let manifest = SnapshotManifest {
            format: FORMAT,
            cluster_id: cluster_id.to_owned(),
            last_log_id: meta.last_log_id.as_ref().map(wire::log_id_to),
            last_membership: Some(wire::stored_membership_to(&meta.last_membership)),
            files,
        };
        Self::publish(partial, manifest)
    }

    /// Writes the manifest and takes away the mark of the incomplete.
    fn publish(partial: &Path, manifest: SnapshotManifest) -> Result<Self, StoreError> {
        file::replace(&partial.join(MANIFEST_FILE), &manifest.encode_to_vec())?;
        let path = complete_path(partial);
        file::remove_dir(&path)?;
        fs::rename(partial, &path).map_err(failed("rename a snapshot", partial))?;
        if let Some(parent) = path.parent() {
            file::sync_dir(parent)?;
        }
        let folder = Folder { path, manifest, kept: AtomicBool::new(false) };
        Ok(Self { folder: Arc::new(folder) })
    }

    /// The newest complete snapshot below `parent`. Removes all else there.
    pub(crate) fn newest(parent: &Path) -> Result<Option<Self>, StoreError> {
        file::create_dir(parent)?;
        let mut newest: Option<Self> = None;
        for name in file::names(parent)? {
            let path = parent.join(name);
            let Some(manifest) = complete_manifest(&path)? else {
                file::remove_dir(&path)?;
                continue;
            };
            let folder = Folder { path, manifest, kept: AtomicBool::new(false) };
            let found = Self { folder: Arc::new(folder) };
            // The loser's folder is removed as its handle goes.
            if newest.as_ref().is_none_or(|best| best.index() < found.index()) {
                newest = Some(found);
            }
        }
        Ok(newest)
    }

    /// Whether the folder outlives this handle, as the current snapshot's does.
    pub(crate) fn keep(&self, kept: bool) {
        self.folder.kept.store(kept, Ordering::Relaxed);
    }

    pub(crate) fn path(&self) -> &Path {
        &self.folder.path
    }

    pub(crate) fn manifest(&self) -> &SnapshotManifest {
        &self.folder.manifest
    }

    pub(crate) fn index(&self) -> u64 {
        self.manifest().last_log_id.as_ref().map_or(0, |id| id.index)
    }

    /// What openraft wants to know of it.
    pub(crate) fn meta(&self) -> Result<SnapshotMeta, StoreError> {
        meta_of(self.manifest(), self.path())
    }

    /// Puts the files into another folder.
    #[cfg(any(feature = "rocksdb", test))]
    pub(crate) fn copy_into(&self, dir: &Path) -> Result<(), StoreError> {
        for SnapshotFile { name, .. } in &self.manifest().files {
            let (from, to) = (self.path().join(name), dir.join(name));
            // RocksDB never changes a table file, but it appends to its other files.
            let immutable = from.extension().is_some_and(|extension| extension == "sst");
            if immutable && fs::hard_link(&from, &to).is_ok() {
                continue;
            }
            fs::copy(&from, &to).map_err(failed("copy a file of a snapshot", &from))?;
            let copied = File::open(&to).and_then(|file| file.sync_all());
            copied.map_err(failed("sync a file of a snapshot", &to))?;
        }
        Ok(())
    }

    /// Reads the files in order.
    pub(crate) fn reader(&self) -> Reader {
        Reader { snapshot: self.clone(), file: 0, open: None }
    }
}

/// Reads the files of a snapshot piece by piece.
pub(crate) struct Reader {
    snapshot: SnapshotDir,
    /// The file that the next bytes come from.
    file: usize,
    open: Option<File>,
}

impl Reader {
    /// The next piece, at most [`SNAPSHOT_PART_BYTES`] of one file; none after the last one.
    pub(crate) fn next_part(&mut self) -> Result<Option<Vec<u8>>, StoreError> {
        while let Some(SnapshotFile { name, .. }) = self.snapshot.manifest().files.get(self.file) {
            let path = self.snapshot.path().join(name);
            let file = match self.open.take() {
                Some(file) => file,
                None => File::open(&path).map_err(failed("open a snapshot's file", &path))?,
            };
            let mut part = Vec::with_capacity(SNAPSHOT_PART_BYTES);
            let limit = SNAPSHOT_PART_BYTES as u64;
            let read = (&file).take(limit).read_to_end(&mut part);
            read.map_err(failed("read a snapshot's file", &path))?;
            if !part.is_empty() {
                self.open = Some(file);
                return Ok(Some(part));
            }
            self.file += 1;
        }
        Ok(None)
    }
}

pub(crate) fn meta_of(
    manifest: &SnapshotManifest,
    path: &Path,
) -> Result<SnapshotMeta, StoreError> {
    let stored = manifest.last_membership.clone().unwrap_or_default();
    let last_membership = wire::stored_membership_from(stored).map_err(|error| {
        let what = format!("the manifest of the snapshot: {error}");
        StoreError::Corrupt { path: path.to_path_buf(), what }
    })?;
    let last_log_id = manifest.last_log_id.as_ref().map(wire::log_id_from);
    Ok(SnapshotMeta { last_log_id, last_membership })
}

/// Where a checkpoint is made before it is complete.
pub(crate) fn partial_dir(parent: &Path, name: &str) -> Result<PathBuf, StoreError> {
    file::create_dir(parent)?;
    let dir = parent.join(format!("{name}{PARTIAL_SUFFIX}"));
    file::remove_dir(&dir)?;
    Ok(dir)
}

/// The manifest of a folder that is a complete snapshot.
fn complete_manifest(path: &Path) -> Result<Option<SnapshotManifest>, StoreError> {
    let manifest = match file::read(&path.join(MANIFEST_FILE))? {
        Some(bytes) if path.extension().is_none() => {
            weigh::decode::<SnapshotManifest>(&*bytes).ok()
        }
        Some(_) | None => None,
    };
    let Some(manifest) = manifest.filter(|manifest| manifest.format == FORMAT) else {
        return Ok(None);
    };
    // A crash may have come while it was removed, file by file.
    for SnapshotFile { name, .. } in &manifest.files {
        if !file::exists(&path.join(name))? {
            return Ok(None);
        }
    }
    Ok(Some(manifest))
}

fn complete_path(partial: &Path) -> PathBuf {
    partial.with_extension("")
}

/// The size and the checksum of a file, which is made durable.
fn checksum(path: &Path) -> Result<(u64, u32), StoreError> {
    let read = || -> std::io::Result<(u64, u32)> {
        let mut file = File::open(path)?;
        let mut buffer = vec![0; SNAPSHOT_PART_BYTES];
        let (mut bytes, mut crc) = (0, 0);
        loop {
            let length = file.read(&mut buffer)?;
            if length == 0 {
                break;
            }
            bytes += length as u64;
            crc = crc32c::crc32c_append(crc, &buffer[..length]);
        }
        file.sync_all()?;
        Ok((bytes, crc))
    };
    read().map_err(failed("read a snapshot's file", path))
}

/// Writes a snapshot that comes in piece by piece.
pub(crate) struct Receiver {
    partial: PathBuf,
    manifest: SnapshotManifest,
    /// The file that the next bytes belong to.
    file: usize,
    open: Option<File>,
    bytes: u64,
    crc: u32,
}

impl Receiver {
    /// Starts to receive into a folder below `parent`.
    pub(crate) fn begin(parent: &Path, manifest: SnapshotManifest) -> Result<Self, StoreError> {
        let refuse = |what: String| StoreError::Corrupt { path: parent.to_path_buf(), what };
        if manifest.format != FORMAT {
            return Err(StoreError::Snapshot { found: manifest.format, expected: FORMAT });
        }
        if let Some(file) = manifest.files.iter().find(|file| !is_plain(&file.name)) {
            return Err(refuse(format!("the snapshot names a file {:?}", file.name)));
        }
        let index = manifest.last_log_id.as_ref().map_or(0, |id| id.index);
        let partial = partial_dir(parent, &format!("{index:020}"))?;
        file::create_dir(&partial)?;
        let mut receiver = Self { partial, manifest, file: 0, open: None, bytes: 0, crc: 0 };
        receiver.finish_files()?;
        Ok(receiver)
    }

    /// Takes the next bytes, which belong to one file.
    pub(crate) fn take(&mut self, data: &[u8]) -> Result<(), StoreError> {
        let Some(expected) = self.manifest.files.get(self.file) else {
            return Err(self.damaged("there are more bytes than files"));
        };
        let path = self.partial.join(&expected.name);
        if self.bytes + data.len() as u64 > expected.bytes {
            return Err(self.damaged(&format!("{} is longer than it should be", expected.name)));
        }
        let mut file = match self.open.take() {
            Some(file) => file,
            None => File::create(&path).map_err(failed("create a snapshot's file", &path))?,
        };
        file.write_all(data).map_err(failed("write a snapshot's file", &path))?;
        self.open = Some(file);
        self.bytes += data.len() as u64;
        self.crc = crc32c::crc32c_append(self.crc, data);
        self.finish_files()
    }

    /// Closes the present file if it is complete, and those after it that are empty.
    fn finish_files(&mut self) -> Result<(), StoreError> {
        while let Some(expected) = self.manifest.files.get(self.file) {
            if self.bytes < expected.bytes {
                break;
            }
            if self.crc != expected.crc32c {
                return Err(self.damaged(&format!(
                    "the checksum of {} is {:08x} instead of {:08x}",
                    expected.name, self.crc, expected.crc32c
                )));
            }
            let path = self.partial.join(&expected.name);
            let file = match self.open.take() {
                Some(file) => file,
                None => File::create(&path).map_err(failed("create a snapshot's file", &path))?,
            };
            file.sync_all().map_err(failed("sync a snapshot's file", &path))?;
            self.file += 1;
            self.bytes = 0;
            self.crc = 0;
        }
        Ok(())
    }

    /// Ends the transfer.
    pub(crate) fn finish(mut self) -> Result<SnapshotDir, StoreError> {
        if self.file < self.manifest.files.len() {
            return Err(self.damaged("the transfer ended early"));
        }
        SnapshotDir::publish(&self.partial, std::mem::take(&mut self.manifest))
    }

    fn damaged(&self, what: &str) -> StoreError {
        StoreError::Corrupt {
            path: self.partial.clone(),
            what: format!("the received snapshot: {what}"),
        }
    }
}

/// Whether a name from a peer stays in its folder.
pub(crate) fn is_plain(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    matches!((parts.next(), parts.next()), (Some(Component::Normal(part)), None) if part == name)
}
