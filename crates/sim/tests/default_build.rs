//! No bug can be planted in a build that did not ask for it.
#![cfg(not(feature = "planted"))]

use std::fs;
use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_firstclaim-sim");

#[test]
fn nothing_can_be_planted() {
    let output = Command::new(PROGRAM).arg("planted").output().expect("it starts");
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("\"planted\" is unknown"));
}

#[test]
fn no_name_of_a_bug_is_in_the_program() {
    let program = fs::read(PROGRAM).expect("the program");
    let has = |name: &[u8]| program.windows(name.len()).any(|window| window == name);
    assert!(has(b"firstclaim-sim"), "this looks at the wrong file");
    for name in ["lease-inclusive", "epoch-restarts", "not-committed-moves-live"] {
        assert!(!has(name.as_bytes()), "{name}");
    }
}
