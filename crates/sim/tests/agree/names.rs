//! What the callers of a run send.

use std::collections::BTreeMap;

use firstclaim_core::effect::Content;
use firstclaim_core::name::{EffectId, ProviderKey};
use firstclaim_core::record::ResultBody;
use firstclaim_core::{AttemptId, Fingerprint, FingerprintSet, Scheme};

pub(crate) fn attempt(at: u8) -> AttemptId {
    AttemptId::parse(format!("a{at}")).expect("an attempt")
}

pub(crate) fn effect_id(at: u8) -> EffectId {
    EffectId::parse(format!("e{at}")).expect("an effect")
}

pub(crate) fn provider_key(at: u8) -> ProviderKey {
    ProviderKey::parse(format!("pk{at}")).expect("a provider key")
}

/// Requests: see the generator.
pub(crate) fn fingerprints(at: u8) -> FingerprintSet {
    let one = |scheme: &str, digest: u8, part: u8| {
        let parts = BTreeMap::from([("amount".to_owned(), vec![part; 16])]);
        let scheme = Scheme::parse(scheme).expect("a scheme");
        Fingerprint::new(scheme, vec![digest; 16], parts).expect("a fingerprint")
    };
    let set = match at {
        0 => vec![one("a", 1, 1), one("b", 2, 1)],
        1 => vec![one("b", 2, 1)],
        2 => vec![one("a", 1, 1)],
        3 => vec![one("a", 3, 2), one("b", 2, 1)],
        4 => vec![one("c", 4, 1)],
        _ => Vec::new(),
    };
    FingerprintSet::new(set).expect("fingerprints")
}

/// Results: 0 and 1 are small, 2 may be too large for the policy.
pub(crate) fn result(at: u8) -> ResultBody {
    let bytes = if at == 2 { vec![2; 9] } else { vec![at] };
    ResultBody::inline(bytes, "text/plain".to_owned())
}

/// Evidence 0 is the same bytes as result 0.
pub(crate) fn evidence(at: u8) -> Content {
    Content::new(vec![at], "text/plain".to_owned())
}
