//! `firstclaim run`: what is run once, what a repeat prints, and what a crash leaves.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use crate::shell::{Ran, Shell, eventually, ran};
use rustix::process::{Pid, Signal, kill_process};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_runs_once_for_its_key() {
    let shell = Shell::start().await;
    let folder = tempfile::tempdir().unwrap();
    a_repeat_prints_what_the_first_run_printed(&shell, folder.path()).await;
    another_command_line_is_another_request(&shell, folder.path()).await;
    a_crash_leaves_it_unresolved_unless_a_lapse_means_takeover(&shell, folder.path()).await;
    codes_may_mean_that_nothing_happened_or_that_nobody_knows(&shell, folder.path()).await;
    what_cannot_be_started_did_not_happen(&shell, folder.path()).await;
    the_lease_is_renewed_and_others_wait(&shell, folder.path()).await;
    signals_are_passed_on(&shell).await;
    what_is_too_long_is_told_and_not_kept(&shell).await;
    shell.end().await;
}

/// Runs a line of shell under a key. `{log}` in it is a file of the key that counts runs.
async fn run(shell: &Shell, folder: &Path, key: &str, flags: &[&str], line: &str) -> Ran {
    let log = folder.join(key);
    let line = format!("echo run >> '{}'; {line}", log.display());
    let args = [&["run", "-K", key][..], flags, &["--", "sh", "-c", &line]].concat();
    shell.run(&args).await
}

fn runs(folder: &Path, key: &str) -> usize {
    fs::read_to_string(folder.join(key)).unwrap_or_default().lines().count()
}

async fn a_repeat_prints_what_the_first_run_printed(shell: &Shell, folder: &Path) {
    for (key, code) in [("ok", 0), ("bad", 3)] {
        let line = format!("echo transfer tx_1; echo talk >&2; exit {code}");
        for _ in 0..2 {
            let ran = run(shell, folder, key, &[], &line).await;
            assert_eq!((ran.code, ran.stdout.as_str()), (code, "transfer tx_1\n"), "{ran:?}");
        }
        assert_eq!(runs(folder, key), 1);
        let again = run(shell, folder, key, &[], &line).await;
        assert!(again.stderr.contains("replayed") && !again.stderr.contains("talk"), "{again:?}");
    }
    let record = shell.json(0, &["record", "show", "-K", "bad"]).await;
    assert_eq!(record["disposition"], "FAILED");
}

async fn another_command_line_is_another_request(shell: &Shell, folder: &Path) {
    let ran = run(shell, folder, "ok", &[], "echo something else").await;
    assert_eq!((ran.code, ran.stdout.as_str()), (13, ""), "{ran:?}");
    assert!(ran.stderr.contains("FINGERPRINT_MISMATCH"), "{ran:?}");
    // The caller's own request makes two spellings of a command the same.
    let named = ["--request", "pay 847"];
    assert_eq!(run(shell, folder, "named", &named, "exit 0").await.code, 0);
    assert_eq!(run(shell, folder, "named", &named, "exit 0 # again").await.code, 0);
    assert_eq!(runs(folder, "named"), 1);
}

async fn a_crash_leaves_it_unresolved_unless_a_lapse_means_takeover(shell: &Shell, folder: &Path) {
    let crash = run(shell, folder, "crash", &[], "kill -9 $$").await;
    assert_eq!(crash.code, 137, "{crash:?}");
    assert!(crash.stderr.contains("firstclaim unresolved show"), "{crash:?}");
    assert_eq!(run(shell, folder, "crash", &[], "kill -9 $$").await.code, 12);
    assert_eq!(runs(folder, "crash"), 1);

    let lax = ["namespace", "create", "lax", "--on-lapse", "takeover", "--lease-default", "1s"];
    shell.ok(&lax).await;
    // The first run crashes, every further one succeeds.
    let log = folder.join("lax");
    let line = format!("[ $(wc -l < '{}') -gt 1 ] || kill -9 $$; echo done", log.display());
    let flags = ["-n", "lax"];
    assert_eq!(run(shell, folder, "lax", &flags, &line).await.code, 137);
    eventually("a run that takes over", async || {
        let ran = run(shell, folder, "lax", &flags, &line).await;
        assert!([0, 11].contains(&ran.code), "{ran:?}");
        ran.code == 0
    })
    .await;
    assert_eq!(runs(folder, "lax"), 2);
}

async fn codes_may_mean_that_nothing_happened_or_that_nobody_knows(shell: &Shell, folder: &Path) {
    let flags = ["--retry-on", "75", "--unknown-on", "70,71"];
    for _ in 0..2 {
        assert_eq!(run(shell, folder, "retry", &flags, "exit 75").await.code, 75);
    }
    assert_eq!(runs(folder, "retry"), 2);
    assert_eq!(run(shell, folder, "unknown", &flags, "exit 71").await.code, 71);
    assert_eq!(run(shell, folder, "unknown", &flags, "exit 71").await.code, 12);
    assert_eq!(runs(folder, "unknown"), 1);
}

async fn what_cannot_be_started_did_not_happen(shell: &Shell, folder: &Path) {
    let missing = folder.join("later.sh");
    let path = missing.to_str().unwrap();
    let args = ["run", "-K", "late", "--", path];
    assert_eq!(shell.run(&args).await.code, 127);
    fs::write(&missing, "#!/bin/sh\necho now\n").unwrap();
    assert_eq!(shell.run(&args).await.code, 126, "it is not executable");
    let line = "chmod +x \"$1\"";
    let status = std::process::Command::new("sh").args(["-c", line, "sh", path]).status().unwrap();
    assert!(status.success());
    assert_eq!(shell.ok(&args).await, "now\n");
}

async fn the_lease_is_renewed_and_others_wait(shell: &Shell, folder: &Path) {
    let long = ["--lease", "1s"];
    let first = run(shell, folder, "long", &long, "sleep 3; echo slept");
    let second = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        run(shell, folder, "long", &["--lease", "1s", "--wait", "20s"], "sleep 3; echo slept").await
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!((first.code, second.code), (0, 0), "{first:?} {second:?}");
    assert_eq!((first.stdout.as_str(), second.stdout.as_str()), ("slept\n", "slept\n"));
    assert_eq!(runs(folder, "long"), 1);
    let record = shell.json(0, &["record", "show", "-K", "long"]).await;
    assert_eq!(record["late"], false);
}

async fn signals_are_passed_on(shell: &Shell) {
    let line = "trap 'echo heard; exit 0' TERM; echo ready; while :; do sleep 0.1; done";
    let mut command = shell.command(&["run", "-K", "signal", "--", "sh", "-c", line]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let id = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    let output = tokio::task::spawn_blocking(move || {
        let mut ready = [0; 6];
        child.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
        assert_eq!(&ready, b"ready\n");
        kill_process(id, Signal::TERM).unwrap();
        child.wait_with_output().unwrap()
    });
    let ended = ran(output.await.unwrap());
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "heard\n"), "{ended:?}");
    let again = shell.run(&["run", "-K", "signal", "--", "sh", "-c", line]).await;
    assert_eq!(again.stdout, "ready\nheard\n");
}

async fn what_is_too_long_is_told_and_not_kept(shell: &Shell) {
    let line = "head -c 2000000 /dev/zero | tr '\\0' x; exit 4";
    let args = ["run", "-K", "much", "--", "sh", "-c", line];
    let first = shell.run(&args).await;
    assert_eq!((first.code, first.stdout.len()), (4, 2_000_000));
    let again = shell.run(&args).await;
    assert_eq!((again.code, again.stdout.as_str()), (4, ""));
    assert!(again.stderr.contains("2000000 bytes"), "{}", again.stderr);
}
