//! Calls from the other replicas.
//!
//! A call that is meant for another cluster or another node is refused, and so is every call that
//! would make a member of a replica that has lost its disk.

use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};

use firstclaim_proto::peer::v1 as proto;
use firstclaim_proto::peer::v1::peer_service_server::PeerService;
use futures::{Stream, StreamExt as _};
use openraft::raft::{AppendEntriesRequest, TransferLeaderRequest};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::{Request, Response, Status, Streaming};

use crate::bootstrap::Admission;
use crate::config::ReplicaConfig;
use crate::network::{CLUSTER_KEY, FROM_KEY, TO_KEY, cluster_metadata};
use crate::raft::{EntryPayload, Payload, Raft, Snapshot, TypeConfig};
use crate::reads::Reads;
use crate::store::codec;
use crate::store::disk::{Disk, INCOMING_DIR};
use crate::store::snapshot::{Receiver, meta_of};
use crate::wire;

/// Answers the other replicas.
#[derive(Clone)]
pub(crate) struct Peer {
    node_id: u64,
    cluster_id: String,
    cluster: MetadataValue<Ascii>,
    /// None once the replica is closed, whatever connections there are still.
    replica: Arc<RwLock<Option<Arc<Parts>>>>,
    /// One snapshot comes in at a time.
    receiving: Arc<Mutex<()>>,
    stopping: CancellationToken,
}

/// What the service needs of the replica.
pub(crate) struct Parts {
    pub(crate) raft: Raft,
    pub(crate) reads: Arc<Reads>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) disk: Arc<Disk>,
}

impl Peer {
    pub(crate) fn new(config: &ReplicaConfig, parts: Parts, stopping: CancellationToken) -> Self {
        Self {
            node_id: config.node_id,
            cluster_id: config.cluster_id.clone(),
            cluster: cluster_metadata(&config.cluster_id),
            replica: Arc::new(RwLock::new(Some(Arc::new(parts)))),
            receiving: Arc::default(),
            stopping,
        }
    }

    /// Lets go of the replica. Calls are refused from now on.
    pub(crate) fn close(&self) {
        *self.replica.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Refuses a call that is meant for somebody else.
    fn greet<T>(&self, request: &Request<T>) -> Result<Arc<Parts>, Status> {
        let metadata = request.metadata();
        let text = |key| metadata.get(key).and_then(|value| value.to_str().ok()).unwrap_or("?");
        if metadata.get(CLUSTER_KEY) != Some(&self.cluster) {
            return Err(Status::failed_precondition(format!(
                "node {} calls for cluster {}, but this is a node of cluster {}: check cluster_id \
                 and the peer addresses",
                text(FROM_KEY),
                text(CLUSTER_KEY),
                self.cluster_id
            )));
        }
        if text(TO_KEY) != self.node_id.to_string() {
            return Err(Status::failed_precondition(format!(
                "node {} calls node {}, but this is node {}: check the peer addresses",
                text(FROM_KEY),
                text(TO_KEY),
                self.node_id
            )));
        }
        let replica = self.replica.read().unwrap_or_else(PoisonError::into_inner).clone();
        replica.ok_or_else(stopping)
    }

    /// Also refuses a call that only a member may take.
    fn admit<T>(&self, request: &Request<T>) -> Result<Arc<Parts>, Status> {
        let replica = self.greet(request)?;
        if replica.admission.is_admitted() {
            Ok(replica)
        } else {
            Err(Status::failed_precondition(format!(
                "node {} has an empty data folder and has not been admitted to the cluster",
                self.node_id
            )))
        }
    }

    async fn receive_snapshot(
        &self,
        replica: &Parts,
        mut parts: Streaming<proto::SnapshotPart>,
    ) -> Result<proto::SnapshotResponse, Status> {
        use proto::snapshot_part::Part;
        let _alone = self
            .receiving
            .try_lock()
            .map_err(|_taken| Status::unavailable("another snapshot is on its way in"))?;
        let first = parts.message().await?.and_then(|part| part.part);
        let Some(Part::Header(header)) = first else {
            return Err(Status::invalid_argument("a snapshot must begin with a header"));
        };
        let vote = wire::required_vote(header.vote.as_ref()).map_err(|error| malformed(&error))?;
        let manifest = header.manifest.unwrap_or_default();
        if manifest.cluster_id != self.cluster_id {
            return Err(Status::failed_precondition("the snapshot is of another cluster"));
        }
        let incoming = replica.disk.path(INCOMING_DIR);
        let meta = meta_of(&manifest, &incoming).map_err(failed)?;
        let mut receiver = Receiver::begin(&incoming, manifest).map_err(failed)?;
        while let Some(part) = parts.message().await? {
            match part.part {
                Some(Part::Data(data)) => receiver.take(&data).map_err(failed)?,
                Some(Part::Header(_)) | None => {
                    return Err(Status::invalid_argument("a snapshot has one header, then data"));
                }
            }
        }
        let snapshot = receiver.finish().map_err(failed)?;
        let snapshot = Snapshot { meta, snapshot };
        let response = replica.raft.install_full_snapshot(vote, snapshot).await.map_err(failed)?;
        Ok(proto::SnapshotResponse { vote: Some(wire::vote_to(&response.vote)) })
    }
}

fn stopping() -> Status {
    Status::unavailable("this node is stopping")
}

fn malformed(error: &wire::Malformed) -> Status {
    Status::invalid_argument(error.to_string())
}

/// Takes in the entries of a leader, unless they are of a version that this one cannot follow. They
/// must not even come into the log, where they would be in the way once that version is gone.
pub(crate) fn append_from(
    request: proto::AppendRequest,
) -> Result<AppendEntriesRequest<TypeConfig>, Status> {
    let request = wire::append_from(request).map_err(|error| malformed(&error))?;
    for entry in &request.entries {
        let EntryPayload::Normal(Payload(bytes)) = &entry.payload else { continue };
        if codec::is_former_payload(bytes)
            && !codec::decode_payload(bytes).is_ok_and(|decoded| decoded.is_applicable())
        {
            let index = entry.log_id.index;
            tracing::error!(
                index,
                "the leader sends entries of the version before this one: start this version on all \
                 nodes"
            );
            return Err(Status::failed_precondition(format!(
                "entry {index} is of a version that this node has left behind: start the same \
                 version on all nodes"
            )));
        }
    }
    Ok(request)
}

fn failed(error: impl std::fmt::Display) -> Status {
    Status::unavailable(error.to_string())
}

type AppendResponses = Pin<Box<dyn Stream<Item = Result<proto::AppendResponse, Status>> + Send>>;

#[tonic::async_trait]
impl PeerService for Peer {
    type AppendStream = AppendResponses;

    async fn append(
        &self,
        request: Request<Streaming<proto::AppendRequest>>,
    ) -> Result<Response<AppendResponses>, Status> {
        let replica = self.admit(&request)?;
        // A request that cannot be read ends the stream: what follows it does not fit any more.
        let requests = request
            .into_inner()
            .map(|request| request.ok().and_then(|request| append_from(request).ok()))
            .take_while(|request| std::future::ready(request.is_some()))
            .filter_map(std::future::ready)
            .take_until(self.stopping.clone().cancelled_owned());
        let cancelled = self.stopping.clone();
        let end = futures::stream::once(async move { cancelled.is_cancelled() })
            .filter_map(|stopped| std::future::ready(stopped.then(|| Err(stopping()))));
        let responses = replica
            .raft
            .stream_append(Box::pin(requests))
            .map(|result| result.map(|result| wire::append_result_to(&result)).map_err(failed))
            .take_until(self.stopping.clone().cancelled_owned())
            .chain(end);
        Ok(Response::new(Box::pin(responses)))
    }

    async fn heartbeat(
        &self,
        request: Request<proto::AppendRequest>,
    ) -> Result<Response<proto::AppendResponse>, Status> {
        let replica = self.admit(&request)?;
        let request = append_from(request.into_inner())?;
        let prev = request.prev_log_id;
        let response = replica.raft.append_entries(request).await.map_err(failed)?;
        Ok(Response::new(wire::append_response_to(&response, prev.as_ref())))
    }

    async fn vote(
        &self,
        request: Request<proto::VoteRequest>,
    ) -> Result<Response<proto::VoteResponse>, Status> {
        let replica = self.admit(&request)?;
        let request =
            wire::vote_request_from(request.get_ref()).map_err(|error| malformed(&error))?;
        let response = replica.raft.vote(request).await.map_err(failed)?;
        Ok(Response::new(wire::vote_response_to(&response)))
    }

    async fn pre_vote(
        &self,
        request: Request<proto::VoteRequest>,
    ) -> Result<Response<proto::VoteResponse>, Status> {
        let replica = self.admit(&request)?;
        let request =
            wire::vote_request_from(request.get_ref()).map_err(|error| malformed(&error))?;
        let response = replica.raft.pre_vote(request).await.map_err(failed)?;
        Ok(Response::new(wire::vote_response_to(&response)))
    }

    async fn install_snapshot(
        &self,
        request: Request<Streaming<proto::SnapshotPart>>,
    ) -> Result<Response<proto::SnapshotResponse>, Status> {
        let replica = self.admit(&request)?;
        self.receive_snapshot(&replica, request.into_inner()).await.map(Response::new)
    }

    async fn transfer_leader(
        &self,
        request: Request<proto::TransferLeaderRequest>,
    ) -> Result<Response<proto::TransferLeaderResponse>, Status> {
        let replica = self.admit(&request)?;
        let request = request.into_inner();
        let from =
            wire::required_vote(request.from_leader.as_ref()).map_err(|error| malformed(&error))?;
        let last = request.last_log_id.as_ref().map(wire::log_id_from);
        let request = TransferLeaderRequest::new(from, request.to_node_id, last);
        let answer = replica.raft.handle_transfer_leader(request).await.map_err(failed)?;
        let refused = answer.err().map(|error| error.to_string()).unwrap_or_default();
        Ok(Response::new(proto::TransferLeaderResponse { refused }))
    }

    async fn read_index(
        &self,
        request: Request<proto::ReadIndexRequest>,
    ) -> Result<Response<proto::ReadIndexResponse>, Status> {
        let replica = self.admit(&request)?;
        let confirmed = replica.reads.confirm_here().await.map_err(failed)?;
        Ok(Response::new(proto::ReadIndexResponse {
            read_log_id: Some(wire::log_id_to(&confirmed.read_log_id)),
            store_time_ms: confirmed.store_time.0,
            leader_id: self.node_id,
        }))
    }

    async fn probe(
        &self,
        request: Request<proto::ProbeRequest>,
    ) -> Result<Response<proto::ProbeResponse>, Status> {
        let replica = self.greet(&request)?;
        if request.get_ref().admit {
            replica.admission.admit().map_err(failed)?;
        }
        Ok(Response::new(proto::ProbeResponse {
            node_id: self.node_id,
            cluster_id: self.cluster_id.clone(),
            pristine: replica.admission.is_pristine(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message with one entry, which has this payload.
    fn request(payload: &'static [u8]) -> proto::AppendRequest {
        let entry = proto::Entry {
            log_id: Some(proto::LogId { term: 1, index: 7 }),
            payload: Some(proto::entry::Payload::Normal(payload.into())),
        };
        let vote = proto::Vote { term: 1, node_id: 1, committed: true };
        proto::AppendRequest { vote: Some(vote), entries: vec![entry], ..Default::default() }
    }

    #[test]
    fn entries_of_the_version_before_stay_out_of_the_log() {
        // Format 1, time 9, so many commands: ticks (9), or a sweep of 5 records (8 5).
        let (ticks, sweep) = (&[1, 9, 2, 9, 9], &[1, 9, 1, 8, 5]);
        assert_eq!(append_from(request(ticks)).unwrap().entries.len(), 1);
        let refused = append_from(request(sweep)).unwrap_err();
        assert_eq!(refused.code(), tonic::Code::FailedPrecondition);
        assert!(refused.message().contains("entry 7"), "{}", refused.message());
        // What this version wrote is not looked at before it is applied.
        assert!(append_from(request(&[2, 255])).is_ok());
    }
}
