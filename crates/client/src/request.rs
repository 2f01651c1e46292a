//! What a worker says when it asks for a claim, and how it names the grant afterwards.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

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
        }
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

    pub(crate) fn complete(
        &self,
        disposition: v1::Disposition,
        result: v1::Result,
    ) -> v1::CompleteRequest {
        let holder = self.clone();
        v1::CompleteRequest {
            tenant: holder.tenant,
            namespace: holder.namespace,
            key: holder.key,
            attempt_id: holder.attempt_id,
            epoch: holder.epoch,
            disposition: disposition.into(),
            result: Some(result),
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
