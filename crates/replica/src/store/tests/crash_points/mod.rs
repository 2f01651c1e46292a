//! The power fails, or the disk refuses, at every single call of a script that does all that a store can
//! do: votes, appends, truncations, applies, snapshots, purges, snapshots of other nodes, and starts.
//!
//! ```text
//! tree       files and folders, and what of them a loss of power leaves
//! disk       counts the calls, keeps each moment, and fails at the one that was planned
//! fs         std::fs on such a disk: what `file.rs` uses in tests
//! journal    a database on it, which promises what RocksDB does
//! node       drives a store through the script, and notes in the ledger what it acknowledged
//! check      opens what is left, and says what is wrong with it
//! alike      shows that such a disk does what a real one does
//! ```
//!
//! After each crash the folder must open, hold all that was acknowledged before, and go on to the end of
//! the log. By default one seed is played, and each call meets a share of what may happen there, in turn.
//! `FIRSTCLAIM_CRASH_SEEDS=N` plays N seeds and all of it. A failure prints the seed, the call and what
//! happened; `FIRSTCLAIM_CRASH="SEED CALL"` plays only that.

mod alike;
mod check;
mod disk;
pub(crate) mod fs;
mod journal;
mod ledger;
mod node;
mod tree;
mod world;

use std::future::Future;
use std::path::Path;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use check::{END, Verdict, check, interrupt};
use disk::{Fault, Moment};
pub(crate) use journal::Journal;
use ledger::Ledger;
use node::{Node, script};
use tree::{Survives, Tree};
use world::{World, put_disk};

/// A second crash comes within so many calls of the start after the first.
const CALLS_OF_A_START: u64 = 130;

const FINDINGS_SHOWN: usize = 12;

/// The seed and the call to play, if only those.
fn chosen() -> Option<(u64, u64)> {
    let text = std::env::var("FIRSTCLAIM_CRASH").ok()?;
    let mut numbers = text.split_whitespace().map(|word| word.parse().expect("a number"));
    Some((numbers.next().expect("a seed"), numbers.next().expect("a call")))
}

fn seeds() -> Vec<u64> {
    if let Some((seed, _)) = chosen() {
        return vec![seed];
    }
    let count = std::env::var("FIRSTCLAIM_CRASH_SEEDS").map(|text| text.parse().expect("a number"));
    (0..count.unwrap_or(1)).collect()
}

/// Whether a call is to be played in a variant: in all of them, or else in every so manieth.
fn is_chosen(call: u64, variant: u64, every: u64) -> bool {
    match chosen() {
        Some((_, chosen)) => chosen == call,
        None => is_thorough() || (call + variant).is_multiple_of(every),
    }
}

fn is_thorough() -> bool {
    std::env::var("FIRSTCLAIM_CRASH_SEEDS").is_ok()
}

fn dice(seed: u64, call: u64, variant: u64) -> StdRng {
    StdRng::seed_from_u64(seed.wrapping_mul(1_000_003) ^ (call << 8) ^ variant)
}

/// What went wrong, each with how to play it again.
#[derive(Default)]
struct Findings(Vec<String>);

impl Findings {
    fn note(&mut self, seed: u64, call: u64, what: &str, verdict: Verdict) {
        if let Err(error) = verdict {
            self.0.push(format!("FIRSTCLAIM_CRASH=\"{seed} {call}\", {what}: {error}"));
        }
    }

    /// Ends the test if there are any, with the first of them.
    fn judge(&self) {
        let (count, first) = (self.0.len(), self.0.iter().take(FINDINGS_SHOWN));
        let first: Vec<_> = first.map(String::as_str).collect();
        assert!(count == 0, "{count} crashes went wrong:\n{}", first.join("\n"));
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(future)
}

/// Plays the script on a disk that does what it is asked.
async fn record(world: &World, root: &Path) -> (Vec<Moment>, Ledger, u64) {
    let disk = put_disk(root, Tree::default());
    disk.record();
    let mut node = Node::new(world, root, disk, Ledger::default());
    node.run(&script(world)).await.expect("nothing was refused");
    let end = Moment {
        before: node.disk.calls() + 1,
        call: "the end".to_owned(),
        tree: node.disk.peek(Tree::clone),
    };
    let mut moments = node.disk.moments();
    moments.push(end);
    (moments, node.ledger.clone(), node.disk.calls())
}

#[test]
fn a_power_cut_at_any_call_loses_nothing_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let mut findings = Findings::default();
    block_on(async {
        for seed in seeds() {
            let world = World::new(seed).await;
            let (moments, ledger, _) = record(&world, dir.path()).await;
            for Moment { before, call, tree } in &moments {
                for (variant, survives) in (0..).zip(Survives::ALL) {
                    if is_chosen(*before, variant, 2) {
                        let left =
                            tree.after_power_cut(survives, &mut dice(seed, *before, variant));
                        let verdict = check(&world, dir.path(), left, &ledger, *before).await;
                        let what = format!("before \"{call}\", {survives:?} survives");
                        findings.note(seed, *before, &what, verdict);
                    }
                }
            }
        }
    });
    findings.judge();
}

#[test]
fn a_power_cut_of_the_start_after_a_crash_loses_nothing_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let mut findings = Findings::default();
    block_on(async {
        for seed in seeds() {
            let world = World::new(seed).await;
            let (moments, ledger, _) = record(&world, dir.path()).await;
            for Moment { before, call, tree } in &moments {
                for (variant, killed) in [(100, true), (101, false)] {
                    if !is_chosen(*before, variant, 2) {
                        continue;
                    }
                    let mut random = dice(seed, *before, variant);
                    // Who is only killed leaves all of it, but not all of it synced.
                    let left = if killed {
                        tree.clone()
                    } else {
                        tree.after_power_cut(Survives::Some, &mut random)
                    };
                    let second = random.random_range(1..=CALLS_OF_A_START);
                    let what = format!(
                        "before \"{call}\", killed: {killed}, and again at call {second} of the start"
                    );
                    let cut = (*before, second);
                    let verdict = match interrupt(&world, dir.path(), left, &ledger, cut).await {
                        Ok((tree, ledger, before)) => {
                            let left = tree.after_power_cut(Survives::Some, &mut random);
                            check(&world, dir.path(), left, &ledger, before).await
                        }
                        Err(error) => Err(error),
                    };
                    findings.note(seed, *before, &what, verdict);
                }
            }
        }
    });
    findings.judge();
}

#[test]
fn an_error_at_any_call_is_reported_and_loses_nothing_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let mut findings = Findings::default();
    block_on(async {
        for seed in seeds() {
            let world = World::new(seed).await;
            let (_, _, calls) = record(&world, dir.path()).await;
            let faults = Fault::ERRORS.map(|fault| [(fault, false), (fault, true)]);
            let faults: Vec<_> = (200..).zip(faults.concat()).collect();
            for call in 1..=calls {
                for (variant, (fault, power_cut)) in &faults {
                    if is_chosen(call, *variant, 6) {
                        let random = power_cut.then(|| dice(seed, call, *variant));
                        let verdict = refuse(&world, dir.path(), (call, *fault), random).await;
                        let what = format!("{fault:?}, then a power cut: {power_cut}");
                        findings.note(seed, call, &what, verdict);
                    }
                }
            }
        }
    });
    findings.judge();
}

/// Plays the script until the error is reported, then ends the process, or with some dice the power.
async fn refuse(
    world: &World,
    root: &Path,
    (call, fault): (u64, Fault),
    power_cut: Option<StdRng>,
) -> Verdict {
    let disk = put_disk(root, Tree::default());
    disk.plan(call, fault);
    let mut node = Node::new(world, root, disk, Ledger::default());
    let end = node.run(&script(world)).await;
    let met = node.disk.met().ok_or_else(|| format!("it was never met: {end:?}"))?;
    let left = node.disk.end_process();
    // A link that cannot be made becomes a copy. What could not be removed is gone at the next start.
    let harmless = met.starts_with("link ") || met.starts_with("remove ");
    if end.is_ok() && node.reported.is_none() && !harmless {
        return Err(format!("the error of \"{met}\" was swallowed"));
    }
    let ledger = node.ledger.clone();
    drop(node);
    let left = match power_cut {
        Some(mut random) => left.after_power_cut(Survives::Some, &mut random),
        None => left,
    };
    let verdict = check(world, root, left, &ledger, END).await;
    verdict.map_err(|error| format!("\"{met}\" was refused: {error}"))
}
