//! What a run is asked to do, and the bounds that keep it from running away.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use firstclaim_client::limits;
use serde::{Serialize, Serializer};

/// Most workers of one run.
pub(crate) const CONCURRENCY_MAX: usize = 4096;
/// Longest measured time of one run.
pub(crate) const DURATION_MAX: Duration = Duration::from_secs(3600);
/// Most operations of one run, warm-up included.
pub(crate) const OPERATIONS_MAX: u64 = 50_000_000;
/// Most distinct keys that `uniform` and `zipf` draw from; a table of this size is kept in memory.
pub(crate) const KEYS_MAX: u64 = 1_000_000;
/// Most keys of one batch.
pub(crate) const BATCH_SIZE_MAX: usize = limits::BATCH_ITEMS_MAX;
/// Most result bytes of one completion.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 1024 * 1024;

/// How the next key is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// Every operation takes a key that nobody had before: all first claims.
    Sequential,
    /// Any of `keys` keys, each as likely as the other.
    Uniform,
    /// Any of `keys` keys; the n-th one is n times less likely than the first.
    Zipf,
}

impl FromStr for Distribution {
    type Err = BenchError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "sequential" => Ok(Self::Sequential),
            "uniform" => Ok(Self::Uniform),
            "zipf" => Ok(Self::Zipf),
            other => Err(BenchError::invalid(
                "distribution",
                format!("is `{other}`; use sequential, uniform or zipf"),
            )),
        }
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Sequential => "sequential",
            Self::Uniform => "uniform",
            Self::Zipf => "zipf",
        })
    }
}

/// What a worker does with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// Only claims; the leases are left to lapse.
    Claim,
    /// Claims, and completes what it acquired.
    ClaimAndComplete,
    /// Claims, records one effect, and completes with its settlement.
    Effects(Journal),
    /// Claims many keys in one call, and completes in one call what it acquired.
    Batch,
}

impl fmt::Display for Work {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Claim => "claim",
            Self::ClaimAndComplete => "claim + complete",
            Self::Effects(Journal::Apart) => "claim + record effect + complete",
            Self::Effects(Journal::InClaim) => "claim with effect + complete",
            Self::Effects(Journal::Both) => "claim, effect apart or in it, complete",
            Self::Batch => "claim batch + complete batch",
        })
    }
}

/// When an effect is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Journal {
    /// By a call of its own, after the claim.
    Apart,
    /// By the claim.
    InClaim,
    /// In turns, so that both are measured under the same load.
    Both,
}

impl FromStr for Journal {
    type Err = BenchError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "apart" => Ok(Self::Apart),
            "in-claim" => Ok(Self::InClaim),
            "both" => Ok(Self::Both),
            other => Err(BenchError::invalid(
                "journal",
                format!("is `{other}`; use apart, in-claim or both"),
            )),
        }
    }
}

impl fmt::Display for Journal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Apart => "apart",
            Self::InClaim => "in-claim",
            Self::Both => "both",
        })
    }
}

/// A named load, for those who do not want to put one together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// First claims, each completed.
    Claims,
    /// Nine of ten deliveries are repeats.
    Duplicates,
    /// Every intent has one recorded effect.
    Effects,
    /// Many intents a call.
    Batch,
}

impl Workload {
    /// Share of repeats, unless one is named.
    #[must_use]
    pub fn duplicate_ratio(self) -> f64 {
        match self {
            Self::Duplicates => 0.9,
            Self::Claims | Self::Effects | Self::Batch => 0.0,
        }
    }

    /// What is done with a key.
    #[must_use]
    pub fn work(self, journal: Journal) -> Work {
        match self {
            Self::Claims | Self::Duplicates => Work::ClaimAndComplete,
            Self::Effects => Work::Effects(journal),
            Self::Batch => Work::Batch,
        }
    }
}

impl FromStr for Workload {
    type Err = BenchError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "claims" => Ok(Self::Claims),
            "duplicates" => Ok(Self::Duplicates),
            "effects" => Ok(Self::Effects),
            "batch" => Ok(Self::Batch),
            other => Err(BenchError::invalid(
                "workload",
                format!("is `{other}`; use claims, duplicates, effects or batch"),
            )),
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Claims => "claims",
            Self::Duplicates => "duplicates",
            Self::Effects => "effects",
            Self::Batch => "batch",
        })
    }
}

/// A run: against what, with what load, for how long.
#[derive(Clone, Debug, Serialize)]
pub struct BenchConfig {
    /// Where the nodes listen, `http://127.0.0.1:4360`; each worker starts at the next one.
    pub endpoints: Vec<String>,
    /// The tenant; it must exist.
    pub tenant: String,
    /// The namespace; it must exist.
    pub namespace: String,
    /// Workers, each with one call under way.
    pub concurrency: usize,
    /// How keys are chosen.
    pub distribution: Distribution,
    /// How many keys `uniform` and `zipf` draw from.
    pub keys: u64,
    /// Share of operations, 0 to 1, that repeat a key that the same worker had shortly before.
    pub duplicate_ratio: f64,
    /// What is done with a key.
    pub work: Work,
    /// Keys of one batch.
    pub batch_size: usize,
    /// Bytes of the stored result, and of an effect's request.
    pub payload_bytes: usize,
    /// Load before the measurement.
    #[serde(rename = "warm_up_seconds", serialize_with = "as_seconds")]
    pub warm_up: Duration,
    /// The measurement.
    #[serde(rename = "duration_seconds", serialize_with = "as_seconds")]
    pub duration: Duration,
    /// Operations after which a run ends early.
    pub operations_max: u64,
    /// Longest wait for one call, repeats by the client included.
    #[serde(rename = "timeout_seconds", serialize_with = "as_seconds")]
    pub timeout: Duration,
    /// Where all choices come from. Also part of the keys, so another seed has other keys.
    pub seed: u64,
}

fn as_seconds<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(duration.as_secs_f64())
}

impl Default for BenchConfig {
    fn default() -> Self {
        Self {
            endpoints: Vec::new(),
            tenant: "demo".to_owned(),
            namespace: "payouts".to_owned(),
            concurrency: 64,
            distribution: Distribution::Sequential,
            keys: 100_000,
            duplicate_ratio: 0.0,
            work: Work::ClaimAndComplete,
            batch_size: 100,
            payload_bytes: 64,
            warm_up: Duration::from_secs(2),
            duration: Duration::from_secs(10),
            operations_max: OPERATIONS_MAX,
            timeout: Duration::from_secs(10),
            seed: 1,
        }
    }
}

impl BenchConfig {
    /// Checks every bound before the first call.
    ///
    /// # Errors
    ///
    /// [`BenchError::Invalid`] for the first field that is out of bounds.
    pub fn check(&self) -> Result<(), BenchError> {
        if self.endpoints.is_empty() {
            return Err(BenchError::invalid("endpoint", "is missing; name at least one node"));
        }
        if !(1..=CONCURRENCY_MAX).contains(&self.concurrency) {
            let problem = format!("is {}; use 1 to {CONCURRENCY_MAX}", self.concurrency);
            return Err(BenchError::invalid("concurrency", problem));
        }
        if !(1..=KEYS_MAX).contains(&self.keys) {
            let problem = format!("is {}; use 1 to {KEYS_MAX}", self.keys);
            return Err(BenchError::invalid("keys", problem));
        }
        if !(0.0..=1.0).contains(&self.duplicate_ratio) {
            let problem = format!("is {}; use 0 to 1", self.duplicate_ratio);
            return Err(BenchError::invalid("duplicate-ratio", problem));
        }
        self.check_size()?;
        if self.duration.is_zero() || self.duration > DURATION_MAX {
            let problem = format!("is {:?}; use up to {DURATION_MAX:?}", self.duration);
            return Err(BenchError::invalid("duration", problem));
        }
        if self.warm_up > DURATION_MAX {
            let problem = format!("is {:?}; use up to {DURATION_MAX:?}", self.warm_up);
            return Err(BenchError::invalid("warm-up", problem));
        }
        if !(1..=OPERATIONS_MAX).contains(&self.operations_max) {
            let problem = format!("is {}; use 1 to {OPERATIONS_MAX}", self.operations_max);
            return Err(BenchError::invalid("operations", problem));
        }
        if self.timeout.is_zero() {
            return Err(BenchError::invalid("timeout", "is 0; use at least 1ms"));
        }
        Ok(())
    }

    /// Checks how much one call carries.
    fn check_size(&self) -> Result<(), BenchError> {
        if !(1..=BATCH_SIZE_MAX).contains(&self.batch_size) {
            let problem = format!("is {}; use 1 to {BATCH_SIZE_MAX}", self.batch_size);
            return Err(BenchError::invalid("batch-size", problem));
        }
        let most = match self.work {
            Work::Claim | Work::ClaimAndComplete => PAYLOAD_BYTES_MAX,
            Work::Effects(_) => limits::EFFECT_REQUEST_BYTES_MAX,
            // All results of a batch travel in one message; the rest of it needs room too.
            Work::Batch => limits::CLIENT_MESSAGE_BYTES_MAX / 2 / self.batch_size,
        };
        let most = most.min(PAYLOAD_BYTES_MAX);
        if self.payload_bytes > most {
            let problem = format!("is {}; use at most {most} with this load", self.payload_bytes);
            return Err(BenchError::invalid("payload-bytes", problem));
        }
        Ok(())
    }
}

/// Why a run gave no figures.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// The run was asked for something out of bounds.
    #[error("{field} {problem}")]
    Invalid {
        /// The option.
        field: &'static str,
        /// What is wrong with it and what to use.
        problem: String,
    },
    /// The client could not be built.
    #[error("set up the client")]
    Client(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The first call, made before any load, failed.
    #[error("make a first claim before the load starts")]
    FirstCall(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A worker ended by itself.
    #[error("wait for the workers")]
    Worker(#[from] tokio::task::JoinError),
}

impl BenchError {
    pub(crate) fn invalid(field: &'static str, problem: impl Into<String>) -> Self {
        Self::Invalid { field, problem: problem.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::{BenchConfig, Distribution, Duration, Journal, Work, Workload};

    fn config() -> BenchConfig {
        BenchConfig { endpoints: vec!["http://127.0.0.1:1".to_owned()], ..BenchConfig::default() }
    }

    #[test]
    fn the_defaults_only_miss_an_endpoint() {
        let error = BenchConfig::default().check().unwrap_err().to_string();
        assert!(error.starts_with("endpoint is missing"), "{error}");
        config().check().unwrap();
    }

    #[test]
    fn each_bound_names_its_option() {
        let refused = [
            (BenchConfig { concurrency: 0, ..config() }, "concurrency"),
            (BenchConfig { concurrency: 4097, ..config() }, "concurrency"),
            (BenchConfig { keys: 0, ..config() }, "keys"),
            (BenchConfig { keys: 1_000_001, ..config() }, "keys"),
            (BenchConfig { duplicate_ratio: 1.1, ..config() }, "duplicate-ratio"),
            (BenchConfig { duplicate_ratio: f64::NAN, ..config() }, "duplicate-ratio"),
            (BenchConfig { payload_bytes: 1 << 21, ..config() }, "payload-bytes"),
            (BenchConfig { batch_size: 0, ..config() }, "batch-size"),
            (BenchConfig { batch_size: 501, ..config() }, "batch-size"),
            (effects(16 * 1024 + 1), "payload-bytes"),
            (batch(500, 8 * 1024), "payload-bytes"),
            (BenchConfig { duration: Duration::ZERO, ..config() }, "duration"),
            (BenchConfig { duration: Duration::from_secs(3601), ..config() }, "duration"),
            (BenchConfig { warm_up: Duration::from_secs(3601), ..config() }, "warm-up"),
            (BenchConfig { operations_max: 0, ..config() }, "operations"),
            (BenchConfig { timeout: Duration::ZERO, ..config() }, "timeout"),
        ];
        for (config, field) in refused {
            let error = config.check().unwrap_err().to_string();
            assert!(error.starts_with(field), "{error} should name {field}");
        }
    }

    fn effects(payload_bytes: usize) -> BenchConfig {
        BenchConfig { work: Work::Effects(Journal::Both), payload_bytes, ..config() }
    }

    fn batch(batch_size: usize, payload_bytes: usize) -> BenchConfig {
        BenchConfig { work: Work::Batch, batch_size, payload_bytes, ..config() }
    }

    #[test]
    fn workloads_are_spelled_as_they_are_printed() {
        use Workload::{Batch, Claims, Duplicates, Effects};
        for workload in [Claims, Duplicates, Effects, Batch] {
            assert_eq!(workload.to_string().parse::<Workload>().unwrap(), workload);
        }
        for journal in [Journal::Apart, Journal::InClaim, Journal::Both] {
            assert_eq!(journal.to_string().parse::<Journal>().unwrap(), journal);
        }
        assert!("batches".parse::<Workload>().is_err() && "in".parse::<Journal>().is_err());
        assert!(Duplicates.duplicate_ratio() > 0.5);
        assert_eq!(Effects.work(Journal::Apart), Work::Effects(Journal::Apart));
    }

    #[test]
    fn distributions_are_spelled_as_they_are_printed() {
        for distribution in [Distribution::Sequential, Distribution::Uniform, Distribution::Zipf] {
            assert_eq!(distribution.to_string().parse::<Distribution>().unwrap(), distribution);
        }
        assert!("normal".parse::<Distribution>().is_err());
    }
}
