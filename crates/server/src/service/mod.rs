//! The gRPC services: decode, let the node answer, encode.

mod batch;
mod claim;
mod cluster;
mod explain;
mod list;
mod record;
mod tenant;

pub(crate) use claim::Claims;
pub(crate) use cluster::ClusterInfo;
pub(crate) use record::Records;
pub(crate) use tenant::Tenants;

use firstclaim_core::{
    Answer, Command, Namespace, NamespaceName, Outcome, Refusal, Slot, Store as _, Tenant,
    TenantName, Timestamp,
};
use firstclaim_proto::convert::{Faults, WrongAnswer};
use firstclaim_replica::{State, StoreError};
use prost::Message;
use tonic::Response;

use crate::call::Call;
use crate::node::{Fail, Method, Node, Written};
use crate::status::Failure;

/// The answer of an outcome, or its refusal as a failure.
fn decided(outcome: Outcome) -> Result<(Answer, Timestamp), Fail> {
    let store_time = outcome.store_time;
    match outcome.result {
        Ok(answer) => Ok((answer, store_time)),
        Err(refusal) => Err(Failure::refused(&refusal, store_time).into()),
    }
}

/// Carries a write out, here or at the leader, and encodes its answer.
async fn carry_out<M, R>(
    node: &Node,
    method: Method,
    (call, message): (Call, M),
    read: impl FnOnce(M) -> Result<Command, Faults>,
    encode: impl FnOnce(Answer, Timestamp) -> Result<R, WrongAnswer>,
) -> Result<Response<R>, Fail>
where
    M: Message + Send + Sync + 'static,
    R: Message + Default + Send + Sync + 'static,
{
    match node.write(method, &call, message, read).await? {
        Written::There(response) => Ok(response),
        Written::Here(outcome) => {
            let (answer, store_time) = decided(*outcome)?;
            Ok(Response::new(encode(answer, store_time)?))
        }
    }
}

/// A tenant that exists.
fn tenant_of(
    state: &mut State<'_>,
    name: &TenantName,
) -> Result<Result<Tenant, Refusal>, StoreError> {
    let live = state.tenant(name)?.and_then(Slot::live);
    Ok(live.ok_or(Refusal::TenantNotFound))
}

/// A namespace that exists, with its tenant.
fn namespace_of(
    state: &mut State<'_>,
    owner: &TenantName,
    name: &NamespaceName,
) -> Result<Result<(Tenant, Namespace), Refusal>, StoreError> {
    let tenant = match tenant_of(state, owner)? {
        Ok(tenant) => tenant,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let live = state.namespace(owner, name)?.and_then(Slot::live);
    Ok(live.map(|namespace| (tenant, namespace)).ok_or(Refusal::NamespaceNotFound))
}
