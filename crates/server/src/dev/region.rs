//! The three regions of a dev cluster; each has one node.

use std::fmt;
use std::str::FromStr;

use super::options::DevError;

/// A region, and the node that runs there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Region {
    /// `eu-west`, node 1.
    EuWest,
    /// `us-east`, node 2.
    UsEast,
    /// `ap-south`, node 3.
    ApSouth,
}

impl Region {
    /// Every region, in the order of their nodes.
    pub const ALL: [Self; 3] = [Self::EuWest, Self::UsEast, Self::ApSouth];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::EuWest => "eu-west",
            Self::UsEast => "us-east",
            Self::ApSouth => "ap-south",
        }
    }

    /// The id of its node.
    #[must_use]
    pub const fn node_id(self) -> u64 {
        match self {
            Self::EuWest => 1,
            Self::UsEast => 2,
            Self::ApSouth => 3,
        }
    }

    /// The region of a node.
    #[must_use]
    pub fn of_node(node_id: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|region| region.node_id() == node_id)
    }

    /// All pairs of different regions, each once.
    pub(super) const PAIRS: [(Self, Self); 3] = [
        (Self::EuWest, Self::UsEast),
        (Self::EuWest, Self::ApSouth),
        (Self::UsEast, Self::ApSouth),
    ];
}

impl fmt::Display for Region {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `pad` keeps the width that tables ask for.
        out.pad(self.name())
    }
}

impl FromStr for Region {
    type Err = DevError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|region| region.name() == text)
            .ok_or_else(|| DevError::UnknownRegion { name: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::Region;

    #[test]
    fn names_and_node_ids_lead_back_to_the_region() {
        for region in Region::ALL {
            assert_eq!(region.name().parse::<Region>().unwrap(), region);
            assert_eq!(Region::of_node(region.node_id()), Some(region));
        }
        let error = "mars".parse::<Region>().unwrap_err().to_string();
        assert_eq!(error, "no region is called `mars`; use eu-west, us-east or ap-south");
        assert_eq!(Region::of_node(4), None);
    }
}
