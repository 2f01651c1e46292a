//! `firstclaim cluster`: who is in it, who leads, how far each node is.

use clap::Subcommand;
use firstclaim_client::{Client, v1};
use serde_json::{Value, json};

use crate::context::Context;
use crate::failure::{Failure, short};
use crate::output::Shown;
use crate::{duration, exit};

/// What to look at.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Show every node: its part, its progress, who reaches it
    Status,
    /// Say in one line, and by the exit code, whether the cluster can decide
    Check,
}

pub(crate) async fn run(context: &Context, action: Action) -> Result<u8, Failure> {
    let client = context.client()?;
    match action {
        Action::Status => status(context, &client).await,
        Action::Check => check(context, &client).await,
    }
}

/// One node as it sees itself, or why it could not be asked.
struct Node {
    member: v1::Member,
    answer: Result<v1::GetStatusResponse, String>,
}

/// The whole cluster, as far as it can be seen from here.
struct Seen {
    cluster_id: String,
    leader: Option<v1::Member>,
    nodes: Vec<Node>,
    answered_by: u64,
}

impl Seen {
    fn voters(&self) -> usize {
        self.nodes.iter().filter(|node| node.member.voter).count()
    }

    /// Voters that are ready.
    fn ready(&self) -> usize {
        let ready = |node: &&Node| {
            node.member.voter && node.answer.as_ref().is_ok_and(|status| status.ready)
        };
        self.nodes.iter().filter(ready).count()
    }

    fn has_quorum(&self) -> bool {
        self.leader.is_some() && self.ready() > self.voters() / 2
    }
}

/// Asks one node for the members, then each member for itself, and the leader for the progress.
async fn look(client: &Client) -> Result<Seen, Failure> {
    let here = client.members().await?;
    let mut asked = Vec::new();
    for member in here.members {
        let client = client.clone();
        let address = member.client_address.clone();
        let task = tokio::spawn(async move { client.status_at(&address).await });
        asked.push((member, task));
    }
    let mut nodes = Vec::new();
    for (member, task) in asked {
        let answer = match task.await {
            Ok(answer) => answer.map_err(|error| error.message().to_owned()),
            Err(error) => Err(error.to_string()),
        };
        nodes.push(Node { member, answer });
    }
    // A leader says so itself; what others believe may be old.
    let leads = |node: &&Node| {
        node.answer.as_ref().is_ok_and(|status| status.role() == v1::NodeRole::Leader)
    };
    let newest = nodes
        .iter()
        .filter(leads)
        .max_by_key(|node| node.answer.as_ref().map_or(0, |status| status.term));
    let leader = newest.map(|node| node.member.clone());
    if let Some(leader) = &leader
        && let Ok(known) = client.members_at(&leader.client_address).await
    {
        for node in &mut nodes {
            let same = |member: &&v1::Member| member.node_id == node.member.node_id;
            if let Some(member) = known.members.iter().find(same) {
                node.member = member.clone();
            }
        }
    }
    let answered = nodes.iter().find_map(|node| node.answer.as_ref().ok());
    let cluster_id = answered.map(|status| status.cluster_id.clone()).unwrap_or_default();
    Ok(Seen { cluster_id, leader, nodes, answered_by: here.answered_by })
}

async fn status(context: &Context, client: &Client) -> Result<u8, Failure> {
    let seen = look(client).await?;
    let data = json!({
        "clusterId": seen.cluster_id,
        "leaderId": seen.leader.as_ref().map(|leader| leader.node_id),
        "voters": seen.voters(),
        "votersReady": seen.ready(),
        "answeredBy": seen.answered_by,
        "nodes": seen.nodes.iter().map(node_json).collect::<Vec<_>>(),
    });
    let header =
        vec!["NODE", "REGION", "ROLE", "STATE", "TERM", "APPLIED", "LAG", "CONTACT", "ADDRESS"];
    let rows = seen.nodes.iter().map(node_row).collect();
    context.out.say(&headline(&seen));
    context.out.data("ClusterStatus", data, &Shown::Rows { header, rows })?;
    for node in &seen.nodes {
        match &node.answer {
            Ok(status) if !status.ready => {
                let reason = &status.not_ready_reason;
                context.out.say(&format!("! node {} is not ready: {reason}", node.member.node_id));
            }
            Ok(_) => {}
            Err(problem) => {
                let id = node.member.node_id;
                context.out.say(&format!("! node {id} cannot be reached from here: {problem}"));
            }
        }
    }
    Ok(if seen.has_quorum() { exit::DONE } else { exit::UNAVAILABLE })
}

fn headline(seen: &Seen) -> String {
    let leader = match &seen.leader {
        Some(leader) => format!("leader {} ({})", leader.node_id, leader.region),
        None => "no leader".to_owned(),
    };
    let (ready, voters) = (seen.ready(), seen.voters());
    let spare = ready.saturating_sub(voters / 2 + 1);
    let can =
        if seen.has_quorum() { format!("can lose {spare}") } else { "cannot decide".to_owned() };
    format!("cluster {}   {leader}   {ready} of {voters} voters ready, {can}", seen.cluster_id)
}

fn node_row(node: &Node) -> Vec<String> {
    let member = &node.member;
    let (role, state, term, applied) = match &node.answer {
        Ok(status) => (
            short(status.role().as_str_name(), "NODE_ROLE_").to_lowercase(),
            if status.ready { "ready" } else { "not ready" }.to_owned(),
            status.term.to_string(),
            status.applied_index.to_string(),
        ),
        Err(_) => ("?".to_owned(), "unreachable".to_owned(), "?".to_owned(), "?".to_owned()),
    };
    let number =
        |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
    let contact = member.last_contact.as_ref().and_then(firstclaim_client::time::from_wire);
    vec![
        member.node_id.to_string(),
        member.region.clone(),
        role,
        state,
        term,
        applied,
        number(member.lag),
        contact.map_or_else(|| "-".to_owned(), duration::about),
        member.client_address.clone(),
    ]
}

fn node_json(node: &Node) -> Value {
    let member = &node.member;
    let contact = member.last_contact.as_ref().and_then(firstclaim_client::time::from_wire);
    let mut object = json!({
        "nodeId": member.node_id,
        "region": member.region,
        "clientAddress": member.client_address,
        "peerAddress": member.peer_address,
        "voter": member.voter,
        "matchedIndex": member.matched_index,
        "lag": member.lag,
        "lastContactSeconds": contact.map(|contact| contact.as_secs_f64()),
    });
    object["status"] = match &node.answer {
        Ok(status) => json!({
            "role": short(status.role().as_str_name(), "NODE_ROLE_"),
            "ready": status.ready,
            "notReadyReason": status.not_ready_reason,
            "term": status.term,
            "leaderId": status.leader_id,
            "lastLogIndex": status.last_log_index,
            "committedIndex": status.committed_index,
            "appliedIndex": status.applied_index,
            "snapshotIndex": status.snapshot_index,
            "purgedIndex": status.purged_index,
            "snapshotInstalls": status.snapshot_installs,
            "storeTime": status.store_time.as_ref().map(crate::view::rfc3339),
            "version": status.version,
            "buildId": status.build_id,
        }),
        Err(_) => Value::Null,
    };
    object["problem"] = json!(node.answer.as_ref().err());
    object
}

async fn check(context: &Context, client: &Client) -> Result<u8, Failure> {
    let seen = look(client).await?;
    let healthy = seen.has_quorum();
    let all = seen.ready() == seen.voters();
    let verdict = match (healthy, all) {
        (true, true) => "ok",
        (true, false) => "degraded",
        (false, _) => "down",
    };
    let data = json!({
        "clusterId": seen.cluster_id,
        "verdict": verdict,
        "canDecide": healthy,
        "voters": seen.voters(),
        "votersReady": seen.ready(),
        "leaderId": seen.leader.as_ref().map(|leader| leader.node_id),
    });
    let shown = Shown::Fields(vec![(verdict.to_owned(), headline(&seen))]);
    context.out.data("ClusterCheck", data, &shown)?;
    Ok(if healthy { exit::DONE } else { exit::UNAVAILABLE })
}
