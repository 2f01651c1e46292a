//! Creating and changing tenants and namespaces.

use crate::command::{PutMode, PutNamespace, PutTenant};
use crate::invalid::Invalid;
use crate::limits;
use crate::name::NamespaceName;
use crate::outcome::{Answer, NamespacePut, PolicyWarning, Refusal, TenantPut};
use crate::policy::{OnLapse, Policy, Retention};
use crate::store::Store;
use crate::tenant::{Cluster, Etag, Grave, Namespace, Slot, Tenant};
use crate::time::Timestamp;

type Decided<E> = Result<Result<Answer, Refusal>, E>;

/// Decides a put of a tenant, and checks it against each of the tenant's namespaces.
///
/// # Errors
///
/// The store's.
pub fn put_tenant<S: Store>(
    store: &mut S,
    cluster: &mut Cluster,
    put: &PutTenant,
) -> Decided<S::Error> {
    let now = cluster.clock.now();
    let slot = store.tenant(&put.tenant)?;
    let prior = match place(slot, put.mode, now, |tenant| tenant.etag, Refusal::TenantNotFound) {
        Ok((prior, _)) => prior,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let etag = cluster.next_etag();
    let created_time = prior.as_ref().map_or(now, |tenant| tenant.created_time);
    let tenant = Tenant { policy: put.policy.clone(), etag, created_time, updated_time: now };
    let effective = Policy::default().with(&tenant.policy);
    if let Err(faults) = effective.check() {
        return Ok(Err(in_policy(faults, None)));
    }
    let mut changed = Vec::new();
    for (name, mut namespace) in store.namespaces(&put.tenant)? {
        let before = namespace.clone();
        let policy = namespace.effective(&tenant);
        let checked = policy
            .check()
            .and_then(|()| namespace.note_retention(&policy, now).map_err(|fault| vec![fault]));
        if let Err(faults) = checked {
            return Ok(Err(in_policy(faults, Some(&name))));
        }
        if namespace != before {
            changed.push((name, namespace));
        }
    }
    let previous = prior.map(|tenant| Policy::default().with(&tenant.policy));
    if !put.validate_only {
        for (name, namespace) in changed {
            store.put_namespace(&put.tenant, &name, Slot::Live(namespace))?;
        }
        store.put_tenant(&put.tenant, Slot::Live(tenant.clone()))?;
    }
    let warnings = warnings(previous.as_ref(), &effective);
    let validate_only = put.validate_only;
    Ok(Ok(Answer::Tenant(Box::new(TenantPut {
        tenant,
        effective,
        previous,
        warnings,
        validate_only,
    }))))
}

/// Decides a put of a namespace.
///
/// # Errors
///
/// The store's.
pub fn put_namespace<S: Store>(
    store: &mut S,
    cluster: &mut Cluster,
    put: &PutNamespace,
) -> Decided<S::Error> {
    let now = cluster.clock.now();
    let Some(Slot::Live(tenant)) = store.tenant(&put.tenant)? else {
        return Ok(Err(Refusal::TenantNotFound));
    };
    let slot = store.namespace(&put.tenant, &put.namespace)?;
    let missing = Refusal::NamespaceNotFound;
    let (prior, predecessor) = match place(slot, put.mode, now, |namespace| namespace.etag, missing)
    {
        Ok(placed) => placed,
        Err(refusal) => return Ok(Err(refusal)),
    };
    if prior.is_none() && store.namespaces(&put.tenant)?.len() >= limits::NAMESPACES_PER_TENANT_MAX
    {
        return Ok(Err(too_many_namespaces()));
    }
    let etag = cluster.next_etag();
    let previous = prior.as_ref().map(|namespace| namespace.effective(&tenant));
    let mut namespace = prior.unwrap_or_else(|| Namespace {
        id: cluster.next_id(),
        policy: put.policy.clone(),
        etag,
        created_time: now,
        updated_time: now,
        versions: Vec::new(),
        predecessor,
    });
    namespace.policy = put.policy.clone();
    namespace.etag = etag;
    namespace.updated_time = now;
    let effective = namespace.effective(&tenant);
    let checked = effective
        .check()
        .and_then(|()| namespace.note_retention(&effective, now).map_err(|fault| vec![fault]));
    if let Err(faults) = checked {
        return Ok(Err(in_policy(faults, None)));
    }
    if !put.validate_only {
        let slot = Slot::Live(namespace.clone());
        store.put_namespace(&put.tenant, &put.namespace, slot)?;
    }
    let warnings = warnings(previous.as_ref(), &effective);
    let validate_only = put.validate_only;
    Ok(Ok(Answer::Namespace(Box::new(NamespacePut {
        namespace,
        effective,
        previous,
        warnings,
        validate_only,
    }))))
}

/// What stands under the name already, if the mode allows it; or what was deleted there.
fn place<T>(
    slot: Option<Slot<T>>,
    mode: PutMode,
    now: Timestamp,
    etag: impl FnOnce(&T) -> Etag,
    missing: Refusal,
) -> Result<(Option<T>, Option<Grave>), Refusal> {
    match (slot, mode) {
        (None, PutMode::Create { .. }) => Ok((None, None)),
        (Some(Slot::Live(value)), PutMode::Create { .. }) => {
            Err(Refusal::AlreadyExists { etag: etag(&value) })
        }
        (Some(Slot::Deleted(grave)), PutMode::Create { members_applied }) => {
            let free_time = grave.deleted_time.after(limits::LOCAL_REPLAY_MAX);
            // A member that has not applied the deletion may still answer from the old life.
            if members_applied >= grave.deleted_index || now >= free_time {
                return Ok((None, Some(grave)));
            }
            Err(Refusal::NameInDeletion { deleted_index: grave.deleted_index, free_time })
        }
        (None | Some(Slot::Deleted(_)), PutMode::Update { .. }) => Err(missing),
        (Some(Slot::Live(value)), PutMode::Update { expected }) => {
            let present = etag(&value);
            if expected.is_some_and(|expected| expected != present) {
                return Err(Refusal::EtagMismatch { etag: present });
            }
            Ok((Some(value), None))
        }
    }
}

fn in_policy(faults: Vec<Invalid>, namespace: Option<&NamespaceName>) -> Refusal {
    let named = |fault: Invalid| match namespace {
        None => fault.in_field("policy"),
        Some(name) => {
            let mut fault = fault.in_field("policy");
            fault.problem =
                format!("{} in namespace {name:?}", fault.problem, name = name.as_str());
            fault
        }
    };
    Refusal::Invalid(faults.into_iter().map(named).collect())
}

fn too_many_namespaces() -> Refusal {
    let max = limits::NAMESPACES_PER_TENANT_MAX;
    Refusal::Invalid(vec![Invalid::new(
        "namespace",
        format!("would be one more than the tenant's {max}"),
        "delete one first, or use another tenant",
    )])
}

fn warnings(previous: Option<&Policy>, next: &Policy) -> Vec<PolicyWarning> {
    let mut warnings = Vec::new();
    if let Some(previous) = previous {
        if next.identity_retention < previous.identity_retention {
            warnings.push(PolicyWarning::IdentityRetentionShortened);
        }
        if next.result_retention < previous.result_retention {
            warnings.push(PolicyWarning::ResultRetentionShortened);
        }
    }
    if next.on_lapse == OnLapse::Takeover {
        warnings.push(PolicyWarning::LapseRepeatsWork);
    }
    if next.replay_windows.is_empty() && next.identity_retention != Retention::Forever {
        warnings.push(PolicyWarning::NoReplayWindows);
    }
    warnings
}
