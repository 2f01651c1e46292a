//! The `firstclaim` binary under test, refused when it was built from another tree than this one.

use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use thiserror::Error;

#[path = "../../crates/cli/build_id.rs"]
mod build_id;

/// Why there is no binary to test.
#[derive(Debug, Clone, Error)]
pub enum BinaryError {
    /// Nothing is built, or `FIRSTCLAIM_BIN` names a wrong place.
    #[error("run {path}: {reason}; build it with `make build`, or name it in FIRSTCLAIM_BIN")]
    Missing {
        /// Where it was looked for.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// The binary does not say which tree it was built from.
    #[error("ask {path} for its build id: {reason}")]
    Silent {
        /// The binary.
        path: PathBuf,
        /// What it answered instead.
        reason: String,
    },
    /// The binary is stale.
    #[error(
        "{path} was built from another tree ({built}) than this one ({here}); run `make build`"
    )]
    Stale {
        /// The binary.
        path: PathBuf,
        /// The identity that the binary carries.
        built: String,
        /// The identity of the tree that the tests stand in.
        here: String,
    },
    /// The tree cannot be read.
    #[error("compute the identity of {root}: {reason}")]
    Tree {
        /// The root of the repository.
        root: PathBuf,
        /// What could not be read.
        reason: String,
    },
}

/// The root of the repository.
#[must_use]
pub fn repository() -> PathBuf {
    // Where cargo runs the tests now, which may differ from where they were compiled.
    let package = env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    package.parent().map_or_else(|| package.clone(), Path::to_path_buf)
}

/// The path of a `firstclaim` binary that was built from the tree that the tests stand in.
///
/// `FIRSTCLAIM_BIN` names it (`make test` sets it); without, it is looked for beside the test's own
/// folder. It is asked once per process.
///
/// # Errors
///
/// When there is none, or when it was built from another tree.
pub fn firstclaim() -> Result<PathBuf, BinaryError> {
    static CHECKED: OnceLock<Result<PathBuf, BinaryError>> = OnceLock::new();
    CHECKED.get_or_init(|| check(&location(), &repository())).clone()
}

fn location() -> PathBuf {
    if let Some(path) = env::var_os("FIRSTCLAIM_BIN") {
        return PathBuf::from(path);
    }
    // A test runs as target/debug/deps/name-hash.
    let own = env::current_exe().unwrap_or_default();
    let debug = own.parent().and_then(Path::parent).unwrap_or(Path::new("target/debug"));
    debug.join("firstclaim")
}

/// Accepts `binary` if it carries the identity of the tree at `root`.
///
/// # Errors
///
/// See [`firstclaim`].
pub fn check(binary: &Path, root: &Path) -> Result<PathBuf, BinaryError> {
    let path = binary.to_path_buf();
    let output = Command::new(binary).args(["version", "--build-id"]).output();
    let output = match output {
        Ok(output) => output,
        Err(error) => return Err(BinaryError::Missing { path, reason: error.to_string() }),
    };
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(BinaryError::Silent { path, reason });
    }
    let built = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let here = match tree_id(root) {
        Ok(here) => here,
        Err(error) => {
            return Err(BinaryError::Tree { root: root.to_path_buf(), reason: error.to_string() });
        }
    };
    if built == here { Ok(path) } else { Err(BinaryError::Stale { path, built, here }) }
}

/// The identity of the source tree at `root`, as the binary carries it.
///
/// # Errors
///
/// When a source file cannot be read.
pub fn tree_id(root: &Path) -> io::Result<String> {
    build_id::build_id(root)
}
