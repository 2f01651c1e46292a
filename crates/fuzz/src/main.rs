//! The search for new inputs, by libFuzzer. One program for all targets: `FIRSTCLAIM_FUZZ_TARGET`
//! names the one. `xtask/fuzz` builds and runs it.

#![no_main]

use std::env;
use std::sync::LazyLock;

use firstclaim_fuzz::{Target, targets};

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = env::var("FIRSTCLAIM_FUZZ_TARGET").unwrap_or_default();
    let named = targets().into_iter().find(|target| target.name == name);
    named.expect("FIRSTCLAIM_FUZZ_TARGET names a target")
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _accepted = TARGET.run(bytes);
});
