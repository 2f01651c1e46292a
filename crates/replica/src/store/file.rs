//! Files and folders that must survive a loss of power.

#[cfg(not(test))]
pub(crate) use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use crate::error::StoreError;
/// In tests the disk may count what is asked of it, refuse it, and lose its power.
#[cfg(test)]
pub(crate) use crate::store::tests::crash_points::fs;
use fs::File;

/// Names the file in an error.
pub(crate) fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.to_path_buf();
    move |source| StoreError::Io { action, path, source }
}

/// Makes the names in a folder durable.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), StoreError> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(failed("sync a folder", dir))
}

/// Creates a folder with its parents.
pub(crate) fn create_dir(dir: &Path) -> Result<(), StoreError> {
    fs::create_dir_all(dir).map_err(failed("create a folder", dir))
}

/// Creates a folder in one that is there, and makes its name durable: what is in it is lost without.
pub(crate) fn create_durable_dir(dir: &Path) -> Result<(), StoreError> {
    create_dir(dir)?;
    dir.parent().map_or(Ok(()), sync_dir)
}

/// Writes a file so that it has either its old content or the new one, whatever happens.
pub(crate) fn replace(path: &Path, content: &[u8]) -> Result<(), StoreError> {
    let aside = path.with_extension("tmp");
    let written = File::create(&aside).and_then(|mut file| {
        file.write_all(content)?;
        file.sync_all()
    });
    written.map_err(failed("write a file", &aside))?;
    fs::rename(&aside, path).map_err(failed("rename a file", path))?;
    path.parent().map_or(Ok(()), sync_dir)
}

/// The content of a file, if it is there.
pub(crate) fn read(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    match fs::read(path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("read a file", path)(error)),
    }
}

/// Whether there is a file or folder of that name.
pub(crate) fn exists(path: &Path) -> Result<bool, StoreError> {
    fs::exists(path).map_err(failed("look for a file", path))
}

/// Removes a folder with all that is in it, if it is there.
pub(crate) fn remove_dir(dir: &Path) -> Result<(), StoreError> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(failed("remove a folder", dir)(error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// The names of what is in a folder, sorted.
pub(crate) fn names(dir: &Path) -> Result<Vec<String>, StoreError> {
    let list = || -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    };
    list().map_err(failed("list a folder", dir))
}
