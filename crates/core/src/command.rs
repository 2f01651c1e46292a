//! Every command that goes through the log.

use serde::{Deserialize, Serialize};

use crate::fingerprint::FingerprintSet;
use crate::name::{AttemptId, Labels, NamespaceName, OwnerLabel, RecordRef, TenantName};
use crate::policy::PolicyPatch;
use crate::record::{Disposition, Epoch, ResultBody};
use crate::tenant::Etag;
use crate::time::{Millis, Timestamp};

/// What a log entry asks for. New kinds are added at the end: the position is in the format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// Asks for the right to act on a key.
    Claim(Claim),
    /// Makes a lease longer.
    Renew(Renew),
    /// Stores how the work ended.
    Complete(Complete),
    /// Gives the claim back.
    Release(Release),
    /// Creates or changes a tenant.
    PutTenant(PutTenant),
    /// Creates or changes a namespace.
    PutNamespace(PutNamespace),
    /// Deletes a tenant with all its namespaces.
    DeleteTenant(DeleteTenant),
    /// Deletes a namespace.
    DeleteNamespace(DeleteNamespace),
    /// Removes what is past its retention.
    Sweep(Sweep),
    /// Carries a stamp and nothing else.
    Tick,
}

/// Asks for the right to act on a key. Semantics §5.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// Which key.
    pub record: RecordRef,
    /// Which try.
    pub attempt_id: AttemptId,
    /// Whose try.
    pub owner: OwnerLabel,
    /// The request that the key stands for.
    pub fingerprints: FingerprintSet,
    /// How long a lease is wanted; the policy's default if none.
    pub lease: Option<Millis>,
    /// When the intent was born.
    pub intent_time: Option<Timestamp>,
    /// What the caller says about the attempt.
    pub labels: Labels,
    /// Whether the caller can look up and settle what an earlier holder left open.
    pub accept_recovery: bool,
}

/// Proves that the caller holds a grant: both must match.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Which key.
    pub record: RecordRef,
    /// The epoch that was granted.
    pub epoch: Epoch,
    /// The attempt that it was granted to.
    pub attempt_id: AttemptId,
}

/// Makes a lease longer. Semantics §6.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renew {
    /// Who asks.
    pub holder: Holder,
    /// Wanted length from now; the claim's own if none.
    pub lease: Option<Millis>,
}

/// Stores how the work ended. Semantics §6.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Complete {
    /// Who says so.
    pub holder: Holder,
    /// How it ended.
    pub disposition: Disposition,
    /// What came out.
    pub result: ResultBody,
}

/// What a holder knows when it gives its claim back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReleaseKind {
    /// Nothing happened; try again after a while.
    Retry {
        /// How long nobody may try.
        retry_after: Millis,
    },
    /// Nothing happened, and the key may be bound to another request.
    Unbind,
    /// Nobody knows whether it happened.
    Unknown {
        /// What the holder can say about it.
        note: String,
    },
}

/// Gives the claim back. Semantics §6.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// Who gives it back.
    pub holder: Holder,
    /// With what knowledge.
    pub kind: ReleaseKind,
}

/// Whether a put may create, and what it may replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PutMode {
    /// The name must be free.
    Create {
        /// The lowest log index that every member had applied when the command was proposed; a
        /// deleted name is free once that covers its deletion.
        members_applied: u64,
    },
    /// The name must exist, and have this etag if one is given.
    Update {
        /// The version that the caller saw.
        expected: Option<Etag>,
    },
}

/// Creates or changes a tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutTenant {
    /// Its name.
    pub tenant: TenantName,
    /// All that it sets itself from now on.
    pub policy: PolicyPatch,
    /// Create or update.
    pub mode: PutMode,
    /// Whether only to say what would happen.
    pub validate_only: bool,
}

/// Creates or changes a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutNamespace {
    /// Its tenant.
    pub tenant: TenantName,
    /// Its name.
    pub namespace: NamespaceName,
    /// All that it sets itself from now on.
    pub policy: PolicyPatch,
    /// Create or update.
    pub mode: PutMode,
    /// Whether only to say what would happen.
    pub validate_only: bool,
}

/// Deletes a tenant with all its namespaces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteTenant {
    /// Which.
    pub tenant: TenantName,
    /// The version that the caller saw.
    pub expected: Option<Etag>,
    /// Whether to delete records that are live or open, too.
    pub force: bool,
}

/// Deletes a namespace with all its records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteNamespace {
    /// Its tenant.
    pub tenant: TenantName,
    /// Which.
    pub namespace: NamespaceName,
    /// The version that the caller saw.
    pub expected: Option<Etag>,
    /// Whether to delete records that are live or open, too.
    pub force: bool,
}

/// Removes what is past its retention. Changes no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sweep {
    /// Most records to look at; at most [`crate::limits::SWEEP_RECORDS_MAX`].
    pub limit: u32,
}
