//! The identity of a source tree, so that a test never runs a binary that was built from another one.
//!
//! Shared by the build script of the binary, which bakes the identity in, and by the tests, which
//! compute it again from the tree that they stand in. It covers what the binary is made from and
//! nothing else; it does not ask git, so that uncommitted changes count and an archive works.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The files and folders, seen from the root of the repository, that make the binary.
pub(crate) const SOURCES: [&str; 5] =
    ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml", "proto", "crates"];

/// Folders that only tests, benchmarks and editors read.
const SKIPPED: [&str; 4] = ["tests", "benches", "examples", "target"];

/// Computes the identity of the tree at `root`: 16 hexadecimal digits.
///
/// # Errors
///
/// When a file cannot be read; the message names it.
pub(crate) fn build_id(root: &Path) -> io::Result<String> {
    let mut files = Vec::new();
    for source in SOURCES {
        collect(&root.join(source), &mut files)?;
    }
    files.sort();
    let mut hash = FNV_OFFSET;
    for file in files {
        let name = file.strip_prefix(root).unwrap_or(&file).to_string_lossy();
        let content = fs::read(&file).map_err(|error| naming(&file, &error))?;
        // Lengths keep two different trees from having the same bytes in a row.
        hash = feed(hash, &(name.len() as u64).to_le_bytes());
        hash = feed(hash, name.as_bytes());
        hash = feed(hash, &(content.len() as u64).to_le_bytes());
        hash = feed(hash, &content);
    }
    Ok(format!("{hash:016x}"))
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if path.is_file() {
        files.push(path.to_path_buf());
        return Ok(());
    }
    for entry in fs::read_dir(path).map_err(|error| naming(path, &error))? {
        let entry = entry.map_err(|error| naming(path, &error))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type().map_err(|error| naming(&entry.path(), &error))?.is_dir() {
            if !name.starts_with('.') && !SKIPPED.contains(&name.as_str()) {
                collect(&entry.path(), files)?;
            }
        } else if is_source(&name) {
            files.push(entry.path());
        }
    }
    Ok(())
}

fn is_source(name: &str) -> bool {
    let extension = Path::new(name).extension().and_then(|extension| extension.to_str());
    !name.starts_with('.') && matches!(extension, Some("rs" | "toml" | "proto"))
}

fn naming(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("read {}: {error}", path.display()))
}

// FNV-1a: it tells trees apart and needs no dependency; it does not withstand an adversary.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

fn feed(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME))
}
