//! The names that simulated callers go by.

use std::collections::BTreeMap;

use firstclaim_core::effect::Content;
use firstclaim_core::name::{Principal, ProviderName, SlotName};
use firstclaim_core::record::ResultBody;
use firstclaim_core::{
    AttemptId, Fingerprint, FingerprintSet, IdempotencyKey, NamespaceName, OwnerLabel, RecordRef,
    Scheme, TenantName,
};

/// Takes a name apart that this crate made itself.
macro_rules! name {
    ($kind:ident, $($text:tt)*) => {
        $kind::parse(format!($($text)*)).expect("names of the simulator are well formed")
    };
}
pub(crate) use name;

pub(crate) fn tenant(of: &str) -> TenantName {
    name!(TenantName, "{of}")
}

pub(crate) fn namespace(at: u8) -> NamespaceName {
    name!(NamespaceName, "n{at}")
}

pub(crate) fn record(tenant: &TenantName, namespace: u8, key: &str) -> RecordRef {
    RecordRef {
        tenant: tenant.clone(),
        namespace: self::namespace(namespace),
        key: name!(IdempotencyKey, "{key}"),
    }
}

pub(crate) fn owner(at: u8) -> OwnerLabel {
    name!(OwnerLabel, "worker {at}")
}

pub(crate) fn attempt(text: &str) -> AttemptId {
    name!(AttemptId, "{text}")
}

pub(crate) fn principal() -> Principal {
    name!(Principal, "reconciler")
}

pub(crate) fn slot(at: u8) -> SlotName {
    name!(SlotName, "s{at}")
}

/// Provider 0 tells repeats by a key, provider 1 knows none.
pub(crate) fn provider(at: u8) -> ProviderName {
    name!(ProviderName, "p{at}")
}

/// Content of one byte.
pub(crate) fn content(byte: u8) -> Content {
    Content::new(vec![byte], "text/plain".to_owned())
}

/// A result; number 2 is larger than some policies allow.
pub(crate) fn result(at: u8) -> ResultBody {
    let bytes = if at == 2 { vec![2; 9] } else { vec![at] };
    ResultBody::inline(bytes, "text/plain".to_owned())
}

/// One fingerprint: scheme, digest, and the digest of its one part.
pub(crate) fn fingerprints(of: &[(&str, u8, u8)]) -> FingerprintSet {
    let one = |(scheme, digest, part): &(&str, u8, u8)| {
        let parts = BTreeMap::from([("amount".to_owned(), vec![*part; 16])]);
        Fingerprint::new(name!(Scheme, "{scheme}"), vec![*digest; 16], parts)
            .expect("digests of the simulator have a legal length")
    };
    FingerprintSet::new(of.iter().map(one).collect()).expect("there are few schemes")
}
