//! `RecordService`: what people and reconcilers see, and what they decide.

use std::sync::Arc;

use firstclaim_core::{Command, NamespaceName, RecordId, RecordRef, Store as _, TenantName};
use firstclaim_proto::convert::{operator, reads, record, reserve, resolve, time};
use firstclaim_proto::v1;
use firstclaim_proto::v1::record_service_server::RecordService;
use tonic::{Request, Response, Status};

use super::{carry_out, explain, list, namespace_of};
use crate::call::Call;
use crate::node::{Fail, Method, Node};
use crate::sightings::{self, REPORT};
use crate::status::Failure;
use crate::watching::{self, Stream};

macro_rules! method {
    ($name:literal) => {
        Method { name: $name, path: concat!("/firstclaim.v1.RecordService/", $name) }
    };
}

const RESOLVE: Method = method!("Resolve");
const REVOKE: Method = method!("Revoke");
const ADMIT: Method = method!("Admit");
const PURGE_RECORD: Method = method!("PurgeRecord");
const LIST_RECORDS: Method = method!("ListRecords");
const LIST_UNRESOLVED: Method = method!("ListUnresolved");
const GET_HISTORY: Method = method!("GetHistory");
const EXPLAIN: Method = method!("Explain");
const WATCH_RECORD: Method = method!("WatchRecord");
const WATCH_RECORDS: Method = method!("WatchRecords");
const EXTEND_EXISTING: Method = method!("ExtendExisting");

/// The service.
#[derive(Clone, Debug)]
pub(crate) struct Records(pub(crate) Arc<Node>);

#[tonic::async_trait]
impl RecordService for Records {
    type WatchRecordStream = Stream<v1::WatchRecordResponse>;
    type WatchRecordsStream = Stream<v1::WatchRecordsResponse>;

    async fn resolve(
        &self,
        request: Request<v1::ResolveRequest>,
    ) -> Result<Response<v1::ResolveResponse>, Status> {
        let node = &self.0;
        node.serve(RESOLVE, request, async |call, message| {
            let read = |message| resolve::read(message).map(Command::Resolve);
            let encode = |answer, store_time| resolve::response(&answer, store_time);
            carry_out(node, RESOLVE, (call, message), read, encode).await
        })
        .await
    }

    async fn revoke(
        &self,
        request: Request<v1::RevokeRequest>,
    ) -> Result<Response<v1::RevokeResponse>, Status> {
        let node = &self.0;
        node.serve(REVOKE, request, async |call, message| {
            let read = |message| operator::read_revoke(message).map(Command::Revoke);
            let encode = |answer, store_time| operator::revoke_response(&answer, store_time);
            carry_out(node, REVOKE, (call, message), read, encode).await
        })
        .await
    }

    async fn admit(
        &self,
        request: Request<v1::AdmitRequest>,
    ) -> Result<Response<v1::ReserveResponse>, Status> {
        let node = &self.0;
        node.serve(ADMIT, request, async |call, message| {
            let read = |message| reserve::read_admit(message).map(Command::Reserve);
            carry_out(node, ADMIT, (call, message), read, reserve::response).await
        })
        .await
    }

    async fn purge_record(
        &self,
        request: Request<v1::PurgeRecordRequest>,
    ) -> Result<Response<v1::PurgeRecordResponse>, Status> {
        let node = &self.0;
        node.serve(PURGE_RECORD, request, async |call, message| {
            let read = |message| operator::read_purge(message).map(Command::Purge);
            let encode = |answer, store_time| operator::purge_response(&answer, store_time);
            carry_out(node, PURGE_RECORD, (call, message), read, encode).await
        })
        .await
    }

    async fn list_records(
        &self,
        request: Request<v1::ListRecordsRequest>,
    ) -> Result<Response<v1::ListRecordsResponse>, Status> {
        let node = &self.0;
        node.serve(LIST_RECORDS, request, async |call, message| {
            let asked = reads::read_list_records(message)?;
            node.linearize(&call).await?;
            list::records(node, asked).await.map(Response::new)
        })
        .await
    }

    async fn list_unresolved(
        &self,
        request: Request<v1::ListUnresolvedRequest>,
    ) -> Result<Response<v1::ListUnresolvedResponse>, Status> {
        let node = &self.0;
        node.serve(LIST_UNRESOLVED, request, async |call, message| {
            let asked = reads::read_list_unresolved(message)?;
            node.linearize(&call).await?;
            list::unresolved(node, asked).await.map(Response::new)
        })
        .await
    }

    async fn get_history(
        &self,
        request: Request<v1::GetHistoryRequest>,
    ) -> Result<Response<v1::GetHistoryResponse>, Status> {
        let node = &self.0;
        node.serve(GET_HISTORY, request, async |call, message| {
            let v1::GetHistoryRequest { tenant, namespace, key } = message;
            let name = reads::read_record_ref(tenant, namespace, key)?;
            node.linearize(&call).await?;
            history(node, &name).map(Response::new)
        })
        .await
    }

    async fn explain(
        &self,
        request: Request<v1::ExplainRequest>,
    ) -> Result<Response<v1::ExplainResponse>, Status> {
        let node = &self.0;
        node.serve(EXPLAIN, request, async |call, message| {
            let asked = explain::read(message, call.region(&node.region))?;
            node.linearize(&call).await?;
            explain::explain(node, &asked).map(Response::new)
        })
        .await
    }

    async fn watch_record(
        &self,
        request: Request<v1::WatchRecordRequest>,
    ) -> Result<Response<Self::WatchRecordStream>, Status> {
        let node = &self.0;
        node.serve(WATCH_RECORD, request, async |call, message| {
            let v1::WatchRecordRequest { tenant, namespace, key } = message;
            let name = reads::read_record_ref(tenant, namespace, key)?;
            let namespace = life(node, &call, &name.tenant, &name.namespace).await?;
            let id = RecordId { namespace, key: name.key.clone() };
            watching::record(node, name, id).map(Response::new)
        })
        .await
    }

    async fn watch_records(
        &self,
        request: Request<v1::WatchRecordsRequest>,
    ) -> Result<Response<Self::WatchRecordsStream>, Status> {
        let node = &self.0;
        node.serve(WATCH_RECORDS, request, async |call, message| {
            let v1::WatchRecordsRequest { tenant, namespace, after_revision } = message;
            let names = reads::read_namespace(tenant, namespace)?;
            let id = life(node, &call, &names.0, &names.1).await?;
            watching::namespace(node, names, id, after_revision).map(Response::new)
        })
        .await
    }

    async fn extend_existing(
        &self,
        request: Request<v1::ExtendExistingRequest>,
    ) -> Result<Response<v1::ExtendExistingResponse>, Status> {
        let node = &self.0;
        node.serve(EXTEND_EXISTING, request, async |call, message| {
            let read = |message| operator::read_extend(message).map(Command::ExtendExisting);
            carry_out(node, EXTEND_EXISTING, (call, message), read, operator::extend_response).await
        })
        .await
    }

    async fn report_sightings(
        &self,
        request: Request<v1::ReportSightingsRequest>,
    ) -> Result<Response<v1::ReportSightingsResponse>, Status> {
        let node = &self.0;
        node.serve(REPORT, request, async |call, message| {
            if !node.replica.is_leader() {
                return node.forward(REPORT, &call, message).await;
            }
            sightings::note(node, &call, reads::read_report(message)?).await?;
            Ok(Response::new(v1::ReportSightingsResponse {}))
        })
        .await
    }
}

/// The life of a namespace that exists, in a state that is not stale.
async fn life(
    node: &Node,
    call: &Call,
    tenant: &TenantName,
    namespace: &NamespaceName,
) -> Result<u64, Fail> {
    node.linearize(call).await?;
    let (_, found) = node.read(|state| namespace_of(state, tenant, namespace))?;
    let (_, namespace) = found.map_err(|refusal| Failure::not_found(&refusal))?;
    Ok(namespace.id)
}

fn history(node: &Node, name: &RecordRef) -> Result<v1::GetHistoryResponse, Fail> {
    let (_, (clock, found)) = node.read(|state| {
        let clock = state.cluster()?.clock;
        let (_, namespace) = match namespace_of(state, &name.tenant, &name.namespace)? {
            Ok(found) => found,
            Err(refusal) => return Ok((clock, Err(refusal))),
        };
        let id = RecordId { namespace: namespace.id, key: name.key.clone() };
        let (stored, history) = (state.record(&id)?, state.history(&id)?);
        Ok((clock, Ok((stored, history))))
    })?;
    let (stored, history) = found.map_err(|refusal| Failure::not_found(&refusal))?;
    let shown = stored.as_ref().and_then(|stored| record::record(name, stored, &clock));
    let Some(shown) = shown else { return Err(Failure::record_not_found(clock.now()).into()) };
    let history = history.unwrap_or_default();
    Ok(v1::GetHistoryResponse {
        attempts: shown.attempts.clone(),
        record: Some(shown),
        sightings: reads::sightings(&history),
        counts: history.counts,
        store_time: Some(time::timestamp(clock.now())),
    })
}
