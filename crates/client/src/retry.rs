//! When a call is sent again, and to whom.
//!
//! * `applied = no`: nothing happened and nothing will, so any endpoint may be asked.
//! * `applied = maybe`: only the *same* call with the same attempt id may be repeated, because only
//!   then the log recognises it. Calls without an attempt id that change something are not repeated.
//! * `applied = decided`: never.
//!
//! All tries of a call share one deadline. When it is over, or when nothing may be repeated, a call
//! that may have taken effect in any of its tries fails as OUTCOME_UNKNOWN.

use std::future::Future;
use std::time::Duration;

use firstclaim_core::Reason;
use firstclaim_proto::error::LEADER_ENDPOINT;
use tokio::time::{Instant, sleep, timeout};
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

use crate::endpoints::{Endpoint, Pool};
use crate::error::{Applied, Error, TryFailure};

/// The pause after all endpoints failed once, and at most.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Endpoints whose failures are reported.
const TRIES_REPORTED_MAX: usize = 16;

/// Whether a call that may have taken effect may be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// It changes nothing, or the log recognises its repeats.
    Safe,
    /// Its repeat would be another call.
    Unsafe,
}

/// The time that a call has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// For one try.
    pub(crate) per_try: Duration,
    /// For all of them.
    pub(crate) overall: Duration,
    /// For all of them while no endpoint can be connected to.
    pub(crate) unreachable: Duration,
}

impl Budget {
    /// The same for a call that the store may hold for that long.
    pub(crate) fn and(self, wait: Duration) -> Self {
        Self { per_try: self.per_try + wait, overall: self.overall + wait, ..self }
    }
}

/// An answer, with the moment at which the request that got it was sent.
#[derive(Debug)]
pub(crate) struct Answer<R> {
    /// The message.
    pub(crate) message: R,
    /// Taken before the request left.
    pub(crate) sent: Instant,
}

/// Sends `request` until there is an answer that counts, or no time or no safe way is left.
pub(crate) async fn call<Q, R, F, Fut>(
    pool: &Pool,
    budget: Budget,
    repeat: Repeat,
    request: Q,
    send: F,
) -> Result<Answer<R>, Error>
where
    Q: Clone + Send,
    F: Fn(Channel, Request<Q>) -> Fut + Send,
    Fut: Future<Output = Result<Response<R>, Status>> + Send,
{
    let mut progress = Progress::new(budget);
    loop {
        let left = progress.left();
        let endpoint = match pool.next(&progress.tried) {
            Some(endpoint) if !left.is_zero() => endpoint,
            None if !left.is_zero() => {
                progress.pause().await;
                continue;
            }
            Some(_) | None => return Err(progress.give_up()),
        };
        let sent = Instant::now();
        let error = match once(&endpoint, left.min(budget.per_try), request.clone(), &send).await {
            Ok(message) => {
                endpoint.answered();
                return Ok(Answer { message, sent });
            }
            Err(error) => error,
        };
        tracing::debug!(endpoint = %endpoint.name, reason = error.reason_text(), "a try failed");
        note(pool, &endpoint, &error);
        let transient = error.is_transient();
        progress.failed(&endpoint, error);
        if !transient || (progress.maybe && repeat == Repeat::Unsafe) {
            return Err(progress.give_up());
        }
    }
}

/// One try at one endpoint. The node learns how long the caller waits.
pub(crate) async fn once<Q, R, F, Fut>(
    endpoint: &Endpoint,
    within: Duration,
    message: Q,
    send: &F,
) -> Result<R, Error>
where
    F: Fn(Channel, Request<Q>) -> Fut,
    Fut: Future<Output = Result<Response<R>, Status>>,
{
    let mut request = Request::new(message);
    request.set_timeout(within);
    match timeout(within, send(endpoint.channel.clone(), request)).await {
        Ok(Ok(response)) => Ok(response.into_inner()),
        Ok(Err(status)) => Err(Error::from_status(&status)),
        Err(_elapsed) => Err(Error::no_answer(within)),
    }
}

/// Lets the pool learn from a failure.
fn note(pool: &Pool, endpoint: &Endpoint, error: &Error) {
    if !error.is_transient() {
        endpoint.answered();
        return;
    }
    endpoint.failed();
    pool.forget_hint(&endpoint.name);
    match error.metadata().get(LEADER_ENDPOINT) {
        Some(leader) if *leader != endpoint.name && !leader.is_empty() => pool.hint(leader),
        Some(_) | None => {}
    }
}

/// What became of the tries so far.
struct Progress {
    start: Instant,
    budget: Budget,
    /// Whether a connection was made in any try.
    connected: bool,
    /// Asked in this round.
    tried: Vec<String>,
    rounds: u32,
    /// Whether any try may have taken effect.
    maybe: bool,
    last: Option<Error>,
    tries: Vec<TryFailure>,
    /// The longest wait that a node asked for in this round.
    retry_after: Duration,
}

impl Progress {
    fn new(budget: Budget) -> Self {
        Self {
            start: Instant::now(),
            budget,
            connected: false,
            tried: Vec::new(),
            rounds: 0,
            maybe: false,
            last: None,
            tries: Vec::new(),
            retry_after: Duration::ZERO,
        }
    }

    fn left(&self) -> Duration {
        let waited = self.start.elapsed();
        let all_were_asked = self.rounds > 0;
        if all_were_asked && !self.connected && waited >= self.budget.unreachable {
            return Duration::ZERO;
        }
        self.budget.overall.saturating_sub(waited)
    }

    fn failed(&mut self, endpoint: &Endpoint, error: Error) {
        self.maybe |= error.applied() == Applied::Maybe;
        self.connected |= error.reason() != Reason::Unreachable;
        self.retry_after = self.retry_after.max(error.retry_after().unwrap_or_default());
        self.tries.retain(|failure| failure.endpoint != endpoint.name);
        if self.tries.len() < TRIES_REPORTED_MAX {
            self.tries.push(TryFailure {
                endpoint: endpoint.name.clone(),
                reached: error.reached(),
                problem: if error.reached() {
                    error.to_string()
                } else {
                    error.message().to_owned()
                },
            });
        }
        self.tried.push(endpoint.name.clone());
        // "Not reached" says less than what a node answered before.
        let said_more = self.last.as_ref().is_some_and(Error::reached);
        if error.reached() || !error.is_transient() || !said_more {
            self.last = Some(error);
        }
    }

    /// Waits before all endpoints are asked again.
    async fn pause(&mut self) {
        let bound = PAUSE_MIN.saturating_mul(1 << self.rounds.min(10)).min(PAUSE_MAX);
        let pause = bound.mul_f64(rand::random_range(0.5..=1.0)).max(self.retry_after);
        self.rounds += 1;
        self.tried.clear();
        self.retry_after = Duration::ZERO;
        sleep(pause.min(self.left())).await;
    }

    fn give_up(&mut self) -> Error {
        let waited = self.start.elapsed();
        let error = self.last.take().unwrap_or_else(|| Error::no_time(waited));
        let error = error.with_tries(std::mem::take(&mut self.tries));
        let error = if self.connected { error } else { error.nobody_reached(waited) };
        if self.maybe && error.applied() != Applied::Decided {
            error.outcome_unknown(waited)
        } else {
            error
        }
    }
}
