//! How the replica is, as gauges.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::{Registrar, catalogue, gauge};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PeerLabel {
    peer: u64,
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

#[derive(Debug, Default)]
pub(super) struct ReplicaGauges {
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

impl ReplicaGauges {
    pub(super) fn register(&self, registrar: &mut Registrar<'_>) {
        for (entry, gauge) in [
            (catalogue::TERM, &self.term),
            (catalogue::IS_LEADER, &self.is_leader),
            (catalogue::HAS_LEADER, &self.has_leader),
            (catalogue::LAST_INDEX, &self.last_index),
            (catalogue::COMMITTED_INDEX, &self.committed_index),
            (catalogue::APPLIED_INDEX, &self.applied_index),
            (catalogue::APPLY_LAG, &self.apply_lag),
            (catalogue::SNAPSHOT_INDEX, &self.snapshot_index),
            (catalogue::SNAPSHOT_INSTALLS, &self.snapshot_installs),
        ] {
            registrar.add(entry, gauge.clone());
        }
        registrar.add(catalogue::PEER_LAG, self.peer_lag.clone());
        registrar.add(catalogue::STORE_TIME, self.store_time.clone());
    }

    pub(super) fn set(&self, sample: &ReplicaSample) {
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
