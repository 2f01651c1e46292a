//! Is a policy long enough? Retention against the declared windows and against what was seen.
//!
//! Pure: the same policy and the same facts, the same findings.

use std::time::Duration;

use firstclaim_client::{time, v1};

use crate::duration::{about, format};
use crate::observed::Observed;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// As it should be.
    Fine,
    /// It can go wrong.
    Warning,
    /// It does not hold.
    Failure,
}

impl Level {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Fine => "ok",
            Self::Warning => "warning",
            Self::Failure => "FAILED",
        }
    }
}

/// What one rule says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ruling {
    pub(crate) level: Level,
    pub(crate) rule: &'static str,
    pub(crate) text: String,
}

/// How long a key is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kept {
    For(Duration),
    Forever,
}

impl Kept {
    pub(crate) fn text(self) -> String {
        match self {
            Self::For(duration) => format(duration),
            Self::Forever => "FOREVER".to_owned(),
        }
    }
}

/// How long the identity of a record is kept by a policy that is filled in.
pub(crate) fn identity(policy: &v1::Policy) -> Kept {
    use v1::identity_retention::Kind;
    let kind = policy.identity_retention.as_ref().and_then(|retention| retention.kind.as_ref());
    match kind {
        Some(Kind::Duration(duration)) => Kept::For(time::from_wire(duration).unwrap_or_default()),
        Some(Kind::Forever(_)) => Kept::Forever,
        None => Kept::For(Duration::ZERO),
    }
}

/// A duration of a policy that is filled in.
pub(crate) fn length(value: Option<&firstclaim_client::prost_types::Duration>) -> Duration {
    value.and_then(time::from_wire).unwrap_or_default()
}

/// Checks a policy in effect against the facts.
pub(crate) fn check(policy: &v1::Policy, facts: &Observed) -> Vec<Ruling> {
    let mut rulings = windows(policy);
    rulings.push(oldest_repeat(policy, facts));
    rulings.push(result(policy, facts));
    rulings.push(late_replays(policy, facts));
    rulings.push(lease(policy, facts));
    rulings.push(lapses(policy, facts));
    rulings.push(minted_keys(policy));
    rulings.push(requests(policy, facts));
    rulings
}

fn ruling(level: Level, rule: &'static str, text: impl Into<String>) -> Ruling {
    Ruling { level, rule, text: text.into() }
}

fn windows(policy: &v1::Policy) -> Vec<Ruling> {
    const RULE: &str = "declared windows";
    let kept = identity(policy);
    let skew = length(policy.intent_time_skew.as_ref());
    let declared = policy.replay_windows.as_ref().map_or(&[][..], |list| &list.windows[..]);
    if declared.is_empty() {
        return vec![match kept {
            Kept::Forever => ruling(Level::Fine, RULE, "keys are kept for ever"),
            Kept::For(_) => ruling(
                Level::Warning,
                RULE,
                format!(
                    "none is declared: nothing says that {} is long enough; name them in replay_windows",
                    kept.text()
                ),
            ),
        }];
    }
    let one = |window: &v1::ReplayWindow| {
        let needed = length(window.window.as_ref()) + skew;
        let level = if kept >= Kept::For(needed) { Level::Fine } else { Level::Failure };
        let words = if level == Level::Fine { "is longer than" } else { "is SHORTER than" };
        let text = format!(
            "identity_retention {} {words} {} {} with skew {}",
            kept.text(),
            window.name,
            format(length(window.window.as_ref())),
            format(skew)
        );
        ruling(level, RULE, text)
    };
    declared.iter().map(one).collect()
}

fn oldest_repeat(policy: &v1::Policy, facts: &Observed) -> Ruling {
    const RULE: &str = "oldest repeat seen";
    let Some(seen) = &facts.oldest_repeat else {
        return ruling(Level::Fine, RULE, "no repeat was seen (in what the records still hold)");
    };
    let kept = identity(policy);
    let (age, key) = (about(seen.length), &seen.key);
    if kept < Kept::For(seen.length) {
        let text = format!(
            "{age} ({key}) is older than identity_retention {}: the next one that old runs again, or \
             is refused as LATE_REPLAY if it says when it was born",
            kept.text()
        );
        return ruling(Level::Failure, RULE, text);
    }
    if kept < Kept::For(seen.length.saturating_mul(2)) {
        let text = format!("{age} ({key}) is more than half of identity_retention {}", kept.text());
        return ruling(Level::Warning, RULE, text);
    }
    ruling(Level::Fine, RULE, format!("{age} ({key}); identity_retention is {}", kept.text()))
}

fn result(policy: &v1::Policy, facts: &Observed) -> Ruling {
    const RULE: &str = "results";
    let kept = length(policy.result_retention.as_ref());
    let late = facts.oldest_repeat.as_ref().is_some_and(|seen| seen.length > kept);
    if late {
        let text = format!(
            "repeats were seen that are older than result_retention {}: they learn that it is done, \
             not what came out",
            format(kept)
        );
        return ruling(Level::Warning, RULE, text);
    }
    ruling(Level::Fine, RULE, format!("kept for {}", format(kept)))
}

fn late_replays(policy: &v1::Policy, facts: &Observed) -> Ruling {
    const RULE: &str = "late replays";
    if identity(policy) == Kept::Forever {
        return ruling(Level::Fine, RULE, "keys are kept for ever");
    }
    match policy.intent_time() {
        v1::Requirement::Required => ruling(
            Level::Fine,
            RULE,
            "refused as LATE_REPLAY: every first claim says when its intent was born",
        ),
        v1::Requirement::Optional | v1::Requirement::Unspecified => {
            let silent = facts.without_intent_time;
            let text = format!(
                "a repeat that comes after its key was forgotten runs again if it does not say when it \
                 was born; {silent} of {} records did not; set intent_time to REQUIRED",
                facts.records
            );
            ruling(Level::Warning, RULE, text)
        }
    }
}

fn lease(policy: &v1::Policy, facts: &Observed) -> Ruling {
    const RULE: &str = "lease";
    let lease = length(policy.lease_default.as_ref());
    let Some(seen) = &facts.longest_hold else {
        return ruling(Level::Fine, RULE, format!("{}; no work was seen", format(lease)));
    };
    let (held, key) = (about(seen.length), &seen.key);
    if seen.length > lease {
        let text = format!(
            "work was held for {held} ({key}), longer than lease_default {}: it depends on renewals",
            format(lease)
        );
        return ruling(Level::Warning, RULE, text);
    }
    ruling(Level::Fine, RULE, format!("{}; the longest work took {held} ({key})", format(lease)))
}

fn lapses(policy: &v1::Policy, facts: &Observed) -> Ruling {
    const RULE: &str = "lapses";
    if policy.on_lapse() != v1::OnLapse::Takeover {
        return ruling(Level::Fine, RULE, "RECOVER: work that may have happened is not repeated");
    }
    if facts.unjournaled > 0 {
        let text = format!(
            "on_lapse is TAKEOVER, and {} of {} executions recorded no effect: if one of them dies, \
             its work is repeated, done or not",
            facts.unjournaled,
            facts.unjournaled + facts.journaled
        );
        return ruling(Level::Failure, RULE, text);
    }
    ruling(Level::Fine, RULE, "TAKEOVER: every execution seen recorded its effects first")
}

fn minted_keys(policy: &v1::Policy) -> Ruling {
    const RULE: &str = "minted keys";
    let reserved = policy.reserve() == v1::Requirement::Required;
    match policy.duplicate_intent() {
        _ if reserved => ruling(Level::Fine, RULE, "only keys that a producer reserved can run"),
        v1::DuplicateIntent::Block => {
            ruling(Level::Fine, RULE, "one request under two keys is refused")
        }
        v1::DuplicateIntent::Warn => {
            ruling(Level::Fine, RULE, "one request under two keys is told to the caller (WARN)")
        }
        v1::DuplicateIntent::Off | v1::DuplicateIntent::Unspecified => ruling(
            Level::Warning,
            RULE,
            "duplicate_intent is OFF: a key that is minted per attempt goes unseen",
        ),
    }
}

fn requests(policy: &v1::Policy, facts: &Observed) -> Ruling {
    const RULE: &str = "fingerprints";
    if policy.fingerprint() == v1::Requirement::Required {
        return ruling(Level::Fine, RULE, "required of every claim");
    }
    let text = format!(
        "optional: a key that comes with another request may get the result of the first; {} of {} \
         records have none",
        facts.without_fingerprint, facts.records
    );
    ruling(Level::Warning, RULE, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::Seen;

    fn hours(hours: u64) -> Option<firstclaim_client::prost_types::Duration> {
        Some(time::to_wire(Duration::from_secs(hours * 3600)))
    }

    fn policy() -> v1::Policy {
        let kind = v1::identity_retention::Kind::Duration(hours(24 * 30).unwrap());
        let window = |name: &str, length: u64| v1::ReplayWindow {
            name: name.to_owned(),
            window: hours(length),
        };
        v1::Policy {
            lease_default: Some(time::to_wire(Duration::from_secs(30))),
            on_lapse: v1::OnLapse::Recover.into(),
            result_retention: hours(24),
            identity_retention: Some(v1::IdentityRetention { kind: Some(kind) }),
            replay_windows: Some(v1::ReplayWindows { windows: vec![window("dlq", 24 * 14)] }),
            intent_time: v1::Requirement::Required.into(),
            intent_time_skew: Some(time::to_wire(Duration::from_secs(60))),
            fingerprint: v1::Requirement::Required.into(),
            duplicate_intent: v1::DuplicateIntent::Warn.into(),
            ..v1::Policy::default()
        }
    }

    fn seen(length: Duration) -> Option<Seen> {
        Some(Seen { length, key: "k".to_owned() })
    }

    fn levels(policy: &v1::Policy, facts: &Observed) -> Vec<(&'static str, Level)> {
        let bad = |ruling: &Ruling| ruling.level != Level::Fine;
        check(policy, facts).into_iter().filter(bad).map(|it| (it.rule, it.level)).collect()
    }

    #[test]
    fn a_good_policy_has_nothing_against_it() {
        assert_eq!(levels(&policy(), &Observed::default()), []);
        let busy = Observed {
            oldest_repeat: seen(Duration::from_secs(3600)),
            longest_hold: seen(Duration::from_secs(12)),
            unjournaled: 4,
            ..Observed::default()
        };
        assert_eq!(levels(&policy(), &busy), []);
    }

    #[test]
    fn retention_is_held_against_windows_and_repeats() {
        let mut short = policy();
        let kind = v1::identity_retention::Kind::Duration(hours(24 * 14).unwrap());
        short.identity_retention = Some(v1::IdentityRetention { kind: Some(kind) });
        let fail = ("declared windows", Level::Failure);
        assert_eq!(levels(&short, &Observed::default()), [fail], "the skew is missing");
        let old = |days: u64| Observed {
            oldest_repeat: seen(Duration::from_secs(days * 86_400)),
            ..Observed::default()
        };
        let results = ("results", Level::Warning);
        assert_eq!(levels(&policy(), &old(16)), [("oldest repeat seen", Level::Warning), results]);
        assert_eq!(levels(&policy(), &old(31)), [("oldest repeat seen", Level::Failure), results]);
        let mut forever = policy();
        let kind = v1::identity_retention::Kind::Forever(true);
        forever.identity_retention = Some(v1::IdentityRetention { kind: Some(kind) });
        assert_eq!(levels(&forever, &old(3000)), [results]);
    }

    #[test]
    fn careless_settings_are_warned_of() {
        let careless = v1::Policy {
            replay_windows: None,
            intent_time: v1::Requirement::Optional.into(),
            fingerprint: v1::Requirement::Optional.into(),
            duplicate_intent: v1::DuplicateIntent::Off.into(),
            on_lapse: v1::OnLapse::Takeover.into(),
            ..policy()
        };
        let facts = Observed {
            longest_hold: seen(Duration::from_secs(90)),
            unjournaled: 1,
            journaled: 1,
            ..Observed::default()
        };
        assert_eq!(
            levels(&careless, &facts),
            [
                ("declared windows", Level::Warning),
                ("late replays", Level::Warning),
                ("lease", Level::Warning),
                ("lapses", Level::Failure),
                ("minted keys", Level::Warning),
                ("fingerprints", Level::Warning),
            ]
        );
    }
}
