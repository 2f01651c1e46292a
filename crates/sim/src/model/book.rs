//! Every tenant and namespace that ever was, with every policy that ever held. Semantics §4.

use firstclaim_core::policy::Retention;
use firstclaim_core::{Millis, NamespaceName, Policy, PolicyPatch, TenantName, Timestamp};

use super::Model;
use crate::observation::Refused;

/// When and where in the log something was deleted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deletion {
    pub(super) time: Timestamp,
    pub(super) index: u64,
}

/// One life of a tenant.
#[derive(Clone, Debug)]
pub(super) struct TenantLife {
    pub(super) name: TenantName,
    pub(super) patch: PolicyPatch,
    pub(super) deleted: Option<Deletion>,
}

/// One life of a namespace.
#[derive(Clone, Debug)]
pub(super) struct NamespaceLife {
    pub(super) tenant: TenantName,
    pub(super) name: NamespaceName,
    pub(super) patch: PolicyPatch,
    /// Every policy that held here, and from when.
    pub(super) policies: Vec<(Timestamp, Policy)>,
    pub(super) deleted: Option<Deletion>,
}

impl NamespaceLife {
    /// The longest identity retention that ever held here.
    fn longest_retention(&self) -> Option<Retention> {
        self.policies.iter().map(|(_, policy)| policy.identity_retention).max()
    }

    /// The longest skew that was ever granted here.
    fn longest_skew(&self) -> Millis {
        self.policies.iter().map(|(_, policy)| policy.intent_time_skew).max().unwrap_or_default()
    }

    /// Whether a record of an intent born at `tau` can have been forgotten by `now`.
    fn may_have_forgotten(&self, tau: Timestamp, now: Timestamp) -> bool {
        self.policies.iter().enumerate().any(|(at, (from, policy))| {
            let Retention::For(retention) = policy.identity_retention else { return false };
            let until = self.policies.get(at + 1).map(|(until, _)| *until);
            let born = tau.before(policy.intent_time_skew);
            // A version was in force until after the millisecond of the change.
            until.is_none_or(|until| born <= until)
                && from.after(retention) <= now
                && born.after(retention) <= now
        })
    }
}

impl Model {
    pub(super) fn find_tenant(&self, name: &TenantName) -> Option<usize> {
        self.tenants.iter().position(|life| life.name == *name && life.deleted.is_none())
    }

    pub(super) fn find_namespace(
        &self,
        tenant: &TenantName,
        name: &NamespaceName,
    ) -> Result<usize, Refused> {
        self.find_tenant(tenant).ok_or(Refused::TenantNotFound)?;
        self.namespaces
            .iter()
            .position(|it| it.tenant == *tenant && it.name == *name && it.deleted.is_none())
            .ok_or(Refused::NamespaceNotFound)
    }

    /// The policy that holds in a namespace.
    pub(super) fn policy(&self, namespace: usize) -> Policy {
        let latest = self.namespaces[namespace].policies.last();
        latest.map(|(_, policy)| policy.clone()).unwrap_or_default()
    }

    /// Whether an intent can have been carried out by a record of this namespace, or of one that had
    /// its name before, that is forgotten by now. Semantics §5, Replay horizon, and §8.
    pub(super) fn late_replay(&self, namespace: usize, tau: Option<Timestamp>) -> bool {
        let now = self.now();
        let present = &self.namespaces[namespace];
        let skew = self.policy(namespace).intent_time_skew;
        let mut before = self
            .namespaces
            .iter()
            .filter(|it| it.tenant == present.tenant && it.name == present.name)
            .filter_map(|it| Some((it, it.deleted?)));
        match tau {
            Some(tau) => {
                present.may_have_forgotten(tau, now)
                    || before
                        .any(|(it, deleted)| tau <= deleted.time.after(it.longest_skew().max(skew)))
            }
            None => before.any(|(it, deleted)| {
                it.longest_retention().is_some_and(|it| !it.from(deleted.time).has_come(now))
            }),
        }
    }
}
