//! Bakes the identity of the source tree into the binary, as `FIRSTCLAIM_BUILD_ID`.

use std::env;
use std::error::Error;
use std::io::{self, Write};
use std::path::Path;

#[path = "build_id.rs"]
mod build_id;

fn main() -> Result<(), Box<dyn Error>> {
    // As it is now: a target folder may be shared by several copies of the tree.
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../..").canonicalize()?;
    let mut out = io::stdout().lock();
    for source in build_id::SOURCES {
        // Relative, or another copy of the tree would be taken for this one.
        writeln!(out, "cargo::rerun-if-changed=../../{source}")?;
    }
    writeln!(out, "cargo::rustc-env=FIRSTCLAIM_BUILD_ID={}", build_id::build_id(&root)?)?;
    Ok(())
}
