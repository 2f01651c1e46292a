//! What every decoder of firstclaim must hold for any bytes: it does not panic, takes memory in
//! proportion to what it is given, and reads back what was written as it was.
//!
//! A `Target` is a plain function, which has two callers. The tests of this crate give it the
//! inputs that are kept in `corpus`, with the compiler and the flags of everything else. libFuzzer
//! gives it inputs that nobody has thought of (`make test-long`).

#[cfg(feature = "fuzzing")]
#[expect(dead_code, reason = "the command line's own; here only what policy files need of it")]
#[path = "../../cli/src/duration.rs"]
mod duration;
#[cfg(feature = "fuzzing")]
mod files;
#[cfg(feature = "fuzzing")]
mod memory;
/// What policy files need of the command line's module of this name.
#[cfg(feature = "fuzzing")]
mod output {
    /// As the command line has it; the kept policy files are not accepted with another.
    pub(crate) const API_VERSION: &str = "firstclaim/v1";
}
#[cfg(feature = "fuzzing")]
pub mod requests;
#[cfg(feature = "fuzzing")]
mod responses;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
#[path = "../../server/src/config/mod.rs"]
pub mod server_config;
#[cfg(feature = "fuzzing")]
mod targets;
#[cfg(feature = "fuzzing")]
mod text;
#[cfg(feature = "fuzzing")]
mod wire;

#[cfg(feature = "fuzzing")]
pub use targets::{Target, targets};
