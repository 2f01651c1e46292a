//! Effects: what is asked before one is sent, until when it may be sent, and what is said about it
//! afterwards.
//!
//! An effect is recorded *before* it is sent, under an id of the caller's. The permit that comes back
//! holds until a moment that is counted from the send of the call that asked for it: an honest worker
//! sends once, before that moment, or never. Whatever it learns then is a [`Settlement`]; if it learns
//! nothing (a timeout is nothing), the effect stays open until somebody finds out.

use std::time::Duration;

use prost_types::Timestamp;
use tokio::time::Instant;
use tonic::transport::Channel;

use crate::client::{Client, method};
use crate::error::Error;
use crate::request::{HolderRef, RecordRef};
use crate::retry::{Answer, Repeat};
use crate::{time, v1};

type ClaimService = v1::claim_service_client::ClaimServiceClient<Channel>;

/// An effect, and the dispatch of it that leave is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct EffectRequest {
    /// The caller's name for it in this record, such as `payment`.
    pub effect_id: String,
    /// The dispatch number, from 1. The same number from the same grant gets the same permit.
    pub number: u32,
    /// Effects of one slot exclude each other; empty for the default slot. A payment and its receipt
    /// are two slots.
    pub slot: String,
    /// Where it is sent.
    pub provider: String,
    /// The key by which the provider tells repeats; empty if it takes none.
    pub provider_key: String,
    /// For how long after the first dispatch the provider does so; none if that is not known.
    pub dedup_window: Option<v1::IdentityRetention>,
    /// What is sent; the same on every dispatch.
    pub request: Option<v1::Content>,
    /// How long the permit is wanted for, at least 1 s; none for as long as the lease.
    pub within: Option<Duration>,
}

impl EffectRequest {
    /// The first dispatch of an effect.
    pub fn new(effect_id: impl Into<String>, provider: impl Into<String>) -> Self {
        Self {
            effect_id: effect_id.into(),
            number: 1,
            slot: String::new(),
            provider: provider.into(),
            provider_key: String::new(),
            dedup_window: None,
            request: None,
            within: None,
        }
    }

    /// One more dispatch of an effect that an answer shows: what a holder in RESUME may ask for. None
    /// if it is no recorded effect.
    #[must_use]
    pub fn again(effect: &v1::Effect) -> Option<Self> {
        let (_life, effect_id) = effect.uid.split_once('/')?;
        let latest = effect.permits.iter().map(|permit| permit.number).max().unwrap_or(0);
        Some(Self {
            effect_id: effect_id.to_owned(),
            number: latest.saturating_add(1),
            slot: effect.slot.clone(),
            provider: effect.provider.clone(),
            provider_key: effect.provider_key.clone(),
            dedup_window: effect.dedup_window,
            request: effect.request.clone(),
            within: None,
        })
    }

    /// The same as dispatch number `number`.
    #[must_use]
    pub fn number(mut self, number: u32) -> Self {
        self.number = number;
        self
    }

    /// The same in another slot.
    #[must_use]
    pub fn slot(mut self, slot: impl Into<String>) -> Self {
        self.slot = slot.into();
        self
    }

    /// The same with a key that the provider tells repeats by, for that long after the first
    /// dispatch.
    #[must_use]
    pub fn provider_key(mut self, key: impl Into<String>, window: Duration) -> Self {
        self.provider_key = key.into();
        let kind = v1::identity_retention::Kind::Duration(time::to_wire(window));
        self.dedup_window = Some(v1::IdentityRetention { kind: Some(kind) });
        self
    }

    /// The same with a key that the provider tells repeats by for ever.
    #[must_use]
    pub fn lasting_provider_key(mut self, key: impl Into<String>) -> Self {
        self.provider_key = key.into();
        let kind = v1::identity_retention::Kind::Forever(true);
        self.dedup_window = Some(v1::IdentityRetention { kind: Some(kind) });
        self
    }

    /// The same with what is sent.
    #[must_use]
    pub fn request(mut self, content_type: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        self.request = Some(content(content_type, bytes));
        self
    }

    /// The same, wanting the permit for that long only.
    #[must_use]
    pub fn within(mut self, within: Duration) -> Self {
        self.within = Some(within);
        self
    }

    pub(crate) fn message(&self) -> v1::Dispatch {
        v1::Dispatch {
            effect_id: self.effect_id.clone(),
            number: self.number,
            slot: self.slot.clone(),
            provider: self.provider.clone(),
            provider_key: self.provider_key.clone(),
            dedup_window: self.dedup_window,
            request: self.request.clone(),
            within: self.within.map(time::to_wire),
        }
    }
}

/// Leave to send one effect once, before a moment on this process's clock.
#[derive(Clone, Debug, PartialEq)]
pub struct Permit {
    provider: String,
    granted: v1::DispatchPermit,
    number: u32,
    send_before: Instant,
}

/// It is too late to send under a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} ms are left of the permit, {} ms are needed", .left.as_millis(), .needed.as_millis())]
pub struct TooLate {
    /// How long it may still be sent.
    pub left: Duration,
    /// How long that has to be.
    pub needed: Duration,
}

impl Permit {
    /// Reads a permit out of an answer to a call that was sent at `sent`.
    pub(crate) fn new(
        provider: &str,
        granted: v1::DispatchPermit,
        (sent, store_time): (Instant, Option<&Timestamp>),
    ) -> Result<Self, Error> {
        let store_time = store_time.ok_or_else(|| Error::malformed("the store time"))?;
        let permit = granted.permit.as_ref().ok_or_else(|| Error::malformed("the permit"))?;
        let not_after =
            permit.not_after.as_ref().ok_or_else(|| Error::malformed("the end of the permit"))?;
        // The store decided after the call was sent, so this is never later than the store's own.
        let send_before = sent + time::between(store_time, not_after);
        let number = permit.number;
        Ok(Self { provider: provider.to_owned(), granted, number, send_before })
    }

    /// Names the effect for ever, such as `7/payment`.
    #[must_use]
    pub fn uid(&self) -> &str {
        &self.granted.uid
    }

    /// Where it is to be sent.
    #[must_use]
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// The key to give to the provider; empty if it takes none.
    #[must_use]
    pub fn provider_key(&self) -> &str {
        &self.granted.provider_key
    }

    /// Which dispatch this is.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Whether it was given before. A worker that asks for a dispatch a second time, because it does
    /// not know whether it sent, must not send: it asks for the next number.
    #[must_use]
    pub fn repeated(&self) -> bool {
        self.granted.repeated
    }

    /// The permit as it was answered.
    #[must_use]
    pub fn granted(&self) -> &v1::DispatchPermit {
        &self.granted
    }

    /// Send before this moment or never. It was counted from the send of the call that asked; see
    /// [`Claim`](crate::Claim) about machines that are suspended.
    #[must_use]
    pub fn send_before(&self) -> Instant {
        self.send_before
    }

    /// Says whether a send that leaves this process within `needed` may be started now. Ask
    /// immediately before the send.
    ///
    /// # Errors
    ///
    /// [`TooLate`]: do not send. It may be asked for again, by the next number.
    pub fn check(&self, needed: Duration) -> Result<(), TooLate> {
        let left = self.send_before.saturating_duration_since(Instant::now());
        if left.is_zero() || left < needed { Err(TooLate { left, needed }) } else { Ok(()) }
    }

    /// What became of it.
    #[must_use]
    pub fn settlement(&self, finding: Finding) -> Settlement {
        Settlement {
            uid: self.granted.uid.clone(),
            provider: self.provider.clone(),
            provider_key: self.granted.provider_key.clone(),
            finding,
            evidence: None,
        }
    }
}

/// A time of the store from before a look-up began, without which "not found" proves nothing.
///
/// Take it with [`Client::as_of`], *then* ask the provider. A time of this process's clock is no
/// such time, and neither is one that was taken after the look-up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AsOf(Timestamp);

impl AsOf {
    /// One that was written down before a look-up began: the store time of a linearizable answer.
    #[must_use]
    pub fn written_down(store_time: Timestamp) -> Self {
        Self(store_time)
    }

    /// The store time.
    #[must_use]
    pub fn time(self) -> Timestamp {
        self.0
    }
}

/// What somebody found out about an effect.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Finding {
    /// It happened.
    Committed,
    /// It did not: the provider refused it, and will refuse it again for that key. A timeout is no
    /// refusal, and neither are 409, 429 and 5xx.
    Refused {
        /// The provider's HTTP status, if it has one.
        status: Option<u32>,
    },
    /// It did not: the provider, asked after that time, does not know it.
    NotFound(AsOf),
    /// It did not: an operator answers for that. Only to [`Client::resolve`].
    Overridden,
}

impl Finding {
    /// As it is sent.
    #[must_use]
    pub fn verdict(self) -> v1::Verdict {
        use v1::verdict::Kind;
        let kind = match self {
            Self::Committed => Kind::Committed(v1::Committed {}),
            Self::Refused { status } => Kind::Refused(v1::Refused { status }),
            Self::NotFound(as_of) => Kind::NotFound(v1::NotFound { as_of: Some(as_of.time()) }),
            Self::Overridden => Kind::Overridden(v1::Overridden {}),
        };
        v1::Verdict { kind: Some(kind) }
    }
}

/// What became of an effect, with what shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Settlement {
    /// Which effect: `LIFE/ID`, or `LIFE@EPOCH` for the work of an epoch.
    pub uid: String,
    /// Its provider; empty for work.
    pub provider: String,
    /// Its provider key; empty if it has none.
    pub provider_key: String,
    /// What was found.
    pub finding: Finding,
    /// What shows it: at most 16 KiB.
    pub evidence: Option<v1::Content>,
}

impl Settlement {
    /// What became of an effect that an answer shows: a recorded one, or work.
    #[must_use]
    pub fn of(effect: &v1::Effect, finding: Finding) -> Self {
        Self {
            uid: effect.uid.clone(),
            provider: effect.provider.clone(),
            provider_key: effect.provider_key.clone(),
            finding,
            evidence: None,
        }
    }

    /// The same with what shows it.
    #[must_use]
    pub fn evidence(mut self, content_type: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        self.evidence = Some(content(content_type, bytes));
        self
    }

    pub(crate) fn message(&self) -> v1::EffectSettlement {
        v1::EffectSettlement {
            uid: self.uid.clone(),
            provider: self.provider.clone(),
            provider_key: self.provider_key.clone(),
            verdict: Some(self.finding.verdict()),
            evidence: self.evidence.clone(),
        }
    }
}

/// Bytes with their media type. Digest and length are the server's to fill in.
pub(crate) fn content(content_type: impl Into<String>, bytes: impl Into<Vec<u8>>) -> v1::Content {
    v1::Content { content_type: content_type.into(), data: bytes.into(), ..v1::Content::default() }
}

impl Client {
    /// Asks for leave to send an effect. Repeating it with the same number gets the same permit.
    ///
    /// # Errors
    ///
    /// EFFECT_OPEN and EFFECT_SETTLED if the slot has another effect that may have happened or did,
    /// REDISPATCH_UNSAFE if the provider may have forgotten the first dispatch; see [`Error`].
    pub async fn record_effect(
        &self,
        holder: &HolderRef,
        effect: &EffectRequest,
    ) -> Result<Permit, Error> {
        let request = holder.record_effect(effect);
        let answer: Answer<v1::RecordEffectResponse> =
            self.ask(Repeat::Safe, request, method!(ClaimService, record_effect)).await?;
        let v1::RecordEffectResponse { permit, store_time } = answer.message;
        let granted = permit.ok_or_else(|| Error::malformed("the permit"))?;
        Permit::new(&effect.provider, granted, (answer.sent, store_time.as_ref()))
    }

    /// Says what became of an effect. It needs no claim: whoever knows may tell, also a holder that
    /// was superseded. Repeating it changes nothing.
    ///
    /// # Errors
    ///
    /// NOT_YET_PROVABLE for a look-up that was too early, EVIDENCE_CONFLICT for evidence that
    /// contradicts what is known; see [`Error`].
    pub async fn settle(
        &self,
        record: &RecordRef,
        settlement: &Settlement,
        principal: &str,
    ) -> Result<v1::SettleEffectResponse, Error> {
        let record = record.clone();
        let request = v1::SettleEffectRequest {
            tenant: record.tenant,
            namespace: record.namespace,
            key: record.key,
            settlement: Some(settlement.message()),
            principal: principal.to_owned(),
        };
        self.call(Repeat::Safe, request, method!(ClaimService, settle_effect)).await
    }

    /// A store time to begin a look-up with. Ask for it, then ask the provider, then settle with
    /// [`Finding::NotFound`].
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn as_of(&self, tenant: &str) -> Result<AsOf, Error> {
        // Reads of tenants are linearizable, and every tenant can be read by its principals.
        let request = v1::GetTenantRequest { tenant: tenant.to_owned() };
        let answer = self.get_tenant(request).await?;
        let time = answer.store_time.ok_or_else(|| Error::malformed("the store time"))?;
        Ok(AsOf::written_down(time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp { seconds, nanos: 0 }
    }

    fn granted(not_after: i64) -> v1::DispatchPermit {
        let permit = v1::Permit { number: 2, not_after: Some(at(not_after)), ..Default::default() };
        v1::DispatchPermit {
            uid: "7/payment".to_owned(),
            provider_key: "pay-847".to_owned(),
            permit: Some(permit),
            repeated: false,
        }
    }

    #[test]
    fn a_permit_ends_by_the_send_of_the_call_that_asked() {
        let sent = Instant::now().checked_sub(Duration::from_secs(30)).unwrap();
        let permit = Permit::new("bank", granted(200), (sent, Some(&at(100)))).unwrap();
        assert_eq!(permit.send_before(), sent + Duration::from_secs(100));
        assert_eq!(permit.check(Duration::from_secs(60)), Ok(()));
        let late = permit.check(Duration::from_secs(71)).unwrap_err();
        assert!(late.left <= Duration::from_secs(70), "{late}");
    }

    #[test]
    fn a_permit_that_is_over_is_never_good_for_a_send() {
        let permit = Permit::new("bank", granted(90), (Instant::now(), Some(&at(100)))).unwrap();
        assert!(permit.check(Duration::ZERO).is_err());
        assert!(Permit::new("bank", granted(90), (Instant::now(), None)).is_err());
        let bare = v1::DispatchPermit { permit: None, ..granted(90) };
        assert!(Permit::new("bank", bare, (Instant::now(), Some(&at(100)))).is_err());
    }

    #[test]
    fn the_next_dispatch_is_the_same_effect_with_the_next_number() {
        let first = EffectRequest::new("payment", "bank")
            .slot("money")
            .provider_key("pay-847", Duration::from_secs(86_400))
            .request("application/json", "{}");
        let sent = first.message();
        let shown = v1::Effect {
            uid: "7/payment".to_owned(),
            slot: sent.slot.clone(),
            provider: sent.provider.clone(),
            provider_key: sent.provider_key.clone(),
            dedup_window: sent.dedup_window,
            request: sent.request.clone(),
            permits: vec![
                v1::Permit { number: 1, ..Default::default() },
                v1::Permit { number: 2, ..Default::default() },
            ],
            ..v1::Effect::default()
        };
        assert_eq!(EffectRequest::again(&shown), Some(first.number(3)));
        let work = v1::Effect { uid: "7@12".to_owned(), ..v1::Effect::default() };
        assert_eq!(EffectRequest::again(&work), None);
    }

    #[test]
    fn a_settlement_names_the_effect_as_the_permit_did() {
        let permit = Permit {
            provider: "bank".to_owned(),
            granted: granted(110),
            number: 2,
            send_before: Instant::now(),
        };
        let settled = permit.settlement(Finding::Refused { status: Some(422) }).evidence("t", "no");
        let message = settled.message();
        assert_eq!((message.uid.as_str(), message.provider.as_str()), ("7/payment", "bank"));
        assert_eq!(message.provider_key, "pay-847");
        assert_eq!(message.evidence.unwrap().data, b"no");
        let refused = v1::Refused { status: Some(422) };
        assert_eq!(message.verdict.unwrap().kind, Some(v1::verdict::Kind::Refused(refused)));
    }
}
