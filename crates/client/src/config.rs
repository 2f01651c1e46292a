//! Where the nodes are, and how long a caller is willing to wait for them.

use std::process;
use std::time::Duration;

/// The settings of a [`Client`](crate::Client).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientConfig {
    /// The nodes, nearest first: `host:port` or `http://host:port`.
    pub endpoints: Vec<String>,
    /// How long a connection may take. Default 3 s.
    pub connect_timeout: Duration,
    /// How long one try at one endpoint may take. Default 5 s.
    pub try_timeout: Duration,
    /// How long a call may take with all its tries. Default 15 s.
    pub timeout: Duration,
    /// How long a call goes on while no endpoint can be connected to at all. Default: as long as
    /// `timeout`.
    pub unreachable_timeout: Duration,
    /// Who is asking: one label per process incarnation. Others see it while a claim is held.
    pub owner: String,
}

/// What is wrong with a [`ClientConfig`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// There is no endpoint.
    #[error("no endpoint is given; name at least one node as host:port")]
    NoEndpoint,
    /// An endpoint is no address.
    #[error("endpoint {endpoint:?}: {problem}; write it as host:port, for example 127.0.0.1:4360")]
    Endpoint {
        /// As it was given.
        endpoint: String,
        /// What is wrong with it.
        problem: String,
    },
}

impl ClientConfig {
    /// The default settings for these endpoints.
    pub fn new<I, S>(endpoints: I) -> Self
    where
        I: IntoIterator<Item = S>,
        S: Into<String>,
    {
        Self {
            endpoints: endpoints.into_iter().map(Into::into).collect(),
            connect_timeout: Duration::from_secs(3),
            try_timeout: Duration::from_secs(5),
            timeout: Duration::from_secs(15),
            unreachable_timeout: Duration::from_secs(15),
            owner: default_owner(),
        }
    }

    /// The same with another overall timeout, and tries no longer than it.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self.unreachable_timeout = timeout;
        self.try_timeout = self.try_timeout.min(timeout);
        self.connect_timeout = self.connect_timeout.min(timeout);
        self
    }

    /// The same with another owner label.
    #[must_use]
    pub fn with_owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = owner.into();
        self
    }
}

impl Default for ClientConfig {
    /// The default settings for one node on this machine.
    fn default() -> Self {
        Self::new(["127.0.0.1:4360"])
    }
}

/// A label for this process: the host's name if it is known, the process id, and a part that tells
/// two incarnations with one process id apart.
fn default_owner() -> String {
    let host = std::env::var("HOSTNAME").ok().or_else(|| {
        std::fs::read_to_string("/proc/sys/kernel/hostname").ok().map(|name| name.trim().to_owned())
    });
    let host: String = host
        .unwrap_or_default()
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || "-._".contains(*c))
        .take(64)
        .collect();
    let host = if host.is_empty() { "client".to_owned() } else { host };
    format!("{host}:{}:{:08x}", process::id(), rand::random::<u32>())
}
