//! The whole round for one delivery: claim, work, complete.

use std::time::Duration;

use firstclaim_core::limits;
use tokio::time::{Instant, sleep};

use crate::claim::Claim;
use crate::client::Client;
use crate::error::Error;
use crate::outcome::{ClaimOutcome, Completion};
use crate::request::ClaimRequest;
use crate::work::{Backoff, Work};
use crate::{time, v1};

/// The wait before a pending claim is asked for again: at least, and at most.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// The longest that the store waits for an answer other than Pending.
const WAIT_MAX: Duration = Duration::from_millis(limits::WAIT_MAX.0);

/// How [`execute_once()`] behaves where there is a choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Execution {
    /// How long to wait for another holder before Pending is returned. Default: not at all, so that
    /// the delivery goes back to its queue.
    pub wait: Duration,
    /// How long the intent rests after a try that failed for a time.
    pub backoff: Backoff,
}

impl Execution {
    /// Waits up to that long for another holder.
    #[must_use]
    pub fn waiting(wait: Duration) -> Self {
        Self { wait, ..Self::default() }
    }

    /// The same with other pauses after tries that failed for a time.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }
}

/// What became of the delivery. Acknowledge it on `Completed` and `Replayed`; hand it back to the
/// queue on the others.
#[derive(Clone, Debug, PartialEq)]
pub enum Executed {
    /// The work ran here and is completed.
    Completed(v1::CompleteResponse),
    /// The claim completed the record in the same step, as it asked for; the work did not run.
    CompletedAtOnce(v1::Acquired),
    /// It was completed before; the work did not run.
    Replayed(v1::Replay),
    /// Another holds it, or a pause runs; the work did not run.
    Pending(v1::Pending),
    /// The work ran here and asked for another try.
    Released(v1::ReleaseResponse),
    /// The work ran here, and nobody knows whether it happened. It has to be settled.
    Unknown(v1::ReleaseResponse),
}

/// Why there is no [`Executed`].
#[derive(Debug, thiserror::Error)]
pub enum ExecuteError {
    /// The claim failed; the work did not run.
    #[error("claim: {0}")]
    Claim(#[source] Error),
    /// Somebody else may have done the work, and nobody knows; it did not run here.
    #[error("the intent is unresolved since epoch {}: an earlier attempt may have done it", .0.epoch)]
    Unresolved(v1::Unresolved),
    /// An earlier attempt may have sent an effect, and this one accepted to find out: look it up,
    /// settle it, and end the claim. Nothing was sent here.
    #[error("epoch {} has to find out what earlier attempts did", .0.epoch())]
    Reconcile(Claim),
    /// The claim was granted, but leave to send the effect was not. Nothing was sent, and the claim was
    /// given back, if that was possible.
    #[error("ask for leave to send: {0}")]
    Effect(#[source] Error),
    /// The work ran, but its outcome could not be stored. See what it says about `applied`; the
    /// guard that comes with it can repeat the call.
    #[error("store the outcome of epoch {}: {error}", .claim.epoch())]
    Report {
        /// The grant.
        claim: Claim,
        /// Why.
        #[source]
        error: Error,
    },
}

/// Claims, runs `work` under the claim with its lease renewed, and stores how it ended.
///
/// What `work` returns is [`Work`], or a `Result` whose error turns into a
/// [`WorkError`](crate::WorkError): that decides whether the intent is failed for good, tried again
/// after a pause that grows with the tries, or left for somebody to find out.
///
/// `work` runs at most once, and only if this call was granted the claim. It asks
/// [`Claim::safe_to_dispatch`] before each effect, and [`Claim::mode`] if the request accepts
/// recovery. It is not stopped when the claim is lost, because an effect may be under way: what it
/// returns is still reported, and the store keeps it as evidence if somebody took over.
///
/// Nothing is acknowledged for the caller: what to do with the delivery is said by the result.
///
/// # Errors
///
/// [`ExecuteError`].
///
/// # Cancel safety
///
/// Dropping the future drops the claim: the lease lapses, and the work may have happened.
pub async fn execute_once<F, Fut>(
    client: &Client,
    request: ClaimRequest,
    execution: Execution,
    work: F,
) -> Result<Executed, ExecuteError>
where
    F: FnOnce(Claim) -> Fut,
    Fut: Future,
    Fut::Output: Into<Work>,
{
    let claim = match claim_patiently(client, request, execution).await? {
        ClaimOutcome::Acquired(claim) => claim,
        ClaimOutcome::Completed(acquired) => return Ok(Executed::CompletedAtOnce(acquired)),
        ClaimOutcome::Replay(replay) => return Ok(Executed::Replayed(replay)),
        ClaimOutcome::Pending(pending) => return Ok(Executed::Pending(pending)),
        ClaimOutcome::Unresolved(unresolved) => return Err(ExecuteError::Unresolved(unresolved)),
    };
    let said = work(claim.clone()).await.into();
    report(&claim, said, execution.backoff)
        .await
        .map_err(|error| ExecuteError::Report { claim, error })
}

/// Claims, and waits for another holder as long as the policy says.
pub(crate) async fn claim_patiently(
    client: &Client,
    request: ClaimRequest,
    execution: Execution,
) -> Result<ClaimOutcome, ExecuteError> {
    let start = Instant::now();
    // Who waits for ever may say so: no point in time is that far away.
    let left = || execution.wait.saturating_sub(start.elapsed());
    loop {
        // The store itself wakes those that wait; it does so for a bounded time only.
        let left_of_call = left().min(WAIT_MAX);
        let request = ClaimRequest { wait: request.wait.max(left_of_call), ..request.clone() };
        let outcome = client.claim(request).await.map_err(ExecuteError::Claim)?;
        let ClaimOutcome::Pending(pending) = &outcome else { return Ok(outcome) };
        let asked = pending.retry_after.as_ref().and_then(time::from_wire).unwrap_or(PAUSE_MIN);
        let pause = asked.clamp(PAUSE_MIN, PAUSE_MAX).mul_f64(rand::random_range(1.0..=1.1));
        let left = left();
        if left.is_zero() {
            return Ok(outcome);
        }
        sleep(pause.min(left)).await;
    }
}

/// Gives a claim back after a failure that did nothing.
pub(crate) async fn give_back(
    claim: &Claim,
    backoff: Backoff,
) -> Result<v1::ReleaseResponse, Error> {
    claim.release_retry(backoff.after(claim.acquired().execute_grants)).await
}

async fn report(claim: &Claim, said: Work, backoff: Backoff) -> Result<Executed, Error> {
    match said {
        Work::Done(result) => {
            let completion = Completion::new(v1::Disposition::Succeeded, result);
            claim.finish(completion).await.map(Executed::Completed)
        }
        Work::FinalFailure(result) => {
            let completion = Completion::new(v1::Disposition::Failed, result);
            claim.finish(completion).await.map(Executed::Completed)
        }
        Work::Retry { after } => claim.release_retry(after).await.map(Executed::Released),
        Work::RetryLater => give_back(claim, backoff).await.map(Executed::Released),
        Work::Unknown { note } => claim.release_unknown(note).await.map(Executed::Unknown),
    }
}
