//! Reads a policy file strictly: unknown fields, repeated keys, wrong values are faults, and all
//! wrong values of a file are told at once.

use std::collections::BTreeMap;

use firstclaim_client::{time, v1};
use serde::Deserialize;
use serde_saphyr::{Location, Spanned};

use super::fault::Fault;
use crate::duration::{self, Retention};
use crate::output::API_VERSION;

/// Where a value stands.
pub(crate) type Place = (u64, u64);

/// What a document is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    Tenant(String),
    Namespace { tenant: String, name: String },
}

impl Target {
    /// `tenant acme`, `namespace acme/payouts`.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Tenant(name) => format!("tenant {name}"),
            Self::Namespace { tenant, name } => format!("namespace {tenant}/{name}"),
        }
    }
}

/// One document of a policy file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Document {
    pub(crate) target: Target,
    pub(crate) policy: v1::Policy,
    /// Where it names its target.
    pub(crate) place: Place,
    /// Where each policy field that it sets stands, by the name of the wire.
    pub(crate) places: BTreeMap<&'static str, Place>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Raw {
    api_version: Spanned<String>,
    kind: Spanned<String>,
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Metadata {
    name: Spanned<String>,
    tenant: Option<Spanned<String>>,
}

type Text = Option<Spanned<String>>;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Spec {
    lease_default: Text,
    lease_max: Text,
    takeover_delay: Text,
    on_lapse: Text,
    result_retention: Text,
    identity_retention: Text,
    replay_windows: Option<Spanned<BTreeMap<String, Spanned<String>>>>,
    intent_time: Text,
    intent_time_skew: Text,
    fingerprint: Text,
    duplicate_intent: Text,
    duplicate_intent_window: Text,
    reserve: Text,
    max_attempts: Option<Spanned<u32>>,
    settle_horizon: Text,
    result_bytes_max: Option<Spanned<u32>>,
    records_max: Option<Spanned<u64>>,
    claims_per_second: Option<Spanned<u32>>,
}

/// Reads all documents of a file.
pub(crate) fn read(source: &str) -> Result<Vec<Document>, Vec<Fault>> {
    let raw: Vec<Raw> = serde_saphyr::from_multiple(source).map_err(|error| vec![fault(&error)])?;
    if raw.is_empty() {
        return Err(vec![Fault::at(
            (0, 0),
            "holds no document; write one per tenant or namespace",
        )]);
    }
    let mut faults = Vec::new();
    let documents: Vec<Document> =
        raw.iter().filter_map(|raw| document(raw, &mut faults)).collect();
    let mut known: BTreeMap<&Target, Place> = BTreeMap::new();
    for document in &documents {
        if let Some((line, _)) = known.insert(&document.target, document.place) {
            let problem = format!("{} stands at line {line} already", document.target.describe());
            faults.push(Fault::at(document.place, problem));
        }
    }
    if faults.is_empty() { Ok(documents) } else { Err(faults) }
}

fn fault(error: &serde_saphyr::Error) -> Fault {
    let at = error.location().map_or((0, 0), |place| (place.line(), place.column()));
    let text = error.without_snippet().to_string();
    // The place is told in front of the message already.
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(text, _)| text);
    let text = text.split_once(", set DuplicateKeyPolicy").map_or(text, |(text, _)| text);
    Fault::at(at, text)
}

fn place(location: Location) -> Place {
    (location.line(), location.column())
}

fn document(raw: &Raw, faults: &mut Vec<Fault>) -> Option<Document> {
    let known = faults.len();
    let mut fault = |value: &Spanned<String>, message: String| {
        faults.push(Fault::at(place(value.referenced), message));
    };
    if raw.api_version.value != API_VERSION {
        fault(&raw.api_version, format!("is not known; write {API_VERSION}"));
    }
    let name = raw.metadata.name.value.clone();
    let target = match (raw.kind.value.as_str(), &raw.metadata.tenant) {
        ("Tenant", None) => Some(Target::Tenant(name)),
        ("Tenant", Some(tenant)) => {
            fault(tenant, "a tenant is in no other tenant; leave it out".to_owned());
            None
        }
        ("Namespace", Some(tenant)) => {
            Some(Target::Namespace { tenant: tenant.value.clone(), name })
        }
        ("Namespace", None) => {
            fault(&raw.metadata.name, "lacks the tenant of the namespace; add tenant".to_owned());
            None
        }
        (other, _) => {
            fault(&raw.kind, format!("{other:?} is not known; write Tenant or Namespace"));
            None
        }
    };
    let mut fields = Fields { faults, places: BTreeMap::new() };
    let policy = fields.policy(&raw.spec);
    let places = fields.places;
    let target = target.filter(|_| faults.len() == known)?;
    Some(Document { target, policy, place: place(raw.metadata.name.referenced), places })
}

/// The fields of one document on their way into a message.
struct Fields<'a> {
    faults: &'a mut Vec<Fault>,
    places: BTreeMap<&'static str, Place>,
}

impl Fields<'_> {
    fn policy(&mut self, spec: &Spec) -> v1::Policy {
        v1::Policy {
            lease_default: self.duration("lease_default", &spec.lease_default),
            lease_max: self.duration("lease_max", &spec.lease_max),
            takeover_delay: self.duration("takeover_delay", &spec.takeover_delay),
            on_lapse: self.choice("on_lapse", &spec.on_lapse, &ON_LAPSE),
            result_retention: self.duration("result_retention", &spec.result_retention),
            identity_retention: self.retention("identity_retention", &spec.identity_retention),
            replay_windows: self.windows(spec.replay_windows.as_ref()),
            intent_time: self.choice("intent_time", &spec.intent_time, &REQUIREMENT),
            intent_time_skew: self.duration("intent_time_skew", &spec.intent_time_skew),
            fingerprint: self.choice("fingerprint", &spec.fingerprint, &REQUIREMENT),
            duplicate_intent: self.choice(
                "duplicate_intent",
                &spec.duplicate_intent,
                &DUPLICATE_INTENT,
            ),
            duplicate_intent_window: self
                .duration("duplicate_intent_window", &spec.duplicate_intent_window),
            reserve: self.choice("reserve", &spec.reserve, &REQUIREMENT),
            max_attempts: self.number("max_attempts", spec.max_attempts.as_ref()),
            settle_horizon: self.duration("settle_horizon", &spec.settle_horizon),
            result_bytes_max: self.number("result_bytes_max", spec.result_bytes_max.as_ref()),
            records_max: self.number("records_max", spec.records_max.as_ref()),
            claims_per_second: self.number("claims_per_second", spec.claims_per_second.as_ref()),
        }
    }

    fn parsed<T>(
        &mut self,
        field: &'static str,
        text: &Text,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let text = text.as_ref()?;
        let at = place(text.referenced);
        self.places.insert(field, at);
        match parse(&text.value) {
            Ok(value) => Some(value),
            Err(problem) => {
                self.faults.push(Fault::at(at, format!("{:?} {problem}", text.value)));
                None
            }
        }
    }

    fn duration(
        &mut self,
        field: &'static str,
        text: &Text,
    ) -> Option<firstclaim_client::prost_types::Duration> {
        self.parsed(field, text, duration::parse).map(time::to_wire)
    }

    fn retention(&mut self, field: &'static str, text: &Text) -> Option<v1::IdentityRetention> {
        use v1::identity_retention::Kind;
        let kind = match self.parsed(field, text, duration::parse_retention)? {
            Retention::For(duration) => Kind::Duration(time::to_wire(duration)),
            Retention::Forever => Kind::Forever(true),
        };
        Some(v1::IdentityRetention { kind: Some(kind) })
    }

    fn choice(&mut self, field: &'static str, text: &Text, choices: &[(&str, i32)]) -> i32 {
        let parse = |text: &str| {
            let found = choices.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
            found.map(|(_, value)| *value).ok_or_else(|| {
                let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
                format!("is not known; write {}", names.join(" or "))
            })
        };
        self.parsed(field, text, parse).unwrap_or(0)
    }

    fn number<T: Copy>(&mut self, field: &'static str, value: Option<&Spanned<T>>) -> Option<T> {
        let value = value?;
        self.places.insert(field, place(value.referenced));
        Some(value.value)
    }

    fn windows(
        &mut self,
        list: Option<&Spanned<BTreeMap<String, Spanned<String>>>>,
    ) -> Option<v1::ReplayWindows> {
        let list = list?;
        self.places.insert("replay_windows", place(list.referenced));
        let mut windows = Vec::new();
        for (name, text) in &list.value {
            match duration::parse(&text.value) {
                Ok(window) => windows.push(v1::ReplayWindow {
                    name: name.clone(),
                    window: Some(time::to_wire(window)),
                }),
                Err(problem) => {
                    let at = place(text.referenced);
                    self.faults.push(Fault::at(at, format!("{:?} {problem}", text.value)));
                }
            }
        }
        Some(v1::ReplayWindows { windows })
    }
}

const ON_LAPSE: [(&str, i32); 2] =
    [("RECOVER", v1::OnLapse::Recover as i32), ("TAKEOVER", v1::OnLapse::Takeover as i32)];
const REQUIREMENT: [(&str, i32); 2] = [
    ("OPTIONAL", v1::Requirement::Optional as i32),
    ("REQUIRED", v1::Requirement::Required as i32),
];
const DUPLICATE_INTENT: [(&str, i32); 3] = [
    ("OFF", v1::DuplicateIntent::Off as i32),
    ("WARN", v1::DuplicateIntent::Warn as i32),
    ("BLOCK", v1::DuplicateIntent::Block as i32),
];

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "apiVersion: firstclaim/v1\nkind: Tenant\nmetadata: {name: acme}\n";

    fn faults(source: &str) -> Vec<(u64, u64, String)> {
        let faults = read(source).unwrap_err();
        faults.into_iter().map(|it| (it.line, it.column, it.message)).collect()
    }

    #[test]
    fn a_whole_file_is_read() {
        let source = format!(
            "{HEAD}---\napiVersion: firstclaim/v1\nkind: Namespace\n\
             metadata: {{tenant: acme, name: payouts}}\nspec:\n  leaseDefault: 45s\n  \
             onLapse: takeover\n  identityRetention: FOREVER\n  replayWindows: {{dlq: 14d}}\n  \
             maxAttempts: 3\n  duplicateIntent: BLOCK\n"
        );
        let documents = read(&source).unwrap();
        assert_eq!(documents[0].target, Target::Tenant("acme".to_owned()));
        assert_eq!(documents[0].policy, v1::Policy::default());
        let namespace = &documents[1];
        assert_eq!(namespace.target.describe(), "namespace acme/payouts");
        let shown: Vec<String> = crate::policy::shown(&namespace.policy)
            .into_iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        assert_eq!(
            shown,
            [
                "lease_default=45s",
                "on_lapse=TAKEOVER",
                "identity_retention=FOREVER",
                "replay_windows=dlq=14d",
                "duplicate_intent=BLOCK",
                "max_attempts=3",
            ]
        );
        assert_eq!(namespace.places["identity_retention"], (11, 22));
    }

    #[test]
    fn what_the_reader_does_not_know_is_a_fault_with_its_place() {
        let unknown = faults(&format!("{HEAD}spec:\n  leaseDefualt: 30s\n"));
        assert_eq!((unknown[0].0, unknown[0].1), (5, 3));
        assert!(unknown[0].2.starts_with("unknown field `leaseDefualt`, expected one of"));
        assert!(!unknown[0].2.contains("line"), "{unknown:?}");
        let twice = faults(&format!("{HEAD}spec:\n  leaseMax: 1h\n  leaseMax: 2h\n"));
        assert_eq!(twice[0], (6, 3, "duplicate mapping key: leaseMax".to_owned()));
        let number = faults(&format!("{HEAD}spec:\n  maxAttempts: three\n"));
        assert_eq!((number[0].0, number[0].1), (5, 16));
        assert_eq!(faults("")[0].0, 0);
    }

    #[test]
    fn all_wrong_values_are_told_at_once() {
        let found = faults(&format!(
            "{HEAD}spec:\n  leaseDefault: 30\n  identityRetention: 1y\n  onLapse: PARK\n  \
             replayWindows: {{a: 1d, b: soon}}\n"
        ));
        let places: Vec<(u64, u64)> = found.iter().map(|it| (it.0, it.1)).collect();
        assert_eq!(places, [(5, 17), (7, 12), (6, 22), (8, 29)]);
        assert!(found[0].2.starts_with("\"30\" "), "{found:?}");
        assert_eq!(found[1].2, "\"PARK\" is not known; write RECOVER or TAKEOVER");
    }

    #[test]
    fn kinds_and_names_have_to_fit() {
        let kind = faults("apiVersion: x/v2\nkind: Role\nmetadata: {name: a}\n");
        assert_eq!(kind.len(), 2);
        assert!(kind[1].2.contains("write Tenant or Namespace"), "{kind:?}");
        let alone = "apiVersion: firstclaim/v1\nkind: Namespace\nmetadata: {name: a}\n";
        assert!(faults(alone)[0].2.contains("add tenant"));
        let twice = faults(&format!("{HEAD}---\n{HEAD}"));
        assert_eq!((twice[0].0, twice[0].2.as_str()), (7, "tenant acme stands at line 3 already"));
    }
}
