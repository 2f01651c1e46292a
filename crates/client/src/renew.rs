//! Keeps a lease alive until it is told to stop, or until the claim is lost.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::claim::{Lost, Standing};
use crate::client::Client;
use crate::error::{Applied, Error};
use crate::request::HolderRef;
use crate::retry::Answer;
use crate::{time, v1};

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
            Ok(answer) => match renewal.extend(&answer) {
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

impl Renewal {
    /// Takes in the new deadline and returns how long the lease was made, if the answer says so.
    fn extend(&self, answer: &Answer<v1::RenewResponse>) -> Option<Duration> {
        let message = &answer.message;
        let store_time = message.store_time.as_ref()?;
        let expire = message.lease_expire_time.as_ref()?;
        let lease = time::between(store_time, expire);
        let safe = message.safe_to_dispatch_until.as_ref().unwrap_or(expire);
        let safe = time::between(store_time, safe).min(lease);
        self.standing.send_modify(|standing| {
            // Two answers may overtake each other; a deadline that was given stays given.
            standing.deadline = standing.deadline.max(answer.sent + lease);
            standing.safe_until = standing.safe_until.max(answer.sent + safe);
            if message.mode() != v1::Mode::Unspecified {
                standing.mode = message.mode();
            }
        });
        Some(lease)
    }

    fn lose(&self, lost: Lost) {
        self.standing.send_modify(|standing| {
            if !standing.ended {
                standing.lost = Some(lost);
            }
        });
    }
}
