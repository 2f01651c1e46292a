//! Deleting tenants and namespaces. Semantics §8.

use firstclaim_core::command::{DeleteNamespace, DeleteTenant};
use firstclaim_core::record::Logical;

use super::book::Deletion;
use super::{Answered, Model};
use crate::observation::{Observation, Refused};

impl Model {
    pub(super) fn delete_tenant(&mut self, delete: &DeleteTenant) -> Answered {
        let tenant = self.find_tenant(&delete.tenant).ok_or(Refused::TenantNotFound)?;
        if delete.expected.is_some() {
            return Err(Refused::EtagMismatch);
        }
        let namespaces = self.namespaces_of(&delete.tenant);
        if !delete.force && namespaces.iter().any(|namespace| self.in_use(*namespace)) {
            return Err(Refused::StillInUse);
        }
        let deletion = Deletion { time: self.now(), index: self.index };
        for namespace in &namespaces {
            self.namespaces[*namespace].deleted = Some(deletion);
        }
        self.tenants[tenant].deleted = Some(deletion);
        let namespaces = u32::try_from(namespaces.len()).unwrap_or(u32::MAX);
        Ok(Observation::Deleted { namespaces, forced: delete.force })
    }

    pub(super) fn delete_namespace(&mut self, delete: &DeleteNamespace) -> Answered {
        let namespace = self.find_namespace(&delete.tenant, &delete.namespace)?;
        if delete.expected.is_some() {
            return Err(Refused::EtagMismatch);
        }
        if !delete.force && self.in_use(namespace) {
            return Err(Refused::StillInUse);
        }
        let deletion = Deletion { time: self.now(), index: self.index };
        self.namespaces[namespace].deleted = Some(deletion);
        Ok(Observation::Deleted { namespaces: 1, forced: delete.force })
    }

    /// Whether any record of it is live or open. One that is COMPLETED is neither, whatever is unknown
    /// of its effects: time forgets it, too.
    fn in_use(&self, namespace: usize) -> bool {
        self.records(namespace).into_iter().any(|life| match self.standing(life) {
            Some(Logical::Live) => true,
            Some(Logical::Completed) | None => false,
            Some(_) => !self.open(life).is_empty(),
        })
    }
}
