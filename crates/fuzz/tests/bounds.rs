//! Memory in proportion to what is given: lengths that promise more than there is, and inputs of
//! nothing but the smallest parts. Every target holds its bound by itself; these try to break it.

use std::fs;
use std::path::Path;

use firstclaim_fuzz::{Target, targets};

/// Lengths and counts as bincode writes them: of two, four and eight bytes.
const HUGE: [&[u8]; 4] = [
    &[251, 0xff, 0xff],
    &[252, 0xff, 0xff, 0x3f, 0],
    &[252, 0xff, 0xff, 0xff, 0x7f],
    &[253, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
];

/// Bytes of an input of smallest parts: far more than may be decoded.
const BYTES: usize = 512 << 10;
/// Bytes of an input of smallest commands: enough to tell what each of them takes.
const COMMAND_BYTES: usize = 64 * 1024;

/// One test, because all memory of the process is counted.
#[test]
fn memory_is_bounded_by_the_input() {
    huge_lengths();
    smallest_messages();
    smallest_commands();
}

fn huge_lengths() {
    let all = targets().into_iter();
    for target in all.filter(|target| ["payload", "sealed"].contains(&target.name)) {
        for kept in kept(&target) {
            for at in 0..kept.len().min(600) {
                for huge in HUGE {
                    let _accepted = target.run(&[&kept[..at], huge].concat());
                    let _accepted = target.run(&[&kept[..at], huge, &kept[at..]].concat());
                }
            }
        }
    }
}

fn kept(target: &Target) -> Vec<Vec<u8>> {
    let folder = Path::new("corpus").join(target.name);
    let files = fs::read_dir(folder).expect("the kept inputs");
    files.map(|file| fs::read(file.expect("list inputs").path()).expect("read an input")).collect()
}

/// Empty parts, in every field of every message that a first byte chooses.
fn smallest_messages() {
    const LENGTH_DELIMITED: u8 = 2;
    for target in targets() {
        for kind in 0..24 {
            for field in 1..16_u8 {
                let part = [field << 3 | LENGTH_DELIMITED, 0];
                let parts = part.repeat(BYTES / part.len());
                let _accepted = target.run(&[&[kind], &*parts].concat());
                let _accepted = target.run(&parts);
            }
        }
    }
}

/// Payloads of commands of a byte each, ticks among them, in every format.
fn smallest_commands() {
    let payload = targets().into_iter().find(|it| it.name == "payload").expect("a target");
    let length = u32::try_from(COMMAND_BYTES).expect("four bytes").to_le_bytes();
    for format in [1, 2] {
        for command in 0..=20 {
            let head = [&[format, 9, 252], &length[..]].concat();
            let _accepted = payload.run(&[&*head, &[command; COMMAND_BYTES]].concat());
        }
    }
}
