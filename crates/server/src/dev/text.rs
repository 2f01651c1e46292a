//! What a dev cluster tells people about itself.

use std::fmt::Write;
use std::time::Duration;

use super::cluster::DevCluster;
use super::command::HELP;
use super::probe::NodeStatus;
use super::region::Region;

/// The first screen.
pub(super) fn welcome(cluster: &DevCluster, all: &[Option<NodeStatus>; 3]) -> String {
    let data = if cluster.is_temporary() {
        format!(
            "data in {}, removed at exit; keep it with --data DIR",
            cluster.data_dir().display()
        )
    } else {
        format!("data in {}", cluster.data_dir().display())
    };
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "firstclaim {version} dev cluster ({data})\n\n{}\n{}\nLine commands here:\n{HELP}Ctrl-C \
         stops.\n",
        table(cluster, all),
        try_next(cluster)
    )
}

/// The nodes, and what lies between them.
pub(super) fn table(cluster: &DevCluster, all: &[Option<NodeStatus>; 3]) -> String {
    let mut text = format!(
        "  {:<12}{:<7}{:<11}{:<9}{:<18}{:<18}{}\n",
        "REGION", "NODE", "ROLE", "APPLIED", "gRPC", "HTTP", "PEER"
    );
    for (region, status) in Region::ALL.into_iter().zip(all) {
        let addresses = cluster.addresses(region);
        let node = format!("n{}", region.node_id());
        let (role, applied) = match status {
            Some(node) => (node.role, node.applied_index.to_string()),
            None if cluster.is_running(region) => ("silent", "-".to_owned()),
            None => ("down", "-".to_owned()),
        };
        let (grpc, http) = (addresses.grpc.to_string(), addresses.http.to_string());
        // Writing to a String cannot fail.
        let _: Result<(), std::fmt::Error> = writeln!(
            text,
            "  {region:<12}{node:<7}{role:<11}{applied:<9}{grpc:<18}{http:<18}{}",
            addresses.peer
        );
    }
    for (one, other) in Region::PAIRS {
        let delay = cluster.delay_between(one, other);
        if !delay.is_zero() {
            text.push_str(&format!("  {one} <-> {other}: {} ms each way\n", delay.as_millis()));
        }
    }
    for (one, other) in cluster.cuts() {
        text.push_str(&format!("  {one} <-> {other}: cut\n"));
    }
    text
}

/// A warning if two regions are farther apart than elections expect.
pub(super) fn too_far(cluster: &DevCluster, delay: Duration) -> Option<String> {
    let (round_trip, expected) = (delay * 2, cluster.expected_rtt());
    (round_trip > expected).then(|| {
        format!(
            "  The round trip of {} ms is longer than the {} ms that elections are timed by.\n  \
             Give the delay at the start (--delay) to have them timed for it.\n",
            round_trip.as_millis(),
            expected.as_millis()
        )
    })
}

fn try_next(cluster: &DevCluster) -> String {
    let grpc = cluster.addresses(Region::EuWest).grpc;
    let http = cluster.addresses(Region::EuWest).http;
    format!(
        "Tenant demo is there, with the namespaces payouts and emails. Try, in another terminal:
  firstclaim -E {grpc} -t demo -n payouts claim -K payout:1 --request 'pay 1'
  firstclaim -E {grpc} -t demo -n payouts get -K payout:1
  firstclaim -E {grpc} cluster status
  curl -s http://{http}/metrics
or any gRPC client that reads reflection (buf is in PyPI's buf-bin):
  buf curl --protocol grpc --http2-prior-knowledge \\
    http://{grpc}/firstclaim.v1.ClusterService/GetStatus
"
    )
}
