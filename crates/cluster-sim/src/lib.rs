//! Ring 2: whole replicas on simulated machines.
//!
//! The replica that serves, with openraft below it, runs on one thread and one seed: tokio's clock
//! stands still until nobody has anything to do, and then jumps to the next timer. Network, disks and
//! clocks are simulated and do their worst. What callers were told is recorded and goes to two checkers
//! that know nothing of each other.
//!
//! ```text
//! callers ─▶ replicas ─▶ network, disks, clocks        (faults: swarm of a seed)
//!    │           └────────────▶ logs ─────▶ guided: the log, replayed through the model
//!    └─▶ history ─────────────────┴───────▶ linear: per key, blind to all numbers of ours
//! ```
//!
//! [`linear`] stands alone: it takes histories of any source.

pub mod linear;

#[cfg(feature = "simulated")]
pub mod chance;
#[cfg(feature = "simulated")]
pub mod checks;
#[cfg(feature = "simulated")]
pub mod client;
#[cfg(feature = "simulated")]
pub mod clock;
#[cfg(feature = "simulated")]
pub mod disk;
#[cfg(feature = "simulated")]
pub mod faults;
#[cfg(feature = "simulated")]
pub mod history;
#[cfg(feature = "simulated")]
pub mod names;
#[cfg(feature = "simulated")]
pub mod network;
#[cfg(feature = "simulated")]
pub mod reach;
#[cfg(feature = "simulated")]
pub mod run;
#[cfg(feature = "simulated")]
pub mod trace;
#[cfg(feature = "simulated")]
pub mod world;
