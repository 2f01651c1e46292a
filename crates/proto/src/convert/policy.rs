//! Policy: every field optional on the wire, and changed field by field.

use firstclaim_core::outcome::PolicyWarning;
use firstclaim_core::policy::{DuplicateIntent, OnLapse, ReplayWindow, Requirement, Retention};
use firstclaim_core::{Invalid, Millis, Policy, PolicyPatch, limits};

use super::Faults;
use super::enums::unknown;
use super::time::{self, duration};
use crate::v1;

/// Hands the name of every field of a policy to a macro.
macro_rules! for_every_field {
    ($run:ident) => {
        $run!(
            lease_default,
            lease_max,
            takeover_delay,
            on_lapse,
            result_retention,
            identity_retention,
            replay_windows,
            intent_time,
            intent_time_skew,
            fingerprint,
            duplicate_intent,
            duplicate_intent_window,
            reserve,
            max_attempts,
            settle_horizon,
            result_bytes_max,
            records_max,
            claims_per_second
        )
    };
}

macro_rules! field_names {
    ($($field:ident),*) => { &[$(stringify!($field)),*] };
}

/// The name of every field, as in the `.proto` file.
pub const FIELDS: &[&str] = for_every_field!(field_names);

/// What a tenant or namespace sets itself, on the wire.
#[must_use]
pub fn patch(patch: &PolicyPatch) -> v1::Policy {
    v1::Policy {
        lease_default: patch.lease_default.map(duration),
        lease_max: patch.lease_max.map(duration),
        takeover_delay: patch.takeover_delay.map(duration),
        on_lapse: patch.on_lapse.map_or(v1::OnLapse::Unspecified, super::enums::on_lapse).into(),
        result_retention: patch.result_retention.map(duration),
        identity_retention: patch.identity_retention.map(time::retention),
        replay_windows: patch.replay_windows.as_deref().map(windows),
        intent_time: requirement(patch.intent_time).into(),
        intent_time_skew: patch.intent_time_skew.map(duration),
        fingerprint: requirement(patch.fingerprint).into(),
        duplicate_intent: duplicate_intent(patch.duplicate_intent).into(),
        duplicate_intent_window: patch.duplicate_intent_window.map(duration),
        reserve: requirement(patch.reserve).into(),
        max_attempts: patch.max_attempts,
        settle_horizon: patch.settle_horizon.map(duration),
        result_bytes_max: patch.result_bytes_max,
        records_max: patch.records_max,
        claims_per_second: patch.claims_per_second,
    }
}

/// A policy in effect, every field filled in.
#[must_use]
pub fn effective(policy: &Policy) -> v1::Policy {
    macro_rules! all_set {
        ($($field:ident),*) => { PolicyPatch { $($field: Some(policy.$field.clone())),* } };
    }
    patch(&for_every_field!(all_set))
}

fn windows(windows: &[ReplayWindow]) -> v1::ReplayWindows {
    let on_wire = |one: &ReplayWindow| v1::ReplayWindow {
        name: one.name.clone(),
        window: Some(duration(one.window)),
    };
    v1::ReplayWindows { windows: windows.iter().map(on_wire).collect() }
}

fn requirement(requirement: Option<Requirement>) -> v1::Requirement {
    match requirement {
        None => v1::Requirement::Unspecified,
        Some(Requirement::Optional) => v1::Requirement::Optional,
        Some(Requirement::Required) => v1::Requirement::Required,
    }
}

fn duplicate_intent(duplicate_intent: Option<DuplicateIntent>) -> v1::DuplicateIntent {
    match duplicate_intent {
        None => v1::DuplicateIntent::Unspecified,
        Some(DuplicateIntent::Off) => v1::DuplicateIntent::Off,
        Some(DuplicateIntent::Warn) => v1::DuplicateIntent::Warn,
        Some(DuplicateIntent::Block) => v1::DuplicateIntent::Block,
    }
}

/// Reads what a tenant or namespace wants to set itself. How the fields fit together is checked
/// where all of them are known: in the log.
///
/// # Errors
///
/// Every fault of the policy, with paths from the policy on.
pub fn read(wire: v1::Policy) -> Result<PolicyPatch, Faults> {
    let mut faults = Faults::default();
    let patch = PolicyPatch {
        lease_default: faults.duration("lease_default", wire.lease_default),
        lease_max: faults.duration("lease_max", wire.lease_max),
        takeover_delay: faults.duration("takeover_delay", wire.takeover_delay),
        on_lapse: faults.take(read_on_lapse(wire.on_lapse)).flatten(),
        result_retention: faults.duration("result_retention", wire.result_retention),
        identity_retention: wire
            .identity_retention
            .and_then(|wire| faults.take(time::read_retention("identity_retention", wire))),
        replay_windows: wire.replay_windows.and_then(|wire| read_windows(&mut faults, wire)),
        intent_time: faults.take(read_requirement("intent_time", wire.intent_time)).flatten(),
        intent_time_skew: faults.duration("intent_time_skew", wire.intent_time_skew),
        fingerprint: faults.take(read_requirement("fingerprint", wire.fingerprint)).flatten(),
        duplicate_intent: faults.take(read_duplicate_intent(wire.duplicate_intent)).flatten(),
        duplicate_intent_window: faults
            .duration("duplicate_intent_window", wire.duplicate_intent_window),
        reserve: faults.take(read_requirement("reserve", wire.reserve)).flatten(),
        max_attempts: wire.max_attempts,
        settle_horizon: faults.duration("settle_horizon", wire.settle_horizon),
        result_bytes_max: wire.result_bytes_max,
        records_max: wire.records_max,
        claims_per_second: wire.claims_per_second,
    };
    faults.finish(Some(patch))
}

fn read_windows(faults: &mut Faults, wire: v1::ReplayWindows) -> Option<Vec<ReplayWindow>> {
    if wire.windows.len() > limits::REPLAY_WINDOWS_MAX {
        let fix = format!("use at most {}", limits::REPLAY_WINDOWS_MAX);
        faults.note("replay_windows", format!("has {} entries", wire.windows.len()), fix);
        return None;
    }
    let mut read = Vec::new();
    for (at, one) in wire.windows.into_iter().enumerate() {
        let field = format!("replay_windows.windows[{at}]");
        let (max, length) = (limits::SCHEME_BYTES_MAX, one.name.len());
        if one.name.trim().is_empty() || length > max {
            let problem = format!("is blank or too long ({length} bytes)");
            faults.note(format!("{field}.name"), problem, format!("use 1 to {max} bytes"));
        }
        if read.iter().any(|other: &ReplayWindow| other.name == one.name) {
            let problem = format!("repeats {:?}", one.name);
            faults.note(format!("{field}.name"), problem, "name every window differently");
        }
        let window = faults.need_duration(&format!("{field}.window"), one.window);
        read.extend(window.map(|window| ReplayWindow { name: one.name, window }));
    }
    Some(read)
}

fn read_on_lapse(wire: i32) -> Result<Option<OnLapse>, Invalid> {
    match v1::OnLapse::try_from(wire) {
        Ok(v1::OnLapse::Unspecified) => Ok(None),
        Ok(v1::OnLapse::Takeover) => Ok(Some(OnLapse::Takeover)),
        Ok(v1::OnLapse::Recover) => Ok(Some(OnLapse::Recover)),
        Err(_) => Err(unknown("on_lapse", wire, "use TAKEOVER or RECOVER")),
    }
}

fn read_requirement(field: &str, wire: i32) -> Result<Option<Requirement>, Invalid> {
    match v1::Requirement::try_from(wire) {
        Ok(v1::Requirement::Unspecified) => Ok(None),
        Ok(v1::Requirement::Optional) => Ok(Some(Requirement::Optional)),
        Ok(v1::Requirement::Required) => Ok(Some(Requirement::Required)),
        Err(_) => Err(unknown(field, wire, "use OPTIONAL or REQUIRED")),
    }
}

fn read_duplicate_intent(wire: i32) -> Result<Option<DuplicateIntent>, Invalid> {
    match v1::DuplicateIntent::try_from(wire) {
        Ok(v1::DuplicateIntent::Unspecified) => Ok(None),
        Ok(v1::DuplicateIntent::Off) => Ok(Some(DuplicateIntent::Off)),
        Ok(v1::DuplicateIntent::Warn) => Ok(Some(DuplicateIntent::Warn)),
        Ok(v1::DuplicateIntent::Block) => Ok(Some(DuplicateIntent::Block)),
        Err(_) => Err(unknown("duplicate_intent", wire, "use OFF, WARN or BLOCK")),
    }
}

/// What is set after an update: `current` with the fields of `sent` that the mask names, or, without
/// a mask, with those that `sent` sets. A field that is named and not set is inherited again.
///
/// # Errors
///
/// A path of the mask that is no field of a policy.
pub fn update(
    current: &PolicyPatch,
    sent: &PolicyPatch,
    mask: Option<&prost_types::FieldMask>,
) -> Result<PolicyPatch, Faults> {
    let mut faults = Faults::default();
    let mut next = current.clone();
    let paths = mask.map_or(&[] as &[String], |mask| &mask.paths);
    if paths.is_empty() {
        macro_rules! set_sent {
            ($($field:ident),*) => {
                $(if sent.$field.is_some() { next.$field.clone_from(&sent.$field); })*
            };
        }
        for_every_field!(set_sent);
    }
    for path in paths {
        macro_rules! set_named {
            ($($field:ident),*) => {
                match path.strip_prefix("policy.").unwrap_or(path) {
                    $(stringify!($field) => next.$field.clone_from(&sent.$field),)*
                    "policy" | "*" => next.clone_from(sent),
                    _ => {
                        let fix = format!("use policy, or policy. and one of {}", FIELDS.join(", "));
                        faults.note("update_mask", format!("names {path:?}"), fix);
                    }
                }
            };
        }
        for_every_field!(set_named);
    }
    faults.finish(Some(next))
}

/// The fields in effect that differ; all of them if there was nothing before.
#[must_use]
pub fn changes(before: Option<&Policy>, after: &Policy) -> Vec<v1::PolicyChange> {
    let mut changes = Vec::new();
    macro_rules! compare {
        ($($field:ident),*) => {
            $(if before.is_none_or(|before| before.$field != after.$field) {
                changes.push(v1::PolicyChange {
                    field: stringify!($field).to_owned(),
                    before: before.map(|before| before.$field.text()).unwrap_or_default(),
                    after: after.$field.text(),
                });
            })*
        };
    }
    for_every_field!(compare);
    changes
}

/// How a value of a policy is written for people.
trait Text {
    fn text(&self) -> String;
}

impl Text for Millis {
    fn text(&self) -> String {
        let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s")];
        match units.iter().find(|(length, _)| self.0 >= *length && self.0.is_multiple_of(*length)) {
            Some((length, unit)) => format!("{}{unit}", self.0 / length),
            None if self.0 == 0 => "0s".to_owned(),
            None => format!("{}ms", self.0),
        }
    }
}

impl Text for Retention {
    fn text(&self) -> String {
        match self {
            Self::For(length) => length.text(),
            Self::Forever => "FOREVER".to_owned(),
        }
    }
}

impl Text for Vec<ReplayWindow> {
    fn text(&self) -> String {
        let one = |window: &ReplayWindow| format!("{} {}", window.name, window.window.text());
        self.iter().map(one).collect::<Vec<_>>().join(", ")
    }
}

impl Text for OnLapse {
    fn text(&self) -> String {
        match self {
            Self::Recover => "RECOVER".to_owned(),
            Self::Takeover => "TAKEOVER".to_owned(),
        }
    }
}

impl Text for Requirement {
    fn text(&self) -> String {
        match self {
            Self::Optional => "OPTIONAL".to_owned(),
            Self::Required => "REQUIRED".to_owned(),
        }
    }
}

impl Text for DuplicateIntent {
    fn text(&self) -> String {
        match self {
            Self::Off => "OFF".to_owned(),
            Self::Warn => "WARN".to_owned(),
            Self::Block => "BLOCK".to_owned(),
        }
    }
}

impl Text for u32 {
    fn text(&self) -> String {
        self.to_string()
    }
}

impl Text for u64 {
    fn text(&self) -> String {
        self.to_string()
    }
}

/// What a warning says.
#[must_use]
pub fn warning(warning: PolicyWarning) -> &'static str {
    match warning {
        PolicyWarning::IdentityRetentionShortened => {
            "identity_retention is shorter than before: keys of new records are forgotten earlier; \
             records that exist keep theirs"
        }
        PolicyWarning::ResultRetentionShortened => {
            "result_retention is shorter than before: results of new records are dropped earlier; \
             records that exist keep theirs"
        }
        PolicyWarning::LapseRepeatsWork => {
            "on_lapse TAKEOVER executes a lapsed claim again although nobody knows whether its work \
             happened; right only where repeats are harmless"
        }
        PolicyWarning::NoReplayWindows => {
            "replay_windows is empty: nothing checks that identity_retention is longer than the \
             oldest legitimate repeat"
        }
    }
}
