//! What the callers of a run call things.

use std::collections::BTreeMap;

use firstclaim_core::effect::Content;
use firstclaim_core::name::{Principal, Region};
use firstclaim_core::policy::{OnLapse, PolicyPatch, Retention};
use firstclaim_core::record::ResultBody;
use firstclaim_core::{
    AttemptId, Fingerprint, FingerprintSet, IdempotencyKey, Invalid, Millis, NamespaceName,
    OwnerLabel, RecordRef, Scheme, TenantName,
};

/// The kinds of namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A lapse may have left something behind; nothing is forgotten in a run.
    Recover,
    /// A lapsed claim is taken over; nothing is forgotten in a run.
    Takeover,
    /// Results and keys are forgotten within seconds.
    Short,
}

/// All kinds.
pub const KINDS: [Kind; 3] = [Kind::Recover, Kind::Takeover, Kind::Short];

/// A key of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Its namespace.
    pub kind: Kind,
    /// Its number.
    pub number: u64,
}

#[expect(clippy::expect_used, reason = "the names of a run are all well formed")]
fn well<T>(parsed: Result<T, Invalid>) -> T {
    parsed.expect("a name")
}

/// The tenant.
pub fn tenant() -> TenantName {
    well(TenantName::parse("acme"))
}

/// The namespace of a kind.
pub fn namespace(kind: Kind) -> NamespaceName {
    well(NamespaceName::parse(match kind {
        Kind::Recover => "recover",
        Kind::Takeover => "takeover",
        Kind::Short => "short",
    }))
}

/// The policy of a kind.
pub fn policy(kind: Kind) -> PolicyPatch {
    let long = Millis::from_hours(24);
    PolicyPatch {
        lease_default: Some(Millis(2_000)),
        lease_max: Some(Millis(10_000)),
        on_lapse: Some(match kind {
            Kind::Recover => OnLapse::Recover,
            Kind::Takeover | Kind::Short => OnLapse::Takeover,
        }),
        result_retention: Some(if kind == Kind::Short { Millis(3_000) } else { long }),
        identity_retention: Some(Retention::For(match kind {
            Kind::Short => Millis(9_000),
            Kind::Recover | Kind::Takeover => long,
        })),
        settle_horizon: Some(Millis(1_000)),
        ..PolicyPatch::default()
    }
}

/// A record.
pub fn record(key: Key) -> RecordRef {
    RecordRef {
        tenant: tenant(),
        namespace: namespace(key.kind),
        key: well(IdempotencyKey::parse(format!("k{}", key.number))),
    }
}

/// The record that markers speak of. Nobody claims it.
pub fn marker_record() -> RecordRef {
    RecordRef {
        tenant: tenant(),
        namespace: namespace(Kind::Recover),
        key: well(IdempotencyKey::parse("marker")),
    }
}

/// An attempt.
pub fn attempt(number: u64) -> AttemptId {
    well(AttemptId::parse(format!("a{number}")))
}

/// A caller.
pub fn owner(number: u64) -> OwnerLabel {
    well(OwnerLabel::parse(format!("caller {number}")))
}

/// Who sweeps, settles and resolves.
pub fn principal() -> Principal {
    well(Principal::parse("reconciler"))
}

/// No region.
pub fn region() -> Region {
    Region::unknown()
}

/// The request of a key; `other` is another one.
pub fn fingerprints(key: Key, other: bool) -> FingerprintSet {
    let digest = [&key.number.to_be_bytes()[..], &[u8::from(other); 24]].concat();
    let scheme = well(Scheme::parse("a"));
    let one = well(Fingerprint::new(scheme, digest, BTreeMap::new()));
    well(FingerprintSet::new(vec![one]))
}

/// A result.
pub fn result(number: u64) -> ResultBody {
    ResultBody::inline(number.to_be_bytes().to_vec(), "text/plain".to_owned())
}

/// Evidence.
pub fn evidence(number: u64) -> Content {
    Content::new(number.to_be_bytes().to_vec(), "text/plain".to_owned())
}
