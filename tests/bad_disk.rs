//! A disk that is full, fails, or has changed what it holds: its node stops with one clear line, or nothing
//! has come of it. The others go on, and in the end all nodes say the same.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use firstclaim_client::v1;
use firstclaim_tests::cluster::Cluster;
use firstclaim_tests::disks::Disks;
use firstclaim_tests::forgetful::{Mood, Mounted};
use firstclaim_tests::race::{self, Race};
use firstclaim_tests::{Outcome, readback, say, seed, verdict};
use rand::Rng as _;
use rand::rngs::StdRng;
use tokio::time::{Instant, sleep};

const LANES: u64 = 6;
const RECOVERS_WITHIN: Duration = Duration::from_secs(40);
const ENDS_WITHIN: Duration = Duration::from_secs(30);
const STARTS_WITHIN: Duration = Duration::from_secs(30);

/// It needs FUSE and the right to mount; where there is none, it says so and checks nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_or_failing_disk_stops_its_node_and_loses_nothing() {
    if let Err(reason) = Mounted::is_possible() {
        say(&format!("bad_disk: SKIPPED, nothing was checked: {reason}"));
        return;
    }
    let seed = seed::take("bad_disk").expect("take a seed");
    let mut cluster = Cluster::prepare("bad-disk").unwrap_or_else(|fault| panic!("{fault}"));
    let disks = Disks::give(&cluster).unwrap_or_else(|fault| panic!("{fault}"));
    let told = moods(&mut cluster, &disks, seed).await;
    if let Err(fault) = told {
        panic!("{}", cluster.explain(&fault));
    }
    cluster.kill_all();
}

async fn moods(cluster: &mut Cluster, disks: &Disks, seed: u64) -> Outcome<()> {
    for at in 0..cluster.nodes().len() {
        cluster.start_node(at)?;
    }
    cluster.wait_ready().await?;
    race::set_up(cluster).await?;
    let race = Race::start(cluster, seed, LANES);
    for mood in [Mood::Full, Mood::Failing] {
        race.progress(20, RECOVERS_WITHIN).await?;
        let at = cluster.leader().await?;
        disks.set_mood(at, mood);
        let process = cluster.node_mut(at).process().ok_or("the leader does not run")?;
        let Some(status) = process.wait(ENDS_WITHIN).await else {
            return Err(format!("a node on a disk that is {mood:?} goes on").into());
        };
        let output = cluster.node(at).output();
        let said = output.lines().rev().find(|line| line.contains("ERROR")).unwrap_or_default();
        say(&format!("bad_disk: {mood:?}: {status}: {said}"));
        if status.success() || !said.contains("raftlog") && !said.contains("state") {
            return Err(format!("{mood:?}: no error names the folder:\n{output}").into());
        }
        cluster.node_mut(at).kill();
        race.progress(20, RECOVERS_WITHIN).await?;
        disks.set_mood(at, Mood::Good);
        cluster.start_node(at)?;
        cluster.wait_ready().await?;
    }
    race.progress(20, RECOVERS_WITHIN).await?;
    verdict::judge("bad_disk", cluster, race).await?;
    Ok(())
}

/// What came of a changed file.
enum Came {
    /// The node did not start, and said why.
    Refused(String),
    /// It started, and said so when it read what was changed.
    Found(String),
    /// Its state is the same as that of the others.
    ToNothing,
}

const NOTHING: &str = "nothing came of it";

/// How a file is changed.
#[derive(Clone, Copy, Debug)]
enum Damage {
    Flip,
    Cut,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_file_is_found_or_nothing_comes_of_it() {
    let seed = seed::take("changed_files").expect("take a seed");
    let mut cluster = Cluster::start("changed").await.unwrap_or_else(|fault| panic!("{fault}"));
    if let Err(fault) = change_files(&mut cluster, seed).await {
        panic!("{}", cluster.explain(&fault));
    }
}

async fn change_files(cluster: &mut Cluster, seed: u64) -> Outcome<()> {
    let mut chance = seed::chance(seed, 0);
    race::set_up(cluster).await?;
    let race = Race::start(cluster, seed, LANES);
    race.progress(150, RECOVERS_WITHIN).await?;
    let at = 2;
    let mut operations = cluster.node(at).operations();
    operations.trigger_snapshot(v1::TriggerSnapshotRequest {}).await?;
    race.progress(50, RECOVERS_WITHIN).await?;
    verdict::judge("changed_files", cluster, race).await?;
    cluster.node_mut(at).stop().await?;

    let data = cluster.node(at).data.clone();
    let kept = data.with_extension("kept");
    copy(&data, &kept)?;
    let mut files = Vec::new();
    walk(&kept, &mut files)?;
    let (mut noticed, mut harmless) = (0, 0);
    for file in files {
        let name = file.strip_prefix(&kept)?;
        for damage in [Damage::Flip, Damage::Cut] {
            // Whatever a start has done to the folder, the next one gets it as it was.
            fs::remove_dir_all(&data)?;
            copy(&kept, &data)?;
            let file = data.join(name);
            let whole = fs::read(&file).unwrap_or_default();
            let Some(change) = change(&file, damage, &mut chance)? else { continue };
            let changed = fs::read(&file)?;
            let came = start(cluster, at).await;
            let came = came.map_err(|fault| format!("{} {change}: {fault}", name.display()))?;
            let (served, came) = match came {
                Came::Refused(said) => (false, said),
                Came::Found(said) => (true, said),
                Came::ToNothing => (true, NOTHING.to_owned()),
            };
            if served {
                // It may have acknowledged more, and a folder is never set back: this is how it is from now
                // on, but for the change.
                if fs::read(&file).is_ok_and(|found| found == changed) {
                    fs::write(&file, whole)?;
                }
                fs::remove_dir_all(&kept)?;
                copy(&data, &kept)?;
            }
            noticed += usize::from(came != NOTHING);
            harmless += usize::from(came == NOTHING);
            say(&format!("changed_files: {} {change}: {came}", name.display()));
        }
    }
    say(&format!("changed_files: {noticed} changes were noticed, {harmless} came to nothing"));
    if noticed < 5 {
        return Err(format!("only {noticed} changes were noticed").into());
    }
    Ok(())
}

/// A member's folder is set back to a copy of it: it has lost what it acknowledged. Nobody else stops for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_that_is_set_back_stops_nobody_else() {
    let seed = seed::take("set_back").expect("take a seed");
    let mut cluster = Cluster::start("set-back").await.unwrap_or_else(|fault| panic!("{fault}"));
    if let Err(fault) = set_back(&mut cluster, seed).await {
        panic!("{}", cluster.explain(&fault));
    }
}

async fn set_back(cluster: &mut Cluster, seed: u64) -> Outcome<()> {
    race::set_up(cluster).await?;
    let race = Race::start(cluster, seed, LANES);
    race.progress(20, RECOVERS_WITHIN).await?;
    let leader = cluster.leader().await?;
    let at = (leader + 1) % cluster.nodes().len();
    let data = cluster.node(at).data.clone();
    let kept = data.with_extension("kept");
    cluster.node_mut(at).stop().await?;
    copy(&data, &kept)?;
    cluster.start_node(at)?;
    cluster.wait_ready().await?;
    race.progress(20, RECOVERS_WITHIN).await?;
    cluster.node_mut(at).kill();
    fs::remove_dir_all(&data)?;
    copy(&kept, &data)?;
    cluster.start_node(at)?;
    let begun = Instant::now();
    let says = "a member has lost log entries that it had acknowledged";
    while !cluster.node(leader).output().contains(says) {
        if begun.elapsed() > STARTS_WITHIN {
            return Err("the leader does not say that a member was set back".into());
        }
        sleep(Duration::from_millis(100)).await;
    }
    race.progress(50, RECOVERS_WITHIN).await?;
    if cluster.leader().await? != leader {
        return Err("the leader has not survived it".into());
    }
    // It is of no use any more; the others have all that was acknowledged.
    cluster.node_mut(at).kill();
    race.progress(20, RECOVERS_WITHIN).await?;
    Ok(())
}

/// Changes a file, and says how. None if there is nothing in it to change, or nothing is read from it.
fn change(file: &Path, damage: Damage, chance: &mut StdRng) -> Outcome<Option<String>> {
    // RocksDB renames and replaces its files at every start.
    let Ok(mut bytes) = fs::read(file) else { return Ok(None) };
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    if bytes.is_empty() || name == "LOG" || name.starts_with("LOG.old") {
        return Ok(None);
    }
    let at = chance.random_range(0..bytes.len());
    let change = match damage {
        Damage::Flip => {
            let bit = chance.random_range(0..8);
            bytes[at] ^= 1 << bit;
            format!("with bit {bit} of byte {at} flipped")
        }
        Damage::Cut => {
            let length = bytes.len();
            bytes.truncate(at);
            format!("cut to {at} of {length} bytes")
        }
    };
    fs::write(file, bytes)?;
    Ok(Some(change))
}

/// Starts a node on a folder that was changed, and stops it again.
async fn start(cluster: &mut Cluster, at: usize) -> Outcome<Came> {
    cluster.start_node(at)?;
    let begun = Instant::now();
    loop {
        let process = cluster.node_mut(at).process().ok_or("it does not run")?;
        if let Some(status) = process.ended() {
            cluster.node_mut(at).kill();
            let output = cluster.node(at).output();
            let told = output.lines().rev().find(|line| !line.trim().is_empty());
            let told = told.unwrap_or_default().to_owned();
            if status.success() || output.contains("panicked") || !told.contains("node-") {
                return Err(format!("it ended with {status} and no clear word:\n{output}").into());
            }
            return Ok(Came::Refused(told));
        }
        if cluster.node(at).status().await.is_ok_and(|status| status.ready) {
            let same = readback::same_state(cluster).await;
            let stopped = cluster.node_mut(at).stop().await;
            // What is only read when it is asked for may be found then, and not before.
            let output = cluster.node(at).output();
            let told = output.lines().find(|line| line.contains("is damaged"));
            return match (same, told) {
                (Err(_), Some(told)) => Ok(Came::Found(told.to_owned())),
                (Err(fault), None) => Err(fault),
                (Ok(_), _) => stopped.map(|()| Came::ToNothing),
            };
        }
        if begun.elapsed() > STARTS_WITHIN {
            return Err(format!("it neither serves nor ends\n{}", cluster.node(at).tail()).into());
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// All files in a folder, in the order of their names.
fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> Outcome<()> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        paths.push(entry?.path());
    }
    paths.sort();
    for path in paths {
        if path.is_dir() {
            walk(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Outcome<()> {
    let mut files = Vec::new();
    walk(from, &mut files)?;
    for file in files {
        let copied = to.join(file.strip_prefix(from)?);
        fs::create_dir_all(copied.parent().unwrap_or(to))?;
        fs::copy(&file, copied)?;
    }
    // Folders without a file are made at the next start.
    Ok(())
}
