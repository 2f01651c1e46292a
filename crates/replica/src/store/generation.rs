//! One life of the state: installing a snapshot starts the next one.
//!
//! The folder of a generation is removed when its last reader is done with it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::store::disk::Lock;
use crate::store::engine::Engine;
use crate::store::file;

/// A database of the state.
pub(crate) struct Generation {
    // The order of the fields matters: the database closes before its folder goes.
    engine: Box<dyn Engine>,
    folder: Folder,
    number: u64,
    _lock: Option<Lock>,
}

struct Folder {
    /// None for a generation in memory.
    path: Option<PathBuf>,
    retired: AtomicBool,
}

impl Generation {
    pub(crate) fn new(
        engine: Box<dyn Engine>,
        folder: Option<PathBuf>,
        number: u64,
        lock: Option<Lock>,
    ) -> Self {
        let folder = Folder { path: folder, retired: AtomicBool::new(false) };
        Self { engine, folder, number, _lock: lock }
    }

    pub(crate) fn engine(&self) -> &dyn Engine {
        &*self.engine
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Another generation has taken its place.
    pub(crate) fn retire(&self) {
        self.folder.retired.store(true, Ordering::Relaxed);
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let (Some(path), true) = (&self.path, self.retired.load(Ordering::Relaxed))
            && let Err(error) = file::remove_dir(path)
        {
            tracing::warn!(%error, "could not remove an old state, the next start will");
        }
    }
}
