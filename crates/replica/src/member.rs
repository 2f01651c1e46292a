//! A member of the cluster, as the configuration and the log name it.

/// Where a node is and how it is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// The region that the node is in.
    pub region: String,
    /// Where the other nodes reach it: `host:port`.
    pub peer_addr: String,
    /// Where clients and forwarding nodes reach it: `http://host:port`.
    pub client_addr: String,
}
