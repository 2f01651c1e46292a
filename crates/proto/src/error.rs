//! The names that an error goes by on the wire, for the server that writes them and the client that
//! reads them: what `google.rpc.ErrorInfo` holds besides the reason. Semantics §7.

use std::fmt;

/// The domain of every ErrorInfo.
pub const DOMAIN: &str = "firstclaim";

/// Metadata key of every error: whether the call took effect, as [`Applied`].
pub const APPLIED: &str = "applied";
/// Metadata key: where clients reach the leader, as far as the node knows.
pub const LEADER_ENDPOINT: &str = "leader_endpoint";
/// Metadata key: the region of that leader.
pub const LEADER_REGION: &str = "leader_region";
/// Metadata key of every refusal by the log: when it decided, in RFC 3339.
pub const STORE_TIME: &str = "store_time";
/// Metadata key: whether what the caller reported is kept all the same, `true` or `false`.
pub const EVIDENCE_KEPT: &str = "evidence_kept";

/// Header of a call that one node hands to another; such a call is never handed on again.
pub const HOP_HEADER: &str = "firstclaim-hop";

/// Header of a call that one node hands to another: the region that it came in at.
pub const REGION_HEADER: &str = "firstclaim-region";

/// Whether a call that failed took effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Applied {
    /// It never reached the log, and never will: safe to send elsewhere.
    No,
    /// It may yet take effect: repeat the same call with the same attempt id.
    Maybe,
    /// The log refused it; the other metadata says what was kept, if anything.
    Decided,
}

impl Applied {
    /// The value on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::Maybe => "maybe",
            Self::Decided => "decided",
        }
    }

    /// Reads the value on the wire.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::No, Self::Maybe, Self::Decided].into_iter().find(|one| one.as_str() == text)
    }
}

impl fmt::Display for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
