//! What a worker says when it asks for a claim, and how it names the grant afterwards.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use crate::effects::{EffectRequest, Settlement};
use crate::outcome::Completion;
use crate::{time, v1};

/// A claim of a key. One value is one logical try: it keeps its attempt id, however often it is sent.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimRequest {
    /// The tenant.
    pub tenant: String,
    /// The namespace.
    pub namespace: String,
    /// The name of the intent, the same on every repeat of it.
    pub key: String,
    /// This try. Minted by [`ClaimRequest::new`]; never derive it from the message.
    pub attempt_id: String,
    /// Who asks; empty for the client's own label.
    pub owner: String,
    /// The request that the key stands for.
    pub fingerprints: Vec<v1::Fingerprint>,
    /// How long a lease is wanted; none for the policy's default.
    pub lease: Option<Duration>,
    /// When the intent was born, if known: the same on every repeat.
    pub intent_time: Option<SystemTime>,
    /// Message id, delivery number and the like.
    pub labels: BTreeMap<String, String>,
    /// Whether this caller can find out what an earlier, lost attempt did.
    pub accept_recovery: bool,
    /// How long to wait for an answer other than Pending, at most 30 s; zero for not at all.
    pub wait: Duration,
    /// Effects that are recorded in the same round with an EXECUTE grant, each by its first dispatch.
    pub effects: Vec<EffectRequest>,
    /// Completes the record at once with an EXECUTE grant: for work that commits with the caller's
    /// own transaction. Not together with `effects`.
    pub complete_with: Option<Completion>,
    /// The same request under another key is another intent.
    pub allow_duplicate_intent: bool,
}

impl ClaimRequest {
    /// A new try to claim `key`, with a new attempt id.
    pub fn new(
        tenant: impl Into<String>,
        namespace: impl Into<String>,
        key: impl Into<String>,
    ) -> Self {
        Self {
            tenant: tenant.into(),
            namespace: namespace.into(),
            key: key.into(),
            attempt_id: mint_attempt_id(),
            owner: String::new(),
            fingerprints: Vec::new(),
            lease: None,
            intent_time: None,
            labels: BTreeMap::new(),
            accept_recovery: false,
            wait: Duration::ZERO,
            effects: Vec::new(),
            complete_with: None,
            allow_duplicate_intent: false,
        }
    }

    /// The same with a fingerprint more.
    #[must_use]
    pub fn fingerprint(mut self, fingerprint: v1::Fingerprint) -> Self {
        self.fingerprints.push(fingerprint);
        self
    }

    /// The same with an attempt id of the caller's own.
    #[must_use]
    pub fn attempt_id(mut self, attempt_id: impl Into<String>) -> Self {
        self.attempt_id = attempt_id.into();
        self
    }

    /// The same for another owner than the client's own label.
    #[must_use]
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = owner.into();
        self
    }

    /// The same with a lease of that length.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// The same with the time at which the intent was born.
    #[must_use]
    pub fn intent_time(mut self, intent_time: SystemTime) -> Self {
        self.intent_time = Some(intent_time);
        self
    }

    /// The same with a label more.
    #[must_use]
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// The same from a caller that can find out what an earlier, lost attempt did.
    #[must_use]
    pub fn accept_recovery(mut self) -> Self {
        self.accept_recovery = true;
        self
    }

    /// The same, waiting up to that long for an answer other than Pending. The store waits, at most
    /// 30 s; the call gets that much more time.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// The same with an effect that is recorded in the same round. With an EXECUTE grant comes, for
    /// each of them, leave to send it or a refusal: see [`Claim::permits`](crate::Claim::permits).
    #[must_use]
    pub fn effect(mut self, effect: EffectRequest) -> Self {
        self.effects.push(effect);
        self
    }

    /// The same, completing the record at once with an EXECUTE grant. Right where the work and the
    /// mark that it is done commit in one transaction of the caller's own.
    #[must_use]
    pub fn complete_with(mut self, completion: Completion) -> Self {
        self.complete_with = Some(completion);
        self
    }

    /// The same from a caller that knows of the same request under another key, and says that it is
    /// another intent.
    #[must_use]
    pub fn allow_duplicate_intent(mut self) -> Self {
        self.allow_duplicate_intent = true;
        self
    }

    /// The record that it claims.
    #[must_use]
    pub fn record(&self) -> RecordRef {
        RecordRef::new(&self.tenant, &self.namespace, &self.key)
    }

    /// The grant that this try may get.
    #[must_use]
    pub fn holder(&self, epoch: u64) -> HolderRef {
        self.clone().into_holder(epoch)
    }

    pub(crate) fn into_holder(self, epoch: u64) -> HolderRef {
        HolderRef {
            tenant: self.tenant,
            namespace: self.namespace,
            key: self.key,
            attempt_id: self.attempt_id,
            epoch,
        }
    }

    pub(crate) fn message(&self, default_owner: &str) -> v1::ClaimRequest {
        let owner = if self.owner.is_empty() { default_owner } else { &self.owner };
        v1::ClaimRequest {
            tenant: self.tenant.clone(),
            namespace: self.namespace.clone(),
            key: self.key.clone(),
            attempt_id: self.attempt_id.clone(),
            owner: owner.to_owned(),
            fingerprints: self.fingerprints.clone(),
            lease: self.lease.map(time::to_wire),
            intent_time: self.intent_time.map(time::timestamp),
            labels: self.labels.clone(),
            accept_recovery: self.accept_recovery,
            wait: (!self.wait.is_zero()).then(|| time::to_wire(self.wait)),
            effects: self.effects.iter().map(EffectRequest::message).collect(),
            complete_with: self.complete_with.clone().map(|with| v1::CompleteWith {
                disposition: with.disposition.into(),
                result: Some(with.result),
            }),
            allow_duplicate_intent: self.allow_duplicate_intent,
        }
    }
}

/// Names a record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordRef {
    /// The tenant.
    pub tenant: String,
    /// The namespace.
    pub namespace: String,
    /// The key.
    pub key: String,
}

impl RecordRef {
    /// The record of that key.
    pub fn new(
        tenant: impl Into<String>,
        namespace: impl Into<String>,
        key: impl Into<String>,
    ) -> Self {
        Self { tenant: tenant.into(), namespace: namespace.into(), key: key.into() }
    }
}

/// Names a grant: all that a holder's call has to prove. It can be written down, and used by
/// another process of the same worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderRef {
    /// The tenant.
    pub tenant: String,
    /// The namespace.
    pub namespace: String,
    /// The key.
    pub key: String,
    /// The attempt that was granted the claim.
    pub attempt_id: String,
    /// Its epoch.
    pub epoch: u64,
}

impl HolderRef {
    /// The record that it is a grant of.
    #[must_use]
    pub fn record(&self) -> RecordRef {
        RecordRef::new(&self.tenant, &self.namespace, &self.key)
    }

    pub(crate) fn renew(&self, lease: Option<Duration>) -> v1::RenewRequest {
        let holder = self.clone();
        v1::RenewRequest {
            tenant: holder.tenant,
            namespace: holder.namespace,
            key: holder.key,
            attempt_id: holder.attempt_id,
            epoch: holder.epoch,
            lease: lease.map(time::to_wire),
        }
    }

    pub(crate) fn complete(&self, completion: Completion) -> v1::CompleteRequest {
        let holder = self.clone();
        v1::CompleteRequest {
            tenant: holder.tenant,
            namespace: holder.namespace,
            key: holder.key,
            attempt_id: holder.attempt_id,
            epoch: holder.epoch,
            disposition: completion.disposition.into(),
            result: Some(completion.result),
            settlements: completion.settlements.iter().map(Settlement::message).collect(),
        }
    }

    pub(crate) fn record_effect(&self, effect: &EffectRequest) -> v1::RecordEffectRequest {
        let holder = self.clone();
        v1::RecordEffectRequest {
            tenant: holder.tenant,
            namespace: holder.namespace,
            key: holder.key,
            attempt_id: holder.attempt_id,
            epoch: holder.epoch,
            dispatch: Some(effect.message()),
        }
    }

    pub(crate) fn release(&self, intent: v1::release_request::Intent) -> v1::ReleaseRequest {
        let holder = self.clone();
        v1::ReleaseRequest {
            tenant: holder.tenant,
            namespace: holder.namespace,
            key: holder.key,
            attempt_id: holder.attempt_id,
            epoch: holder.epoch,
            intent: Some(intent),
        }
    }
}

/// A new attempt id: unique, and sorted by the time at which it was minted.
#[must_use]
pub fn mint_attempt_id() -> String {
    uuid::Uuid::now_v7().to_string()
}
