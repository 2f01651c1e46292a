//! What claims, completions, effects and records come to, by tenant and namespace.

use std::sync::atomic::AtomicU64;

use firstclaim_core::record::Disposition;
use firstclaim_core::{Millis, NamespaceName, Reason, TenantName};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

use super::scope::{Scope, Scopes};
use super::{Registrar, catalogue, gauge};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByOutcome {
    tenant: String,
    namespace: String,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByReason {
    tenant: String,
    namespace: String,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByPath {
    tenant: String,
    namespace: String,
    path: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByVerdict {
    tenant: String,
    namespace: String,
    verdict: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByDisposition {
    tenant: String,
    namespace: String,
    disposition: &'static str,
    late: &'static str,
}

/// How a replay was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplayPath {
    /// From this replica's own state.
    Local,
    /// Through the log.
    Log,
}

/// What a look at one namespace found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamespaceSample {
    pub(crate) tenant: TenantName,
    pub(crate) namespace: NamespaceName,
    pub(crate) records: u64,
    pub(crate) unresolved: u64,
    pub(crate) oldest_age: Millis,
    /// None where no number of attempts is set.
    pub(crate) parked: Option<u64>,
}

/// Counters and gauges by tenant and namespace.
#[derive(Debug)]
pub(crate) struct RecordMetrics {
    scopes: Scopes,
    claims: Family<ByOutcome, Counter>,
    claim_refusals: Family<ByReason, Counter>,
    replays: Family<ByPath, Counter>,
    replay_age: Family<Scope, Histogram>,
    duplicate_intents: Family<ByOutcome, Counter>,
    intent_times_moved: Family<Scope, Counter>,
    completions: Family<ByDisposition, Counter>,
    fenced_writes: Family<ByReason, Counter>,
    effects_recorded: Family<Scope, Counter>,
    dispatches_permitted: Family<Scope, Counter>,
    effects_settled: Family<ByVerdict, Counter>,
    effects_contradicted: Family<Scope, Counter>,
    records: Family<Scope, Gauge>,
    unresolved: Family<Scope, Gauge>,
    unresolved_oldest_age: Family<Scope, Gauge<f64, AtomicU64>>,
    parked: Family<Scope, Gauge>,
    sweep_lag: Gauge<f64, AtomicU64>,
}

impl Default for RecordMetrics {
    fn default() -> Self {
        // From a second to more than two years.
        let ages = || Histogram::new(exponential_buckets(1.0, 4.0, 14));
        Self {
            scopes: Scopes::default(),
            claims: Family::default(),
            claim_refusals: Family::default(),
            replays: Family::default(),
            replay_age: Family::new_with_constructor(ages),
            duplicate_intents: Family::default(),
            intent_times_moved: Family::default(),
            completions: Family::default(),
            fenced_writes: Family::default(),
            effects_recorded: Family::default(),
            dispatches_permitted: Family::default(),
            effects_settled: Family::default(),
            effects_contradicted: Family::default(),
            records: Family::default(),
            unresolved: Family::default(),
            unresolved_oldest_age: Family::default(),
            parked: Family::default(),
            sweep_lag: Gauge::default(),
        }
    }
}

impl RecordMetrics {
    pub(super) fn register(&self, registrar: &mut Registrar<'_>) {
        registrar.add(catalogue::CLAIMS, self.claims.clone());
        registrar.add(catalogue::CLAIM_REFUSALS, self.claim_refusals.clone());
        registrar.add(catalogue::REPLAYS, self.replays.clone());
        registrar.add(catalogue::REPLAY_AGE, self.replay_age.clone());
        registrar.add(catalogue::DUPLICATE_INTENTS, self.duplicate_intents.clone());
        registrar.add(catalogue::INTENT_TIMES_MOVED, self.intent_times_moved.clone());
        registrar.add(catalogue::COMPLETIONS, self.completions.clone());
        registrar.add(catalogue::FENCED_WRITES, self.fenced_writes.clone());
        registrar.add(catalogue::EFFECTS_RECORDED, self.effects_recorded.clone());
        registrar.add(catalogue::DISPATCHES_PERMITTED, self.dispatches_permitted.clone());
        registrar.add(catalogue::EFFECTS_SETTLED, self.effects_settled.clone());
        registrar.add(catalogue::EFFECTS_CONTRADICTED, self.effects_contradicted.clone());
        registrar.add(catalogue::RECORDS, self.records.clone());
        registrar.add(catalogue::UNRESOLVED_RECORDS, self.unresolved.clone());
        registrar.add(catalogue::UNRESOLVED_OLDEST_AGE, self.unresolved_oldest_age.clone());
        registrar.add(catalogue::PARKED_RECORDS, self.parked.clone());
        registrar.add(catalogue::SWEEP_LAG, self.sweep_lag.clone());
    }

    /// The labels to count something under, in a namespace that exists.
    pub(crate) fn scope(&self, tenant: &TenantName, namespace: &NamespaceName) -> Scope {
        self.scopes.of(tenant, namespace)
    }

    /// What a claim came to.
    pub(crate) fn claim(&self, scope: &Scope, outcome: &'static str) {
        self.claims.get_or_create(&by_outcome(scope, outcome)).inc();
    }

    /// A claim or reservation that was refused.
    pub(crate) fn claim_refusal(&self, scope: &Scope, reason: Reason) {
        self.claim_refusals.get_or_create(&by_reason(scope, reason)).inc();
    }

    /// A duplicate that was answered with the stored result.
    pub(crate) fn replay(&self, scope: &Scope, path: ReplayPath, age: Millis) {
        let path = match path {
            ReplayPath::Local => "local",
            ReplayPath::Log => "log",
        };
        let Scope { tenant, namespace } = scope.clone();
        self.replays.get_or_create(&ByPath { tenant, namespace, path }).inc();
        self.replay_age.get_or_create(scope).observe(seconds(age));
    }

    /// A request that came under a second key.
    pub(crate) fn duplicate_intent(&self, scope: &Scope, blocked: bool) {
        let outcome = if blocked { "blocked" } else { "warned" };
        self.duplicate_intents.get_or_create(&by_outcome(scope, outcome)).inc();
    }

    /// A claim of a known key with another intent time.
    pub(crate) fn intent_time_moved(&self, scope: &Scope) {
        self.intent_times_moved.get_or_create(scope).inc();
    }

    /// A record that its holder completed.
    pub(crate) fn completion(&self, scope: &Scope, disposition: Disposition, late: bool) {
        let Scope { tenant, namespace } = scope.clone();
        let disposition = match disposition {
            Disposition::Succeeded => "succeeded",
            Disposition::Failed => "failed",
        };
        let late = if late { "true" } else { "false" };
        let labels = ByDisposition { tenant, namespace, disposition, late };
        self.completions.get_or_create(&labels).inc();
    }

    /// A call of a holder that holds the claim no more.
    pub(crate) fn fenced_write(&self, scope: &Scope, reason: Reason) {
        self.fenced_writes.get_or_create(&by_reason(scope, reason)).inc();
    }

    /// A permit that was not given before; `first` for the first one of its effect.
    pub(crate) fn permit(&self, scope: &Scope, first: bool) {
        self.dispatches_permitted.get_or_create(scope).inc();
        if first {
            self.effects_recorded.get_or_create(scope).inc();
        }
    }

    /// An effect, or work, that was settled.
    pub(crate) fn settled(&self, scope: &Scope, committed: bool) {
        let Scope { tenant, namespace } = scope.clone();
        let verdict = if committed { "committed" } else { "not_committed" };
        self.effects_settled.get_or_create(&ByVerdict { tenant, namespace, verdict }).inc();
    }

    /// A settlement that contradicts what was known.
    pub(crate) fn contradicted(&self, scope: &Scope) {
        self.effects_contradicted.get_or_create(scope).inc();
    }

    /// Sets what a look at all namespaces found; those that are gone are not shown any more.
    pub(crate) fn sample(&self, found: &[NamespaceSample], sweep_lag: Millis) {
        self.records.clear();
        self.unresolved.clear();
        self.unresolved_oldest_age.clear();
        self.parked.clear();
        for one in found {
            let scope = self.scope(&one.tenant, &one.namespace);
            gauge(&self.records.get_or_create(&scope), one.records);
            gauge(&self.unresolved.get_or_create(&scope), one.unresolved);
            self.unresolved_oldest_age.get_or_create(&scope).set(seconds(one.oldest_age));
            if let Some(parked) = one.parked {
                gauge(&self.parked.get_or_create(&scope), parked);
            }
        }
        self.sweep_lag.set(seconds(sweep_lag));
    }
}

fn by_outcome(scope: &Scope, outcome: &'static str) -> ByOutcome {
    let Scope { tenant, namespace } = scope.clone();
    ByOutcome { tenant, namespace, outcome }
}

fn by_reason(scope: &Scope, reason: Reason) -> ByReason {
    let Scope { tenant, namespace } = scope.clone();
    ByReason { tenant, namespace, reason: reason.as_str() }
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds of this era fit a double")]
fn seconds(duration: Millis) -> f64 {
    duration.0 as f64 / 1000.0
}
