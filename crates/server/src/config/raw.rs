//! The configuration as it is written: the shape of the file, and what may override it.

use serde::Deserialize;

/// Every setting that the file may hold, as `section.key`; the order is that of the example files.
pub(super) const KEYS: &[&str] = &[
    "cluster.id",
    "cluster.expected_rtt",
    "cluster.members",
    "node.id",
    "node.data_dir",
    "listen.grpc",
    "listen.http",
    "listen.peer",
    "listen.insecure_no_auth",
    "log.format",
    "log.level",
];

/// The keys of one `[[cluster.members]]`.
pub(super) const MEMBER_KEYS: &[&str] = &["id", "region", "peer", "client"];

/// The file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawConfig {
    pub(super) cluster: RawCluster,
    pub(super) node: RawNode,
    pub(super) listen: RawListen,
    pub(super) log: RawLog,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawCluster {
    pub(super) id: Option<String>,
    pub(super) expected_rtt: Option<String>,
    pub(super) members: Vec<RawMember>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawMember {
    pub(super) id: u64,
    pub(super) region: String,
    pub(super) peer: String,
    pub(super) client: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawNode {
    pub(super) id: Option<u64>,
    pub(super) data_dir: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawListen {
    pub(super) grpc: Option<String>,
    pub(super) http: Option<String>,
    pub(super) peer: Option<String>,
    pub(super) insecure_no_auth: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawLog {
    pub(super) format: Option<String>,
    pub(super) level: Option<String>,
}

impl RawConfig {
    /// Sets one key from text, over whatever stood there.
    pub(super) fn set(&mut self, key: &str, text: &str) -> Result<(), String> {
        let text = text.to_owned();
        match key {
            "cluster.id" => self.cluster.id = Some(text),
            "cluster.expected_rtt" => self.cluster.expected_rtt = Some(text),
            "node.id" => self.node.id = Some(number(&text)?),
            "node.data_dir" => self.node.data_dir = Some(text),
            "listen.grpc" => self.listen.grpc = Some(text),
            "listen.http" => self.listen.http = Some(text),
            "listen.peer" => self.listen.peer = Some(text),
            "listen.insecure_no_auth" => self.listen.insecure_no_auth = Some(truth(&text)?),
            "log.format" => self.log.format = Some(text),
            "log.level" => self.log.level = Some(text),
            _ => return Err(format!("{key} can only be set in the file")),
        }
        Ok(())
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|error| format!("{text:?} is not a whole number: {error}"))
}

fn truth(text: &str) -> Result<bool, String> {
    text.parse().map_err(|error| format!("{text:?} is neither true nor false: {error}"))
}
