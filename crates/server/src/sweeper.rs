//! Has the leader remove what is past its retention. Answers do not depend on it; space does.

use std::sync::Arc;
use std::time::Duration;

use firstclaim_core::command::Sweep;
use firstclaim_core::limits::SWEEP_RECORDS_MAX;
use firstclaim_core::{Answer, Command, Store as _};
use tokio::time::Instant;

use crate::node::Node;

/// How often to look.
const EVERY: Duration = Duration::from_secs(1);
/// Sweeps in a row; then callers go first again.
const ROUNDS_MAX: usize = 16;
/// About the length of the command.
const COMMAND_BYTES: usize = 16;
/// How long a sweep may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Sweeps for as long as it is polled.
pub(crate) async fn run(node: Arc<Node>) {
    loop {
        tokio::time::sleep(EVERY).await;
        for _ in 0..ROUNDS_MAX {
            if !node.replica.is_leader() || node.gate.is_draining() || !has_work(&node) {
                break;
            }
            if !sweep(&node).await {
                break;
            }
        }
    }
}

/// Whether anything is due: a sweep that finds nothing would still be an entry of the log.
fn has_work(node: &Node) -> bool {
    let looked = node.replica.read(|state| {
        let now = state.cluster()?.clock.now();
        Ok(!state.due(now, 1)?.is_empty() || state.garbage()?.is_some())
    });
    match looked {
        Ok((_, due)) => due,
        Err(error) => {
            tracing::error!(%error, "look for what is past its retention");
            false
        }
    }
}

/// Sweeps once. Returns whether there may be more.
async fn sweep(node: &Node) -> bool {
    let command = Command::Sweep(Sweep { limit: SWEEP_RECORDS_MAX });
    let deadline = Instant::now() + TIMEOUT;
    match node.proposer.submit(command, COMMAND_BYTES, deadline).await {
        Ok(outcome) => match outcome.result {
            Ok(Answer::Swept(swept)) => {
                node.metrics.swept_records.inc_by(swept.removed.into());
                node.metrics.swept_results.inc_by(swept.results_dropped.into());
                swept.more
            }
            other => {
                tracing::error!(?other, "a sweep has another outcome than a sweep");
                false
            }
        },
        Err(error) => {
            tracing::debug!(?error, "a sweep has no outcome; the next leader goes on");
            false
        }
    }
}
