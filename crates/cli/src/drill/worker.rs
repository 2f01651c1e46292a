//! A worker of the drill: takes a delivery, claims its intent, acts, completes, acknowledges.
//!
//! It is an honest and careful worker: it sends nothing without a permit (or, unjournaled, without a
//! claim that forbids others to repeat the work), it sends once per permit and before its end, it
//! never takes a timeout for a refusal, and it acknowledges nothing that it does not know the end of.
//! The faults come from the scenario.

use std::time::Duration;

use firstclaim_client::v1::claim_response::Outcome;
use firstclaim_client::{
    Applied, Client, Error, HolderRef, Reason, RecordRef, mint_attempt_id, v1,
};
use tokio::time::{Instant, sleep};

use super::fault::Fault;
use super::queue::{Delivery, VISIBILITY};
use super::recover;
use super::scenario::SIMILAR;
use super::scene::{Intent, Message, Scene, owner};
use super::stage::CUE_WITHIN;

pub(crate) const TEXT: &str = "text/plain";
/// The pause before a message comes again that could not be handled.
pub(crate) const PAUSE: Duration = Duration::from_millis(250);
/// The longest wait that a worker takes over from the store.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Why the second request under a key is put aside, when all is well.
pub(crate) const REFUSED_IMPOSTOR: &str = "refused: FINGERPRINT_MISMATCH";

/// What becomes of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The worker knows that it is done.
    Acknowledge,
    /// It comes again after that time.
    PutBack(Duration),
    /// The worker died. The queue will notice.
    Dead,
    /// Put aside for people, and why.
    Park(String),
}

/// One delivery in the hands of one worker.
pub(crate) struct Worker<'a> {
    pub(crate) scene: &'a Scene,
    pub(crate) delivery: Delivery,
    pub(crate) message: &'a Message,
    pub(crate) client: &'a Client,
    pub(crate) owner: String,
}

/// A grant in the hands of a worker.
pub(crate) struct Held {
    pub(crate) holder: HolderRef,
    pub(crate) acquired: v1::Acquired,
    /// Counted from the send of the claim: nothing unjournaled is started after it.
    pub(crate) safe_until: Instant,
}

/// Handles one delivery from the claim to the acknowledgement.
pub(crate) async fn handle(scene: &Scene, delivery: Delivery) -> Fate {
    let message = &scene.messages[delivery.message];
    let worker = Worker {
        scene,
        delivery,
        message,
        client: scene.client(delivery.message + delivery.number as usize),
        owner: owner(scene.scenario, delivery),
    };
    if message.intent.impostor {
        // The key has to be bound to its own request first.
        scene.queue.extend(delivery, CUE_WITHIN);
        scene.messages[delivery.message - 1].stage.wait(|cues| cues.grants > 0).await;
    }
    let key = if scene.scenario.mints_keys() {
        // The most common fault of all: every attempt names the intent anew.
        format!("{}/{}", message.intent.key, mint_attempt_id())
    } else {
        message.intent.key.clone()
    };
    worker.claim(&key).await
}

impl Worker<'_> {
    pub(crate) fn intent(&self) -> &Intent {
        &self.message.intent
    }

    pub(crate) fn note(&self, answer: &str) {
        self.scene.seen.note(answer);
    }

    async fn claim(&self, key: &str) -> Fate {
        let request = self.scene.request(self.delivery, key);
        let sent = Instant::now();
        let response = match self.client.claim_once(&request).await {
            Ok(response) => response,
            Err(error) => return self.refused(&error).await,
        };
        match response.outcome {
            Some(Outcome::Acquired(acquired)) => {
                self.note(&name_of(&acquired));
                self.message.granted(key);
                if self.intent().impostor {
                    self.violation("was granted a key that is bound to another request");
                }
                self.message.stage.give(|cues| cues.grants += 1);
                let holder = request.holder(acquired.epoch);
                let safe_until = safe_until(sent, response.store_time.as_ref(), &acquired);
                Box::pin(self.act(&Held { holder, acquired, safe_until })).await
            }
            Some(Outcome::Replay(replay)) => {
                self.note("REPLAY");
                self.replayed(&replay)
            }
            Some(Outcome::Pending(pending)) => {
                self.note("PENDING");
                let asked = pending.retry_after.as_ref();
                let asked = asked.and_then(firstclaim_client::time::from_wire).unwrap_or(PAUSE);
                Fate::PutBack(asked.clamp(PAUSE, PAUSE_MAX))
            }
            Some(Outcome::Unresolved(_)) => {
                self.note("UNRESOLVED");
                Fate::Park("unresolved; nobody can be asked".to_owned())
            }
            None => Fate::PutBack(PAUSE),
        }
    }

    /// A claim that was refused, or that did not get through.
    async fn refused(&self, error: &Error) -> Fate {
        if error.applied() != Applied::Decided {
            return Fate::PutBack(PAUSE);
        }
        self.note(error.reason_text());
        let reason = error.reason();
        if reason == Reason::DuplicateIntent {
            return Box::pin(self.claim_known(&self.message.key())).await;
        }
        if reason == Reason::FingerprintMismatch && self.intent().impostor {
            return self.impostor().await;
        }
        if matches!(reason, Reason::FingerprintMismatch | Reason::LateReplay) {
            return Fate::Park(format!("refused: {}", error.reason_text()));
        }
        Fate::PutBack(PAUSE)
    }

    /// A request under the key of another one was refused. It asks on in every state that the key goes
    /// through, and at the end at every node: one that answers from its own memory must look, too.
    async fn impostor(&self) -> Fate {
        if self.scene.queue.ended(self.delivery.message - 1).is_none() {
            return Fate::PutBack(PAUSE);
        }
        for client in &self.scene.clients {
            let request = self.scene.request(self.delivery, &self.intent().key);
            match client.claim_once(&request).await {
                Err(error) if error.reason() == Reason::FingerprintMismatch => {
                    self.note(error.reason_text());
                }
                // Whoever cannot be reached can mix nothing up.
                Err(error) => self.note(error.reason_text()),
                Ok(_answered) => {
                    self.violation("was answered under a key that is bound to another request");
                }
            }
        }
        Fate::Park(REFUSED_IMPOSTOR.to_owned())
    }

    /// The store has named the key that the intent has already: goes on under that one.
    async fn claim_known(&self, key: &str) -> Fate {
        if *key == self.intent().key {
            // No attempt of this message was ever granted: whoever has the key is somebody else.
            return Fate::Park("refused: DUPLICATE_INTENT".to_owned());
        }
        self.claim(key).await
    }

    /// A replay is the result of this very intent, or the store has mixed two of them up.
    fn replayed(&self, replay: &v1::Replay) -> Fate {
        let result = replay.completion.as_ref().and_then(|done| done.result.as_ref());
        let body = result.and_then(|result| result.body.as_ref());
        if let Some(v1::result::Body::Inline(bytes)) = body {
            let receipt = String::from_utf8_lossy(bytes);
            let own = self.scene.ledger.entries(&self.intent().reference);
            if !own.iter().any(|entry| entry.receipt == receipt) {
                self.violation(&format!(
                    "was answered with the result {receipt:?}, which is not of its own payment"
                ));
            }
        }
        Fate::Acknowledge
    }

    pub(crate) fn violation(&self, what: &str) {
        self.scene.seen.violation(format!("{} {what}", self.intent().reference));
    }

    async fn act(&self, held: &Held) -> Fate {
        if let Some(known) = held.acquired.similar_keys.first() {
            self.note(SIMILAR);
            if !self.scene.scenario.mints_keys() {
                self.violation(&format!("is said to be the same request as that of {known:?}"));
            } else if held.acquired.kind() == v1::AcquiredKind::First {
                return self.turn_to(held, known).await;
            }
        }
        if self.message.strikes(Fault::DiesBeforeEffect) {
            return Fate::Dead;
        }
        match held.acquired.mode() {
            v1::Mode::Execute => self.execute(held).await,
            v1::Mode::Resume => recover::resume(self, held).await,
            v1::Mode::Reconcile | v1::Mode::Unspecified => recover::reconcile(self, held).await,
        }
    }

    /// The same request has a key already: gives the new one back untouched.
    async fn turn_to(&self, held: &Held, known: &str) -> Fate {
        let unbind = v1::release_request::Intent::Unbind(v1::ReleaseUnbind {});
        if let Err(error) = self.client.release(&held.holder, unbind).await {
            self.note(error.reason_text());
            return Fate::PutBack(PAUSE);
        }
        Box::pin(self.claim(known)).await
    }

    /// A call under the claim failed: the record and the ledger know more than this worker.
    pub(crate) fn set_back(&self, error: &Error) -> Fate {
        self.note(error.reason_text());
        Fate::PutBack(PAUSE)
    }

    pub(crate) fn record(&self, held: &Held) -> RecordRef {
        held.holder.record()
    }

    /// Waits a little, and keeps the message meanwhile.
    pub(crate) async fn pause(&self) {
        self.scene.queue.extend(self.delivery, VISIBILITY);
        sleep(PAUSE).await;
    }
}

fn safe_until(
    sent: Instant,
    store_time: Option<&firstclaim_client::prost_types::Timestamp>,
    acquired: &v1::Acquired,
) -> Instant {
    match (store_time, acquired.safe_to_dispatch_until.as_ref()) {
        (Some(now), Some(until)) => sent + firstclaim_client::time::between(now, until),
        (_, _) => sent,
    }
}

/// How a grant is counted.
fn name_of(acquired: &v1::Acquired) -> String {
    let kind = acquired.kind().as_str_name().trim_start_matches("ACQUIRED_KIND_").to_owned();
    match acquired.mode() {
        v1::Mode::Execute | v1::Mode::Unspecified => kind,
        v1::Mode::Resume => format!("{kind} RESUME"),
        v1::Mode::Reconcile => format!("{kind} RECONCILE"),
    }
}
