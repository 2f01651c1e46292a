//! The part of the scripted node that people and reconcilers call.

use std::pin::Pin;

use firstclaim_client::v1;
use firstclaim_client::v1::record_service_server::RecordService;
use tokio_stream::Stream;
use tonic::{Request, Response, Status};

use super::{Node, Step, at_now};

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// What a watch shows: records by revision, then the end of the stream, or its failure.
fn shown(step: Option<Step>) -> Vec<Result<v1::Record, Status>> {
    let Some(Step::Records { revisions, ends }) = step else { return Vec::new() };
    let record = |revision| v1::Record { revision, ..v1::Record::default() };
    let mut shown: Vec<_> = revisions.into_iter().map(|revision| Ok(record(revision))).collect();
    if !ends {
        shown.push(Err(Status::unavailable("the stream broke")));
    }
    shown
}

#[tonic::async_trait]
impl RecordService for Node {
    type WatchRecordStream = Answers<v1::WatchRecordResponse>;
    type WatchRecordsStream = Answers<v1::WatchRecordsResponse>;

    async fn resolve(
        &self,
        request: Request<v1::ResolveRequest>,
    ) -> Result<Response<v1::ResolveResponse>, Status> {
        let request = request.into_inner();
        self.next("resolve", &request.attempt_id, request.expected_epoch).await?;
        Ok(Response::new(v1::ResolveResponse {
            epoch: request.expected_epoch + 1,
            ..v1::ResolveResponse::default()
        }))
    }

    async fn revoke(
        &self,
        request: Request<v1::RevokeRequest>,
    ) -> Result<Response<v1::RevokeResponse>, Status> {
        self.next("revoke", "", request.into_inner().epoch).await?;
        Ok(Response::new(v1::RevokeResponse::default()))
    }

    async fn admit(
        &self,
        _request: Request<v1::AdmitRequest>,
    ) -> Result<Response<v1::ReserveResponse>, Status> {
        self.next("admit", "", 0).await?;
        Ok(Response::new(v1::ReserveResponse::default()))
    }

    async fn purge_record(
        &self,
        request: Request<v1::PurgeRecordRequest>,
    ) -> Result<Response<v1::PurgeRecordResponse>, Status> {
        self.next("purge", "", request.into_inner().expected_epoch).await?;
        Ok(Response::new(v1::PurgeRecordResponse::default()))
    }

    async fn list_records(
        &self,
        _request: Request<v1::ListRecordsRequest>,
    ) -> Result<Response<v1::ListRecordsResponse>, Status> {
        self.next("list records", "", 0).await?;
        Ok(Response::new(v1::ListRecordsResponse::default()))
    }

    async fn list_unresolved(
        &self,
        _request: Request<v1::ListUnresolvedRequest>,
    ) -> Result<Response<v1::ListUnresolvedResponse>, Status> {
        self.next("list unresolved", "", 0).await?;
        Ok(Response::new(v1::ListUnresolvedResponse::default()))
    }

    async fn get_history(
        &self,
        _request: Request<v1::GetHistoryRequest>,
    ) -> Result<Response<v1::GetHistoryResponse>, Status> {
        self.next("history", "", 0).await?;
        Ok(Response::new(v1::GetHistoryResponse::default()))
    }

    async fn explain(
        &self,
        _request: Request<v1::ExplainRequest>,
    ) -> Result<Response<v1::ExplainResponse>, Status> {
        self.next("explain", "", 0).await?;
        Ok(Response::new(v1::ExplainResponse::default()))
    }

    async fn watch_record(
        &self,
        request: Request<v1::WatchRecordRequest>,
    ) -> Result<Response<Self::WatchRecordStream>, Status> {
        let bounded = request.metadata().contains_key("grpc-timeout");
        let call = if bounded { "watch record, bounded" } else { "watch record" };
        let shown = shown(self.next(call, "", 0).await?);
        let answers = shown.into_iter().map(|record| {
            record.map(|record| v1::WatchRecordResponse {
                record: Some(record),
                store_time: at_now(),
            })
        });
        Ok(Response::new(Box::pin(tokio_stream::iter(answers))))
    }

    async fn watch_records(
        &self,
        request: Request<v1::WatchRecordsRequest>,
    ) -> Result<Response<Self::WatchRecordsStream>, Status> {
        let after = request.into_inner().after_revision;
        let shown = shown(self.next("watch records", "", after).await?);
        let answers = shown.into_iter().map(|record| {
            record.map(|record| v1::WatchRecordsResponse {
                revision: record.revision,
                record: Some(record),
            })
        });
        Ok(Response::new(Box::pin(tokio_stream::iter(answers))))
    }

    async fn extend_existing(
        &self,
        _request: Request<v1::ExtendExistingRequest>,
    ) -> Result<Response<v1::ExtendExistingResponse>, Status> {
        self.next("extend existing", "", 0).await?;
        Ok(Response::new(v1::ExtendExistingResponse::default()))
    }

    async fn report_sightings(
        &self,
        _request: Request<v1::ReportSightingsRequest>,
    ) -> Result<Response<v1::ReportSightingsResponse>, Status> {
        Err(Status::unimplemented("only nodes call it"))
    }
}
