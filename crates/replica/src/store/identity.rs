//! What the folder of a node says of itself: whose it is, and of which format.

use std::fmt;

/// The lines of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) format: u32,
    pub(crate) node: String,
    pub(crate) cluster: String,
}

impl Identity {
    /// Reads the file; none if it does not name a format, a node and a cluster.
    pub(crate) fn read(content: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(content);
        let field = |name: &str| {
            text.split('\n').find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
        };
        Some(Self {
            format: field("format")?.parse().ok()?,
            node: field("node")?.to_owned(),
            cluster: field("cluster")?.to_owned(),
        })
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { format, node, cluster } = self;
        writeln!(f, "format {format}\nnode {node}\ncluster {cluster}")
    }
}
