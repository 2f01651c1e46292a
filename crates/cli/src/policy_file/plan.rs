//! Compares a policy file with the cluster, and changes the cluster.

use std::collections::BTreeSet;

use firstclaim_client::prost_types::FieldMask;
use firstclaim_client::{Client, Error, Reason, v1};

use super::document::{Document, Target};
use super::fault::Fault;

/// What is done to a tenant or a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Create,
    Change,
    Keep,
}

/// What a document does, or would do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Change {
    pub(crate) target: Target,
    pub(crate) verb: Verb,
    pub(crate) changes: Vec<v1::PolicyChange>,
    pub(crate) warnings: Vec<String>,
}

/// Why a plan could not be made or carried out.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The file is wrong.
    Faults(Vec<Fault>),
    /// A call failed for another reason.
    Call(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Call(error)
    }
}

/// Says what the file would change, and changes nothing.
pub(crate) async fn diff(client: &Client, documents: &[Document]) -> Result<Vec<Change>, Stop> {
    walk(client, documents, true).await
}

/// Makes the cluster as the file says, after all of it has been checked.
pub(crate) async fn apply(client: &Client, documents: &[Document]) -> Result<Vec<Change>, Stop> {
    walk(client, documents, false).await
}

async fn walk(
    client: &Client,
    documents: &[Document],
    validate_only: bool,
) -> Result<Vec<Change>, Stop> {
    let mut changes = Vec::new();
    let mut faults = Vec::new();
    let mut created = BTreeSet::new();
    // Tenants first: a namespace may be in one that the file creates.
    let (tenants, namespaces): (Vec<&Document>, Vec<&Document>) =
        documents.iter().partition(|document| matches!(document.target, Target::Tenant(_)));
    for document in tenants.into_iter().chain(namespaces) {
        let changed = match &document.target {
            Target::Tenant(name) => tenant(client, name, &document.policy, validate_only).await,
            Target::Namespace { tenant, name } => {
                let named = (tenant.as_str(), name.as_str());
                namespace(client, named, &document.policy, validate_only).await
            }
        };
        match changed {
            Ok((verb, diff, warnings)) => {
                if let (Verb::Create, Target::Tenant(name)) = (verb, &document.target) {
                    created.insert(name.clone());
                }
                let target = document.target.clone();
                changes.push(Change { target, verb, changes: diff, warnings });
            }
            Err(error) if awaits_tenant(&error, &document.target, &created) => {
                let warning = "checked when its tenant exists".to_owned();
                let (target, verb) = (document.target.clone(), Verb::Create);
                changes.push(Change { target, verb, changes: Vec::new(), warnings: vec![warning] });
            }
            Err(error) if error.violations().is_empty() => return Err(error.into()),
            Err(error) => faults.extend(in_file(document, &error)),
        }
    }
    if faults.is_empty() { Ok(changes) } else { Err(Stop::Faults(faults)) }
}

/// Whether nothing is wrong with a namespace but that its tenant is still to be created.
fn awaits_tenant(error: &Error, target: &Target, created: &BTreeSet<String>) -> bool {
    let Target::Namespace { tenant, .. } = target else { return false };
    error.reason() == Reason::TenantNotFound && created.contains(tenant)
}

/// What a node says about fields, at the places where the file sets them.
fn in_file(document: &Document, error: &Error) -> Vec<Fault> {
    let fault = |violation: &firstclaim_client::FieldViolation| {
        let name = field_name(&violation.field);
        let place = document.places.get(name).copied().unwrap_or(document.place);
        Fault::at(place, format!("{name} {}", violation.description))
    };
    error.violations().iter().map(fault).collect()
}

/// `tenant.policy.replay_windows[0].window` is about `replay_windows`.
fn field_name(path: &str) -> &str {
    let path = path.rsplit_once("policy.").map_or(path, |(_, field)| field);
    path.split(['.', '[']).next().unwrap_or(path)
}

type Changed = (Verb, Vec<v1::PolicyChange>, Vec<String>);

/// A value that is set where it was inherited changes no effect yet, but is a change.
fn verb(changes: &[v1::PolicyChange], present: Option<&v1::Policy>, wanted: &v1::Policy) -> Verb {
    let same = present.map_or(*wanted == v1::Policy::default(), |present| present == wanted);
    if changes.is_empty() && same { Verb::Keep } else { Verb::Change }
}

fn whole() -> Option<FieldMask> {
    Some(FieldMask { paths: vec!["policy".to_owned()] })
}

async fn tenant(
    client: &Client,
    name: &str,
    policy: &v1::Policy,
    validate_only: bool,
) -> Result<Changed, Error> {
    let wanted = |etag: String| v1::Tenant {
        name: name.to_owned(),
        policy: Some(policy.clone()),
        etag,
        ..v1::Tenant::default()
    };
    let present = client.get_tenant(v1::GetTenantRequest { tenant: name.to_owned() }).await;
    match present {
        Ok(present) => {
            let present = present.tenant.unwrap_or_default();
            let etag = present.etag;
            let update = |validate_only: bool| v1::UpdateTenantRequest {
                tenant: Some(wanted(etag.clone())),
                update_mask: whole(),
                validate_only,
            };
            let checked = client.update_tenant(update(true)).await?;
            let verb = verb(&checked.changes, present.policy.as_ref(), policy);
            if !validate_only && verb == Verb::Change {
                client.update_tenant(update(false)).await?;
            }
            Ok((verb, checked.changes, checked.warnings))
        }
        Err(error) if error.reason() == Reason::TenantNotFound => {
            let request =
                v1::CreateTenantRequest { tenant: Some(wanted(String::new())), validate_only };
            let created = client.create_tenant(request).await?;
            Ok((Verb::Create, Vec::new(), created.warnings))
        }
        Err(error) => Err(error),
    }
}

async fn namespace(
    client: &Client,
    (tenant, name): (&str, &str),
    policy: &v1::Policy,
    validate_only: bool,
) -> Result<Changed, Error> {
    let wanted = |etag: String| v1::Namespace {
        tenant: tenant.to_owned(),
        name: name.to_owned(),
        policy: Some(policy.clone()),
        etag,
        ..v1::Namespace::default()
    };
    let request = v1::GetNamespaceRequest { tenant: tenant.to_owned(), namespace: name.to_owned() };
    match client.get_namespace(request).await {
        Ok(present) => {
            let present = present.namespace.unwrap_or_default();
            let etag = present.etag;
            let update = |validate_only: bool| v1::UpdateNamespaceRequest {
                namespace: Some(wanted(etag.clone())),
                update_mask: whole(),
                validate_only,
            };
            let checked = client.update_namespace(update(true)).await?;
            let verb = verb(&checked.changes, present.policy.as_ref(), policy);
            if !validate_only && verb == Verb::Change {
                client.update_namespace(update(false)).await?;
            }
            Ok((verb, checked.changes, checked.warnings))
        }
        Err(error) if error.reason() == Reason::NamespaceNotFound => {
            let namespace = Some(wanted(String::new()));
            let request = v1::CreateNamespaceRequest { namespace, validate_only };
            let created = client.create_namespace(request).await?;
            Ok((Verb::Create, Vec::new(), created.warnings))
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::field_name;

    #[test]
    fn fields_of_a_request_are_found_in_the_file() {
        for (path, name) in [
            ("tenant.policy.identity_retention", "identity_retention"),
            ("namespace.policy.replay_windows[0].window", "replay_windows"),
            ("policy.lease_max", "lease_max"),
            ("result_retention", "result_retention"),
        ] {
            assert_eq!(field_name(path), name);
        }
    }
}
