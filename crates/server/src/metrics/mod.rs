//! What is counted, and how it is written for Prometheus. Names and texts are the catalogue's.

pub mod catalogue;
mod record;
mod replica;
mod scope;

use std::sync::Arc;

use firstclaim_core::Reason;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry};

use catalogue::Entry;
pub(crate) use record::{NamespaceSample, RecordMetrics, ReplayPath};
use replica::ReplicaGauges;
pub(crate) use replica::ReplicaSample;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct MethodLabel {
    method: &'static str,
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

/// All metrics of one server.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    /// By tenant and namespace.
    pub(crate) records: RecordMetrics,
    refusals: Family<ReasonLabel, Counter>,
    forwards: Family<OutcomeLabel, Counter>,
    rpc_duration: Family<MethodLabel, Histogram>,
    pub(crate) claim_waiters: Gauge,
    pub(crate) watches: Gauge,
    pub(crate) queue_commands: Gauge,
    pub(crate) queue_bytes: Gauge,
    pub(crate) entries: Counter,
    pub(crate) batch_commands: Histogram,
    pub(crate) swept_records: Counter,
    pub(crate) swept_results: Counter,
    pub(crate) sightings_reported: Counter,
    pub(crate) sightings_dropped: Counter,
    replica: ReplicaGauges,
}

/// Registers metrics by their entries in the catalogue.
struct Registrar<'a>(&'a mut Registry);

impl Registrar<'_> {
    fn add(&mut self, entry: Entry, metric: impl Metric) {
        self.0.register(entry.name, entry.help, metric);
    }
}

impl Metrics {
    pub(crate) fn new() -> Arc<Self> {
        let seconds = || Histogram::new(exponential_buckets(0.0005, 2.0, 16));
        let mut metrics = Self {
            registry: Registry::with_prefix("firstclaim"),
            records: RecordMetrics::default(),
            refusals: Family::default(),
            forwards: Family::default(),
            rpc_duration: Family::new_with_constructor(seconds),
            claim_waiters: Gauge::default(),
            watches: Gauge::default(),
            queue_commands: Gauge::default(),
            queue_bytes: Gauge::default(),
            entries: Counter::default(),
            batch_commands: Histogram::new(exponential_buckets(1.0, 2.0, 9)),
            swept_records: Counter::default(),
            swept_results: Counter::default(),
            sightings_reported: Counter::default(),
            sightings_dropped: Counter::default(),
            replica: ReplicaGauges::default(),
        };
        metrics.register();
        Arc::new(metrics)
    }

    fn register(&mut self) {
        let mut registrar = Registrar(&mut self.registry);
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registrar.add(catalogue::BUILD, build);
        self.records.register(&mut registrar);
        registrar.add(catalogue::CLAIM_WAITERS, self.claim_waiters.clone());
        registrar.add(catalogue::WATCHES, self.watches.clone());
        registrar.add(catalogue::SWEPT_RECORDS, self.swept_records.clone());
        registrar.add(catalogue::SWEPT_RESULTS, self.swept_results.clone());
        registrar.add(catalogue::SIGHTINGS_REPORTED, self.sightings_reported.clone());
        registrar.add(catalogue::SIGHTINGS_DROPPED, self.sightings_dropped.clone());
        registrar.add(catalogue::REFUSALS, self.refusals.clone());
        registrar.add(catalogue::FORWARDS, self.forwards.clone());
        registrar.add(catalogue::RPC_DURATION, self.rpc_duration.clone());
        registrar.add(catalogue::QUEUE_COMMANDS, self.queue_commands.clone());
        registrar.add(catalogue::QUEUE_BYTES, self.queue_bytes.clone());
        registrar.add(catalogue::ENTRIES, self.entries.clone());
        registrar.add(catalogue::BATCH_COMMANDS, self.batch_commands.clone());
        self.replica.register(&mut registrar);
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

/// A number as a gauge holds it.
fn gauge(gauge: &Gauge, value: u64) {
    gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
}

#[cfg(test)]
mod tests;
