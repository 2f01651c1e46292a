//! Records from the command line: shown, listed, watched, explained, purged, reserved.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::shell::{Shell, eventually, text};
use serde_json::Value;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_are_shown_watched_and_purged() {
    let shell = Shell::start().await;
    the_past_of_a_record_is_told(&shell).await;
    lists_are_filtered_and_paged(&shell).await;
    a_purged_record_still_answers_done(&shell).await;
    a_rule_is_named_with_its_inputs(&shell).await;
    keys_are_reserved_and_admitted(&shell).await;
    a_claim_may_complete_at_once(&shell).await;
    a_watch_shows_what_happens(&shell).await;
    existing_records_are_kept_longer(&shell).await;
    shell.end().await;
}

async fn complete(shell: &Shell, key: &str, result: &str) -> String {
    let (epoch, attempt) = shell.claim(key).await;
    let holder = ["complete", "-K", key, "--epoch", &epoch, "--attempt", &attempt];
    shell.ok(&[&holder[..], &["--succeeded", "--result", result]].concat()).await;
    epoch
}

async fn the_past_of_a_record_is_told(shell: &Shell) {
    complete(shell, "r1", "tx_1").await;
    shell.code(10, &["claim", "-K", "r1", "--request", "r1", "--label", "delivery=2"]).await;
    let mut last = Value::Null;
    eventually("the replay in the history", async || {
        last = shell.json(0, &["record", "history", "-K", "r1"]).await;
        last["counts"]["REPLAY"].as_u64() == Some(1)
    })
    .await;
    assert_eq!(last["attempts"][0]["acquired"], "FIRST");
    assert_eq!(last["attempts"][0]["ending"], "SUCCEEDED");
    assert_eq!(last["sightings"][0]["labels"]["delivery"], "2");
    let table = shell.ok(&["record", "history", "-K", "r1"]).await;
    assert!(table.contains("acquired FIRST") && table.contains("delivery=2"), "{table}");
    shell.code(5, &["record", "history", "-K", "never-seen"]).await;
}

async fn lists_are_filtered_and_paged(shell: &Shell) {
    for key in ["l1", "l2", "l3"] {
        shell.claim(key).await;
    }
    let all = shell.json(0, &["record", "list", "--prefix", "l"]).await;
    let keys: Vec<_> =
        all["records"].as_array().unwrap().iter().map(|it| text(&it["key"])).collect();
    assert_eq!(keys, ["l1", "l2", "l3"]);
    let list = ["record", "list", "--prefix", "l", "--limit", "2"];
    let first = shell.json(0, &list).await;
    assert_eq!(first["records"].as_array().unwrap().len(), 2);
    let token = text(&first["nextPageToken"]);
    let rest = shell.json(0, &[&list[..], &["--page-token", &token]].concat()).await;
    assert_eq!(rest["records"][0]["key"], "l3");
    let done = shell.json(0, &["record", "list", "--prefix", "l", "--state", "completed"]).await;
    assert_eq!(done["records"].as_array().unwrap().len(), 0);
    let parked = shell.json(0, &["parked", "list"]).await;
    assert_eq!(parked["records"].as_array().unwrap().len(), 0);
}

async fn a_purged_record_still_answers_done(shell: &Shell) {
    let epoch = complete(shell, "p1", "personal").await;
    let purge = ["record", "purge", "-K", "p1", "--reason", "erasure 12", "--epoch"];
    assert_eq!(shell.reason(6, &[&purge[..], &["1"]].concat()).await, "NOT_PURGEABLE");
    shell.ok(&[&purge[..], &[&epoch]].concat()).await;
    let replay = shell.json(10, &["claim", "-K", "p1", "--request", "p1"]).await;
    assert_eq!(replay["resultDropped"], true);
    assert!(!replay.to_string().contains("personal"), "{replay}");
}

async fn a_rule_is_named_with_its_inputs(shell: &Shell) {
    let explain = ["explain", "r1", "--request"];
    let replay = shell.json(0, &[&explain[..], &["r1"]].concat()).await;
    assert_eq!(replay["row"], 3, "{replay}");
    let mismatch = shell.json(0, &[&explain[..], &["other"]].concat()).await;
    assert_eq!(
        (&mismatch["row"], &mismatch["outcome"]),
        (&1.into(), &"FINGERPRINT_MISMATCH".into())
    );
    let first = shell.json(0, &["explain", "fresh", "--request", "x"]).await;
    assert_eq!(first["row"], 18, "{first}");
    assert_eq!(first["record"], Value::Null);
    // It has claimed nothing.
    shell.code(5, &["get", "-K", "fresh"]).await;
}

async fn keys_are_reserved_and_admitted(shell: &Shell) {
    let strict = ["namespace", "create", "strict", "--reserve", "required"];
    shell.ok(&strict).await;
    let claim = ["claim", "-n", "strict", "-K", "k1", "--request", "x"];
    assert_eq!(shell.reason(1, &claim).await, "KEY_NOT_RESERVED");
    let reserve = ["reserve", "-n", "strict", "-K", "k1", "--request", "x", "--label", "order=1"];
    let answer = shell.json(0, &reserve).await;
    assert_eq!((&answer["created"], &answer["state"]), (&true.into(), &"RESERVED".into()));
    assert_eq!(shell.json(0, &reserve).await["created"], false);
    assert_eq!(shell.json(0, &claim).await["acquired"], "FIRST");
    let admit = ["admit", "-K", "a1", "--request", "x", "--reason", "it never ran"];
    assert_eq!(shell.json(0, &admit).await["state"], "RESERVED");
    let record = shell.json(0, &["record", "show", "-K", "a1"]).await;
    assert_eq!(record["admitReason"], "it never ran");
}

async fn a_claim_may_complete_at_once(shell: &Shell) {
    let claim = ["claim", "-K", "o1", "--request", "x", "--complete-with", "tx_9"];
    let done = shell.json(0, &claim).await;
    assert_eq!(
        (&done["outcome"], &done["disposition"]),
        (&"COMPLETED".into(), &"SUCCEEDED".into())
    );
    let replay = shell.json(10, &["claim", "-K", "o1", "--request", "x"]).await;
    assert_eq!(replay["result"]["text"], "tx_9");
}

async fn a_watch_shows_what_happens(shell: &Shell) {
    let (epoch, attempt) = shell.claim("w1").await;
    let mut watch = shell.command(&["record", "watch", "-K", "w1", "-o", "json"]);
    let mut watch = watch.stdout(Stdio::piped()).spawn().unwrap();
    let stdout = watch.stdout.take().unwrap();
    let lines = tokio::task::spawn_blocking(move || {
        BufReader::new(stdout).lines().map(Result::unwrap).collect::<Vec<_>>()
    });
    let holder = ["complete", "-K", "w1", "--epoch", &epoch, "--attempt", &attempt];
    shell.ok(&[&holder[..], &["--succeeded"]].concat()).await;
    let lines = lines.await.unwrap();
    let status = tokio::task::spawn_blocking(move || watch.wait()).await.unwrap().unwrap();
    assert_eq!(status.code(), Some(0));
    let last: Value = serde_json::from_str(lines.last().unwrap()).unwrap();
    assert_eq!((&last["kind"], &last["state"]), (&"RecordChange".into(), &"COMPLETED".into()));
}

async fn existing_records_are_kept_longer(shell: &Shell) {
    let before = shell.json(0, &["record", "show", "-K", "r1"]).await;
    shell.ok(&["namespace", "set", "--identity-retention", "60d"]).await;
    let answer = shell.json(0, &["namespace", "extend-existing"]).await;
    assert!(answer["extended"].as_u64().unwrap() >= 1, "{answer}");
    let after = shell.json(0, &["record", "show", "-K", "r1"]).await;
    assert!(
        text(&after["identityExpireTime"]) > text(&before["identityExpireTime"]),
        "{before} {after}"
    );
    let again = shell.json(0, &["namespace", "extend-existing"]).await;
    assert_eq!(again["extended"], 0);
}
