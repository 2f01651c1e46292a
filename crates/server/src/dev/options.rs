//! How to start a dev cluster, and the ways in which that can fail.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::region::Region;

/// The longest delay that can be set; a round trip of two of these is the longest that elections
/// can be timed by.
pub(super) const DELAY_MAX: Duration = Duration::from_millis(2_000);

/// Which ports the nodes listen on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ports {
    /// From this one on: the nodes use `base`, `base + 10` and `base + 20` for gRPC, the next port
    /// for HTTP and the one after it for peers.
    From(u16),
    /// Whichever are free.
    Free,
}

impl Default for Ports {
    fn default() -> Self {
        Self::From(4360)
    }
}

/// A delay between two regions, the same in both directions: `eu-west:us-east=40ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkDelay {
    /// One end.
    pub one: Region,
    /// The other end.
    pub other: Region,
    /// How long every message takes from one end to the other.
    pub delay: Duration,
}

impl FromStr for LinkDelay {
    type Err = DevError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || DevError::BadDelay { text: text.to_owned() };
        let (ends, delay) = text.split_once('=').ok_or_else(bad)?;
        let (one, other) = ends.split_once(':').ok_or_else(bad)?;
        let (one, other) = (one.parse()?, other.parse()?);
        if one == other {
            return Err(bad());
        }
        Ok(Self { one, other, delay: parse_delay(delay).ok_or_else(bad)? })
    }
}

/// Reads a delay such as `40ms`.
pub(super) fn parse_delay(text: &str) -> Option<Duration> {
    let parsed: jiff::SignedDuration = text.parse().ok()?;
    let delay = Duration::try_from(parsed).ok()?;
    (delay <= DELAY_MAX).then_some(delay)
}

/// How to start a dev cluster.
#[derive(Clone, Debug, Default)]
pub struct DevOptions {
    /// Where the nodes keep their data. None: a temporary folder that is removed in the end.
    pub data_dir: Option<PathBuf>,
    /// Where they listen.
    pub ports: Ports,
    /// How far the regions are apart.
    pub delays: Vec<LinkDelay>,
}

impl DevOptions {
    /// The longest round trip between two regions that these delays make.
    pub(super) fn longest_round_trip(&self) -> Duration {
        self.delays.iter().map(|link| link.delay * 2).max().unwrap_or_default()
    }
}

/// Why a dev cluster does not do what it was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DevError {
    /// A word is no region.
    #[error("no region is called `{name}`; use eu-west, us-east or ap-south")]
    UnknownRegion {
        /// The word.
        name: String,
    },
    /// A delay is not written as one.
    #[error(
        "`{text}` is no delay between two regions; write eu-west:us-east=40ms, at most {} ms",
        DELAY_MAX.as_millis()
    )]
    BadDelay {
        /// What was written.
        text: String,
    },
    /// The ports do not fit below 65536.
    #[error("the ports from {base} on do not fit below 65536; use a base up to 65513")]
    PortsTooHigh {
        /// The first port.
        base: u16,
    },
    /// A port is taken.
    #[error(
        "port {} is in use, by another dev cluster perhaps; stop that one, or use other ports: \
         --ports 5360, or --ports free", .addr.port()
    )]
    PortInUse {
        /// The address.
        addr: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// No free port could be had.
    #[error("find free ports on 127.0.0.1")]
    NoPorts(#[source] io::Error),
    /// The folder for the data cannot be made.
    #[error("create the data folder {}", .path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A node did not start.
    #[error("start the node of {region}")]
    Start {
        /// Its region.
        region: Region,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A node that runs was to be started, or one that does not was to be killed.
    #[error("the node of {region} is {}", if *.running { "running already" } else { "not running" })]
    WrongState {
        /// Its region.
        region: Region,
        /// Whether it runs.
        running: bool,
    },
    /// The nodes did not find a leader, or did not get ready.
    #[error("wait until the cluster is ready: after {} s, {problem}", .waited.as_secs())]
    NotReady {
        /// How long it was waited for.
        waited: Duration,
        /// What is missing.
        problem: String,
    },
    /// The tenant of the demo could not be made.
    #[error("create {what}: {reason}")]
    Seed {
        /// The tenant or namespace.
        what: &'static str,
        /// What the node answered.
        reason: String,
    },
    /// The listing could not be written.
    #[error("write to the terminal")]
    Output(#[from] io::Error),
}

#[cfg(test)]
mod tests {
    use super::{DevOptions, Duration, LinkDelay, Region};

    #[test]
    fn a_delay_names_both_regions_and_a_time() {
        let link: LinkDelay = "eu-west:ap-south=90ms".parse().unwrap();
        assert_eq!((link.one, link.other), (Region::EuWest, Region::ApSouth));
        assert_eq!(link.delay, Duration::from_millis(90));
        let options = DevOptions { delays: vec![link], ..DevOptions::default() };
        assert_eq!(options.longest_round_trip(), Duration::from_millis(180));
    }

    #[test]
    fn what_is_no_delay_says_how_to_write_one() {
        for text in ["", "eu-west", "eu-west=4ms", "eu-west:us-east", "eu-west:eu-west=4ms"] {
            let error = text.parse::<LinkDelay>().unwrap_err().to_string();
            assert!(error.contains("eu-west:us-east=40ms"), "{text}: {error}");
        }
        for text in ["eu-west:us-east=4", "eu-west:us-east=-4ms", "eu-west:us-east=1h"] {
            assert!(text.parse::<LinkDelay>().is_err(), "{text}");
        }
        let error = "eu-west:mars=4ms".parse::<LinkDelay>().unwrap_err().to_string();
        assert!(error.contains("mars"), "{error}");
    }
}
