//! What is wrong with the configuration, and where.

use std::fmt;

/// Where a setting comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A place in the file: `firstclaim.toml:3:1`.
    File(String),
    /// An environment variable.
    Environment(String),
    /// A flag of the command line.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(place) => f.write_str(place),
            Self::Environment(name) => write!(f, "environment variable {name}"),
            Self::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

/// One fault of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The place: a position in the file, a variable, a flag, or the name of what is missing.
    pub place: String,
    /// What is wrong there, and what to do.
    pub problem: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.problem)
    }
}

/// The configuration cannot be used. Every fault that was found, not only the first.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct ConfigError {
    /// The faults, in the order of the file.
    pub faults: Vec<Fault>,
}
