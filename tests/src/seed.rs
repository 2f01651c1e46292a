//! The seed of a test: what it decides by chance can be decided the same way again.
//!
//! A seed gives the same schedule (which leader is killed when, who gives up, how long anybody
//! waits). It does not give the same order of events in three processes; nothing outside a simulator
//! can.

use std::env;

use rand::SeedableRng as _;
use rand::rngs::StdRng;

use crate::say;

/// Takes the seed from `FIRSTCLAIM_SEED`, or a new one, and says how to use it again.
///
/// # Errors
///
/// When `FIRSTCLAIM_SEED` is no number.
pub fn take(test: &str) -> crate::Outcome<u64> {
    let seed = match env::var("FIRSTCLAIM_SEED") {
        Ok(text) => text.parse().map_err(|error| format!("FIRSTCLAIM_SEED {text:?}: {error}"))?,
        Err(_) => u64::from(rand::random::<u32>()),
    };
    say(&format!(
        "{test}: seed {seed}; again with FIRSTCLAIM_SEED={seed} cargo test -p firstclaim-tests \
         --test {test}"
    ));
    Ok(seed)
}

/// The chance of one part of a test, apart from that of the others.
#[must_use]
pub fn chance(seed: u64, part: u64) -> StdRng {
    StdRng::seed_from_u64(seed ^ part.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}
