//! A build that did not ask for the simulator has none of its seams, and no bug can be planted in it.
#![cfg(not(feature = "simulated"))]

use std::fs;
use std::path::Path;

use firstclaim_core::planted::{self, Planted};

#[test]
fn nothing_is_planted() {
    const { assert!(!planted::is(Planted::FlushBeforeSync)) };
    assert!(!planted::is(Planted::VoteNotSynced));
}

/// Features add up over a workspace: one crate that turns these on would turn them on in what serves.
#[test]
fn nobody_turns_the_seams_on_by_default() {
    let crates = Path::new("..");
    let mut seen = 0;
    for entry in fs::read_dir(crates).expect("the crates") {
        let manifest = entry.expect("a crate").path().join("Cargo.toml");
        let Ok(text) = fs::read_to_string(&manifest) else { continue };
        seen += 1;
        for line in text.lines() {
            let asks = line.contains("features = [") || line.starts_with("default = [");
            let names = line.contains("\"simulated\"") || line.contains("\"planted\"");
            let required = line.starts_with("required-features");
            assert!(!(asks && names) || required, "{}: {line}", manifest.display());
        }
    }
    assert!(seen >= 9, "{seen}");
}
