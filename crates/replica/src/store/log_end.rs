//! Notes beside the log how far it has come, so that a log whose end was cut off is known for what it is.
//!
//! The note is written after each sync and is not synced itself: it may be behind the log, and never ahead.
//! Before entries are dropped on purpose it is taken back for certain. One that cannot be read says nothing.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest as _, Sha256};

use crate::error::StoreError;
use crate::store::file::failed;

const NUMBER_BYTES: usize = size_of::<u64>();

/// A number, and the beginning of its digest.
type Note = [u8; 2 * NUMBER_BYTES];

/// The note of one log.
#[derive(Debug)]
pub(crate) struct LogEnd {
    file: File,
    path: PathBuf,
    /// The index behind the last entry.
    noted: AtomicU64,
}

impl LogEnd {
    /// Opens the note, or makes a new one.
    #[cfg(any(feature = "rocksdb", test))]
    pub(crate) fn open(path: &std::path::Path) -> Result<Self, StoreError> {
        let opened = File::options().read(true).write(true).create(true).truncate(false).open(path);
        let file = opened.map_err(failed("open the note of the log's end", path))?;
        let mut note = Note::default();
        let noted = match file.read_exact_at(&mut note, 0) {
            Ok(()) => read(&note).unwrap_or(0),
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => 0,
            Err(error) => return Err(failed("read the note of the log's end", path)(error)),
        };
        Ok(Self { file, path: path.to_path_buf(), noted: AtomicU64::new(noted) })
    }

    /// The index behind the last entry that the log is known to have held.
    pub(crate) fn noted(&self) -> u64 {
        self.noted.load(Ordering::Relaxed)
    }

    /// All entries below this index are synced.
    pub(crate) fn come_to(&self, end: u64) -> Result<(), StoreError> {
        self.noted.store(end, Ordering::Relaxed);
        let written = self.file.write_all_at(&write(end), 0);
        written.map_err(failed("note the log's end", &self.path))
    }

    /// The entries from this index on are about to be dropped.
    pub(crate) fn go_back_to(&self, end: u64) -> Result<(), StoreError> {
        if self.noted() <= end {
            return Ok(());
        }
        self.come_to(end)?;
        self.file.sync_data().map_err(failed("sync the note of the log's end", &self.path))
    }
}

fn write(end: u64) -> Note {
    let mut note = Note::default();
    let (number, seal) = note.split_at_mut(NUMBER_BYTES);
    number.copy_from_slice(&end.to_be_bytes());
    seal.copy_from_slice(&Sha256::digest(end.to_be_bytes())[..NUMBER_BYTES]);
    note
}

#[cfg(any(feature = "rocksdb", test))]
fn read(note: &Note) -> Option<u64> {
    let end = note.first_chunk().copied().map(u64::from_be_bytes)?;
    (write(end) == *note).then_some(end)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn what_was_noted_is_read_and_what_is_damaged_says_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("note");
        let noted = |path: &Path| LogEnd::open(path).unwrap().noted();
        assert_eq!(noted(&path), 0);
        LogEnd::open(&path).unwrap().come_to(77).unwrap();
        assert_eq!(noted(&path), 77);
        let end = LogEnd::open(&path).unwrap();
        end.go_back_to(80).unwrap();
        assert_eq!(noted(&path), 77);
        end.go_back_to(70).unwrap();
        assert_eq!((end.noted(), noted(&path)), (70, 70));
        let good = std::fs::read(&path).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            std::fs::write(&path, &bad).unwrap();
            assert_eq!(noted(&path), 0, "a flip of byte {at}");
            std::fs::write(&path, &good[..at]).unwrap();
            assert_eq!(noted(&path), 0, "a cut at {at}");
        }
    }
}
