//! Who takes part in a world.

mod forgery;
pub(crate) mod hostile;
mod letters;
mod operator;
pub(crate) mod provider;
pub(crate) mod queue;
mod steps;
pub(crate) mod worker;
