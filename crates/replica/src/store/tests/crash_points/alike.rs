//! The simulated disk answers and holds what a real one does, whatever is asked of them, and loses what
//! was not synced and nothing else.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::Path;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::fs::{self, File};
use super::tree::{Survives, Tree};
use super::world::put_disk;

fn strings(path: &str) -> Vec<String> {
    path.split('/').map(str::to_owned).collect()
}

/// All files and folders below a real one.
fn all(root: &Path) -> BTreeMap<String, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut left = vec![(String::new(), root.to_path_buf())];
    while let Some((name, path)) = left.pop() {
        if !path.is_dir() {
            found.insert(name, Some(std::fs::read(&path).unwrap()));
            continue;
        }
        for entry in std::fs::read_dir(&path).unwrap() {
            let entry = entry.unwrap();
            let below = entry.file_name().to_string_lossy().into_owned();
            left.push((format!("{name}/{below}"), entry.path()));
        }
        found.insert(name, None);
    }
    found
}

fn draw(random: &mut StdRng) -> (String, String) {
    let mut name = || ["a", "b", "c"][random.random_range(0..3)].to_owned();
    let (dir, one, two) = (name(), name(), name());
    if random.random() { (one, two) } else { (format!("{dir}/{one}"), format!("{dir}/{two}")) }
}

fn ask(root: &Path, kind: u8, (one, two): &(String, String)) -> io::Result<String> {
    let (one, two) = (root.join(one), root.join(two));
    let done = |()| String::new();
    match kind {
        0 => fs::create_dir(one).map(done),
        1 => fs::create_dir_all(one).map(done),
        2 | 3 => {
            let mut file = File::create(one)?;
            file.write_all(&[kind])?;
            file.sync_all().map(done)
        }
        4 => fs::rename(one, two).map(done),
        5 => fs::hard_link(one, two).map(done),
        6 => fs::write(one, [6]).map(done),
        7 => fs::exists(one).map(|found| found.to_string()),
        8 => fs::read(one).map(|content| format!("{content:?}")),
        9 => fs::remove_file(&one).map(done),
        10 => fs::remove_dir_all(one).map(done),
        _ => {
            let names = fs::read_dir(one)?.map(|entry| entry.map(|entry| entry.file_name()));
            let mut names = names.collect::<io::Result<Vec<_>>>()?;
            names.sort();
            Ok(format!("{names:?}"))
        }
    }
}

#[test]
fn a_simulated_disk_does_what_a_real_one_does() {
    let mut succeeded = 0;
    for seed in 0..30 {
        let (real, simulated) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let disk = put_disk(simulated.path(), Tree::default());
        let mut random = StdRng::seed_from_u64(seed);
        for number in 0..60 {
            let (kind, names) = (random.random_range(0..12), draw(&mut random));
            let found = ask(simulated.path(), kind, &names).map_err(|error| error.kind());
            let expected = ask(real.path(), kind, &names).map_err(|error| error.kind());
            assert_eq!(found, expected, "seed {seed}, {number}: {kind} of {names:?}");
            succeeded += u32::from(found.is_ok());
        }
        assert_eq!(disk.peek(Tree::all), all(real.path()), "seed {seed}");
    }
    assert!(succeeded > 500, "only {succeeded} calls did anything");
}

#[test]
fn only_what_was_synced_survives_for_sure() {
    let mut tree = Tree::default();
    let dir = tree.make_dir(&strings("d")).unwrap();
    let synced = tree.create(&strings("d/synced")).unwrap();
    tree.append(synced, b"all").unwrap();
    tree.sync(synced);
    tree.sync(dir);
    tree.sync(0);
    tree.append(synced, b" and more").unwrap();
    let unsynced = tree.create(&strings("d/unsynced")).unwrap();
    tree.append(unsynced, b"some").unwrap();
    let left = |survives| {
        let all = tree.after_power_cut(survives, &mut StdRng::seed_from_u64(1)).all();
        let text = |name| {
            let content: Option<&Vec<u8>> = all.get(name).and_then(Option::as_ref);
            content.map(|bytes| String::from_utf8_lossy(bytes).into_owned())
        };
        (text("/d/synced"), text("/d/unsynced"))
    };
    let pair = |one: &str, two: Option<&str>| (Some(one.to_owned()), two.map(str::to_owned));
    assert_eq!(left(Survives::Nothing), pair("all", None));
    assert_eq!(left(Survives::Everything), pair("all and more", Some("some")));
    assert_eq!(left(Survives::Names), pair("all", Some("")));
    assert_eq!(left(Survives::Contents), pair("all and more", None));
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let left = tree.after_power_cut(Survives::Torn, &mut StdRng::seed_from_u64(seed)).all();
        let content = left["/d/synced"].clone().unwrap();
        assert!(content.starts_with(b"all"), "{content:?}");
        seen.insert(content);
    }
    assert!(seen.len() > 5, "it was torn in only {} ways", seen.len());
}
