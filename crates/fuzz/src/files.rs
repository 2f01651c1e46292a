//! Files that people write: the configuration of a server, policies.
//!
//! The crates that read them need RocksDB, or are a binary; so their own source is compiled in here.

use std::collections::BTreeMap;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::sync::{LazyLock, Mutex, PoisonError};

use firstclaim_proto::convert::policy;
use tempfile::NamedTempFile;

use crate::server_config::{Config, ConfigError, Sources};
use crate::wire::sent;

#[path = "../../cli/src/policy_file"]
mod policy_files {
    pub(super) mod document;
    pub(super) mod fault;
}

use policy_files::{document, fault};

/// The configuration is read by its path.
static FILE: LazyLock<Mutex<NamedTempFile>> =
    LazyLock::new(|| Mutex::new(NamedTempFile::new().expect("create a file")));

/// A configuration file, and after a NUL byte the variables that override it, a line each.
pub(crate) fn config(bytes: &[u8]) -> bool {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let (text, variables) = bytes.split_at(end);
    let variables = String::from_utf8_lossy(variables.strip_prefix(b"\0").unwrap_or_default());
    let environment: BTreeMap<String, String> = variables
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let mut file = FILE.lock().unwrap_or_else(PoisonError::into_inner);
    let written = file.as_file().set_len(0).and_then(|()| {
        file.seek(SeekFrom::Start(0))?;
        file.write_all(text)
    });
    written.expect("write the file");
    let path = Some(file.path().to_path_buf());
    match Config::load(&Sources { file: path, environment, flags: Vec::new() }) {
        Ok(config) => {
            config.check().expect("an accepted configuration holds");
            assert!(config.members.contains_key(&config.node_id));
            assert!(!config.region().is_empty());
            true
        }
        Err(ConfigError { faults }) => {
            assert!(!faults.is_empty());
            assert!(faults.iter().all(|it| !it.place.is_empty() && !it.problem.is_empty()));
            false
        }
    }
}

/// A policy file: each document has a policy that a server can read, or refuse with reasons.
pub(crate) fn policy_file(bytes: &[u8]) -> bool {
    let Ok(source) = std::str::from_utf8(bytes) else { return false };
    match document::read(source) {
        Ok(documents) => {
            for document in documents {
                assert!(!document.target.describe().is_empty());
                let Ok(patch) = policy::read(sent(&document.policy)) else { continue };
                assert_eq!(policy::read(sent(&policy::patch(&patch))), Ok(patch));
            }
            true
        }
        Err(faults) => {
            assert!(!faults.is_empty());
            assert!(!fault::text("policy.yaml", source, &faults).is_empty());
            false
        }
    }
}
