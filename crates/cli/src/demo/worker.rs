//! A worker of the demo: takes a message, claims its intent, pays, completes, acknowledges.
//!
//! It never decides by itself whether an intent was paid. A call whose answer is lost is repeated
//! with the same attempt id; a message that it could not finish goes back into the queue.

use std::sync::Arc;
use std::time::Duration;

use firstclaim_client::v1::result::Body;
use firstclaim_client::v1::{AcquiredKind, Replay};
use firstclaim_client::{Applied, Claim, ClaimOutcome, ClaimRequest, Client, Error, fingerprint};
use rand::Rng;
use rand::rngs::StdRng;
use tokio::time::sleep;

use super::bank::Bank;
use super::queue::Queue;
use super::schedule::{Delivery, Intent, Schedule};
use super::tally::Tally;

const TENANT: &str = "demo";
const NAMESPACE: &str = "payouts";
/// Names how the canonical request of a payout is written.
const SCHEME: &str = "demo-payout/1";
const CONTENT_TYPE: &str = "text/plain";
/// How long the bank may take, drawn anew for each payment.
const BANK_MILLIS: std::ops::Range<u64> = 40..240;
/// A payment is only begun if the lease holds at least this long.
const BANK_MAX: Duration = Duration::from_secs(2);
/// Share of answers that a worker throws away and asks for again.
const LOST_ANSWERS: f64 = 0.1;
/// The pause before a failed call is repeated, and before a message that failed comes again.
const PAUSE: Duration = Duration::from_millis(50);
/// The longest wait before a message comes again.
const PUT_BACK_MAX: Duration = Duration::from_millis(500);

/// What all workers share.
#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) schedule: Schedule,
    pub(crate) queue: Queue,
    pub(crate) bank: Bank,
    pub(crate) tally: Tally,
}

/// One of the workers.
pub(crate) struct Worker {
    pub(crate) scene: Arc<Scene>,
    pub(crate) client: Client,
    /// `eu-west/w07`; one label per worker.
    pub(crate) name: String,
    pub(crate) random: StdRng,
}

/// What becomes of a message.
enum Fate {
    Acknowledge,
    PutBack(Duration),
}

impl Worker {
    /// Works until the queue is empty.
    pub(crate) async fn run(mut self) {
        let scene = Arc::clone(&self.scene);
        while let Some(delivery) = scene.queue.next().await {
            match self.handle(&scene, delivery).await {
                Fate::Acknowledge => scene.queue.acknowledge(),
                Fate::PutBack(after) => scene.queue.put_back(delivery, after),
            }
        }
    }

    async fn handle(&mut self, scene: &Scene, delivery: Delivery) -> Fate {
        let intent = &scene.schedule.intents[delivery.intent];
        // A new attempt for every try, kept over all repeats of its calls.
        let request = ClaimRequest::new(TENANT, NAMESPACE, &intent.key)
            .owner(&self.name)
            .fingerprint(fingerprint::sha256(SCHEME, intent.canonical().as_bytes()))
            .label("delivery", delivery.number.to_string());
        let Some(outcome) = self.claim(&scene.tally, &request).await else {
            return Fate::PutBack(PAUSE);
        };
        match outcome {
            ClaimOutcome::Acquired(claim) => {
                scene.tally.note(|counts| counts.held += 1);
                let fate = self.pay(scene, intent, &claim).await;
                scene.tally.note(|counts| counts.held -= 1);
                fate
            }
            ClaimOutcome::Replay(replay) => {
                let receipt = receipt(&replay);
                scene.tally.note(|counts| {
                    counts.replays += 1;
                    counts.replayed.entry(intent.key.clone()).or_default().push(receipt);
                });
                Fate::Acknowledge
            }
            ClaimOutcome::Pending(pending) => {
                scene.tally.note(|counts| counts.pending += 1);
                let asked =
                    pending.retry_after.as_ref().and_then(firstclaim_client::time::from_wire);
                Fate::PutBack(asked.unwrap_or(PAUSE).clamp(PAUSE, PUT_BACK_MAX))
            }
            ClaimOutcome::Completed(_) => {
                scene.tally.note_other("completed without being paid");
                Fate::PutBack(PUT_BACK_MAX)
            }
            ClaimOutcome::Unresolved(_open) => {
                scene.tally.note_other("unresolved");
                Fate::PutBack(PUT_BACK_MAX)
            }
        }
    }

    /// Claims until there is an answer, then now and then pretends that it was lost.
    async fn claim(&mut self, tally: &Tally, request: &ClaimRequest) -> Option<ClaimOutcome> {
        let mut lose = self.random.random_bool(LOST_ANSWERS);
        let mut granted = false;
        loop {
            match self.client.claim(request.clone()).await {
                Ok(outcome) => {
                    if let ClaimOutcome::Acquired(claim) = &outcome {
                        count_grant(tally, claim, granted);
                        granted = true;
                    }
                    if !lose {
                        return Some(outcome);
                    }
                    lose = false;
                    tally.note(|counts| counts.lost_on_purpose += 1);
                }
                Err(error) => {
                    if !repeat(tally, &error).await {
                        return None;
                    }
                }
            }
        }
    }

    /// Pays under the claim and stores the receipt.
    async fn pay(&mut self, scene: &Scene, intent: &Intent, claim: &Claim) -> Fate {
        if let Err(not_safe) = claim.safe_to_dispatch(BANK_MAX) {
            tracing::debug!(%not_safe, "give a claim back unused");
            scene.tally.note_other("claimed too late to pay");
            return self.give_back(&scene.tally, claim).await;
        }
        let takes = Duration::from_millis(self.random.random_range(BANK_MILLIS));
        let receipt = scene.bank.pay(intent, &self.name, takes).await;
        let mut lose = self.random.random_bool(LOST_ANSWERS);
        loop {
            match claim.complete(CONTENT_TYPE, receipt.as_bytes()).await {
                Ok(_stored) if lose => {
                    lose = false;
                    scene.tally.note(|counts| counts.lost_on_purpose += 1);
                }
                Ok(_stored) => return Fate::Acknowledge,
                // A refusal is final: what happened is for the record and the ledger to say.
                Err(error) => {
                    if !repeat(&scene.tally, &error).await {
                        return Fate::PutBack(PUT_BACK_MAX);
                    }
                }
            }
        }
    }

    async fn give_back(&self, tally: &Tally, claim: &Claim) -> Fate {
        loop {
            match claim.release_retry(Duration::ZERO).await {
                Ok(_released) => return Fate::PutBack(PAUSE),
                Err(error) => {
                    if !repeat(tally, &error).await {
                        return Fate::PutBack(PUT_BACK_MAX);
                    }
                }
            }
        }
    }
}

/// Counts a grant, unless this attempt was told of it before.
fn count_grant(tally: &Tally, claim: &Claim, granted: bool) {
    let kind = claim.kind();
    if kind == AcquiredKind::AlreadyHeld {
        tally.note(|counts| counts.already_held += 1);
    }
    if granted {
        return;
    }
    // Where the answer FIRST was lost, the repeat says ALREADY_HELD: the count of grants tells.
    if claim.acquired().execute_grants == 1 {
        tally.note(|counts| counts.first_claims += 1);
    } else {
        tally.note_other(kind.as_str_name());
    }
}

/// Counts a failure, and says after a pause whether the same call is to be repeated.
async fn repeat(tally: &Tally, error: &Error) -> bool {
    match error.applied() {
        Applied::Maybe => tally.note(|counts| counts.unknown += 1),
        Applied::No => tally.note(|counts| counts.failed += 1),
        Applied::Decided => {
            tally.note_other(error.reason_text());
            return false;
        }
    }
    tracing::debug!(%error, "repeat a call with the same attempt");
    sleep(PAUSE).await;
    true
}

fn receipt(replay: &Replay) -> String {
    let result = replay.completion.as_ref().and_then(|completion| completion.result.as_ref());
    match result.and_then(|result| result.body.as_ref()) {
        Some(Body::Inline(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        Some(Body::Reference(reference)) => reference.uri.clone(),
        None => String::new(),
    }
}
