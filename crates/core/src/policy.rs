//! What a tenant decides about its claims: replicated, versioned, frozen into records at grants.

use serde::{Deserialize, Serialize};

use crate::invalid::Invalid;
use crate::limits;
use crate::time::{Expiry, Millis, Timestamp};

/// What a lapsed claim with nothing recorded means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnLapse {
    /// "The work may have happened": the record becomes unresolved.
    Recover,
    /// It may simply be executed again.
    Takeover,
}

/// Whether callers must send something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Requirement {
    /// They may.
    Optional,
    /// A first claim without it is refused.
    Required,
}

/// How long the key of a finished record is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Retention {
    /// For that long.
    For(Millis),
    /// For ever.
    Forever,
}

impl Retention {
    /// When something that starts at `start` is forgotten.
    #[must_use]
    pub fn from(self, start: Timestamp) -> Expiry {
        match self {
            Self::For(duration) => Expiry::At(start.after(duration)),
            Self::Forever => Expiry::Never,
        }
    }
}

/// What happens when one fingerprint arrives under a second key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DuplicateIntent {
    /// Nothing.
    Off,
    /// The answer lists the similar keys.
    Warn,
    /// The claim is refused.
    Block,
}

/// How old a legitimate repeat can be, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayWindow {
    /// `queue_visibility`, `dlq_redrive`.
    pub name: String,
    /// The oldest repeat that it can bring.
    pub window: Millis,
}

macro_rules! policy_fields {
    ($($(#[$doc:meta])* $field:ident : $type:ty = $default:expr;)*) => {
        /// A whole policy: every field has a value.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub struct Policy { $($(#[$doc])* pub $field: $type,)* }

        impl Default for Policy {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        /// The fields that a tenant or a namespace sets itself; the rest is inherited.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct PolicyPatch { $($(#[$doc])* pub $field: Option<$type>,)* }

        impl Policy {
            /// This policy with the fields that `patch` sets.
            #[must_use]
            pub fn with(mut self, patch: &PolicyPatch) -> Self {
                $(if let Some(value) = &patch.$field { self.$field = value.clone(); })*
                self
            }
        }
    };
}

policy_fields! {
    /// Lease of a claim that asks for none.
    lease_default: Millis = Millis::from_secs(30);
    /// Longest lease.
    lease_max: Millis = Millis::from_hours(1);
    /// Extra wait after a lapse before anyone may take over.
    takeover_delay: Millis = Millis(0);
    /// What a lapsed claim with nothing recorded means.
    on_lapse: OnLapse = OnLapse::Recover;
    /// How long result bytes are kept.
    result_retention: Millis = Millis::from_hours(24);
    /// How long the key is remembered at all.
    identity_retention: Retention = Retention::For(Millis::from_hours(24 * 30));
    /// How old legitimate repeats can be.
    replay_windows: Vec<ReplayWindow> = Vec::new();
    /// Whether first claims must say when the intent was born.
    intent_time: Requirement = Requirement::Optional;
    /// Clock skew granted to intent times.
    intent_time_skew: Millis = Millis::from_secs(60);
    /// Whether claims must carry a fingerprint.
    fingerprint: Requirement = Requirement::Required;
    /// What happens when one fingerprint arrives under a second key.
    duplicate_intent: DuplicateIntent = DuplicateIntent::Warn;
    /// For how long fingerprints are compared across keys.
    duplicate_intent_window: Millis = Millis::from_hours(24);
    /// Whether only keys that a producer reserved may be claimed.
    reserve: Requirement = Requirement::Optional;
    /// Most EXECUTE grants of a record; 0 is no cap.
    max_attempts: u32 = 0;
    /// How long after the last permit a "not found at the provider" proves nothing.
    settle_horizon: Millis = Millis::from_secs(15 * 60);
    /// Result bytes kept inline.
    result_bytes_max: u32 = limits::RESULT_BYTES_DEFAULT;
    /// Records of the namespace; 0 is no quota.
    records_max: u64 = 0;
    /// Claims per second of the namespace; 0 is no limit.
    claims_per_second: u32 = 0;
}

impl Policy {
    /// Checks the relations between the fields.
    ///
    /// # Errors
    ///
    /// Every fault at once, each with its field.
    pub fn check(&self) -> Result<(), Vec<Invalid>> {
        let mut faults = Vec::new();
        self.check_leases(&mut faults);
        self.check_retentions(&mut faults);
        let mut bounded = |field: &str, value: Millis, max: Millis| {
            if value > max {
                faults.push(Invalid::new(
                    field,
                    format!("is {value}"),
                    format!("use at most {max}"),
                ));
            }
        };
        bounded("takeover_delay", self.takeover_delay, limits::BACKOFF_MAX);
        bounded("settle_horizon", self.settle_horizon, limits::SETTLE_HORIZON_MAX);
        bounded("intent_time_skew", self.intent_time_skew, limits::INTENT_SKEW_MAX);
        bounded("duplicate_intent_window", self.duplicate_intent_window, limits::RETENTION_MAX);
        if self.result_bytes_max > limits::RESULT_BYTES_POLICY_MAX {
            faults.push(Invalid::new(
                "result_bytes_max",
                format!("is {}", self.result_bytes_max),
                format!("use at most {}", limits::RESULT_BYTES_POLICY_MAX),
            ));
        }
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }

    fn check_leases(&self, faults: &mut Vec<Invalid>) {
        let min = limits::LEASE_MIN;
        if self.lease_max < min || self.lease_max > limits::LEASE_POLICY_MAX {
            faults.push(Invalid::new(
                "lease_max",
                format!("is {}", self.lease_max),
                format!("use {min} to {}", limits::LEASE_POLICY_MAX),
            ));
        }
        if self.lease_default < min || self.lease_default > self.lease_max {
            faults.push(Invalid::new(
                "lease_default",
                format!("is {}", self.lease_default),
                format!("use {min} to lease_max ({})", self.lease_max),
            ));
        }
    }

    fn check_retentions(&self, faults: &mut Vec<Invalid>) {
        let (min, max) = (limits::RETENTION_MIN, limits::RETENTION_MAX);
        let mut in_range = |field: &str, value: Millis| {
            if value < min || value > max {
                faults.push(Invalid::new(
                    field,
                    format!("is {value}"),
                    format!("use {min} to {max}, or FOREVER for the identity"),
                ));
            }
        };
        in_range("result_retention", self.result_retention);
        if let Retention::For(identity) = self.identity_retention {
            in_range("identity_retention", identity);
        }
        for (at, window) in self.replay_windows.iter().enumerate() {
            in_range(&format!("replay_windows[{at}].window"), window.window);
        }
        self.check_windows(faults);
    }

    fn check_windows(&self, faults: &mut Vec<Invalid>) {
        if self.replay_windows.len() > limits::REPLAY_WINDOWS_MAX {
            faults.push(Invalid::new(
                "replay_windows",
                format!("has {} entries", self.replay_windows.len()),
                format!("use at most {}", limits::REPLAY_WINDOWS_MAX),
            ));
        }
        for (at, window) in self.replay_windows.iter().enumerate() {
            if window.name.is_empty() || window.name.len() > limits::SCHEME_BYTES_MAX {
                faults.push(Invalid::new(
                    format!("replay_windows[{at}].name"),
                    format!("is {} bytes long", window.name.len()),
                    format!("use 1 to {} bytes", limits::SCHEME_BYTES_MAX),
                ));
            }
        }
        let Retention::For(identity) = self.identity_retention else { return };
        if self.result_retention > identity {
            faults.push(Invalid::new(
                "result_retention",
                format!(
                    "is {}, longer than identity_retention ({identity})",
                    self.result_retention
                ),
                "keep the key at least as long as its result",
            ));
        }
        if let Some(longest) = self.replay_windows.iter().max_by_key(|window| window.window) {
            let needed = longest.window.plus(self.intent_time_skew);
            if identity < needed {
                faults.push(Invalid::new(
                    "identity_retention",
                    format!("is {identity}, shorter than the replay window {:?} plus skew ({needed})", longest.name),
                    format!("use at least {needed}: a repeat that comes after the key was forgotten runs again"),
                ));
            }
        }
    }
}

/// What was frozen into the record at its latest grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frozen {
    /// What a lapse means.
    pub on_lapse: OnLapse,
    /// Extra wait after a lapse.
    pub takeover_delay: Millis,
    /// How long a "not found" proves nothing.
    pub settle_horizon: Millis,
    /// How long result bytes are kept.
    pub result_retention: Millis,
    /// How long the key is remembered.
    pub identity_retention: Retention,
}

impl Frozen {
    /// Takes what `policy` says now.
    #[must_use]
    pub fn from_policy(policy: &Policy) -> Self {
        Self {
            on_lapse: policy.on_lapse,
            takeover_delay: policy.takeover_delay,
            settle_horizon: policy.settle_horizon,
            result_retention: policy.result_retention,
            identity_retention: policy.identity_retention,
        }
    }
}
