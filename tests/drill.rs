//! `firstclaim drill` against a dev cluster, and against three processes whose leader is killed while
//! it runs: no intent has two effects at the provider, and none is lost or stuck without being listed.

use std::time::Duration;

use firstclaim_client::v1;
use firstclaim_client::v1::cluster_service_client::ClusterServiceClient;
use firstclaim_tests::cli::Cli;
use firstclaim_tests::cluster::{Cluster, Node, channel, free_port};
use firstclaim_tests::process::{Process, command};
use firstclaim_tests::{Outcome, binary, say, seed};
use rand::Rng as _;
use serde_json::Value;
use tokio::time::{Instant, sleep};

/// What the drill itself is given, and what a test waits for it.
const LIMIT: &str = "60s";
const WITHIN: Duration = Duration::from_secs(75);
const READY_WITHIN: Duration = Duration::from_secs(30);
/// Rows of the failure table.
const SCENARIOS: usize = 17;
/// From one node of a dev cluster to the next.
const PORTS_APART: u16 = 10;

/// Both clusters look for free ports before they take them: one at a time, or each may find the other's.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_drill_passes_on_a_dev_cluster() {
    let _alone = ALONE.lock().await;
    let folder = tempfile::tempdir().expect("make a folder");
    let (mut process, endpoints) = dev(&folder).await.unwrap_or_else(|fault| panic!("{fault}"));
    let drilled = drill(&endpoints).await;
    let tail = process.tail();
    process.kill();
    let report = drilled.unwrap_or_else(|fault| panic!("{fault}\n{tail}"));
    judge(&report);
}

/// Reported elsewhere: case 11.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_drill_passes_while_the_leader_is_killed() {
    let _alone = ALONE.lock().await;
    let seed = seed::take("drill").expect("take a seed");
    let mut cluster = Cluster::start("drill").await.unwrap_or_else(|fault| panic!("{fault}"));
    let endpoints = cluster.endpoints();
    let both = tokio::join!(drill(&endpoints), kill(&mut cluster, seed));
    match both {
        (Ok(report), Ok(())) => {
            judge(&report);
            duplicates_are_told(&cluster);
        }
        (Err(fault), _) | (_, Err(fault)) => panic!("{}", cluster.explain(&fault)),
    }
}

/// Kills the leader twice while the drill runs, and starts it again each time.
async fn kill(cluster: &mut Cluster, seed: u64) -> Outcome<()> {
    let mut chance = seed::chance(seed, 0);
    // The set-up is over by then, and the first leases are about to lapse.
    for (from, to) in [(1_500, 3_500), (500, 2_000)] {
        sleep(Duration::from_millis(chance.random_range(from..to))).await;
        let leader = cluster.leader().await?;
        cluster.node_mut(leader).kill();
        say(&format!("drill: killed node {}", cluster.node(leader).id));
        sleep(Duration::from_millis(chance.random_range(200..1_500))).await;
        cluster.start_node(leader)?;
        cluster.wait_ready().await?;
    }
    Ok(())
}

async fn drill(endpoints: &[String]) -> Outcome<Value> {
    let binary = binary::firstclaim()?;
    let cli = Cli::new(&binary, endpoints);
    let start = Instant::now();
    let (code, report) = cli.json(&["drill", "--limit", LIMIT], WITHIN).await?;
    let totals = &report["totals"];
    say(&format!("drill: exit {code}, {totals}, {} ms", start.elapsed().as_millis()));
    if code != 0 {
        return Err(format!("the drill ended with {code}:\n{report:#}").into());
    }
    Ok(report)
}

/// The four numbers are apart, and they fit together.
fn judge(report: &Value) {
    assert_eq!(report["passed"], true, "{report:#}");
    let scenarios = report["scenarios"].as_array().expect("scenarios");
    assert_eq!(scenarios.len(), SCENARIOS);
    let number = |row: &Value, name: &str| row[name].as_u64().expect("a number");
    for row in scenarios {
        let (intents, effects) = (number(row, "intents"), number(row, "providerEffects"));
        assert!(intents > 0 && effects <= intents, "{row:#}");
        assert!(number(row, "dispatchAttempts") >= effects, "{row:#}");
        // Whatever goes wrong, goes wrong with every message: each is delivered again.
        assert!(number(row, "deliveries") > 0, "{row:#}");
        let without = number(row, "refused") + number(row, "unresolved");
        assert!(
            effects + without >= intents,
            "without effect, neither refused nor listed: {row:#}"
        );
    }
    let named =
        |name: &str| scenarios.iter().find(|row| row["name"] == name).expect("the scenario");
    assert_eq!(number(named("nobody-can-tell"), "unresolved"), 3);
    assert_eq!(number(named("two-requests-one-key"), "refused"), 3);
    assert!(number(named("crash-after-effect"), "dispatchAttempts") >= 6);
    assert_eq!(number(named("crash-after-effect"), "providerEffects"), 3);
}

/// Reported elsewhere, case 11: work that was skipped without a sign. Each node that stopped a
/// duplicate says so, and names the key by its digest only.
fn duplicates_are_told(cluster: &Cluster) {
    let written: Vec<String> = cluster.nodes().iter().map(Node::output).collect();
    let lines: Vec<&str> = written
        .iter()
        .flat_map(|text| text.lines())
        .filter(|line| line.contains("duplicate, skipped"))
        .collect();
    assert!(!lines.is_empty(), "no duplicate was told of");
    for line in lines {
        assert!(line.contains("key_digest") && line.contains("outcome"), "{line}");
    }
}

/// `firstclaim dev` on free ports, with a node that leads.
async fn dev(folder: &tempfile::TempDir) -> Outcome<(Process, Vec<String>)> {
    let base = free_port()?;
    let binary = binary::firstclaim()?;
    let mut command = command(&binary);
    command.args(["dev", "--no-input", "--ports", &base.to_string()]);
    let process = Process::start("dev", &mut command, &folder.path().join("dev.log"))?;
    let ports = [base, base + PORTS_APART, base + 2 * PORTS_APART];
    let start = Instant::now();
    for port in ports {
        let mut operations = ClusterServiceClient::new(channel(port)?);
        loop {
            let status = operations.get_status(v1::GetStatusRequest {}).await;
            if status.is_ok_and(|status| status.into_inner().ready) {
                break;
            }
            if start.elapsed() > READY_WITHIN {
                return Err(format!("dev is not ready\n{}", process.tail()).into());
            }
            sleep(Duration::from_millis(50)).await;
        }
    }
    Ok((process, ports.iter().map(|port| format!("127.0.0.1:{port}")).collect()))
}
