//! Honest workers and an honest provider.

pub(crate) mod provider;
pub(crate) mod worker;
pub(crate) mod world;
