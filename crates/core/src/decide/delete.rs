//! Deleting tenants and namespaces: refused while work is under way or open, unless forced.

use crate::command::{DeleteNamespace, DeleteTenant};
use crate::limits;
use crate::name::{NamespaceName, RecordRef, TenantName};
use crate::outcome::{Answer, Deleted, Refusal};
use crate::record::{Logical, Record};
use crate::store::Store;
use crate::tenant::{Cluster, Etag, Grave, Namespace, Slot};
use crate::time::{Stamp, StoreClock};

type Decided<E> = Result<Result<Answer, Refusal>, E>;

/// Decides the deletion of a tenant with all its namespaces.
///
/// # Errors
///
/// The store's.
pub fn delete_tenant<S: Store>(
    store: &mut S,
    cluster: &Cluster,
    stamp: Stamp,
    delete: &DeleteTenant,
) -> Decided<S::Error> {
    let Some(Slot::Live(tenant)) = store.tenant(&delete.tenant)? else {
        return Ok(Err(Refusal::TenantNotFound));
    };
    if let Err(refusal) = check_etag(delete.expected, tenant.etag) {
        return Ok(Err(refusal));
    }
    let namespaces = store.namespaces(&delete.tenant)?;
    if !delete.force {
        for (name, namespace) in &namespaces {
            let found = in_use(store, &cluster.clock, &delete.tenant, name, namespace.id)?;
            if let Some(example) = found {
                return Ok(Err(Refusal::StillInUse { example }));
            }
        }
    }
    let mut grave = Grave::new(cluster.clock.now(), stamp.index);
    for (name, namespace) in &namespaces {
        grave = grave.with(bury(store, cluster, stamp, &delete.tenant, (name, namespace))?);
    }
    store.put_tenant(&delete.tenant, Slot::Deleted(grave))?;
    let count = u32::try_from(namespaces.len()).unwrap_or(u32::MAX);
    Ok(Ok(Answer::Deleted(Deleted { namespaces: count, forced: delete.force })))
}

/// Decides the deletion of a namespace.
///
/// # Errors
///
/// The store's.
pub fn delete_namespace<S: Store>(
    store: &mut S,
    cluster: &Cluster,
    stamp: Stamp,
    delete: &DeleteNamespace,
) -> Decided<S::Error> {
    let Some(Slot::Live(_)) = store.tenant(&delete.tenant)? else {
        return Ok(Err(Refusal::TenantNotFound));
    };
    let slot = store.namespace(&delete.tenant, &delete.namespace)?;
    let Some(Slot::Live(namespace)) = slot else {
        return Ok(Err(Refusal::NamespaceNotFound));
    };
    if let Err(refusal) = check_etag(delete.expected, namespace.etag) {
        return Ok(Err(refusal));
    }
    if !delete.force {
        let clock = &cluster.clock;
        let name = &delete.namespace;
        if let Some(example) = in_use(store, clock, &delete.tenant, name, namespace.id)? {
            return Ok(Err(Refusal::StillInUse { example }));
        }
    }
    bury(store, cluster, stamp, &delete.tenant, (&delete.namespace, &namespace))?;
    Ok(Ok(Answer::Deleted(Deleted { namespaces: 1, forced: delete.force })))
}

fn check_etag(expected: Option<Etag>, present: Etag) -> Result<(), Refusal> {
    if expected.is_some_and(|expected| expected != present) {
        return Err(Refusal::EtagMismatch { etag: present });
    }
    Ok(())
}

/// Leaves of a namespace only what a new life under its name must know; its records are cleared by
/// the sweeper.
fn bury<S: Store>(
    store: &mut S,
    cluster: &Cluster,
    stamp: Stamp,
    tenant: &TenantName,
    (name, namespace): (&NamespaceName, &Namespace),
) -> Result<Grave, S::Error> {
    let grave = namespace.grave(cluster.clock.now(), stamp.index);
    store.put_namespace(tenant, name, Slot::Deleted(grave))?;
    store.put_garbage(namespace.id, true)?;
    Ok(grave)
}

/// A record that is live or open, if there is one.
fn in_use<S: Store>(
    store: &mut S,
    clock: &StoreClock,
    tenant: &TenantName,
    namespace: &NamespaceName,
    id: u64,
) -> Result<Option<RecordRef>, S::Error> {
    let mut after = None;
    loop {
        let page = store.unfinished(id, after.as_ref(), limits::SCAN_PAGE)?;
        let Some(last) = page.last() else { return Ok(None) };
        after = Some(last.key.clone());
        for id in &page {
            if store.record(id)?.is_some_and(|record| hinders(&record, clock)) {
                return Ok(Some(RecordRef {
                    tenant: tenant.clone(),
                    namespace: namespace.clone(),
                    key: id.key.clone(),
                }));
            }
        }
    }
}

fn hinders(record: &Record, clock: &StoreClock) -> bool {
    record.logical(clock) == Some(Logical::Live) || !record.open(clock).is_empty()
}
