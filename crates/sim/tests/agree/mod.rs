//! Random runs against the real implementation and the model.

pub(crate) mod generate;
pub(crate) mod invariants;
pub(crate) mod names;
pub(crate) mod run;
pub(crate) mod shrink;
pub(crate) mod steps;
