//! What a worker does with a claim that lets it act: record, send, settle, complete.

use std::time::Duration;

use firstclaim_client::{Completion, EffectRequest, Error, Finding, Permit, mint_attempt_id, v1};
use tokio::time::Instant;

use super::fault::{Fault, Wire};
use super::late;
use super::provider::{NoAnswer, Offer, Payment};
use super::recover;
use super::scenario::{EXPIRED_PERMIT, Protection};
use super::worker::{Fate, Held, PAUSE, TEXT, Worker};

/// Where payments are sent.
const PROVIDER: &str = "bank";
/// The slot of the payment, and the stem of its effects' names.
const PAYMENT: &str = "payment";
/// For how long the provider remembers a key.
const DEDUP_WINDOW: Duration = Duration::from_secs(24 * 3600);
/// A permit that is over sooner is not used.
const SEND_TAKES: Duration = Duration::from_millis(50);
/// Dispatches that a worker adds to the first one before it lets another have a try.
const DISPATCHES_MORE: usize = 4;
/// How long a message is kept from the others while its worker waits for its cue.
const WAITS: Duration = Duration::from_secs(2);

/// Why a dispatch brought no receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dispatch {
    /// The worker died meanwhile.
    Dead,
    /// No answer; the worker gives up and says so.
    Unknown,
    /// No answer; the worker lives and still holds the claim.
    Impatient,
}

impl Worker<'_> {
    /// Does the work, or finds in the journal that it was done.
    pub(crate) async fn execute(&self, held: &Held) -> Fate {
        if let Some(receipt) = recover::evidence(&held.acquired.effects) {
            self.note("completed by evidence");
            return self.complete(held, &receipt).await;
        }
        match self.scene.scenario.protection {
            Protection::Journal => self.journaled(held).await,
            Protection::Recover => self.unjournaled(held).await,
        }
    }

    /// Records the payment, sends it, settles it, completes.
    async fn journaled(&self, held: &Held) -> Fate {
        let recorded = held.acquired.effects.iter().filter(|effect| effect.uid.contains('/'));
        let effect = self.effect(recorded.count() + 1);
        let permit = match self.client.record_effect(&held.holder, &effect).await {
            Ok(permit) => permit,
            Err(error) => return self.set_back(&error),
        };
        if self.message.strikes(Fault::StallsBeforeSend) {
            return late::before_send(self, held, &effect, &permit).await;
        }
        let receipt = match self.send(&permit).await {
            Some(Ok(receipt)) => receipt,
            Some(Err(Dispatch::Dead)) => return Fate::Dead,
            Some(Err(Dispatch::Unknown)) => return self.does_not_know(held).await,
            Some(Err(Dispatch::Impatient)) => match self.again(held, &effect, &permit).await {
                Some(receipt) => receipt,
                None => return Fate::PutBack(PAUSE),
            },
            None => return Fate::PutBack(PAUSE),
        };
        if self.message.strikes(Fault::DiesAfterEffect) {
            return Fate::Dead;
        }
        if self.message.strikes(Fault::StallsAfterEffect) {
            return late::after_effect(self, held, &permit, &receipt).await;
        }
        self.settle_and_complete(held, &permit, &receipt).await
    }

    pub(crate) async fn settle_and_complete(
        &self,
        held: &Held,
        permit: &Permit,
        receipt: &str,
    ) -> Fate {
        let settlement = permit.settlement(Finding::Committed).evidence(TEXT, receipt);
        let settled = self.client.settle(&self.record(held), &settlement, &self.owner).await;
        if let Err(error) = settled {
            return self.set_back(&error);
        }
        if self.message.strikes(Fault::DiesBeforeCompletion) {
            return Fate::Dead;
        }
        self.complete(held, receipt).await
    }

    /// The payment as it is to be recorded. Its provider key is minted here and lives in the journal
    /// from then on: whoever goes on from here has it from there or not at all.
    fn effect(&self, number: usize) -> EffectRequest {
        let intent = self.intent();
        let effect = EffectRequest::new(format!("{PAYMENT}-{number}"), PROVIDER)
            .slot(PAYMENT)
            .request(TEXT, intent.canonical());
        match self.scene.scenario.provider {
            Offer::Keys => effect.provider_key(format!("key-{}", mint_attempt_id()), DEDUP_WINDOW),
            Offer::LookUps | Offer::Nothing => effect,
        }
    }

    /// Uses a permit, once. None if its time is over.
    pub(crate) async fn send(&self, permit: &Permit) -> Option<Result<String, Dispatch>> {
        if permit.check(SEND_TAKES).is_err() {
            self.note(EXPIRED_PERMIT);
            return None;
        }
        Some(self.dispatch(permit.provider_key()).await)
    }

    /// Sends the payment. What goes wrong on the way is up to the scenario.
    pub(crate) async fn dispatch(&self, provider_key: &str) -> Result<String, Dispatch> {
        let armed = self.message.armed();
        let wire = armed.wire().filter(|_| self.message.strikes(armed)).unwrap_or(Wire::Whole);
        let intent = self.intent();
        let payment = Payment {
            reference: intent.reference.clone(),
            cents: intent.cents,
            key: (!provider_key.is_empty()).then(|| provider_key.to_owned()),
            sender: self.owner.clone(),
        };
        if self.message.stage.cues().grants > 1 {
            self.message.stage.give(|cues| cues.successor_sends = true);
        }
        match self.scene.provider.pay(payment, wire).await {
            Ok(receipt) => Ok(receipt),
            Err(NoAnswer) if armed == Fault::AnswerIsUnknown => Err(Dispatch::Unknown),
            Err(NoAnswer) if matches!(wire, Wire::AnswerLost | Wire::RequestLost) => {
                Err(Dispatch::Dead)
            }
            Err(NoAnswer) => Err(Dispatch::Impatient),
        }
    }

    /// No answer came, and the claim still holds. A fresh payment must be refused; the same one, with
    /// the same key, may be sent again.
    async fn again(&self, held: &Held, sent: &EffectRequest, permit: &Permit) -> Option<String> {
        let fresh =
            EffectRequest { effect_id: format!("{}-retry", sent.effect_id), ..self.effect(1) };
        match self.client.record_effect(&held.holder, &fresh).await {
            Ok(fresh) => self.violation(&format!(
                "was permitted to send {} beside {}, which may have happened",
                fresh.uid(),
                permit.uid()
            )),
            Err(error) => self.note(error.reason_text()),
        }
        for number in (permit.number() + 1..).take(DISPATCHES_MORE) {
            let next = EffectRequest { number, ..sent.clone() };
            let permit = match self.client.record_effect(&held.holder, &next).await {
                Ok(permit) => permit,
                Err(error) => {
                    self.note(error.reason_text());
                    return None;
                }
            };
            self.note("re-dispatched");
            // Whatever is still under way under that key, the provider answers with its receipt.
            if let Some(Ok(receipt)) = self.send(&permit).await {
                return Some(receipt);
            }
        }
        None
    }

    /// Does the work without recording it first: only under a claim whose lapse forbids a repeat.
    async fn unjournaled(&self, held: &Held) -> Fate {
        if self.message.strikes(Fault::StallsBeforeWork) {
            return late::before_work(self, held).await;
        }
        if Instant::now() >= held.safe_until {
            return Fate::PutBack(PAUSE);
        }
        match self.dispatch("").await {
            Ok(receipt) => self.complete(held, &receipt).await,
            Err(Dispatch::Dead) => Fate::Dead,
            Err(Dispatch::Unknown | Dispatch::Impatient) => self.does_not_know(held).await,
        }
    }

    async fn does_not_know(&self, held: &Held) -> Fate {
        let note = "the provider's answer was lost".to_owned();
        let unknown = v1::release_request::Intent::Unknown(v1::ReleaseUnknown { note });
        match self.client.release(&held.holder, unknown).await {
            Ok(_released) => self.note("released UNKNOWN"),
            Err(error) => self.note(error.reason_text()),
        }
        Fate::PutBack(PAUSE)
    }

    pub(crate) async fn complete(&self, held: &Held, receipt: &str) -> Fate {
        let stage = &self.message.stage;
        if self.scene.scenario.fault.speaks_late() && stage.cues().grants > 1 {
            // The other one is about to speak; it must find a claim that is held, not a result.
            self.scene.queue.extend(self.delivery, WAITS);
            stage.wait(|cues| cues.spoken).await;
        }
        if self.message.strikes(Fault::RetentionIsShortened)
            && let Err(error) = self.shorten_retention().await
        {
            self.note(error.reason_text());
        }
        let completion = Completion::succeeded(TEXT, receipt);
        match self.client.complete(&held.holder, completion).await {
            Ok(_stored) if self.message.strikes(Fault::DiesBeforeAcknowledgement) => Fate::Dead,
            Ok(_stored) => Fate::Acknowledge,
            Err(error) => self.set_back(&error),
        }
    }

    /// What a careless operator does to save space.
    async fn shorten_retention(&self) -> Result<(), Error> {
        let second = firstclaim_client::time::to_wire(Duration::from_secs(1));
        let kind = v1::identity_retention::Kind::Duration(second);
        let policy = v1::Policy {
            result_retention: Some(second),
            identity_retention: Some(v1::IdentityRetention { kind: Some(kind) }),
            ..v1::Policy::default()
        };
        let namespace = v1::Namespace {
            tenant: self.scene.tenant.clone(),
            name: self.intent().namespace.clone(),
            policy: Some(policy),
            ..v1::Namespace::default()
        };
        let namespace = Some(namespace);
        let request = v1::UpdateNamespaceRequest { namespace, ..Default::default() };
        self.client.update_namespace(request).await.map(drop)
    }
}
