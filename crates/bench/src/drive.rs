//! The closed loop itself: workers that call, and the clock that starts and stops the measurement.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use firstclaim_client::{Client, ClientConfig};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::config::{BenchConfig, BenchError};
use crate::keys::{KeySpace, Keys};
use crate::report::Report;
use crate::tally::Tally;
use crate::worker::{self, Worker};

/// Workers that share one set of connections.
const WORKERS_PER_CLIENT: usize = 64;

/// Runs the load and returns its figures.
///
/// One call is made before the load, so that a wrong endpoint or a missing tenant is one clear error
/// and not a report full of them. Calls that fail later are counted by reason.
///
/// # Errors
///
/// [`BenchError`] if a setting is out of bounds or the first call fails.
pub async fn run(config: BenchConfig) -> Result<Report, BenchError> {
    config.check()?;
    let clients = clients(&config)?;
    probe(&clients[0], &config).await?;
    let space = Arc::new(KeySpace::new(&config));
    let clock = Clock::start(&config);
    let mut workers = JoinSet::new();
    for number in 0..config.concurrency {
        let client = clients[number % clients.len()].clone();
        let keys = Keys::new(Arc::clone(&space), &config, number as u64);
        let worker = Worker::new(client, keys, &config, number);
        workers.spawn(worker.run(clock.clone()));
    }
    let mut sum = Tally::default();
    while let Some(tally) = workers.join_next().await {
        sum.merge(&tally?);
    }
    let measured = Instant::now().min(clock.end).saturating_duration_since(clock.measure_from);
    Ok(Report::new(&config, sum, measured))
}

/// Clients that start at different endpoints, so that every node gets its share of callers.
fn clients(config: &BenchConfig) -> Result<Vec<Client>, BenchError> {
    let count = config.endpoints.len().max(config.concurrency.div_ceil(WORKERS_PER_CLIENT));
    (0..count)
        .map(|first| {
            let mut endpoints = config.endpoints.clone();
            endpoints.rotate_left(first % config.endpoints.len());
            let settings = ClientConfig::new(endpoints).with_timeout(config.timeout);
            Client::lazy(settings).map_err(|error| BenchError::Client(error.into()))
        })
        .collect()
}

async fn probe(client: &Client, config: &BenchConfig) -> Result<(), BenchError> {
    let key = format!("bench-{:016x}-probe", config.seed);
    let request = worker::request(config, &key).owner("bench-probe");
    match client.claim_once(&request).await {
        Ok(_answer) => Ok(()),
        Err(error) => Err(BenchError::FirstCall(error.into())),
    }
}

/// When to measure and when to stop; the same for all workers.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    measure_from: Instant,
    end: Instant,
    operations_left: Arc<AtomicU64>,
}

impl Clock {
    fn start(config: &BenchConfig) -> Self {
        let measure_from = Instant::now() + config.warm_up;
        Self {
            measure_from,
            end: measure_from + config.duration,
            operations_left: Arc::new(AtomicU64::new(config.operations_max)),
        }
    }

    /// Takes operations from the budget of the run; false when time or budget is used up.
    pub(crate) fn goes_on(&self, operations: usize) -> bool {
        let take = |left: u64| left.checked_sub(operations as u64);
        let took = self.operations_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        took.is_ok() && Instant::now() < self.end
    }

    /// Whether a call that began then and has ended now belongs to the measured time.
    pub(crate) fn measures(&self, began: Instant, ended: Instant) -> bool {
        began >= self.measure_from && ended <= self.end
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{BenchConfig, BenchError, Clock, run};

    fn config() -> BenchConfig {
        BenchConfig {
            // Nothing listens on the discard port of a test machine.
            endpoints: vec!["127.0.0.1:9".to_owned()],
            timeout: Duration::from_millis(300),
            operations_max: 3,
            ..BenchConfig::default()
        }
    }

    #[tokio::test]
    async fn a_cluster_that_cannot_be_reached_is_one_error() {
        let error = run(config()).await.unwrap_err();
        assert!(matches!(error, BenchError::FirstCall(_)), "{error}");
    }

    #[tokio::test]
    async fn a_bad_endpoint_is_named_before_any_call() {
        let config = BenchConfig { endpoints: vec!["not an address".to_owned()], ..config() };
        let error = run(config).await.unwrap_err();
        assert!(matches!(error, BenchError::Client(_)), "{error}");
    }

    #[tokio::test]
    async fn the_budget_of_operations_ends_a_run() {
        let clock = Clock::start(&config());
        assert!(!clock.goes_on(4));
        assert_eq!((0..10).filter(|_| clock.goes_on(1)).count(), 3);
    }

    #[tokio::test]
    async fn only_whole_calls_within_the_measured_time_count() {
        let clock = Clock::start(&config());
        let (from, end, step) = (clock.measure_from, clock.end, Duration::from_millis(1));
        assert!(clock.measures(from, end));
        assert!(!clock.measures(from - step, end));
        assert!(!clock.measures(from, end + step));
    }
}
