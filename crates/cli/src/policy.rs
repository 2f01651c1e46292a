//! Policy as flags, as a message with its mask, and as it is shown.

use std::time::Duration;

use clap::{Args, ValueEnum};
use firstclaim_client::prost_types::FieldMask;
use firstclaim_client::{time, v1};
use serde_json::{Map, Value, json};

use crate::duration::{self, Retention};
use crate::failure::short;

/// The fields that a policy has, as `--unset` names them.
const FIELDS: [&str; 18] = [
    "lease_default",
    "lease_max",
    "takeover_delay",
    "on_lapse",
    "result_retention",
    "identity_retention",
    "replay_windows",
    "intent_time",
    "intent_time_skew",
    "fingerprint",
    "duplicate_intent",
    "duplicate_intent_window",
    "reserve",
    "max_attempts",
    "settle_horizon",
    "result_bytes_max",
    "records_max",
    "claims_per_second",
];

/// What a lapse means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLapse {
    /// The work may have happened: find out before it is executed again
    Recover,
    /// The work may simply be executed again
    Takeover,
}

/// Whether something must be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Requirement {
    /// Callers may send it
    Optional,
    /// Callers must send it
    Required,
}

impl From<Requirement> for i32 {
    fn from(requirement: Requirement) -> Self {
        match requirement {
            Requirement::Optional => v1::Requirement::Optional.into(),
            Requirement::Required => v1::Requirement::Required.into(),
        }
    }
}

/// What to do about one request under two keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DuplicateIntent {
    /// Do not look
    Off,
    /// Name the similar keys
    Warn,
    /// Refuse
    Block,
}

/// Policy fields; what is not named is left as it is.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Policy")]
pub(crate) struct PolicyArgs {
    /// Lease of a claim that asks for none
    #[arg(long, value_parser = duration::parse, value_name = "DURATION")]
    lease_default: Option<Duration>,
    /// Longest lease
    #[arg(long, value_parser = duration::parse, value_name = "DURATION")]
    lease_max: Option<Duration>,
    /// Extra wait after a lapse before anyone may take over
    #[arg(long, value_parser = duration::parse, value_name = "DURATION")]
    takeover_delay: Option<Duration>,
    /// What a lapsed claim means
    #[arg(long, value_enum)]
    on_lapse: Option<OnLapse>,
    /// How long results are kept
    #[arg(long, value_parser = duration::parse, value_name = "DURATION")]
    result_retention: Option<Duration>,
    /// How long keys are remembered, or FOREVER
    #[arg(long, value_parser = duration::parse_retention, value_name = "DURATION")]
    identity_retention: Option<Retention>,
    /// How old a legitimate repeat can be; repeatable, replaces the list
    #[arg(long, value_parser = replay_window, value_name = "NAME=DURATION")]
    replay_window: Vec<ReplayWindow>,
    /// Whether first claims must say when the intent was born
    #[arg(long, value_enum)]
    intent_time: Option<Requirement>,
    /// How far the clocks of producers may be off
    #[arg(long, value_parser = duration::parse, value_name = "DURATION")]
    intent_time_skew: Option<Duration>,
    /// Whether claims must carry a fingerprint
    #[arg(long, value_enum)]
    fingerprint: Option<Requirement>,
    /// What to do about one request under two keys
    #[arg(long, value_enum)]
    duplicate_intent: Option<DuplicateIntent>,
    /// How far back to look for them
    #[arg(long, value_parser = duration::parse, value_name = "DURATION")]
    duplicate_intent_window: Option<Duration>,
    /// Whether only reserved keys may be claimed
    #[arg(long, value_enum)]
    reserve: Option<Requirement>,
    /// Most times that a record may be executed; 0 for no cap
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    /// How long after the last dispatch "not found" proves nothing
    #[arg(long, value_parser = duration::parse, value_name = "DURATION")]
    settle_horizon: Option<Duration>,
    /// Largest result that is kept
    #[arg(long, value_name = "BYTES")]
    result_bytes_max: Option<u32>,
    /// Most records; 0 for no limit
    #[arg(long, value_name = "N")]
    records_max: Option<u64>,
    /// Most claims a second; 0 for no limit
    #[arg(long, value_name = "N")]
    claims_per_second: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ReplayWindow {
    name: String,
    window: Duration,
}

fn replay_window(text: &str) -> Result<ReplayWindow, String> {
    let Some((name, window)) = text.split_once('=') else {
        return Err("write NAME=DURATION, such as dlq_redrive=14d".to_owned());
    };
    Ok(ReplayWindow { name: name.to_owned(), window: duration::parse(window)? })
}

/// Reads the name of a field that goes back to what it inherits.
pub(crate) fn field(text: &str) -> Result<String, String> {
    let name = text.trim().replace('-', "_");
    let name = if name == "replay_window" { "replay_windows".to_owned() } else { name };
    if FIELDS.contains(&name.as_str()) {
        Ok(name)
    } else {
        Err(format!("is no policy field; use one of {}", FIELDS.join(", ")))
    }
}

impl PolicyArgs {
    /// The fields that were named, as a message.
    pub(crate) fn message(&self) -> v1::Policy {
        let windows = v1::ReplayWindows {
            windows: self
                .replay_window
                .iter()
                .map(|entry| v1::ReplayWindow {
                    name: entry.name.clone(),
                    window: Some(time::to_wire(entry.window)),
                })
                .collect(),
        };
        v1::Policy {
            lease_default: self.lease_default.map(time::to_wire),
            lease_max: self.lease_max.map(time::to_wire),
            takeover_delay: self.takeover_delay.map(time::to_wire),
            on_lapse: self.on_lapse.map_or(v1::OnLapse::Unspecified, on_lapse).into(),
            result_retention: self.result_retention.map(time::to_wire),
            identity_retention: self.identity_retention.map(identity_retention),
            replay_windows: (!self.replay_window.is_empty()).then_some(windows),
            intent_time: self.intent_time.map_or(0, i32::from),
            intent_time_skew: self.intent_time_skew.map(time::to_wire),
            fingerprint: self.fingerprint.map_or(0, i32::from),
            duplicate_intent: self
                .duplicate_intent
                .map_or(v1::DuplicateIntent::Unspecified, duplicate_intent)
                .into(),
            duplicate_intent_window: self.duplicate_intent_window.map(time::to_wire),
            reserve: self.reserve.map_or(0, i32::from),
            max_attempts: self.max_attempts,
            settle_horizon: self.settle_horizon.map(time::to_wire),
            result_bytes_max: self.result_bytes_max,
            records_max: self.records_max,
            claims_per_second: self.claims_per_second,
        }
    }

    /// The mask of an update: the fields that were named, and those that go back.
    pub(crate) fn mask(&self, unset: &[String]) -> FieldMask {
        let mut named: Vec<String> =
            shown(&self.message()).into_iter().map(|(name, _)| name.to_owned()).collect();
        named
            .extend(unset.iter().filter(|name| !named.contains(name)).cloned().collect::<Vec<_>>());
        FieldMask { paths: named.into_iter().map(|name| format!("policy.{name}")).collect() }
    }
}

fn on_lapse(on_lapse: OnLapse) -> v1::OnLapse {
    match on_lapse {
        OnLapse::Recover => v1::OnLapse::Recover,
        OnLapse::Takeover => v1::OnLapse::Takeover,
    }
}

fn duplicate_intent(duplicate_intent: DuplicateIntent) -> v1::DuplicateIntent {
    match duplicate_intent {
        DuplicateIntent::Off => v1::DuplicateIntent::Off,
        DuplicateIntent::Warn => v1::DuplicateIntent::Warn,
        DuplicateIntent::Block => v1::DuplicateIntent::Block,
    }
}

/// How long something is kept, as a message.
pub(crate) fn identity_retention(retention: Retention) -> v1::IdentityRetention {
    use v1::identity_retention::Kind;
    let kind = match retention {
        Retention::For(duration) => Kind::Duration(time::to_wire(duration)),
        Retention::Forever => Kind::Forever(true),
    };
    v1::IdentityRetention { kind: Some(kind) }
}

/// The fields that a policy sets, by name, as text.
pub(crate) fn shown(policy: &v1::Policy) -> Vec<(&'static str, String)> {
    let length = |value: &Option<firstclaim_client::prost_types::Duration>| {
        value.as_ref().and_then(time::from_wire).map(duration::format)
    };
    let required = |value: v1::Requirement| match value {
        v1::Requirement::Unspecified => None,
        v1::Requirement::Optional | v1::Requirement::Required => {
            Some(short(value.as_str_name(), "REQUIREMENT_"))
        }
    };
    let values = [
        length(&policy.lease_default),
        length(&policy.lease_max),
        length(&policy.takeover_delay),
        (policy.on_lapse() != v1::OnLapse::Unspecified)
            .then(|| crate::view::on_lapse(policy.on_lapse())),
        length(&policy.result_retention),
        policy.identity_retention.as_ref().and_then(retention),
        policy.replay_windows.as_ref().map(windows),
        required(policy.intent_time()),
        length(&policy.intent_time_skew),
        required(policy.fingerprint()),
        (policy.duplicate_intent() != v1::DuplicateIntent::Unspecified)
            .then(|| short(policy.duplicate_intent().as_str_name(), "DUPLICATE_INTENT_")),
        length(&policy.duplicate_intent_window),
        required(policy.reserve()),
        policy.max_attempts.map(|value| value.to_string()),
        length(&policy.settle_horizon),
        policy.result_bytes_max.map(|value| value.to_string()),
        policy.records_max.map(|value| value.to_string()),
        policy.claims_per_second.map(|value| value.to_string()),
    ];
    FIELDS.into_iter().zip(values).filter_map(|(name, value)| Some((name, value?))).collect()
}

/// How long something is kept, as it is typed.
pub(crate) fn retention(retention: &v1::IdentityRetention) -> Option<String> {
    use v1::identity_retention::Kind;
    match retention.kind.as_ref()? {
        Kind::Duration(duration) => time::from_wire(duration).map(duration::format),
        Kind::Forever(_) => Some("FOREVER".to_owned()),
    }
}

fn windows(windows: &v1::ReplayWindows) -> String {
    let entry = |window: &v1::ReplayWindow| {
        let length = window.window.as_ref().and_then(time::from_wire).map(duration::format);
        format!("{}={}", window.name, length.unwrap_or_default())
    };
    if windows.windows.is_empty() {
        return "none".to_owned();
    }
    windows.windows.iter().map(entry).collect::<Vec<_>>().join(", ")
}

/// A policy in JSON: what is set, by name; durations with the seconds beside them.
pub(crate) fn json(policy: &v1::Policy) -> Value {
    let mut object = Map::new();
    for (name, text) in shown(policy) {
        let name = camel(name);
        let value = match text.parse::<u64>() {
            Ok(number) => json!(number),
            Err(_not_a_number) => json!(text),
        };
        if let Ok(duration) = duration::parse(&text) {
            object.insert(format!("{name}Seconds"), json!(duration.as_secs_f64()));
        }
        object.insert(name, value);
    }
    if let Some(list) = &policy.replay_windows {
        let entries = list.windows.iter().map(|entry| {
            let window = entry.window.as_ref().and_then(time::from_wire).unwrap_or_default();
            let text = duration::format(window);
            json!({ "name": entry.name, "window": text, "windowSeconds": window.as_secs_f64() })
        });
        object.insert("replayWindows".to_owned(), entries.collect());
    }
    Value::Object(object)
}

fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |mut name, word| {
        let mut letters = word.chars();
        name.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        name.push_str(letters.as_str());
        name
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> PolicyArgs {
        PolicyArgs {
            result_retention: Some(Duration::from_secs(86_400)),
            identity_retention: Some(Retention::Forever),
            on_lapse: Some(OnLapse::Takeover),
            replay_window: vec![replay_window("dlq=14d").unwrap()],
            max_attempts: Some(3),
            ..PolicyArgs::default()
        }
    }

    #[test]
    fn the_mask_names_what_was_given_and_what_goes_back() {
        let mask = args().mask(&["lease_max".to_owned(), "max_attempts".to_owned()]);
        assert_eq!(
            mask.paths,
            [
                "policy.on_lapse",
                "policy.result_retention",
                "policy.identity_retention",
                "policy.replay_windows",
                "policy.max_attempts",
                "policy.lease_max",
            ]
        );
        assert!(PolicyArgs::default().mask(&[]).paths.is_empty());
    }

    #[test]
    fn policies_are_shown_as_they_are_typed() {
        let text: Vec<String> = shown(&args().message())
            .into_iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        assert_eq!(
            text,
            [
                "on_lapse=TAKEOVER",
                "result_retention=1d",
                "identity_retention=FOREVER",
                "replay_windows=dlq=14d",
                "max_attempts=3",
            ]
        );
        let json = json(&args().message());
        assert_eq!(json["resultRetentionSeconds"], serde_json::json!(86_400.0));
        assert_eq!(json["replayWindows"][0]["window"], "14d");
        assert_eq!(json["maxAttempts"], 3);
    }

    #[test]
    fn fields_are_named_as_in_the_flags_or_in_the_wire() {
        assert_eq!(field("lease-max").as_deref(), Ok("lease_max"));
        assert_eq!(field("replay-window").as_deref(), Ok("replay_windows"));
        assert!(field("lease").unwrap_err().contains("lease_default"));
    }
}
