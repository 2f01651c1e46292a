//! Holds a claim that is Pending until it has another answer, at most as long as its caller allows.
//!
//! The node that was asked holds the caller and has the claim decided again when something about the
//! record changed in its own state, or when the time came that the last answer named. So a wait
//! survives any change of leaders: it belongs to no leader. Semantics §8.

use std::sync::Arc;
use std::time::Duration;

use firstclaim_core::command::Claim;
use firstclaim_core::record::Logical;
use firstclaim_core::{Epoch, Millis, Reason, RecordId, Slot, Store as _};
use firstclaim_proto::v1;
use firstclaim_proto::v1::claim_response::Outcome;
use firstclaim_replica::Changes;
use futures::future::BoxFuture;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tonic::Status;
use tonic_types::StatusExt as _;

use crate::node::{Fail, Node};

/// Claims that one node holds at once; further ones are answered Pending at once.
const WAITERS_MAX: usize = 4096;
/// A claim is not decided again sooner than this.
const PAUSE_MIN: Duration = Duration::from_millis(20);
/// How soon to try again after a failure that may pass.
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// A claim is decided again at the latest after this long, whatever was seen.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Room for claims that wait.
#[derive(Debug)]
pub(crate) struct Waiters(Arc<Semaphore>);

impl Default for Waiters {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(WAITERS_MAX)))
    }
}

/// A place among those who wait; given back when dropped.
#[derive(Debug)]
struct Place<'a> {
    node: &'a Node,
    _permit: OwnedSemaphorePermit,
}

impl<'a> Place<'a> {
    fn take(node: &'a Node) -> Option<Self> {
        let permit = Arc::clone(&node.waiters.0).try_acquire_owned().ok()?;
        node.metrics.claim_waiters.inc();
        Some(Self { node, _permit: permit })
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.node.metrics.claim_waiters.dec();
    }
}

/// What a try came to, as far as waiting is concerned.
enum Came {
    /// Nothing more to wait for.
    Over(Result<v1::ClaimResponse, Fail>),
    /// Not now.
    Pending(v1::ClaimResponse),
    /// A failure that may pass; whether it may have taken effect.
    Failed(Fail, bool),
}

/// Has a claim decided by `once` until it has another answer than Pending, or `wait` is over.
///
/// Ends with the last Pending; with a failure only if there was none, or if the last try may have
/// been granted unheard.
pub(crate) async fn decide<'a>(
    node: &Node,
    claim: &Claim,
    give_up: Instant,
    once: impl Fn() -> BoxFuture<'a, Result<v1::ClaimResponse, Fail>>,
) -> Result<v1::ClaimResponse, Fail> {
    let Some(_place) = Place::take(node) else { return once().await };
    let mut last: Option<(v1::ClaimResponse, Instant)> = None;
    loop {
        // Subscribed before the claim is decided: no change in between is missed.
        let mut changes = changes(node, claim);
        let mut unheard = None;
        let (pause, epoch) = match sort(once().await) {
            Came::Over(result) => return result,
            Came::Pending(response) => {
                let pause = retry_after(&response).clamp(PAUSE_MIN, PAUSE_MAX);
                let epoch = pending(&response).map(|pending| Epoch(pending.epoch));
                last = Some((response, Instant::now()));
                (pause, epoch)
            }
            // Nobody has ever said that it is pending: that is the caller's to know.
            Came::Failed(fail, _) if last.is_none() => return Err(fail),
            Came::Failed(fail, maybe) => {
                unheard = maybe.then_some(fail);
                (RETRY_PAUSE, None)
            }
        };
        let next = Instant::now() + pause;
        let more = tokio::select! {
            () = tokio::time::sleep_until(give_up) => false,
            () = node.gate.closing() => false,
            () = tokio::time::sleep_until(next) => true,
            () = woken(node, claim, &mut changes, epoch) => true,
        };
        if !more || Instant::now() >= give_up {
            return match (unheard, last) {
                (Some(fail), _) => Err(fail),
                (None, Some((response, at))) => Ok(aged(response, at.elapsed())),
                (None, None) => once().await,
            };
        }
    }
}

/// What happens to the record in this node's state; none if there is no such namespace.
fn changes(node: &Node, claim: &Claim) -> Option<Changes> {
    Some(node.replica.watch_record(&id(node, claim)?))
}

fn id(node: &Node, claim: &Claim) -> Option<RecordId> {
    let names = &claim.record;
    let slot = node.replica.read(|state| state.namespace(&names.tenant, &names.namespace));
    match slot {
        Ok((_, Some(Slot::Live(namespace)))) => {
            Some(RecordId { namespace: namespace.id, key: names.key.clone() })
        }
        Ok((_, Some(Slot::Deleted(_)) | None)) | Err(_) => None,
    }
}

/// Waits until the record has changed in a way that may change the answer.
async fn woken(node: &Node, claim: &Claim, changes: &mut Option<Changes>, epoch: Option<Epoch>) {
    let Some(changes) = changes else { return std::future::pending().await };
    loop {
        if changes.changed().await.is_none() {
            return std::future::pending().await;
        }
        if !still_held(node, claim, epoch) {
            return tokio::time::sleep(PAUSE_MIN).await;
        }
    }
}

/// Whether the claim that was in the way is still live here: it was only renewed, or this node's
/// state is behind. Anything else is for the log to look at.
fn still_held(node: &Node, claim: &Claim, epoch: Option<Epoch>) -> bool {
    let (Some(id), Some(epoch)) = (id(node, claim), epoch) else { return false };
    let looked = node.replica.read(|state| {
        let clock = state.cluster()?.clock;
        Ok(state.record(&id)?.is_some_and(|record| {
            record.epoch < epoch
                || record.epoch == epoch && record.logical(&clock) == Some(Logical::Live)
        }))
    });
    matches!(looked, Ok((_, true)))
}

fn pending(response: &v1::ClaimResponse) -> Option<&v1::Pending> {
    match &response.outcome {
        Some(Outcome::Pending(pending)) => Some(pending),
        Some(Outcome::Acquired(_) | Outcome::Replay(_) | Outcome::Unresolved(_)) | None => None,
    }
}

fn retry_after(response: &v1::ClaimResponse) -> Duration {
    let named = pending(response).and_then(|pending| pending.retry_after);
    named.and_then(|wire| Duration::try_from(wire).ok()).unwrap_or(PAUSE_MAX)
}

/// The answer as it is some time later: what is left of its wait, never nothing.
fn aged(mut response: v1::ClaimResponse, age: Duration) -> v1::ClaimResponse {
    let left = retry_after(&response).saturating_sub(age).max(PAUSE_MIN);
    if let Some(Outcome::Pending(pending)) = &mut response.outcome {
        let millis = Millis(u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
        pending.retry_after = Some(firstclaim_proto::convert::time::duration(millis));
    }
    response
}

fn sort(result: Result<v1::ClaimResponse, Fail>) -> Came {
    match result {
        Ok(response) if pending(&response).is_some() => Came::Pending(response),
        Ok(response) => Came::Over(Ok(response)),
        Err(fail) => match passing(&fail) {
            Some(maybe) => Came::Failed(fail, maybe),
            None => Came::Over(Err(fail)),
        },
    }
}

/// Whether a failure may pass by itself, and then whether the call may have taken effect.
fn passing(fail: &Fail) -> Option<bool> {
    let (reason, decided) = match fail {
        Fail::Here(failure) => (Some(failure.reason()), failure.is_decided()),
        Fail::There(status) => reason_of(status),
    };
    let reason = reason.filter(|reason| reason.should_repeat() && !decided)?;
    Some(reason == Reason::OutcomeUnknown)
}

fn reason_of(status: &Status) -> (Option<Reason>, bool) {
    use firstclaim_proto::error::{APPLIED, Applied};
    let Some(info) = status.get_details_error_info() else { return (None, false) };
    let decided = info.metadata.get(APPLIED).and_then(|text| Applied::parse(text));
    (Reason::parse(&info.reason), decided == Some(Applied::Decided))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Failure;

    fn response(millis: u64) -> v1::ClaimResponse {
        let retry_after = Some(firstclaim_proto::convert::time::duration(Millis(millis)));
        let pending = v1::Pending { retry_after, epoch: 7, ..v1::Pending::default() };
        v1::ClaimResponse { outcome: Some(Outcome::Pending(pending)), store_time: None }
    }

    #[test]
    fn an_answer_that_has_aged_asks_for_less_and_never_for_nothing() {
        let left = |age| retry_after(&aged(response(900), Duration::from_millis(age)));
        assert_eq!(left(300), Duration::from_millis(600));
        assert_eq!(left(5000), PAUSE_MIN);
    }

    #[test]
    fn failures_that_pass_are_told_from_those_that_do_not() {
        let here = |failure: Failure| passing(&failure.into());
        assert_eq!(here(Failure::no_leader("none")), Some(false));
        assert_eq!(here(Failure::unknown("lost")), Some(true));
        assert_eq!(here(Failure::internal("read")), None);
        let there = |failure: Failure| passing(&Fail::There(Box::new(failure.into_status())));
        assert_eq!(there(Failure::unknown("lost")), Some(true));
        let refused = Failure::refused(
            &firstclaim_core::Refusal::TenantNotFound,
            firstclaim_core::Timestamp(1),
        );
        assert_eq!(there(refused), None);
        assert!(matches!(sort(Ok(response(1))), Came::Pending(_)));
    }
}
