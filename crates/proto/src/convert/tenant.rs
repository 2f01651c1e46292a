//! Tenants and namespaces: what is asked of them, and how they are shown.

use firstclaim_core::command::{DeleteNamespace, DeleteTenant};
use firstclaim_core::outcome::{Deleted, NamespacePut, PolicyWarning, TenantPut};
use firstclaim_core::{
    Answer, Etag, Invalid, Namespace, NamespaceName, Policy, PolicyPatch, Tenant, TenantName,
    Timestamp,
};

use super::time::timestamp;
use super::{Faults, WrongAnswer, policy};
use crate::v1;

/// What a create or an update of a tenant asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantChange {
    /// Which.
    pub tenant: TenantName,
    /// What it shall set itself. For an update, what [`policy::update`] applies to what it sets now.
    pub policy: PolicyPatch,
    /// The version that the caller saw.
    pub expected: Option<Etag>,
}

/// What a create or an update of a namespace asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceChange {
    /// Its tenant.
    pub tenant: TenantName,
    /// Which.
    pub namespace: NamespaceName,
    /// What it shall set itself. For an update, what [`policy::update`] applies to what it sets now.
    pub policy: PolicyPatch,
    /// The version that the caller saw.
    pub expected: Option<Etag>,
}

/// One page of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page<N> {
    /// Most entries.
    pub size: usize,
    /// The name that the page before ended with.
    pub after: Option<N>,
}

/// Entries of a page that asks for no size.
const PAGE_DEFAULT: u32 = 100;
/// Most entries of a page.
const PAGE_MAX: u32 = 1000;

impl Faults {
    fn etag(&mut self, field: &str, wire: &str) -> Option<Etag> {
        if wire.is_empty() {
            return None;
        }
        self.take_as(field, Etag::parse(wire))
    }

    fn policy(&mut self, parent: &str, wire: Option<v1::Policy>) -> Option<PolicyPatch> {
        self.absorb_in(parent, policy::read(wire.unwrap_or_default()))
    }
}

/// Reads the tenant of a create or an update.
///
/// # Errors
///
/// Every fault of the request.
pub fn read_tenant_change(wire: Option<v1::Tenant>) -> Result<TenantChange, Faults> {
    let mut faults = Faults::default();
    let Some(wire) = faults.need("tenant", wire) else { return Err(faults) };
    let tenant = faults.take_as("tenant.name", TenantName::parse(wire.name));
    let policy = faults.policy("tenant.policy", wire.policy);
    let expected = faults.etag("tenant.etag", &wire.etag);
    let built =
        tenant.zip(policy).map(|(tenant, policy)| TenantChange { tenant, policy, expected });
    faults.finish(built)
}

/// Reads the namespace of a create or an update.
///
/// # Errors
///
/// Every fault of the request.
pub fn read_namespace_change(wire: Option<v1::Namespace>) -> Result<NamespaceChange, Faults> {
    let mut faults = Faults::default();
    let Some(wire) = faults.need("namespace", wire) else { return Err(faults) };
    let tenant = faults.take_as("namespace.tenant", TenantName::parse(wire.tenant));
    let namespace = faults.take_as("namespace.name", NamespaceName::parse(wire.name));
    let policy = faults.policy("namespace.policy", wire.policy);
    let expected = faults.etag("namespace.etag", &wire.etag);
    let build = || {
        Some(NamespaceChange { tenant: tenant?, namespace: namespace?, policy: policy?, expected })
    };
    let built = build();
    faults.finish(built)
}

/// Reads the name of a tenant.
///
/// # Errors
///
/// Its fault.
pub fn read_tenant_name(tenant: String) -> Result<TenantName, Faults> {
    Ok(TenantName::parse(tenant)?)
}

/// Reads the names of a namespace.
///
/// # Errors
///
/// Every fault of both.
pub fn read_namespace_name(
    tenant: String,
    namespace: String,
) -> Result<(TenantName, NamespaceName), Faults> {
    let mut faults = Faults::default();
    let tenant = faults.take(TenantName::parse(tenant));
    let namespace = faults.take(NamespaceName::parse(namespace));
    faults.finish(tenant.zip(namespace))
}

/// Reads which tenants a list asks for.
///
/// # Errors
///
/// A page token that no answer gave.
pub fn read_list_tenants(request: v1::ListTenantsRequest) -> Result<Page<TenantName>, Faults> {
    let after = page_token(request.page_token, TenantName::parse)?;
    Ok(Page { size: page_size(request.page_size), after })
}

/// Reads which namespaces a list asks for.
///
/// # Errors
///
/// Every fault of the request.
pub fn read_list_namespaces(
    request: v1::ListNamespacesRequest,
) -> Result<(TenantName, Page<NamespaceName>), Faults> {
    let mut faults = Faults::default();
    let tenant = faults.take(TenantName::parse(request.tenant));
    let after = faults.take(page_token(request.page_token, NamespaceName::parse));
    let size = page_size(request.page_size);
    faults.finish(tenant.zip(after).map(|(tenant, after)| (tenant, Page { size, after })))
}

fn page_size(wire: u32) -> usize {
    let size = if wire == 0 { PAGE_DEFAULT } else { wire.min(PAGE_MAX) };
    usize::try_from(size).unwrap_or(usize::MAX)
}

/// A page token is the last name of the page before.
fn page_token<N>(
    token: String,
    parse: impl Fn(String) -> Result<N, Invalid>,
) -> Result<Option<N>, Invalid> {
    if token.is_empty() {
        return Ok(None);
    }
    let fault = |_| Invalid::new("page_token", "is not one of ours", "send next_page_token");
    parse(token).map(Some).map_err(fault)
}

/// Reads a deletion of a tenant.
///
/// # Errors
///
/// Every fault of the request.
pub fn read_delete_tenant(request: v1::DeleteTenantRequest) -> Result<DeleteTenant, Faults> {
    let mut faults = Faults::default();
    let tenant = faults.take(TenantName::parse(request.tenant));
    let expected = faults.etag("etag", &request.etag);
    let force = request.force;
    faults.finish(tenant.map(|tenant| DeleteTenant { tenant, expected, force }))
}

/// Reads a deletion of a namespace.
///
/// # Errors
///
/// Every fault of the request.
pub fn read_delete_namespace(
    request: v1::DeleteNamespaceRequest,
) -> Result<DeleteNamespace, Faults> {
    let mut faults = Faults::default();
    let tenant = faults.take(TenantName::parse(request.tenant));
    let namespace = faults.take(NamespaceName::parse(request.namespace));
    let expected = faults.etag("etag", &request.etag);
    let force = request.force;
    let names = tenant.zip(namespace);
    faults.finish(names.map(|(tenant, namespace)| DeleteNamespace {
        tenant,
        namespace,
        expected,
        force,
    }))
}

/// A tenant as it is shown.
#[must_use]
pub fn tenant(name: &TenantName, tenant: &Tenant) -> v1::Tenant {
    let effective = Policy::default().with(&tenant.policy);
    v1::Tenant {
        name: name.as_str().to_owned(),
        policy: Some(policy::patch(&tenant.policy)),
        effective_policy: Some(policy::effective(&effective)),
        etag: tenant.etag.to_string(),
        create_time: Some(timestamp(tenant.created_time)),
        update_time: Some(timestamp(tenant.updated_time)),
    }
}

/// A namespace as it is shown, with the policy in effect there.
#[must_use]
pub fn namespace(
    tenant: &TenantName,
    name: &NamespaceName,
    namespace: &Namespace,
    effective: &Policy,
) -> v1::Namespace {
    v1::Namespace {
        tenant: tenant.as_str().to_owned(),
        name: name.as_str().to_owned(),
        policy: Some(policy::patch(&namespace.policy)),
        effective_policy: Some(policy::effective(effective)),
        etag: namespace.etag.to_string(),
        create_time: Some(timestamp(namespace.created_time)),
        update_time: Some(timestamp(namespace.updated_time)),
    }
}

/// The response of a create of a tenant.
///
/// # Errors
///
/// [`WrongAnswer`] if the answer is not that of a put of a tenant.
pub fn create_tenant_response(
    name: &TenantName,
    answer: &Answer,
    store_time: Timestamp,
) -> Result<v1::CreateTenantResponse, WrongAnswer> {
    let put = tenant_put(answer)?;
    Ok(v1::CreateTenantResponse {
        tenant: Some(tenant(name, &put.tenant)),
        warnings: warnings(&put.warnings),
        store_time: Some(timestamp(store_time)),
    })
}

/// The response of an update of a tenant.
///
/// # Errors
///
/// [`WrongAnswer`] if the answer is not that of a put of a tenant.
pub fn update_tenant_response(
    name: &TenantName,
    answer: &Answer,
    store_time: Timestamp,
) -> Result<v1::UpdateTenantResponse, WrongAnswer> {
    let put = tenant_put(answer)?;
    Ok(v1::UpdateTenantResponse {
        tenant: Some(tenant(name, &put.tenant)),
        changes: policy::changes(put.previous.as_ref(), &put.effective),
        warnings: warnings(&put.warnings),
        store_time: Some(timestamp(store_time)),
    })
}

fn tenant_put(answer: &Answer) -> Result<&TenantPut, WrongAnswer> {
    let Answer::Tenant(put) = answer else { return Err(WrongAnswer::to("tenant put", answer)) };
    Ok(put)
}

/// The response of a create of a namespace.
///
/// # Errors
///
/// [`WrongAnswer`] if the answer is not that of a put of a namespace.
pub fn create_namespace_response(
    tenant: &TenantName,
    name: &NamespaceName,
    answer: &Answer,
    store_time: Timestamp,
) -> Result<v1::CreateNamespaceResponse, WrongAnswer> {
    let put = namespace_put(answer)?;
    Ok(v1::CreateNamespaceResponse {
        namespace: Some(namespace(tenant, name, &put.namespace, &put.effective)),
        warnings: warnings(&put.warnings),
        store_time: Some(timestamp(store_time)),
    })
}

/// The response of an update of a namespace.
///
/// # Errors
///
/// [`WrongAnswer`] if the answer is not that of a put of a namespace.
pub fn update_namespace_response(
    tenant: &TenantName,
    name: &NamespaceName,
    answer: &Answer,
    store_time: Timestamp,
) -> Result<v1::UpdateNamespaceResponse, WrongAnswer> {
    let put = namespace_put(answer)?;
    Ok(v1::UpdateNamespaceResponse {
        namespace: Some(namespace(tenant, name, &put.namespace, &put.effective)),
        changes: policy::changes(put.previous.as_ref(), &put.effective),
        warnings: warnings(&put.warnings),
        store_time: Some(timestamp(store_time)),
    })
}

fn namespace_put(answer: &Answer) -> Result<&NamespacePut, WrongAnswer> {
    let Answer::Namespace(put) = answer else {
        return Err(WrongAnswer::to("namespace put", answer));
    };
    Ok(put)
}

fn warnings(warnings: &[PolicyWarning]) -> Vec<String> {
    warnings.iter().map(|one| policy::warning(*one).to_owned()).collect()
}

/// The response of a deletion of a tenant.
///
/// # Errors
///
/// [`WrongAnswer`] if the answer is not that of a deletion.
pub fn delete_tenant_response(
    answer: &Answer,
    store_time: Timestamp,
) -> Result<v1::DeleteTenantResponse, WrongAnswer> {
    let Deleted { namespaces, .. } = deleted(answer)?;
    Ok(v1::DeleteTenantResponse { store_time: Some(timestamp(store_time)), namespaces })
}

/// The response of a deletion of a namespace.
///
/// # Errors
///
/// [`WrongAnswer`] if the answer is not that of a deletion.
pub fn delete_namespace_response(
    answer: &Answer,
    store_time: Timestamp,
) -> Result<v1::DeleteNamespaceResponse, WrongAnswer> {
    deleted(answer)?;
    Ok(v1::DeleteNamespaceResponse { store_time: Some(timestamp(store_time)) })
}

fn deleted(answer: &Answer) -> Result<Deleted, WrongAnswer> {
    let Answer::Deleted(deleted) = answer else { return Err(WrongAnswer::to("deletion", answer)) };
    Ok(*deleted)
}
