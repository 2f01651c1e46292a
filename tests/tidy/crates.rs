//! Rules about crates: who may depend on whom, and who may name what from outside.

use std::collections::BTreeMap;
use std::env;
use std::process::Command;

use serde_json::Value;

use crate::tree::Tree;

/// The rooms: each crate of ours, and the crates of ours that it may depend on.
const ROOMS: [(&str, &[&str]); 11] = [
    ("firstclaim-core", &[]),
    ("firstclaim-proto", &["firstclaim-core"]),
    ("firstclaim-replica", &["firstclaim-core", "firstclaim-proto"]),
    ("firstclaim-server", &["firstclaim-core", "firstclaim-proto", "firstclaim-replica"]),
    ("firstclaim-client", &["firstclaim-core", "firstclaim-proto"]),
    ("firstclaim-bench", &["firstclaim-client"]),
    ("firstclaim-cli", &["firstclaim-bench", "firstclaim-client", "firstclaim-server"]),
    ("firstclaim-sim", &["firstclaim-client", "firstclaim-core", "firstclaim-replica"]),
    ("firstclaim-cluster-sim", &["firstclaim-core", "firstclaim-replica", "firstclaim-sim"]),
    (
        "firstclaim-fuzz",
        &["firstclaim-client", "firstclaim-core", "firstclaim-proto", "firstclaim-replica"],
    ),
    ("firstclaim-tests", &["firstclaim-client", "firstclaim-server"]),
];

/// The doors: a dependency that only one room may name.
const DOORS: [(&str, &str); 16] = [
    ("axum", "firstclaim-server"),
    ("bincode", "firstclaim-replica"),
    ("clap", "firstclaim-cli"),
    ("clap_complete", "firstclaim-cli"),
    ("comfy-table", "firstclaim-cli"),
    ("libfuzzer-sys", "firstclaim-fuzz"),
    ("openraft", "firstclaim-replica"),
    ("openraft-macros", "firstclaim-replica"),
    ("openraft-rt", "firstclaim-replica"),
    ("openraft-rt-tokio", "firstclaim-replica"),
    ("peak_alloc", "firstclaim-fuzz"),
    ("prometheus-client", "firstclaim-server"),
    ("protox", "firstclaim-proto"),
    ("quorum-set", "firstclaim-replica"),
    ("rocksdb", "firstclaim-replica"),
    ("tonic-prost-build", "firstclaim-proto"),
];

/// All that the pure room may ever need. No clock, no network, no randomness can slip in.
const CORE_MAY_NAME: [&str; 3] = ["serde", "sha2", "thiserror"];

/// Dependencies whose exact version decides about safety or about bytes on disk.
const PINNED: [(&str, &str); 7] = [
    ("bincode", "2.0.1"),
    ("openraft", "0.10.0-alpha.37"),
    ("openraft-macros", "0.10.0-alpha.37"),
    ("openraft-rt", "0.10.0-alpha.37"),
    ("openraft-rt-tokio", "0.10.0-alpha.37"),
    ("quorum-set", "0.2.3"),
    ("rocksdb", "0.25.0"),
];

/// Everything that is wrong with crates.
pub(crate) fn faults(tree: &Tree) -> Vec<String> {
    let root_lock = tree.text("Cargo.lock").unwrap_or_default();
    let root_manifest = tree.text("Cargo.toml").unwrap_or_default();
    let mut faults = pins(root_manifest, root_lock);
    faults.extend(same_rocksdb(
        (root_manifest, root_lock),
        (
            tree.text("xtask/rocksdb/Cargo.toml").unwrap_or_default(),
            tree.text("xtask/rocksdb/Cargo.lock").unwrap_or_default(),
        ),
    ));
    match metadata(tree) {
        Ok(metadata) => faults.extend(layering(&metadata)),
        Err(reason) => faults.push(format!("run cargo metadata: {reason}")),
    }
    for file in &tree.files {
        let member = file.path.starts_with("crates/") || file.path.starts_with("tests/");
        if member && file.path.ends_with("/Cargo.toml") && !inherits_lints(&file.text) {
            faults.push(format!("{}: says no `[lints] workspace = true`", file.path));
        }
    }
    faults
}

fn metadata(tree: &Tree) -> Result<Value, String> {
    let cargo = env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version", "1", "--locked", "--offline"])
        .current_dir(&tree.root)
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())
}

/// Checks what `cargo metadata` says against [`ROOMS`], [`DOORS`] and [`CORE_MAY_NAME`].
fn layering(metadata: &Value) -> Vec<String> {
    let rooms = BTreeMap::from(ROOMS);
    let doors = BTreeMap::from(DOORS);
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut faults = Vec::new();
    if packages.is_empty() {
        faults.push("cargo metadata lists no package".to_owned());
    }
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let Some(may) = rooms.get(name) else {
            faults.push(format!("{name}: not a room of tests/tidy/crates.rs"));
            continue;
        };
        for dependency in package["dependencies"].as_array().map(Vec::as_slice).unwrap_or_default()
        {
            let on = dependency["name"].as_str().unwrap_or_default();
            let for_code = dependency["kind"].is_null();
            if rooms.contains_key(on) && on != name && !may.contains(&on) {
                faults.push(format!("{name}: may not depend on {on}, only on {may:?}"));
            }
            if let Some(owner) = doors.get(on).filter(|owner| **owner != name) {
                faults.push(format!("{name}: may not name {on}; only {owner} does"));
            }
            if name == "firstclaim-core" && for_code && !CORE_MAY_NAME.contains(&on) {
                faults.push(format!("{name}: may name only {CORE_MAY_NAME:?}, not {on}"));
            }
        }
    }
    faults
}

fn inherits_lints(manifest: &str) -> bool {
    let mut lines = manifest.lines().map(str::trim).skip_while(|line| *line != "[lints]").skip(1);
    lines.find(|line| !line.is_empty()) == Some("workspace = true")
}

/// Checks that a pinned dependency is asked for with `=` and locked at exactly that version.
fn pins(manifest: &str, lock: &str) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, version) in PINNED {
        let asked = requirement(manifest, name).unwrap_or_default();
        if !asked.contains(&format!("\"={version}\"")) {
            faults.push(format!("Cargo.toml: {name} must be \"={version}\", found `{asked}`"));
        }
        let locked = locked(lock, name);
        if locked != [version] {
            faults.push(format!("Cargo.lock: {name} must be {version}, found {locked:?}"));
        }
    }
    faults
}

/// Checks that the archive is compiled from the same sources, with the same features, as the
/// workspace links and calls.
fn same_rocksdb(workspace: (&str, &str), archive: (&str, &str)) -> Vec<String> {
    let mut faults = Vec::new();
    let (ours, theirs) = (requirement(workspace.0, "rocksdb"), requirement(archive.0, "rocksdb"));
    if ours.is_none() || ours != theirs {
        faults.push(format!(
            "xtask/rocksdb/Cargo.toml: rocksdb is {theirs:?}, in Cargo.toml {ours:?}"
        ));
    }
    for name in ["rocksdb", "librocksdb-sys", "lz4-sys", "zstd-sys"] {
        let (ours, theirs) = (locked(workspace.1, name), locked(archive.1, name));
        if ours.is_empty() || ours != theirs {
            faults.push(format!(
                "xtask/rocksdb/Cargo.lock: {name} {theirs:?}, in Cargo.lock {ours:?}"
            ));
        }
    }
    faults
}

fn requirement<'a>(manifest: &'a str, name: &str) -> Option<&'a str> {
    let line = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(" = "));
    manifest.lines().find(line).and_then(|line| line.split_once(" = ")).map(|(_, asked)| asked)
}

fn locked<'a>(lock: &'a str, name: &str) -> Vec<&'a str> {
    let wanted = format!("name = \"{name}\"");
    let mut versions = Vec::new();
    let mut lines = lock.lines();
    while let Some(line) = lines.next() {
        if line == wanted {
            let version = lines.next().and_then(|line| line.split_once(" = "));
            versions.extend(version.map(|(_, version)| version.trim_matches('"')));
        }
    }
    versions
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{PINNED, inherits_lints, layering, pins, same_rocksdb};

    fn crate_with(name: &str, dependency: &str, kind: Option<&str>) -> Value {
        let dependencies = json!([{ "name": dependency, "kind": kind }]);
        json!({ "packages": [{ "name": name, "dependencies": dependencies }] })
    }

    #[test]
    fn layering_finds_what_points_up_or_past_a_door() {
        for (name, dependency, kind) in [
            ("firstclaim-core", "firstclaim-proto", Some("dev")),
            ("firstclaim-proto", "firstclaim-replica", None),
            ("firstclaim-client", "firstclaim-server", None),
            ("firstclaim-replica", "firstclaim-server", Some("dev")),
            ("firstclaim-bench", "firstclaim-cli", None),
            ("firstclaim-server", "openraft", None),
            ("firstclaim-tests", "rocksdb", Some("dev")),
            ("firstclaim-replica", "clap", Some("build")),
            ("firstclaim-core", "tokio", None),
            ("firstclaim-cluster-sim", "firstclaim-server", None),
            ("firstclaim-cluster-sim", "openraft", None),
            ("firstclaim-unknown", "serde", None),
        ] {
            let found = layering(&crate_with(name, dependency, kind));
            assert_eq!(found.len(), 1, "{name} on {dependency}: {found:?}");
        }
        assert_eq!(layering(&json!({ "packages": [] })).len(), 1);
    }

    #[test]
    fn layering_leaves_what_is_in_order() {
        for (name, dependency, kind) in [
            ("firstclaim-core", "proptest", Some("dev")),
            ("firstclaim-core", "serde", None),
            ("firstclaim-cli", "clap", None),
            ("firstclaim-server", "firstclaim-replica", None),
            ("firstclaim-cluster-sim", "firstclaim-replica", None),
        ] {
            assert_eq!(layering(&crate_with(name, dependency, kind)), [""; 0]);
        }
    }

    #[test]
    fn lints_are_inherited_or_missed() {
        assert!(inherits_lints("[package]\nname = \"a\"\n\n[lints]\nworkspace = true\n"));
        assert!(!inherits_lints("[package]\nversion.workspace = true\n"));
        assert!(!inherits_lints("[lints]\nworkspace = false\n"));
    }

    #[test]
    fn a_loosened_or_doubled_pin_is_found() {
        let manifest = |sign: &str| {
            PINNED.map(|(name, version)| format!("{name} = \"{sign}{version}\"\n")).concat()
        };
        let lock = PINNED
            .map(|(name, version)| format!("name = \"{name}\"\nversion = \"{version}\"\n"))
            .concat();
        let second = "name = \"quorum-set\"\nversion = \"0.2.4\"\n";
        assert_eq!(pins(&manifest("="), &lock), [""; 0]);
        assert_eq!(pins(&manifest(""), &lock).len(), PINNED.len());
        assert_eq!(pins(&manifest("="), "").len(), PINNED.len());
        assert_eq!(pins(&manifest("="), &(lock + second)).len(), 1);
    }

    #[test]
    fn another_rocksdb_in_the_archive_is_found() {
        let manifest = |features: &str| format!("rocksdb = {{ features = [{features}] }}\n");
        let lock = |lz4: &str| {
            format!(
                "name = \"rocksdb\"\nversion = \"1\"\nname = \"librocksdb-sys\"\nversion = \"1\"\n\
                 name = \"lz4-sys\"\nversion = \"{lz4}\"\nname = \"zstd-sys\"\nversion = \"1\"\n"
            )
        };
        let ours = (manifest("\"lz4\""), lock("1"));
        let same = (ours.0.as_str(), ours.1.as_str());
        assert_eq!(same_rocksdb(same, same), [""; 0]);
        assert_eq!(same_rocksdb(same, (&manifest(""), &ours.1)).len(), 1);
        assert_eq!(same_rocksdb(same, (&ours.0, &lock("2"))).len(), 1);
        assert_eq!(same_rocksdb(("", ""), ("", "")).len(), 5);
    }
}
