//! The closed loop itself: workers that call, and the clock that starts and stops the measurement.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use firstclaim_client::v1::claim_response::Outcome;
use firstclaim_client::v1::{AcquiredKind, ClaimResponse, PendingReason};
use firstclaim_client::{ClaimRequest, Client, ClientConfig, Completion, Error, fingerprint};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::config::{BenchConfig, BenchError, Work};
use crate::keys::{KeySpace, Keys};
use crate::report::Report;
use crate::tally::Tally;

/// Workers that share one set of connections.
const WORKERS_PER_CLIENT: usize = 64;
/// Names how the request of a key is made, so that all workers agree on its fingerprint.
const SCHEME: &str = "bench/1";
const CONTENT_TYPE: &str = "application/octet-stream";

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
        let worker = Worker {
            client: clients[number % clients.len()].clone(),
            owner: format!("bench-{:016x}-{number}", config.seed),
            keys: Keys::new(Arc::clone(&space), &config, number as u64),
            config: config.clone(),
            payload: vec![b'x'; config.payload_bytes],
            tally: Tally::default(),
        };
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
    let request = request(config, &key).owner("bench-probe");
    match client.claim_once(&request).await {
        Ok(_answer) => Ok(()),
        Err(error) => Err(BenchError::FirstCall(error.into())),
    }
}

fn request(config: &BenchConfig, key: &str) -> ClaimRequest {
    ClaimRequest::new(&config.tenant, &config.namespace, key)
        .fingerprint(fingerprint::sha256(SCHEME, key.as_bytes()))
}

/// When to measure and when to stop; the same for all workers.
#[derive(Clone, Debug)]
struct Clock {
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

    /// Takes one operation from the budget of the run; false when time or budget is used up.
    fn goes_on(&self) -> bool {
        let took =
            self.operations_left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        took.is_ok() && Instant::now() < self.end
    }

    /// Whether a call that began then and has ended now belongs to the measured time.
    fn measures(&self, began: Instant, ended: Instant) -> bool {
        began >= self.measure_from && ended <= self.end
    }
}

/// One of the concurrent callers.
struct Worker {
    client: Client,
    owner: String,
    keys: Keys,
    config: BenchConfig,
    payload: Vec<u8>,
    tally: Tally,
}

impl Worker {
    async fn run(mut self, clock: Clock) -> Tally {
        while clock.goes_on() {
            let key = self.keys.next();
            let request = request(&self.config, &key).owner(self.owner.as_str());
            if let Some(epoch) = self.claim(&request, &clock).await
                && self.config.work == Work::ClaimAndComplete
            {
                self.complete(&request, epoch, &clock).await;
            }
        }
        self.tally
    }

    /// Claims, and returns the epoch if it acquired.
    async fn claim(&mut self, request: &ClaimRequest, clock: &Clock) -> Option<u64> {
        let began = Instant::now();
        let answer = self.client.claim_once(request).await;
        let ended = Instant::now();
        let measured = clock.measures(began, ended);
        match answer {
            Ok(answer) => {
                if measured {
                    self.tally.claimed(outcome(&answer), ended - began);
                }
                match answer.outcome {
                    Some(Outcome::Acquired(acquired)) => Some(acquired.epoch),
                    Some(Outcome::Replay(_) | Outcome::Pending(_) | Outcome::Unresolved(_))
                    | None => None,
                }
            }
            Err(error) => {
                self.failed("claim", &error, measured);
                None
            }
        }
    }

    async fn complete(&mut self, request: &ClaimRequest, epoch: u64, clock: &Clock) {
        let completion = Completion::succeeded(CONTENT_TYPE, self.payload.clone());
        let began = Instant::now();
        let answer = self.client.complete(&request.holder(epoch), completion).await;
        let ended = Instant::now();
        let measured = clock.measures(began, ended);
        match answer {
            Ok(_stored) => {
                if measured {
                    self.tally.completed(ended - began);
                }
            }
            Err(error) => self.failed("complete", &error, measured),
        }
    }

    fn failed(&mut self, call: &str, error: &Error, measured: bool) {
        if measured {
            self.tally.failed(call, error.reason_text());
        }
    }
}

/// The name that an answer is counted under.
fn outcome(answer: &ClaimResponse) -> &'static str {
    match &answer.outcome {
        Some(Outcome::Acquired(acquired)) => match acquired.kind() {
            AcquiredKind::First => "first",
            AcquiredKind::AlreadyHeld => "already held",
            AcquiredKind::Recovery => "recovery",
            AcquiredKind::Takeover => "takeover",
            AcquiredKind::Retry => "retry",
            AcquiredKind::Rebound => "rebound",
            AcquiredKind::Unspecified => "acquired (of a kind unknown here)",
        },
        Some(Outcome::Replay(_)) => "replay",
        Some(Outcome::Pending(pending)) => match pending.reason() {
            PendingReason::Held => "pending",
            PendingReason::TakeoverDelayed => "pending (takeover delayed)",
            PendingReason::Backoff => "pending (backoff)",
            PendingReason::Unspecified => "pending (of a kind unknown here)",
        },
        Some(Outcome::Unresolved(_)) => "unresolved",
        None => "unknown here",
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
        assert_eq!((0..10).filter(|_| clock.goes_on()).count(), 3);
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
