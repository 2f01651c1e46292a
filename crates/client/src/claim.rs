//! The guard of a claim: it knows until when it is safe to act, and keeps the lease alive.
//!
//! Deadlines are counted from the moment at which the request that got the grant was *sent*, on this
//! process's monotonic clock: whatever the network did in between only makes the guard stop earlier.
//! That clock (`CLOCK_MONOTONIC` on Linux) stands still while the machine is suspended. On a machine
//! that may be suspended, ask the store (renew) after a wake-up before acting on a claim.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use firstclaim_core::limits;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::client::Client;
use crate::effects::{EffectRequest, Permit, Settlement};
use crate::error::Error;
use crate::outcome::Completion;
use crate::renew::{self, Renewal};
use crate::request::{ClaimRequest, HolderRef};
use crate::{Reason, time, v1};

const LEASE_MAX: Duration = Duration::from_millis(limits::LEASE_POLICY_MAX.0);

/// The right to act on an intent.
///
/// While a clone of it lives, the lease is renewed at a third of its length. Dropping the last one
/// without completing or releasing stops the renewal, and the lease lapses: to everybody else the
/// work may then have happened.
#[derive(Clone)]
pub struct Claim {
    inner: Arc<Inner>,
}

struct Inner {
    client: Client,
    holder: HolderRef,
    owner: String,
    acquired: v1::Acquired,
    permits: Vec<Result<Permit, Error>>,
    standing: Arc<watch::Sender<Standing>>,
    _renewal: DropGuard,
    stop: CancellationToken,
}

impl fmt::Debug for Claim {
    /// Names the grant, not the key: keys may be personal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claim")
            .field("epoch", &self.epoch())
            .field("attempt_id", &self.attempt_id())
            .field("kind", &self.kind().as_str_name())
            .finish_non_exhaustive()
    }
}

/// How a grant stands at the moment.
#[derive(Clone, Debug)]
pub(crate) struct Standing {
    pub(crate) deadline: Instant,
    pub(crate) safe_until: Instant,
    pub(crate) mode: v1::Mode,
    pub(crate) effects: Vec<v1::Effect>,
    pub(crate) lost: Option<Lost>,
    pub(crate) ended: bool,
}

/// For how long a grant holds, counted from the send of the call that says so.
#[derive(Clone, Debug)]
pub(crate) struct Term {
    pub(crate) sent: Instant,
    /// The store's time when it decided: later than `sent`.
    pub(crate) store_time: prost_types::Timestamp,
    pub(crate) lease: Duration,
    /// For how long it is safe to act: never longer than the lease.
    pub(crate) safe: Duration,
}

impl Term {
    /// Reads the times of an answer.
    pub(crate) fn new(
        sent: Instant,
        store_time: Option<prost_types::Timestamp>,
        expire: Option<prost_types::Timestamp>,
        safe: Option<prost_types::Timestamp>,
    ) -> Result<Self, Error> {
        let store_time = store_time.ok_or_else(|| Error::malformed("the store time"))?;
        let expire = expire.ok_or_else(|| Error::malformed("the end of the lease"))?;
        // No lease is longer, and an answer that is wrong must not name a time that cannot be.
        let lease = time::between(&store_time, &expire).min(LEASE_MAX);
        let safe = time::between(&store_time, &safe.unwrap_or(expire)).min(lease);
        Ok(Self { sent, store_time, lease, safe })
    }
}

/// Why a claim is no longer held.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// It could not be renewed in time.
    #[error("the lease ran out before it could be renewed")]
    Lapsed,
    /// The store refused to renew it.
    #[error("the store refused to renew the lease: {reason}: {message}", reason = .reason.as_str())]
    Refused {
        /// Why.
        reason: Reason,
        /// In words.
        message: String,
    },
}

/// Why it is not safe to start something under a claim.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotSafe {
    /// It would take longer than the lease is known to hold.
    #[error("{} ms are left of the lease, {} ms are needed", .left.as_millis(), .needed.as_millis())]
    TooLittleTime {
        /// How long it is still safe.
        left: Duration,
        /// How long it has to be.
        needed: Duration,
    },
    /// The claim is no longer held.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// The grant is for finding out what happened, not for doing it.
    #[error("the grant allows to look up and settle, not to act ({mode})", mode = .0.as_str_name())]
    Mode(v1::Mode),
    /// The claim was completed or released by this guard.
    #[error("the claim was completed or released already")]
    Ended,
}

impl Claim {
    /// Takes hold of a grant and starts to renew it.
    pub(crate) fn start(
        client: Client,
        request: ClaimRequest,
        acquired: v1::Acquired,
        term: &Term,
    ) -> Result<Self, Error> {
        let permits = permits(&request.effects, &acquired, (term.sent, &term.store_time))?;
        let wanted = request.lease;
        let owner = if request.owner.is_empty() { client.owner() } else { &request.owner };
        let owner = owner.to_owned();
        let holder = request.into_holder(acquired.epoch);
        let standing = Arc::new(watch::Sender::new(Standing {
            deadline: term.sent + term.lease,
            safe_until: term.sent + term.safe,
            mode: acquired.mode(),
            effects: acquired.effects.clone(),
            lost: None,
            ended: false,
        }));
        let stop = CancellationToken::new();
        let renewal = Renewal {
            client: client.clone(),
            holder: holder.clone(),
            wanted,
            standing: Arc::clone(&standing),
        };
        tokio::spawn(renew::run(renewal, term.sent, term.lease, stop.clone()));
        let _renewal = stop.clone().drop_guard();
        let inner = Inner { client, holder, owner, acquired, permits, standing, _renewal, stop };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The fencing token. Hand it on to whatever can compare it.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.inner.holder.epoch
    }

    /// The attempt that holds the claim.
    #[must_use]
    pub fn attempt_id(&self) -> &str {
        &self.inner.holder.attempt_id
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.inner.holder.key
    }

    /// Names the grant.
    #[must_use]
    pub fn holder(&self) -> &HolderRef {
        &self.inner.holder
    }

    /// The grant as it was answered: by which way it was acquired, what earlier holders left open.
    #[must_use]
    pub fn acquired(&self) -> &v1::Acquired {
        &self.inner.acquired
    }

    /// By which way it was acquired.
    #[must_use]
    pub fn kind(&self) -> v1::AcquiredKind {
        self.inner.acquired.kind()
    }

    /// What became of the effects that the claim carried, by position: leave to send each, or why it
    /// must not be sent. Empty if the grant is not for EXECUTE.
    pub fn permits(&self) -> &[Result<Permit, Error>] {
        &self.inner.permits
    }

    /// What the holder may do, as of the last renewal or settlement. It rises to EXECUTE when
    /// everything that was open is settled.
    #[must_use]
    pub fn mode(&self) -> v1::Mode {
        self.inner.standing.borrow().mode
    }

    /// What happened under earlier grants, or did not, with its evidence: as of the grant, or of the
    /// renewal that showed its rise to EXECUTE. Look at it before you act after others.
    #[must_use]
    pub fn effects(&self) -> Vec<v1::Effect> {
        self.inner.standing.borrow().effects.clone()
    }

    /// When the lease ends, as of the last renewal. See the caveat about suspension in the module.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.inner.standing.borrow().deadline
    }

    /// Asks for leave to send an effect, before it is sent. An effect that is sent under a permit is
    /// the permit's to time: see [`Permit::check`].
    ///
    /// Repeating it with the same number gets the same permit.
    ///
    /// # Errors
    ///
    /// See [`Client::record_effect`].
    pub async fn record_effect(&self, effect: &EffectRequest) -> Result<Permit, Error> {
        self.inner.client.record_effect(&self.inner.holder, effect).await
    }

    /// Says what became of an effect of the record, in the name of this claim's owner. Repeating it
    /// changes nothing. If it leaves nothing open, a claim for RESUME or RECONCILE rises to EXECUTE.
    ///
    /// # Errors
    ///
    /// See [`Client::settle`].
    pub async fn settle(&self, settlement: &Settlement) -> Result<v1::SettleEffectResponse, Error> {
        let Inner { client, holder, owner, .. } = &*self.inner;
        let answer = client.settle(&holder.record(), settlement, owner).await?;
        if answer.mode() == v1::Mode::Execute && self.mode() != v1::Mode::Execute {
            self.confirm_rise().await;
        }
        Ok(answer)
    }

    /// A settlement names no epoch, so the claim that rose may be another one by now. A renewal says
    /// what *this* one may do; if it gets no answer, the next one in the background will.
    async fn confirm_rise(&self) {
        let left = self.deadline().saturating_duration_since(Instant::now());
        let Inner { client, holder, standing, .. } = &*self.inner;
        match client.renew_within(holder, None, left).await {
            Ok(answer) => drop(renew::extend(standing, &answer)),
            Err(error) => {
                tracing::debug!(reason = error.reason_text(), "ask whether a claim rose");
            }
        }
    }

    /// Says whether something that takes `needed` may be started now.
    ///
    /// Ask immediately before each send, with the longest time that the send may take.
    ///
    /// # Errors
    ///
    /// [`NotSafe`] says why not.
    pub fn safe_to_dispatch(&self, needed: Duration) -> Result<(), NotSafe> {
        let standing = self.inner.standing.borrow().clone();
        if standing.ended {
            return Err(NotSafe::Ended);
        }
        if let Some(lost) = standing.lost {
            return Err(NotSafe::Lost(lost));
        }
        match standing.mode {
            v1::Mode::Execute | v1::Mode::Resume => {}
            v1::Mode::Reconcile | v1::Mode::Unspecified => {
                return Err(NotSafe::Mode(standing.mode));
            }
        }
        let left = standing.safe_until.saturating_duration_since(Instant::now());
        if left < needed || left.is_zero() {
            return Err(NotSafe::TooLittleTime { left, needed });
        }
        Ok(())
    }

    /// Waits until it is no longer safe to act: the lease could not be renewed, or the store refused
    /// to. Never returns after the claim was completed or released by this guard.
    pub async fn lost(&self) -> Lost {
        let mut changes = self.inner.standing.subscribe();
        loop {
            let standing = changes.borrow_and_update().clone();
            if let Some(lost) = standing.lost {
                return lost;
            }
            if standing.ended {
                std::future::pending::<()>().await;
            }
            tokio::select! {
                changed = changes.changed() => if changed.is_err() {
                    return Lost::Lapsed;
                },
                () = tokio::time::sleep_until(standing.safe_until) => {
                    let latest = self.inner.standing.borrow().clone();
                    if latest.lost.is_none() && !latest.ended && latest.safe_until <= Instant::now()
                    {
                        return Lost::Lapsed;
                    }
                }
            }
        }
    }

    /// Ends the intent as carried out, with that result. It may be repeated after a failure; it may
    /// succeed even if the lease is over, as long as nobody took over.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn complete(
        &self,
        content_type: &str,
        result: impl Into<Vec<u8>>,
    ) -> Result<v1::CompleteResponse, Error> {
        self.finish(Completion::succeeded(content_type, result)).await
    }

    /// Ends the intent as not carried out, for good, with that result.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn fail(
        &self,
        content_type: &str,
        result: impl Into<Vec<u8>>,
    ) -> Result<v1::CompleteResponse, Error> {
        self.finish(Completion::failed(content_type, result)).await
    }

    /// Ends the intent, and says what became of effects: they are settled before the rest is judged,
    /// and stay so whatever becomes of the call.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn finish(&self, completion: Completion) -> Result<v1::CompleteResponse, Error> {
        let answer = self.inner.client.complete(&self.inner.holder, completion).await?;
        self.end();
        Ok(answer)
    }

    /// Gives the claim back: nothing happened, try again after that time.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn release_retry(&self, after: Duration) -> Result<v1::ReleaseResponse, Error> {
        let retry_after = (!after.is_zero()).then(|| time::to_wire(after));
        let retry = v1::ReleaseRetry { retry_after };
        self.release(v1::release_request::Intent::Retry(retry)).await
    }

    /// Gives the claim back: nothing happened, and the key may be bound to another request.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn release_unbind(&self) -> Result<v1::ReleaseResponse, Error> {
        self.release(v1::release_request::Intent::Unbind(v1::ReleaseUnbind {})).await
    }

    /// Gives the claim back: nobody knows whether it happened.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn release_unknown(
        &self,
        note: impl Into<String>,
    ) -> Result<v1::ReleaseResponse, Error> {
        let unknown = v1::ReleaseUnknown { note: note.into() };
        self.release(v1::release_request::Intent::Unknown(unknown)).await
    }

    async fn release(
        &self,
        intent: v1::release_request::Intent,
    ) -> Result<v1::ReleaseResponse, Error> {
        let answer = self.inner.client.release(&self.inner.holder, intent).await?;
        self.end();
        Ok(answer)
    }

    /// What is open, and everything else about the record, as the store has it now.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn record(&self) -> Result<v1::GetResponse, Error> {
        let HolderRef { tenant, namespace, key, .. } = &self.inner.holder;
        let consistency = v1::Consistency::Linearizable;
        self.inner.client.get((tenant, namespace, key), consistency).await
    }

    fn end(&self) {
        self.inner.standing.send_modify(|standing| standing.ended = true);
        self.inner.stop.cancel();
    }
}

/// The answers to the effects that a claim carried.
fn permits(
    asked: &[EffectRequest],
    acquired: &v1::Acquired,
    (sent, store_time): (Instant, &prost_types::Timestamp),
) -> Result<Vec<Result<Permit, Error>>, Error> {
    use v1::dispatch_answer::Outcome;
    let answers = &acquired.dispatches;
    if !answers.is_empty() && answers.len() != asked.len() {
        return Err(Error::malformed("the answer to an effect"));
    }
    let permits = asked.iter().zip(answers).map(|(effect, answer)| match &answer.outcome {
        Some(Outcome::Permit(granted)) => {
            Permit::new(&effect.provider, granted.clone(), (sent, Some(store_time)))
        }
        Some(Outcome::Failure(failure)) => Err(Error::from_failure(failure)),
        None => Err(Error::malformed("the answer to an effect")),
    });
    Ok(permits.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_wrong_about_the_lease_names_a_time_that_can_be() {
        let at = |seconds| Some(prost_types::Timestamp { seconds, nanos: 0 });
        let sent = Instant::now();
        let term = Term::new(sent, at(0), at(i64::MAX), at(i64::MAX)).unwrap();
        assert_eq!((term.lease, term.safe), (LEASE_MAX, LEASE_MAX));
        assert_eq!(Term::new(sent, at(0), at(60), None).unwrap().lease, Duration::from_secs(60));
    }
}
