//! The HTTP listener: metrics, and the probes that orchestrators send.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use firstclaim_replica::Role;

use crate::metrics::ReplicaSample;
use crate::node::Node;
use crate::readiness;

const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What the listener answers.
pub(crate) fn routes(node: Arc<Node>) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .with_state(node)
}

/// The process is alive.
async fn healthz() -> &'static str {
    "ok\n"
}

/// The node can serve.
async fn readyz(State(node): State<Arc<Node>>) -> (StatusCode, String) {
    match readiness::not_ready(&node) {
        None => (StatusCode::OK, "ready\n".to_owned()),
        Some(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {reason}\n")),
    }
}

async fn metrics(State(node): State<Arc<Node>>) -> impl IntoResponse {
    match node.metrics.scrape(&sample(&node)) {
        Ok(text) => (StatusCode::OK, [(header::CONTENT_TYPE, METRICS_TYPE)], text),
        Err(error) => {
            tracing::error!(%error, "the metrics cannot be written");
            let text = "the metrics cannot be written; see the log\n".to_owned();
            (StatusCode::INTERNAL_SERVER_ERROR, [(header::CONTENT_TYPE, "text/plain")], text)
        }
    }
}

fn sample(node: &Node) -> ReplicaSample {
    let status = node.replica.status();
    let index = |index: Option<u64>| index.unwrap_or(0);
    #[expect(clippy::cast_precision_loss, reason = "milliseconds of this era fit a double")]
    let store_time_seconds = status.store_time.0 as f64 / 1000.0;
    ReplicaSample {
        term: status.term,
        is_leader: status.role == Role::Leader,
        has_leader: node.replica.leader().is_some(),
        last_index: index(status.last_log_index),
        committed_index: index(status.committed_index),
        applied_index: index(status.applied_index),
        snapshot_index: index(status.snapshot_index),
        snapshot_installs: status.snapshot_installs,
        store_time_seconds,
        peer_lags: status
            .members
            .iter()
            .filter_map(|member| Some((member.node_id, member.lag?)))
            .collect(),
    }
}
