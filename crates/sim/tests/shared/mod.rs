//! The names that the tests of this crate share.

use firstclaim_core::name::{Principal, ProviderName, Region, SlotName};
use firstclaim_core::{IdempotencyKey, NamespaceName, OwnerLabel, RecordRef, TenantName};

pub(crate) fn tenant() -> TenantName {
    TenantName::parse("acme").expect("a tenant")
}

pub(crate) fn namespace(at: u8) -> NamespaceName {
    NamespaceName::parse(format!("n{at}")).expect("a namespace")
}

/// Keys 0 to 2 are in the first namespace; key 3 has the name of key 0 in the second.
pub(crate) fn key(at: u8) -> IdempotencyKey {
    IdempotencyKey::parse(format!("k{}", at % 3)).expect("a key")
}

pub(crate) fn record(at: u8) -> RecordRef {
    RecordRef { tenant: tenant(), namespace: namespace(at / 3), key: key(at) }
}

pub(crate) fn owner(at: u8) -> OwnerLabel {
    OwnerLabel::parse(format!("worker {at}")).expect("an owner")
}

pub(crate) fn principal() -> Principal {
    Principal::parse("reconciler").expect("a principal")
}

pub(crate) fn region() -> Region {
    Region::unknown()
}

pub(crate) fn slot(at: u8) -> SlotName {
    SlotName::parse(format!("s{at}")).expect("a slot")
}

pub(crate) fn provider(at: u8) -> ProviderName {
    ProviderName::parse(format!("p{at}")).expect("a provider")
}
