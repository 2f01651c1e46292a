//! `TenantService`: who owns records, and by which policy.

use std::sync::Arc;

use firstclaim_core::command::{PutMode, PutNamespace, PutTenant};
use firstclaim_core::{Command, Namespace, NamespaceName, Outcome, Refusal, Store as _, Timestamp};
use firstclaim_proto::convert::{policy, tenant, time};
use firstclaim_proto::v1;
use firstclaim_proto::v1::tenant_service_server::TenantService;
use firstclaim_replica::{State, StoreError};
use prost::Message;
use tonic::{Request, Response, Status};

use super::{decided, namespace_of, tenant_of};
use crate::call::Call;
use crate::members;
use crate::node::{Fail, Method, Node, Written};
use crate::status::Failure;

macro_rules! method {
    ($name:literal) => {
        Method { name: $name, path: concat!("/firstclaim.v1.TenantService/", $name) }
    };
}

const CREATE_TENANT: Method = method!("CreateTenant");
const GET_TENANT: Method = method!("GetTenant");
const LIST_TENANTS: Method = method!("ListTenants");
const UPDATE_TENANT: Method = method!("UpdateTenant");
const DELETE_TENANT: Method = method!("DeleteTenant");
const CREATE_NAMESPACE: Method = method!("CreateNamespace");
const GET_NAMESPACE: Method = method!("GetNamespace");
const LIST_NAMESPACES: Method = method!("ListNamespaces");
const UPDATE_NAMESPACE: Method = method!("UpdateNamespace");
const DELETE_NAMESPACE: Method = method!("DeleteNamespace");

/// How often an update that names no version is tried on top of another one's change.
const UPDATE_TRIES: usize = 4;

/// The service.
#[derive(Clone, Debug)]
pub(crate) struct Tenants(pub(crate) Arc<Node>);

#[tonic::async_trait]
impl TenantService for Tenants {
    async fn create_tenant(
        &self,
        request: Request<v1::CreateTenantRequest>,
    ) -> Result<Response<v1::CreateTenantResponse>, Status> {
        let node = &self.0;
        node.serve(CREATE_TENANT, request, async |call, message| {
            if !node.replica.is_leader() {
                return node.forward(CREATE_TENANT, &call, message).await;
            }
            let (bytes, validate_only) = (message.encoded_len(), message.validate_only);
            let change = tenant::read_tenant_change(message.tenant)?;
            let mode = PutMode::Create { members_applied: members::applied_by_all(node).await };
            let name = change.tenant.clone();
            let put =
                PutTenant { tenant: change.tenant, policy: change.policy, mode, validate_only };
            let (answer, store_time) =
                decided(node.submit(&call, Command::PutTenant(put), bytes).await?)?;
            Ok(Response::new(tenant::create_tenant_response(&name, &answer, store_time)?))
        })
        .await
    }

    async fn get_tenant(
        &self,
        request: Request<v1::GetTenantRequest>,
    ) -> Result<Response<v1::GetTenantResponse>, Status> {
        let node = &self.0;
        node.serve(GET_TENANT, request, async |call, message| {
            let name = tenant::read_tenant_name(message.tenant)?;
            let (found, store_time) = read(node, &call, |state| tenant_of(state, &name)).await?;
            let found = found.map_err(|refusal| Failure::not_found(&refusal))?;
            Ok(Response::new(v1::GetTenantResponse {
                tenant: Some(tenant::tenant(&name, &found)),
                store_time: Some(time::timestamp(store_time)),
            }))
        })
        .await
    }

    async fn list_tenants(
        &self,
        request: Request<v1::ListTenantsRequest>,
    ) -> Result<Response<v1::ListTenantsResponse>, Status> {
        let node = &self.0;
        node.serve(LIST_TENANTS, request, async |call, message| {
            let page = tenant::read_list_tenants(message)?;
            let (mut found, store_time) =
                read(node, &call, |state| state.tenants(page.after.as_ref(), page.size + 1))
                    .await?;
            let next_page_token = cut(&mut found, page.size, |(name, _)| name.as_str());
            Ok(Response::new(v1::ListTenantsResponse {
                tenants: found.iter().map(|(name, one)| tenant::tenant(name, one)).collect(),
                next_page_token,
                store_time: Some(time::timestamp(store_time)),
            }))
        })
        .await
    }

    async fn update_tenant(
        &self,
        request: Request<v1::UpdateTenantRequest>,
    ) -> Result<Response<v1::UpdateTenantResponse>, Status> {
        let node = &self.0;
        node.serve(UPDATE_TENANT, request, async |call, message| {
            if !node.replica.is_leader() {
                return node.forward(UPDATE_TENANT, &call, message).await;
            }
            let (bytes, validate_only) = (message.encoded_len(), message.validate_only);
            let change = tenant::read_tenant_change(message.tenant)?;
            let name = &change.tenant;
            let mut tries = UPDATE_TRIES;
            let outcome = loop {
                tries -= 1;
                let (present, _) = read(node, &call, |state| tenant_of(state, name)).await?;
                let present = present.map_err(|refusal| Failure::not_found(&refusal))?;
                let mask = message.update_mask.as_ref();
                let policy = policy::update(&present.policy, &change.policy, mask)?;
                let expected = Some(change.expected.unwrap_or(present.etag));
                let mode = PutMode::Update { expected };
                let put = PutTenant { tenant: name.clone(), policy, mode, validate_only };
                let outcome = node.submit(&call, Command::PutTenant(put), bytes).await?;
                if change.expected.is_some() || tries == 0 || !raced(&outcome) {
                    break outcome;
                }
            };
            let (answer, store_time) = decided(outcome)?;
            Ok(Response::new(tenant::update_tenant_response(name, &answer, store_time)?))
        })
        .await
    }

    async fn delete_tenant(
        &self,
        request: Request<v1::DeleteTenantRequest>,
    ) -> Result<Response<v1::DeleteTenantResponse>, Status> {
        let node = &self.0;
        node.serve(DELETE_TENANT, request, async |call, message| {
            let read = |message| tenant::read_delete_tenant(message).map(Command::DeleteTenant);
            match node.write(DELETE_TENANT, &call, message, read).await? {
                Written::There(response) => Ok(response),
                Written::Here(outcome) => {
                    let (answer, store_time) = decided(*outcome)?;
                    Ok(Response::new(tenant::delete_tenant_response(&answer, store_time)?))
                }
            }
        })
        .await
    }

    async fn create_namespace(
        &self,
        request: Request<v1::CreateNamespaceRequest>,
    ) -> Result<Response<v1::CreateNamespaceResponse>, Status> {
        let node = &self.0;
        node.serve(CREATE_NAMESPACE, request, async |call, message| {
            if !node.replica.is_leader() {
                return node.forward(CREATE_NAMESPACE, &call, message).await;
            }
            let (bytes, validate_only) = (message.encoded_len(), message.validate_only);
            let change = tenant::read_namespace_change(message.namespace)?;
            let mode = PutMode::Create { members_applied: members::applied_by_all(node).await };
            let (owner, name) = (change.tenant.clone(), change.namespace.clone());
            let put = PutNamespace {
                tenant: change.tenant,
                namespace: change.namespace,
                policy: change.policy,
                mode,
                validate_only,
            };
            let (answer, store_time) =
                decided(node.submit(&call, Command::PutNamespace(put), bytes).await?)?;
            let response = tenant::create_namespace_response(&owner, &name, &answer, store_time)?;
            Ok(Response::new(response))
        })
        .await
    }

    async fn get_namespace(
        &self,
        request: Request<v1::GetNamespaceRequest>,
    ) -> Result<Response<v1::GetNamespaceResponse>, Status> {
        let node = &self.0;
        node.serve(GET_NAMESPACE, request, async |call, message| {
            let (owner, name) = tenant::read_namespace_name(message.tenant, message.namespace)?;
            let (found, store_time) =
                read(node, &call, |state| namespace_of(state, &owner, &name)).await?;
            let (tenant, found) = found.map_err(|refusal| Failure::not_found(&refusal))?;
            let effective = found.effective(&tenant);
            Ok(Response::new(v1::GetNamespaceResponse {
                namespace: Some(tenant::namespace(&owner, &name, &found, &effective)),
                store_time: Some(time::timestamp(store_time)),
            }))
        })
        .await
    }

    async fn list_namespaces(
        &self,
        request: Request<v1::ListNamespacesRequest>,
    ) -> Result<Response<v1::ListNamespacesResponse>, Status> {
        let node = &self.0;
        node.serve(LIST_NAMESPACES, request, async |call, message| {
            let (owner, page) = tenant::read_list_namespaces(message)?;
            let (found, store_time) = read(node, &call, |state| {
                let tenant = tenant_of(state, &owner)?;
                let namespaces = state.namespaces(&owner)?;
                Ok(tenant.map(|tenant| (tenant, namespaces)))
            })
            .await?;
            let (tenant, mut all) = found.map_err(|refusal| Failure::not_found(&refusal))?;
            all.retain(|(name, _)| page.after.as_ref().is_none_or(|after| name > after));
            let next_page_token = cut(&mut all, page.size, |(name, _)| name.as_str());
            let shown = |(name, one): &(NamespaceName, Namespace)| {
                tenant::namespace(&owner, name, one, &one.effective(&tenant))
            };
            Ok(Response::new(v1::ListNamespacesResponse {
                namespaces: all.iter().map(shown).collect(),
                next_page_token,
                store_time: Some(time::timestamp(store_time)),
            }))
        })
        .await
    }

    async fn update_namespace(
        &self,
        request: Request<v1::UpdateNamespaceRequest>,
    ) -> Result<Response<v1::UpdateNamespaceResponse>, Status> {
        let node = &self.0;
        node.serve(UPDATE_NAMESPACE, request, async |call, message| {
            if !node.replica.is_leader() {
                return node.forward(UPDATE_NAMESPACE, &call, message).await;
            }
            let (bytes, validate_only) = (message.encoded_len(), message.validate_only);
            let change = tenant::read_namespace_change(message.namespace)?;
            let (owner, name) = (&change.tenant, &change.namespace);
            let mut tries = UPDATE_TRIES;
            let outcome = loop {
                tries -= 1;
                let (present, _) =
                    read(node, &call, |state| namespace_of(state, owner, name)).await?;
                let (_, present) = present.map_err(|refusal| Failure::not_found(&refusal))?;
                let mask = message.update_mask.as_ref();
                let policy = policy::update(&present.policy, &change.policy, mask)?;
                let expected = Some(change.expected.unwrap_or(present.etag));
                let put = PutNamespace {
                    tenant: owner.clone(),
                    namespace: name.clone(),
                    policy,
                    mode: PutMode::Update { expected },
                    validate_only,
                };
                let outcome = node.submit(&call, Command::PutNamespace(put), bytes).await?;
                if change.expected.is_some() || tries == 0 || !raced(&outcome) {
                    break outcome;
                }
            };
            let (answer, store_time) = decided(outcome)?;
            let response = tenant::update_namespace_response(owner, name, &answer, store_time)?;
            Ok(Response::new(response))
        })
        .await
    }

    async fn delete_namespace(
        &self,
        request: Request<v1::DeleteNamespaceRequest>,
    ) -> Result<Response<v1::DeleteNamespaceResponse>, Status> {
        let node = &self.0;
        node.serve(DELETE_NAMESPACE, request, async |call, message| {
            let read =
                |message| tenant::read_delete_namespace(message).map(Command::DeleteNamespace);
            match node.write(DELETE_NAMESPACE, &call, message, read).await? {
                Written::There(response) => Ok(response),
                Written::Here(outcome) => {
                    let (answer, store_time) = decided(*outcome)?;
                    Ok(Response::new(tenant::delete_namespace_response(&answer, store_time)?))
                }
            }
        })
        .await
    }
}

/// Whether another change came between the read and the write: then the change is tried again on
/// top of that one, unless the caller said which version it meant.
fn raced(outcome: &Outcome) -> bool {
    matches!(outcome.result, Err(Refusal::EtagMismatch { .. }))
}

/// A linearizable read, with the store time of the state that was read.
async fn read<T>(
    node: &Node,
    call: &Call,
    read: impl FnOnce(&mut State<'_>) -> Result<T, StoreError>,
) -> Result<(T, Timestamp), Fail> {
    node.linearize(call).await?;
    let (_, found) = node.read(|state| {
        let store_time = state.cluster()?.clock.now();
        Ok((read(state)?, store_time))
    })?;
    Ok(found)
}

/// Cuts a page to its size and says where the next one starts; empty if there is none.
fn cut<T>(found: &mut Vec<T>, size: usize, name: impl Fn(&T) -> &str) -> String {
    if found.len() <= size {
        return String::new();
    }
    found.truncate(size);
    found.last().map(|last| name(last).to_owned()).unwrap_or_default()
}
