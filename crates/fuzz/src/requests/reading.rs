//! Calls that change nothing.

use std::fmt::Debug;

use firstclaim_core::RecordRef;
use firstclaim_proto::convert::{Faults, reads, record, tenant};
use firstclaim_proto::v1;
use firstclaim_proto::weigh::Shaped;

use super::calls::{Call, accepted};
use crate::wire::decoded;

/// The calls, in the order of the byte that chooses one, after those that become commands.
pub(super) const CALLS: &[Call] = &[
    ("get", |bytes| {
        read(bytes, record::read_get, |(name, consistency)| {
            let again = record::get_request(name, *consistency);
            assert_eq!(record::read_get(again).as_ref(), Ok(&(name.clone(), *consistency)));
        })
    }),
    ("list records", |bytes| read(bytes, reads::read_list_records, |_| ())),
    ("list unresolved", |bytes| {
        read(bytes, reads::read_list_unresolved, |list| {
            let Some((namespace, key)) = list.after.clone() else { return };
            let record = RecordRef { tenant: list.tenant.clone(), namespace, key };
            let again = v1::ListUnresolvedRequest {
                tenant: list.tenant.to_string(),
                page_token: reads::unresolved_token(&record),
                ..Default::default()
            };
            let again = reads::read_list_unresolved(again).expect("our own token is accepted");
            assert_eq!(again.after, list.after);
        })
    }),
    ("list tenants", |bytes| read(bytes, tenant::read_list_tenants, |_| ())),
    ("list namespaces", |bytes| read(bytes, tenant::read_list_namespaces, |_| ())),
];

fn read<M: Shaped + PartialEq + Debug, T>(
    bytes: &[u8],
    read: impl Fn(M) -> Result<T, Faults>,
    holds: impl Fn(&T),
) -> bool {
    let Some(message) = decoded::<M>(bytes) else { return false };
    let Some(asked) = accepted(read(message)) else { return false };
    holds(&asked);
    true
}
