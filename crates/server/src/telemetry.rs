//! Log lines: text for people at a terminal, JSON for machines, and never a key in either.

use std::io::{self, IsTerminal as _};

use firstclaim_core::RecordRef;
use sha2::{Digest as _, Sha256};
use tracing_subscriber::EnvFilter;

use crate::config::{LogConfig, LogFormat};

/// Says in detail what is logged: `info,firstclaim_replica=debug`. Wins over the configured level.
pub const FILTER_VARIABLE: &str = "FIRSTCLAIM_LOG";

/// What libraries may say where nobody asked for more: the consensus engine tells of each election
/// and of each heartbeat that a dead peer misses, the transport of every frame.
const QUIET_LIBRARIES: &str = "openraft=error,h2=warn,hyper=warn,hyper_util=warn,tower=warn";

/// Log lines cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter does not parse.
    #[error(
        "{FILTER_VARIABLE} is {filter:?}: {source}; write for example \"info\" or \
             \"info,firstclaim_replica=debug\""
    )]
    Filter {
        /// What it is.
        filter: String,
        /// What is wrong with it.
        source: tracing_subscriber::filter::ParseError,
    },
    /// Something else writes log lines in this process already.
    #[error("set up log lines: {reason}")]
    Taken {
        /// What the library says.
        reason: String,
    },
}

/// Writes log lines to standard error from now on. `filter` is the value of
/// [`FILTER_VARIABLE`], if it is set.
///
/// # Errors
///
/// [`TelemetryError`] if the filter is wrong, or on a second call.
pub fn start(config: &LogConfig, filter: Option<&str>) -> Result<(), TelemetryError> {
    let filter = match filter.filter(|filter| !filter.trim().is_empty()) {
        Some(filter) => filter.to_owned(),
        None => format!("{},{QUIET_LIBRARIES}", config.level),
    };
    let parsed =
        EnvFilter::try_new(&filter).map_err(|source| TelemetryError::Filter { filter, source })?;
    let json = match config.format {
        LogFormat::Auto => !io::stderr().is_terminal(),
        LogFormat::Text => false,
        LogFormat::Json => true,
    };
    let lines = tracing_subscriber::fmt().with_env_filter(parsed).with_writer(io::stderr);
    let taken = if json {
        lines.json().flatten_event(true).with_current_span(true).with_span_list(false).try_init()
    } else {
        lines.with_target(false).try_init()
    };
    taken.map_err(|error| TelemetryError::Taken { reason: error.to_string() })
}

/// How log lines name a key: the same key always the same, and none can be read back from it.
pub(crate) fn key_digest(record: &RecordRef) -> String {
    let mut hash = Sha256::new();
    for part in [record.tenant.as_str(), record.namespace.as_str(), record.key.as_str()] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    let digest = hash.finalize();
    digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}
