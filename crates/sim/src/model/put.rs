//! Tenants, namespaces and their policies. Semantics §4.

use firstclaim_core::command::{PutMode, PutNamespace, PutTenant};
use firstclaim_core::{Millis, Policy, PolicyPatch, TenantName};

use super::book::{Deletion, NamespaceLife, TenantLife};
use super::{Answered, Model};
use crate::observation::{Observation, Refused};

/// After this time a removed member answers nothing any more.
const LOCAL_REPLAY_MAX: Millis = Millis::from_hours(24);

impl Model {
    pub(super) fn put_tenant(&mut self, put: &PutTenant) -> Answered {
        let known = self.find_tenant(&put.tenant);
        let gone = self.tenants.iter().filter(|it| it.name == put.tenant);
        let gone = gone.filter_map(|it| it.deleted).next_back();
        self.check_mode(put.mode, known.is_some(), gone, Refused::TenantNotFound)?;
        let previous = known.map(|at| Policy::default().with(&self.tenants[at].patch));
        let effective = Policy::default().with(&put.policy);
        check(&effective)?;
        for namespace in self.namespaces_of(&put.tenant) {
            check(&effective.clone().with(&self.namespaces[namespace].patch))?;
        }
        if !put.validate_only {
            match known {
                Some(at) => self.tenants[at].patch = put.policy.clone(),
                None => self.tenants.push(TenantLife {
                    name: put.tenant.clone(),
                    patch: put.policy.clone(),
                    deleted: None,
                }),
            }
            for namespace in self.namespaces_of(&put.tenant) {
                self.note_policy(namespace);
            }
        }
        Ok(policy_set(effective, previous, put.validate_only))
    }

    pub(super) fn put_namespace(&mut self, put: &PutNamespace) -> Answered {
        let tenant = self.find_tenant(&put.tenant).ok_or(Refused::TenantNotFound)?;
        let known = self.find_namespace(&put.tenant, &put.namespace).ok();
        let gone = self.namespaces.iter();
        let gone = gone.filter(|it| it.tenant == put.tenant && it.name == put.namespace);
        let gone = gone.filter_map(|it| it.deleted).next_back();
        self.check_mode(put.mode, known.is_some(), gone, Refused::NamespaceNotFound)?;
        let of_tenant: &PolicyPatch = &self.tenants[tenant].patch;
        let effective = Policy::default().with(of_tenant).with(&put.policy);
        check(&effective)?;
        let previous = known.map(|at| self.policy(at));
        if !put.validate_only {
            let namespace = known.unwrap_or(self.namespaces.len());
            if known.is_none() {
                self.namespaces.push(NamespaceLife {
                    tenant: put.tenant.clone(),
                    name: put.namespace.clone(),
                    patch: PolicyPatch::default(),
                    policies: Vec::new(),
                    deleted: None,
                });
            }
            self.namespaces[namespace].patch = put.policy.clone();
            self.note_policy(namespace);
        }
        Ok(policy_set(effective, previous, put.validate_only))
    }

    fn check_mode(
        &self,
        mode: PutMode,
        known: bool,
        gone: Option<Deletion>,
        not_found: Refused,
    ) -> Result<(), Refused> {
        match mode {
            PutMode::Create { .. } if known => Err(Refused::AlreadyExists),
            PutMode::Create { members_applied } => {
                let Some(gone) = gone else { return Ok(()) };
                let free_time = gone.time.after(LOCAL_REPLAY_MAX);
                if members_applied >= gone.index || self.now() >= free_time {
                    return Ok(());
                }
                Err(Refused::NameInDeletion { free_time })
            }
            PutMode::Update { .. } if !known => Err(not_found),
            // The test never names an etag that exists.
            PutMode::Update { expected: Some(_) } => Err(Refused::EtagMismatch),
            PutMode::Update { expected: None } => Ok(()),
        }
    }

    pub(super) fn namespaces_of(&self, tenant: &TenantName) -> Vec<usize> {
        let all = self.namespaces.iter().enumerate();
        let own = all.filter(|(_, it)| it.tenant == *tenant && it.deleted.is_none());
        own.map(|(at, _)| at).collect()
    }

    /// Notes the policy that holds in a namespace from now on.
    fn note_policy(&mut self, namespace: usize) {
        let now = self.now();
        let it = &self.namespaces[namespace];
        let tenant = self.find_tenant(&it.tenant);
        let of_tenant = tenant.map(|at| self.tenants[at].patch.clone()).unwrap_or_default();
        let policy = Policy::default().with(&of_tenant).with(&it.patch);
        self.namespaces[namespace].policies.push((now, policy));
    }
}

fn check(policy: &Policy) -> Result<(), Refused> {
    policy.check().map_err(|faults| Refused::Invalid {
        fields: faults
            .into_iter()
            .filter_map(|fault| fault.field.rsplit('.').next().map(str::to_owned))
            .collect(),
    })
}

fn policy_set(effective: Policy, previous: Option<Policy>, validate_only: bool) -> Observation {
    let (effective, previous) = (Box::new(effective), previous.map(Box::new));
    Observation::Policy { effective, previous, validate_only }
}
