//! Tenants and namespaces of format 1.

use firstclaim_core::limits;
use firstclaim_core::policy::PolicyPatch;
use firstclaim_core::tenant::{
    Etag, Grave as PresentGrave, Namespace as PresentNamespace, RetentionVersion,
    Slot as PresentSlot,
};
use firstclaim_core::{Expiry, Timestamp};
use serde::{Deserialize, Serialize};

/// What stands under a name.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Slot<T> {
    Live(T),
    Deleted(Grave),
}

/// What remained of a deleted life. The skew that it had granted was forgotten.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Grave {
    deleted_time: Timestamp,
    deleted_index: u64,
    forgotten: Expiry,
}

/// A namespace.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Namespace {
    id: u64,
    policy: PolicyPatch,
    etag: Etag,
    created_time: Timestamp,
    updated_time: Timestamp,
    versions: Vec<RetentionVersion>,
    predecessor: Option<Grave>,
}

impl<T, P: From<T>> From<Slot<T>> for PresentSlot<P> {
    fn from(slot: Slot<T>) -> Self {
        match slot {
            Slot::Live(value) => Self::Live(value.into()),
            Slot::Deleted(grave) => Self::Deleted(grave.into()),
        }
    }
}

impl From<Grave> for PresentGrave {
    /// What skew was granted is not known any more, so it counts as the longest that there can have been.
    fn from(grave: Grave) -> Self {
        let Grave { deleted_time, deleted_index, forgotten } = grave;
        let intent_horizon = deleted_time.after(limits::INTENT_SKEW_MAX);
        Self { deleted_time, deleted_index, forgotten, intent_horizon }
    }
}

impl From<Namespace> for PresentNamespace {
    fn from(namespace: Namespace) -> Self {
        let Namespace { id, policy, etag, created_time, updated_time, versions, predecessor } =
            namespace;
        let predecessor = predecessor.map(PresentGrave::from);
        Self { id, policy, etag, created_time, updated_time, versions, predecessor }
    }
}
