//! Keeps a lease alive until it is told to stop, or until the claim is lost.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::claim::{Lost, Standing, Term};
use crate::client::Client;
use crate::error::{Applied, Error};
use crate::request::HolderRef;
use crate::retry::Answer;
use crate::v1;

/// What is renewed, and where the outcome is written.
pub(crate) struct Renewal {
    pub(crate) client: Client,
    pub(crate) holder: HolderRef,
    /// The lease that the claim asked for.
    pub(crate) wanted: Option<Duration>,
    pub(crate) standing: Arc<watch::Sender<Standing>>,
}

/// Renews at a third of the lease. A renewal that fails on the way is tried again until the lease is
/// over; one that the log refuses ends it at once.
pub(crate) async fn run(
    renewal: Renewal,
    granted: Instant,
    lease: Duration,
    stop: CancellationToken,
) {
    let mut next = granted + lease / 3;
    let mut pause = (lease / 10).max(Duration::from_millis(10));
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = sleep_until(next) => {}
        }
        let deadline = renewal.standing.borrow().deadline;
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return renewal.lose(Lost::Lapsed);
        }
        let call = renewal.client.renew_within(&renewal.holder, renewal.wanted, left);
        let answer = tokio::select! {
            () = stop.cancelled() => return,
            answer = call => answer,
        };
        match answer {
            Ok(answer) => match extend(&renewal.standing, &answer) {
                Some(lease) => {
                    next = answer.sent + lease / 3;
                    pause = (lease / 10).max(Duration::from_millis(10));
                }
                None => next = Instant::now() + pause,
            },
            Err(error) if is_final(&error) => {
                let (reason, message) = (error.reason(), error.message().to_owned());
                return renewal.lose(Lost::Refused { reason, message });
            }
            Err(error) => {
                tracing::debug!(reason = error.reason_text(), "renew a lease");
                next = (Instant::now() + pause).min(deadline);
            }
        }
    }
}

/// Whether asking again cannot help.
fn is_final(error: &Error) -> bool {
    error.applied() == Applied::Decided || !error.is_transient()
}

/// What a renewal says about the time.
pub(crate) fn term(answer: &Answer<v1::RenewResponse>) -> Result<Term, Error> {
    let v1::RenewResponse { store_time, lease_expire_time, safe_to_dispatch_until, .. } =
        answer.message;
    Term::new(answer.sent, store_time, lease_expire_time, safe_to_dispatch_until)
}

/// Takes in what a renewal says and returns how long the lease was made, if the answer says so.
pub(crate) fn extend(
    standing: &watch::Sender<Standing>,
    answer: &Answer<v1::RenewResponse>,
) -> Option<Duration> {
    let term = term(answer).ok()?;
    standing.send_modify(|standing| {
        // Two answers may overtake each other; a deadline that was given stays given.
        standing.deadline = standing.deadline.max(term.sent + term.lease);
        standing.safe_until = standing.safe_until.max(term.sent + term.safe);
        if answer.message.mode() != v1::Mode::Unspecified {
            standing.mode = answer.message.mode();
        }
        if !answer.message.effects.is_empty() {
            standing.effects.clone_from(&answer.message.effects);
        }
    });
    Some(term.lease)
}

impl Renewal {
    fn lose(&self, lost: Lost) {
        self.standing.send_modify(|standing| {
            if !standing.ended {
                standing.lost = Some(lost);
            }
        });
    }
}
