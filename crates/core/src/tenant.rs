//! Tenants and namespaces as they are stored, the history of their retentions, and what remains of
//! deleted ones.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::invalid::Invalid;
use crate::limits;
use crate::policy::{Policy, PolicyPatch, Retention};
use crate::record::Epoch;
use crate::time::{Expiry, Millis, StoreClock, Timestamp};

/// Names one version of a tenant or namespace. Carries the generation, so that an etag from before
/// a restore never matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Etag {
    /// The cluster's generation.
    pub generation: u64,
    /// A number that no other version in that generation has.
    pub version: u64,
}

impl fmt::Display for Etag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.generation, self.version)
    }
}

impl Etag {
    /// Reads what [`fmt::Display`] writes.
    ///
    /// # Errors
    ///
    /// [`Invalid`] for anything else.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let parsed = text.split_once('-').and_then(|(generation, version)| {
            Some(Self { generation: generation.parse().ok()?, version: version.parse().ok()? })
        });
        parsed.ok_or_else(|| {
            Invalid::new("etag", format!("is {text:?}"), "send the etag of a previous answer")
        })
    }
}

/// What all replicas know about the cluster itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// Store time and grace.
    pub clock: StoreClock,
    /// Raised by a restore; the high bits of every epoch.
    pub generation: u64,
    /// The last epoch's counter.
    pub epoch_counter: u64,
    /// The last id given to a version, a namespace or a record's life.
    pub last_id: u64,
}

impl Cluster {
    /// A new epoch, above all before it.
    pub fn next_epoch(&mut self) -> Epoch {
        self.epoch_counter += 1;
        Epoch(self.generation << Epoch::COUNTER_BITS | self.epoch_counter)
    }

    /// A number never given before.
    pub fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// A new etag.
    pub fn next_etag(&mut self) -> Etag {
        Etag { generation: self.generation, version: self.next_id() }
    }
}

/// What stands under a name: something, or the memory of something deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Slot<T> {
    /// It exists.
    Live(T),
    /// It was deleted.
    Deleted(Grave),
}

impl<T> Slot<T> {
    /// What exists, if it does.
    pub fn live(self) -> Option<T> {
        match self {
            Self::Live(value) => Some(value),
            Self::Deleted(_) => None,
        }
    }
}

/// What must be known about a deleted life so that a new one under the same name pays nothing
/// twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grave {
    /// When it was deleted.
    pub deleted_time: Timestamp,
    /// Index of the log entry that deleted it.
    pub deleted_index: u64,
    /// When the last of its records would have been forgotten.
    pub forgotten: Expiry,
    /// The latest intent time that one of its records, or of those before it, can have had: the
    /// deletion's time and the longest skew that was ever granted.
    pub intent_horizon: Timestamp,
}

impl Grave {
    /// What remains of something that held nothing.
    #[must_use]
    pub fn new(deleted_time: Timestamp, deleted_index: u64) -> Self {
        let forgotten = Expiry::At(deleted_time);
        Self { deleted_time, deleted_index, forgotten, intent_horizon: deleted_time }
    }

    /// What remains when both are gone.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self {
            forgotten: self.forgotten.max(other.forgotten),
            intent_horizon: self.intent_horizon.max(other.intent_horizon),
            ..self
        }
    }
}

/// A tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tenant {
    /// What it sets itself.
    pub policy: PolicyPatch,
    /// Names this version.
    pub etag: Etag,
    /// When it was created.
    pub created_time: Timestamp,
    /// When it was last changed.
    pub updated_time: Timestamp,
}

/// A stretch of time in which one retention was in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetentionVersion {
    /// From when.
    pub from: Timestamp,
    /// Until when; none for the present one.
    pub until: Option<Timestamp>,
    /// The identity retention.
    pub identity_retention: Retention,
    /// The skew of intent times.
    pub skew: Millis,
}

/// A namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespace {
    /// Names this life of it; the prefix of its records.
    pub id: u64,
    /// What it sets itself; the rest comes from the tenant.
    pub policy: PolicyPatch,
    /// Names this version.
    pub etag: Etag,
    /// When it was created.
    pub created_time: Timestamp,
    /// When it was last changed.
    pub updated_time: Timestamp,
    /// Every effective retention that it had, oldest first.
    pub versions: Vec<RetentionVersion>,
    /// The deleted life that had its name before.
    pub predecessor: Option<Grave>,
}

impl Namespace {
    /// The policy that holds here.
    #[must_use]
    pub fn effective(&self, tenant: &Tenant) -> Policy {
        Policy::default().with(&tenant.policy).with(&self.policy)
    }

    /// Notes the retention that is in force from `now` on.
    ///
    /// # Errors
    ///
    /// [`Invalid`] if the history is full: it must never lose a version, or a late replay could be
    /// taken for a first claim.
    pub fn note_retention(&mut self, policy: &Policy, now: Timestamp) -> Result<(), Invalid> {
        let (identity_retention, skew) = (policy.identity_retention, policy.intent_time_skew);
        if let Some(last) = self.versions.last_mut() {
            if (last.identity_retention, last.skew) == (identity_retention, skew) {
                return Ok(());
            }
            // Store time may stand still: what was claimed before in this very millisecond was claimed
            // under the version that ends.
            last.until = Some(now.after(Millis(1)));
        }
        if self.versions.len() >= limits::POLICY_VERSIONS_MAX {
            return Err(Invalid::new(
                "identity_retention",
                format!("was changed {} times already", limits::POLICY_VERSIONS_MAX),
                "keep it as it is, or create a new namespace",
            ));
        }
        self.versions.push(RetentionVersion { from: now, until: None, identity_retention, skew });
        Ok(())
    }

    /// What remains of this life, and of those before it, when it is deleted at `now` by the log entry
    /// `index`.
    #[must_use]
    pub fn grave(&self, now: Timestamp, index: u64) -> Grave {
        let mut grave = Grave::new(now, index);
        for version in &self.versions {
            grave.forgotten = grave.forgotten.max(version.identity_retention.from(now));
            grave.intent_horizon = grave.intent_horizon.max(now.after(version.skew));
        }
        self.predecessor.map_or(grave, |older| grave.with(older))
    }
}
