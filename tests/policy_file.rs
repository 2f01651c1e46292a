//! `firstclaim apply`, `diff`, `policy check` and `review` against a live cluster: what a file says is
//! so afterwards, faults are shown at their place, and retention is held against what was seen.

use std::fs;
use std::path::Path;
use std::time::Duration;

use firstclaim_client::{ClaimOutcome, ClaimRequest, Client, fingerprint, time};
use firstclaim_tests::Outcome;
use firstclaim_tests::cli::Cli;
use firstclaim_tests::cluster::Cluster;
use tokio::time::{Instant, sleep};

const CALL: Duration = Duration::from_secs(20);
const TOLD_WITHIN: Duration = Duration::from_secs(20);

const FILE: &str = "\
apiVersion: firstclaim/v1
kind: Tenant
metadata: {name: acme}
spec:
  resultRetention: 24h
---
apiVersion: firstclaim/v1
kind: Namespace
metadata: {tenant: acme, name: payouts}
spec:
  identityRetention: 90d
  replayWindows: {dlq_redrive: 14d}
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policies_are_as_the_file_says() {
    let cluster = Cluster::start("policy-file").await.unwrap_or_else(|fault| panic!("{fault}"));
    if let Err(fault) = story(&cluster).await {
        panic!("{}", cluster.explain(&fault));
    }
}

async fn story(cluster: &Cluster) -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("acme.yaml");
    let endpoints = cluster.endpoints();
    let cli = Cli::new(cluster.binary(), &endpoints);
    let client = cluster.client()?;

    fs::write(&path, FILE)?;
    let file = path.to_str().ok_or("a path of text")?;
    let (code, plan) = cli.json(&["diff", "-f", file], CALL).await?;
    assert_eq!((code, verbs(&plan)), (6, vec!["CREATE".to_owned(), "CREATE".to_owned()]));
    let (code, _) = cli.json(&["apply", "-f", file], CALL).await?;
    assert_eq!(code, 0);
    let (code, plan) = cli.json(&["diff", "-f", file], CALL).await?;
    assert_eq!((code, verbs(&plan)), (0, vec!["KEEP".to_owned(), "KEEP".to_owned()]));

    faults(&cli, &path).await?;
    changed(&cli, &path).await?;
    retention(&cli, &client, &path).await?;
    review(&cli, cluster).await
}

fn verbs(plan: &serde_json::Value) -> Vec<String> {
    let changes = plan["changes"].as_array().cloned().unwrap_or_default();
    changes.iter().filter_map(|change| change["verb"].as_str().map(str::to_owned)).collect()
}

/// Faults that the reader sees, and faults that only the cluster sees, at their places.
async fn faults(cli: &Cli<'_>, path: &Path) -> Outcome<()> {
    let file = path.to_str().ok_or("a path of text")?;
    for (from, to, place, words) in [
        ("identityRetention", "identityRetension", ":11:3: ", "unknown field `identityRetension`"),
        ("90d", "3 months", ":11:22: ", "\"3 months\" months and years have no fixed length"),
        // 13 days are shorter than the window with its skew: the cluster refuses.
        ("90d", "13d", ":11:22: ", "identity_retention is 13d"),
    ] {
        fs::write(path, FILE.replace(from, to))?;
        for verb in ["diff", "apply"] {
            let done = cli.run(&[verb, "-f", file], CALL).await?;
            let told = done.stderr;
            assert_eq!(done.status.code(), Some(2), "{told}");
            assert!(told.contains(&format!("{file}{place}")), "{place} {told}");
            assert!(told.contains(words), "{words} {told}");
            assert!(told.contains('^') && told.contains(to), "{told}");
        }
    }
    Ok(())
}

/// A change is shown field by field; what the file leaves out goes back.
async fn changed(cli: &Cli<'_>, path: &Path) -> Outcome<()> {
    let file = path.to_str().ok_or("a path of text")?;
    fs::write(path, FILE.replace("  resultRetention: 24h\n", "  leaseDefault: 45s\n"))?;
    let (code, plan) = cli.json(&["diff", "-f", file], CALL).await?;
    assert_eq!((code, verbs(&plan)), (6, vec!["CHANGE".to_owned(), "KEEP".to_owned()]));
    let fields = plan["changes"][0]["fields"].to_string();
    assert!(fields.contains("lease_default") && fields.contains("45s"), "{fields}");
    assert_eq!(cli.json(&["apply", "-f", file], CALL).await?.0, 0);
    let (_, shown) = cli.json(&["tenant", "show", "acme"], CALL).await?;
    let policy = shown["policy"].to_string();
    assert!(policy.contains("45s") && !policy.contains("resultRetention"), "{shown:#}");
    Ok(())
}

/// A repeat that comes late is the measure: the check fails a retention below it, and `apply` does not
/// go there without being told so.
async fn retention(cli: &Cli<'_>, client: &Client, path: &Path) -> Outcome<()> {
    let file = path.to_str().ok_or("a path of text")?;
    let check = ["policy", "check", "-t", "acme", "-n", "payouts"];
    let (code, told) = cli.json(&check, CALL).await?;
    assert_eq!((code, &told["holds"]), (0, &serde_json::json!(true)), "{told:#}");

    let now = time::system_time(&client.as_of("acme").await?.time()).ok_or("a time")?;
    let born = now - Duration::from_secs(20 * 86_400);
    let request = || {
        ClaimRequest::new("acme", "payouts", "payout:1")
            .intent_time(born)
            .fingerprint(fingerprint::raw(b"pay"))
    };
    let ClaimOutcome::Acquired(claim) = client.claim(request()).await? else {
        return Err("payout:1 was to be acquired".into());
    };
    claim.complete("text/plain", b"done").await?;
    let ClaimOutcome::Replay(_) = client.claim(request()).await? else {
        return Err("payout:1 was to be replayed".into());
    };
    let start = Instant::now();
    while !cli.json(&check, CALL).await?.1.to_string().contains("20d (payout:1)") {
        // The history may lag.
        if start.elapsed() > TOLD_WITHIN {
            return Err("the late repeat was never told".into());
        }
        sleep(Duration::from_millis(300)).await;
    }
    fs::write(path, FILE.replace("90d", "15d"))?;
    let refused = cli.run(&["apply", "-f", file], CALL).await?;
    assert_eq!(refused.status.code(), Some(2), "{}", refused.stderr);
    let told = refused.stderr;
    assert!(told.contains(":11:22: identity retention 15d is shorter than"), "{told}");
    let accept = ["apply", "-f", file, "--accept-shorter-retention"];
    assert_eq!(cli.json(&accept, CALL).await?.0, 0);
    let (code, told) = cli.json(&check, CALL).await?;
    assert_eq!((code, &told["holds"]), (6, &serde_json::json!(false)), "{told:#}");
    let failed = told["rulings"].as_array().cloned().unwrap_or_default();
    let failed = failed.iter().find(|ruling| ruling["level"] == "FAILED").cloned();
    let failed = failed.ok_or("a ruling that failed")?;
    assert_eq!(failed["rule"], "oldest repeat seen", "{told:#}");
    Ok(())
}

/// Twelve answers; what the store cannot know is called an assumption.
async fn review(cli: &Cli<'_>, cluster: &Cluster) -> Outcome<()> {
    let nodes = cluster.nodes().iter().map(|node| format!("127.0.0.1:{}", node.ports.http));
    let metrics = nodes.collect::<Vec<_>>().join(",");
    let asked = ["review", "-t", "acme", "-n", "payouts", "--metrics", &metrics];
    let (code, told) = cli.json(&asked, CALL).await?;
    let answers = told["answers"].as_array().cloned().unwrap_or_default();
    assert_eq!((code, answers.len()), (0, 12), "{told:#}");
    let failover = &answers[9];
    assert_eq!((&failover["number"], &failover["title"]), (&10.into(), &"Failover".into()));
    assert!(failover["known"].to_string().contains("3 voters in 3 regions"), "{failover:#}");
    let retention = answers[7]["concerns"].to_string();
    assert!(retention.contains("oldest repeat seen"), "{retention}");
    let completion = answers[5]["known"].to_string();
    assert!(completion.contains("metrics: claims: 1 first"), "{completion}");
    let text = cli.run(&asked, CALL).await?.stdout;
    assert!(text.contains("you assume: that every caller"), "{text}");
    assert_eq!(text.lines().filter(|line| line.contains(". ") && line.ends_with('?')).count(), 12);
    Ok(())
}
