//! The bytes of every format ever written. A fixture is never changed; a new format gets new ones.

mod v1;
mod v2;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::Member;
use crate::raft::Membership;
use crate::store::codec::{self, Stored};
use crate::store::engine::{Read as _, after_prefix};
use crate::store::memory::{Memory, ROWS_FILE};
use crate::store::schema::Table;

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for line in bytes.chunks(32) {
        for byte in line {
            write!(text, "{byte:02x}").unwrap();
        }
        text.push('\n');
    }
    text
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let pairs = (0..digits.len()).step_by(2).map(|at| &digits[at..at + 2]);
    pairs.map(|pair| u8::from_str_radix(pair, 16).expect("two digits")).collect()
}

/// Where a fixture is: `v1/rows`.
fn path(name: &str) -> PathBuf {
    let path: PathBuf = ["tests/formats", name].iter().collect();
    path.with_extension("hex")
}

fn text(name: &str) -> String {
    std::fs::read_to_string(path(name)).expect("a fixture is missing")
}

/// The bytes of a fixture.
pub(super) fn fixture(name: &str) -> Vec<u8> {
    unhex(&text(name))
}

/// The bytes of a fixture, whose content is made up, with `UPDATE_GOLDENFILES=1`, when there is none.
fn kept(name: &str, make_up: impl FnOnce() -> Vec<u8>) -> Vec<u8> {
    let path = path(name);
    if !path.exists() && std::env::var_os("UPDATE_GOLDENFILES").is_some() {
        std::fs::write(&path, hex(&make_up())).unwrap();
    }
    fixture(name)
}

/// The bytes of a fixture, which must be these.
fn frozen(name: &str, bytes: &[u8]) -> Vec<u8> {
    let stored = kept(name, || bytes.to_vec());
    assert_eq!(
        hex(&stored),
        hex(bytes),
        "the format of {name} has changed: it needs a new version"
    );
    stored
}

/// The rows of a fixture, in memory.
pub(super) fn rows(name: &str) -> Memory {
    rows_of(&fixture(name))
}

fn rows_of(bytes: &[u8]) -> Memory {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join(ROWS_FILE), bytes).unwrap();
    Memory::from_checkpoint(dir.path(), Path::new("memory")).unwrap()
}

/// All rows of an engine, as a fixture holds them.
fn dump(engine: &Memory) -> Vec<u8> {
    use crate::store::engine::Engine as _;
    let dir = tempfile::tempdir().unwrap();
    let checkpoint = dir.path().join("checkpoint");
    engine.checkpoint(&checkpoint).unwrap();
    std::fs::read(checkpoint.join(ROWS_FILE)).unwrap()
}

/// Writes the files of a folder that a fixture holds.
#[cfg(feature = "rocksdb")]
pub(super) fn unpack(name: &str, to: &Path) {
    for file in text(name).split("= ").skip(1) {
        let (name, content) = file.split_once('\n').unwrap();
        let path = to.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, unhex(content)).unwrap();
    }
}

/// Every value of a table.
fn values<T: Stored>(engine: &Memory, table: Table) -> Vec<(Vec<u8>, T)> {
    let rows = engine.scan(table, &[], &after_prefix(&[]), usize::MAX).unwrap();
    assert!(!rows.is_empty(), "the fixture has no {}", table.name());
    let value = |(key, value): (Vec<u8>, Vec<u8>)| (key, codec::decode_value(&value).unwrap());
    rows.into_iter().map(value).collect()
}

/// Every value of the table decodes, and encodes to the same bytes.
fn reads_back<T: Stored>(engine: &Memory, table: Table) {
    for (key, value) in values::<T>(engine, table) {
        let stored = engine.get(table, &key).unwrap().unwrap();
        assert_eq!(codec::encode_value(&value).unwrap(), stored);
    }
}

fn membership() -> Membership {
    let member = |id: u64| Member {
        region: format!("region-{id}"),
        peer_addr: format!("10.0.0.{id}:4362"),
        client_addr: format!("http://10.0.0.{id}:4360"),
    };
    let nodes: std::collections::BTreeMap<u64, Member> =
        (1..=3).map(|id| (id, member(id))).collect();
    Membership::new(vec![[1, 2, 3].into()], nodes).unwrap()
}
