//! The catalogue of what is counted: every metric of the server, its name, its labels.
//!
//! Labels are bounded: fixed words only, never a tenant's, a namespace's or a key's name.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use firstclaim_core::Reason;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

/// Every name, as it is scraped. The documentation and a test are held to this list.
pub const NAMES: &[&str] = &[
    "firstclaim_build_info",
    "firstclaim_claims_total",
    "firstclaim_replays_total",
    "firstclaim_refusals_total",
    "firstclaim_forwards_total",
    "firstclaim_rpc_duration_seconds",
    "firstclaim_proposer_queue_commands",
    "firstclaim_proposer_queue_bytes",
    "firstclaim_proposer_entries_total",
    "firstclaim_proposer_batch_commands",
    "firstclaim_swept_records_total",
    "firstclaim_swept_results_total",
    "firstclaim_raft_term",
    "firstclaim_raft_is_leader",
    "firstclaim_raft_has_leader",
    "firstclaim_raft_last_index",
    "firstclaim_raft_committed_index",
    "firstclaim_raft_applied_index",
    "firstclaim_raft_apply_lag_entries",
    "firstclaim_raft_snapshot_index",
    "firstclaim_raft_snapshot_installs",
    "firstclaim_raft_peer_lag_entries",
    "firstclaim_store_time_seconds",
];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PathLabel {
    path: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct MethodLabel {
    method: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PeerLabel {
    peer: u64,
}

/// How a replay was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplayPath {
    /// From this replica's own state.
    Local,
    /// Through the log.
    Log,
}

/// How a forwarded call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForwardEnd {
    /// The leader answered, whatever it said.
    Answered,
    /// It was never sent.
    NotSent,
    /// It was sent, and no answer came.
    Lost,
}

/// What the replica says of itself at the time of a scrape.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ReplicaSample {
    pub(crate) term: u64,
    pub(crate) is_leader: bool,
    pub(crate) has_leader: bool,
    pub(crate) last_index: u64,
    pub(crate) committed_index: u64,
    pub(crate) applied_index: u64,
    pub(crate) snapshot_index: u64,
    pub(crate) snapshot_installs: u64,
    pub(crate) store_time_seconds: f64,
    pub(crate) peer_lags: Vec<(u64, u64)>,
}

/// All metrics of one server.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    claims: Family<OutcomeLabel, Counter>,
    replays: Family<PathLabel, Counter>,
    refusals: Family<ReasonLabel, Counter>,
    forwards: Family<OutcomeLabel, Counter>,
    rpc_duration: Family<MethodLabel, Histogram>,
    pub(crate) queue_commands: Gauge,
    pub(crate) queue_bytes: Gauge,
    pub(crate) entries: Counter,
    pub(crate) batch_commands: Histogram,
    pub(crate) swept_records: Counter,
    pub(crate) swept_results: Counter,
    replica: ReplicaGauges,
}

#[derive(Debug, Default)]
struct ReplicaGauges {
    term: Gauge,
    is_leader: Gauge,
    has_leader: Gauge,
    last_index: Gauge,
    committed_index: Gauge,
    applied_index: Gauge,
    apply_lag: Gauge,
    snapshot_index: Gauge,
    snapshot_installs: Gauge,
    store_time: Gauge<f64, AtomicU64>,
    peer_lag: Family<PeerLabel, Gauge>,
}

impl Metrics {
    pub(crate) fn new() -> Arc<Self> {
        let seconds = || Histogram::new(exponential_buckets(0.0005, 2.0, 16));
        let mut metrics = Self {
            registry: Registry::with_prefix("firstclaim"),
            claims: Family::default(),
            replays: Family::default(),
            refusals: Family::default(),
            forwards: Family::default(),
            rpc_duration: Family::new_with_constructor(seconds),
            queue_commands: Gauge::default(),
            queue_bytes: Gauge::default(),
            entries: Counter::default(),
            batch_commands: Histogram::new(exponential_buckets(1.0, 2.0, 9)),
            swept_records: Counter::default(),
            swept_results: Counter::default(),
            replica: ReplicaGauges::default(),
        };
        metrics.register_server();
        metrics.register_replica();
        Arc::new(metrics)
    }

    fn register_server(&mut self) {
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        let registry = &mut self.registry;
        registry.register("build", "The program that runs here", build);
        registry.register("claims", "Claims answered, by outcome", self.claims.clone());
        registry.register(
            "replays",
            "Claims answered with a stored result, by where it was read",
            self.replays.clone(),
        );
        registry.register("refusals", "Calls refused or failed", self.refusals.clone());
        registry.register("forwards", "Calls forwarded to the leader", self.forwards.clone());
        registry.register(
            "rpc_duration_seconds",
            "Time from request to answer, by method",
            self.rpc_duration.clone(),
        );
        registry.register(
            "proposer_queue_commands",
            "Commands that wait for a log entry",
            self.queue_commands.clone(),
        );
        registry.register(
            "proposer_queue_bytes",
            "Bytes of the commands that wait for a log entry",
            self.queue_bytes.clone(),
        );
        registry.register(
            "proposer_entries",
            "Log entries proposed by this node",
            self.entries.clone(),
        );
        registry.register(
            "proposer_batch_commands",
            "Commands that travelled in one log entry",
            self.batch_commands.clone(),
        );
        registry.register(
            "swept_records",
            "Forgotten records removed while leading",
            self.swept_records.clone(),
        );
        registry.register(
            "swept_results",
            "Expired results removed while leading",
            self.swept_results.clone(),
        );
    }

    fn register_replica(&mut self) {
        let registry = &mut self.registry;
        let gauges = &self.replica;
        for (name, help, gauge) in [
            ("raft_term", "Present term", &gauges.term),
            ("raft_is_leader", "1 while this node leads", &gauges.is_leader),
            ("raft_has_leader", "1 while this node knows a leader", &gauges.has_leader),
            ("raft_last_index", "Last entry in the log", &gauges.last_index),
            ("raft_committed_index", "Last committed entry", &gauges.committed_index),
            ("raft_applied_index", "Last applied entry", &gauges.applied_index),
            ("raft_apply_lag_entries", "Entries committed but not applied", &gauges.apply_lag),
            ("raft_snapshot_index", "Last entry in a snapshot", &gauges.snapshot_index),
            (
                "raft_snapshot_installs",
                "Snapshots taken over from a leader since the start",
                &gauges.snapshot_installs,
            ),
        ] {
            registry.register(name, help, gauge.clone());
        }
        registry.register(
            "raft_peer_lag_entries",
            "Entries that a member lacks, at the leader",
            gauges.peer_lag.clone(),
        );
        registry.register(
            "store_time_seconds",
            "Store time as applied, in seconds since the Unix epoch",
            gauges.store_time.clone(),
        );
    }

    /// Counts the answer to a claim.
    pub(crate) fn claim(&self, outcome: &'static str) {
        self.claims.get_or_create(&OutcomeLabel { outcome }).inc();
    }

    pub(crate) fn replay(&self, path: ReplayPath) {
        let path = match path {
            ReplayPath::Local => "local",
            ReplayPath::Log => "log",
        };
        self.replays.get_or_create(&PathLabel { path }).inc();
    }

    pub(crate) fn refusal(&self, reason: Reason) {
        self.refusals.get_or_create(&ReasonLabel { reason: reason.as_str() }).inc();
    }

    pub(crate) fn forward(&self, end: ForwardEnd) {
        let outcome = match end {
            ForwardEnd::Answered => "answered",
            ForwardEnd::NotSent => "not_sent",
            ForwardEnd::Lost => "lost",
        };
        self.forwards.get_or_create(&OutcomeLabel { outcome }).inc();
    }

    pub(crate) fn rpc(&self, method: &'static str, seconds: f64) {
        self.rpc_duration.get_or_create(&MethodLabel { method }).observe(seconds);
    }

    /// The text that Prometheus scrapes.
    pub(crate) fn scrape(&self, sample: &ReplicaSample) -> Result<String, std::fmt::Error> {
        self.replica.set(sample);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

impl ReplicaGauges {
    fn set(&self, sample: &ReplicaSample) {
        let gauge = |gauge: &Gauge, value: u64| {
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        };
        gauge(&self.term, sample.term);
        gauge(&self.is_leader, sample.is_leader.into());
        gauge(&self.has_leader, sample.has_leader.into());
        gauge(&self.last_index, sample.last_index);
        gauge(&self.committed_index, sample.committed_index);
        gauge(&self.applied_index, sample.applied_index);
        gauge(&self.apply_lag, sample.committed_index.saturating_sub(sample.applied_index));
        gauge(&self.snapshot_index, sample.snapshot_index);
        gauge(&self.snapshot_installs, sample.snapshot_installs);
        self.store_time.set(sample.store_time_seconds);
        self.peer_lag.clear();
        for (peer, lag) in &sample.peer_lags {
            gauge(&self.peer_lag.get_or_create(&PeerLabel { peer: *peer }), *lag);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_the_catalogue_is_scraped_and_no_other() {
        let metrics = Metrics::new();
        metrics.claim("first");
        metrics.replay(ReplayPath::Local);
        metrics.refusal(Reason::Overloaded);
        metrics.forward(ForwardEnd::Answered);
        metrics.rpc("Claim", 0.01);
        let sample = ReplicaSample { peer_lags: vec![(2, 3)], ..ReplicaSample::default() };
        let text = metrics.scrape(&sample).expect("encode");
        let mut seen: Vec<&str> = text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.split(['{', ' ']).next())
            .map(|name| {
                ["_bucket", "_sum", "_count"]
                    .iter()
                    .find_map(|suffix| name.strip_suffix(suffix))
                    .unwrap_or(name)
            })
            .collect();
        seen.dedup();
        assert_eq!(seen, NAMES.to_vec(), "{text}");
    }
}
