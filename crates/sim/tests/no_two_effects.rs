//! I13: with an honest provider and honest workers no slot of an intent has two effects, on any
//! schedule, while the record lives, or ever where the intent's time is sent.
//!
//! `FIRSTCLAIM_SEQUENCES` runs that many schedules instead of the default; `FIRSTCLAIM_SEED` starts at
//! another seed. The provider is the only witness.

mod honest;
#[path = "../../core/tests/support/mod.rs"]
mod memory;
mod shared;

use std::collections::BTreeMap;
use std::env;

use crate::honest::world::World;

const SCHEDULES: u64 = 2_000;

/// What has to happen now and then, or the test shows nothing.
const MUST_HAPPEN: [&str; 12] = [
    "worked",
    "sent",
    "sent again",
    "told again by its key",
    "rise heard of",
    "crashed",
    "acquired Recovery Resume",
    "acquired Recovery Reconcile",
    "acquired Takeover Execute",
    "acquired Retry Execute",
    "Resolved",
    "Revoked",
];

#[test]
fn no_slot_of_an_intent_has_two_effects() {
    let seed = number("FIRSTCLAIM_SEED").unwrap_or(1);
    let schedules = number("FIRSTCLAIM_SEQUENCES").unwrap_or(SCHEDULES);
    println!("FIRSTCLAIM_SEED={seed} FIRSTCLAIM_SEQUENCES={schedules}");
    let mut tally: BTreeMap<String, u64> = BTreeMap::new();
    for seed in seed..seed + schedules {
        let mut world = World::new(seed);
        if let Err(broken) = world.run() {
            for line in &world.log {
                println!("{line}");
            }
            panic!("{broken}\nreplay with FIRSTCLAIM_SEED={seed} FIRSTCLAIM_SEQUENCES=1");
        }
        for (what, count) in &world.tally.0 {
            *tally.entry(what.clone()).or_default() += count;
        }
        *tally.entry("told again by its key".to_owned()).or_default() += world.provider.repeats;
        *tally.entry("effects".to_owned()).or_default() += world.provider.effects.len() as u64;
    }
    for (what, count) in &tally {
        println!("{count:>9}  {what}");
    }
    if schedules >= SCHEDULES {
        for what in MUST_HAPPEN {
            assert!(tally.contains_key(what), "never: {what}");
        }
    }
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}
