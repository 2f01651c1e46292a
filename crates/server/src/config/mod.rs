//! The configuration of a server: read strictly, checked whole, all faults told at once.
//!
//! Settings come, the weakest first, from defaults, the file, `FIRSTCLAIM_SECTION__KEY` variables
//! and flags. Nothing here decides an answer of the cluster: such bounds are constants of
//! `firstclaim_core::limits` or replicated policy.

mod check;
mod fault;
mod raw;
mod source;
mod suggest;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use firstclaim_core::Millis;
use firstclaim_replica::Member;

pub use fault::{ConfigError, Fault};
pub use source::{FlagSetting, Sources};

/// How log lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    #[default]
    Auto,
    /// Text.
    Text,
    /// One JSON object a line.
    Json,
}

/// What is logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// How.
    pub format: LogFormat,
    /// How much: `error`, `warn`, `info`, `debug`, `trace`. `FIRSTCLAIM_LOG` says it in more detail.
    pub level: String,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { format: LogFormat::Auto, level: "info".to_owned() }
    }
}

/// The addresses that the server listens on; port 0 takes a free one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Clients, by gRPC.
    pub grpc: SocketAddr,
    /// Metrics and probes, by HTTP.
    pub http: SocketAddr,
    /// Other members.
    pub peer: SocketAddr,
    /// Whether it may listen off loopback although nobody has to say who he is.
    pub insecure_no_auth: bool,
}

impl Listen {
    /// The three addresses with their names.
    #[must_use]
    pub fn all(&self) -> [(&'static str, SocketAddr); 3] {
        [("grpc", self.grpc), ("http", self.http), ("peer", self.peer)]
    }

    /// The listeners that others than this machine can reach.
    pub fn exposed(&self) -> impl Iterator<Item = (&'static str, SocketAddr)> {
        self.all().into_iter().filter(|(_, addr)| !addr.ip().is_loopback())
    }
}

impl Default for Listen {
    fn default() -> Self {
        let loopback = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Self {
            grpc: loopback(4360),
            http: loopback(4361),
            peer: loopback(4362),
            insecure_no_auth: false,
        }
    }
}

/// A checked configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Names the cluster; data and peers of another one are refused.
    pub cluster_id: String,
    /// Round trip between the two regions that are farthest apart; elections are timed by it.
    pub expected_rtt: Millis,
    /// All members, this node included, the same on every node.
    pub members: BTreeMap<u64, Member>,
    /// Which of them this is.
    pub node_id: u64,
    /// Where it keeps its data.
    pub data_dir: PathBuf,
    /// Where it listens.
    pub listen: Listen,
    /// What it logs.
    pub log: LogConfig,
}

impl Config {
    /// Round trip that is assumed if the configuration names none.
    pub const EXPECTED_RTT_DEFAULT: Millis = Millis(150);

    /// Reads, merges and checks.
    ///
    /// # Errors
    ///
    /// Every fault, each with its place and what to do.
    pub fn load(sources: &Sources) -> Result<Self, ConfigError> {
        let merged = source::Merged::read(sources);
        if !merged.faults.is_empty() {
            return Err(ConfigError { faults: merged.faults });
        }
        check::typed(merged)
    }

    /// Checks the relations between the settings.
    ///
    /// # Errors
    ///
    /// Every fault, each with its setting and what to do.
    pub fn check(&self) -> Result<(), ConfigError> {
        let faults = check::relations(self)
            .into_iter()
            .map(|(key, problem)| Fault { place: key, problem })
            .collect::<Vec<_>>();
        if faults.is_empty() { Ok(()) } else { Err(ConfigError { faults }) }
    }

    /// The region of this node.
    #[must_use]
    pub fn region(&self) -> &str {
        self.members.get(&self.node_id).map_or("", |member| member.region.as_str())
    }
}
