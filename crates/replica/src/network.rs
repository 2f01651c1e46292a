//! Calls to the other replicas.
//!
//! Each peer has two connections: one for bulk data, and one for heartbeats and votes, which a
//! large append must never hold up. Appends are one bidirectional stream per follower with many
//! requests under way, so that distance costs latency but not throughput.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use firstclaim_core::limits::PEER_MESSAGE_BYTES_MAX;
use firstclaim_proto::peer::v1 as proto;
use firstclaim_proto::peer::v1::peer_service_client::PeerServiceClient;
use futures::{Stream, StreamExt as _};
use openraft::base::{BoxFuture, BoxStream};
use openraft::errors::{RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::v2::RaftNetworkV2;
use openraft::network::{RPCOption, RaftNetworkFactory, stream_append_sequential};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendError,
    StreamAppendResult, TransferLeaderError, TransferLeaderRequest, VoteRequest, VoteResponse,
};
use tonic::codegen::InterceptedService;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;

use crate::Member;
use crate::config::{ReplicaConfig, Timers};
use crate::faults::Faults;
use crate::raft::{Snapshot, TypeConfig, Vote};
use crate::runtime;
use crate::store::SnapshotDir;
use crate::transport::{self, Channel};
use crate::wire;

/// Names the cluster in the metadata of each call.
pub(crate) const CLUSTER_KEY: &str = "firstclaim-cluster";
/// Names the caller.
pub(crate) const FROM_KEY: &str = "firstclaim-from";
/// Names the callee.
pub(crate) const TO_KEY: &str = "firstclaim-to";

/// Messages of one stream that are delayed at a time.
const DELAYED_MAX: usize = 1024;
/// Parts of a snapshot that are read ahead.
const PARTS_AHEAD: usize = 4;

type Error = RPCError<TypeConfig>;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lane {
    /// Heartbeats, votes, questions.
    Control,
    /// Appends.
    Bulk,
    /// Snapshots.
    Snapshot,
}

/// Who calls whom, by which connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Route {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) lane: Lane,
}

/// Makes connections to peers, and keeps them.
#[derive(Clone)]
pub(crate) struct Peers {
    shared: Arc<Shared>,
}

struct Shared {
    node_id: u64,
    cluster: MetadataValue<Ascii>,
    members: BTreeMap<u64, Member>,
    timers: Timers,
    faults: Faults,
    channels: Mutex<BTreeMap<(u64, Lane, String), Channel>>,
}

/// Says in each call who calls whom.
#[derive(Clone)]
pub(crate) struct Handshake {
    cluster: MetadataValue<Ascii>,
    from: u64,
    to: u64,
}

impl Interceptor for Handshake {
    fn call(
        &mut self,
        mut request: tonic::Request<()>,
    ) -> Result<tonic::Request<()>, tonic::Status> {
        let metadata = request.metadata_mut();
        metadata.insert(CLUSTER_KEY, self.cluster.clone());
        metadata.insert(FROM_KEY, MetadataValue::from(self.from));
        metadata.insert(TO_KEY, MetadataValue::from(self.to));
        Ok(request)
    }
}

pub(crate) type Client = PeerServiceClient<InterceptedService<Channel, Handshake>>;

/// The cluster's name as it goes over the wire, whatever characters it has.
pub(crate) fn cluster_metadata(cluster_id: &str) -> MetadataValue<Ascii> {
    let escaped = cluster_id.escape_default().to_string();
    // Escaped text is printable ASCII, which always parses.
    escaped.parse().unwrap_or_else(|_| MetadataValue::from_static("?"))
}

impl Peers {
    pub(crate) fn new(config: &ReplicaConfig, faults: Faults) -> Self {
        let shared = Shared {
            node_id: config.node_id,
            cluster: cluster_metadata(&config.cluster_id),
            members: config.members.clone(),
            timers: config.timers(),
            faults,
            channels: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// A client of a peer. The address in the configuration goes before the one in the log, so
    /// that a node can move.
    pub(crate) fn client(
        &self,
        to: u64,
        node: Option<&Member>,
        lane: Lane,
    ) -> Result<Client, String> {
        let member = self.shared.members.get(&to).or(node);
        let member = member.ok_or_else(|| format!("no address is known for node {to}"))?;
        let channel = self.channel(to, lane, &member.peer_addr)?;
        let handshake =
            Handshake { cluster: self.shared.cluster.clone(), from: self.shared.node_id, to };
        Ok(PeerServiceClient::with_interceptor(channel, handshake)
            .max_decoding_message_size(PEER_MESSAGE_BYTES_MAX)
            .max_encoding_message_size(PEER_MESSAGE_BYTES_MAX))
    }

    fn channel(&self, to: u64, lane: Lane, addr: &str) -> Result<Channel, String> {
        let mut channels = self.shared.channels.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (to, lane, addr.to_owned());
        if let Some(channel) = channels.get(&key) {
            return Ok(channel.clone());
        }
        let route = Route { from: self.shared.node_id, to, lane };
        let channel = transport::connect(route, addr, self.shared.timers.silence())?;
        channels.insert(key, channel.clone());
        Ok(channel)
    }

    /// Makes one call, under the faults between the two nodes.
    pub(crate) async fn call<T, F>(
        &self,
        to: u64,
        node: Option<&Member>,
        call: impl FnOnce(Client) -> F,
    ) -> Result<T, String>
    where
        F: Future<Output = Result<tonic::Response<T>, tonic::Status>>,
    {
        let (from, faults) = (self.shared.node_id, &self.shared.faults);
        let lost = || format!("the network between node {from} and node {to} is cut");
        if faults.is_cut(from, to) {
            return Err(lost());
        }
        pause(faults, from, to).await;
        let response = call(self.client(to, node, Lane::Control)?)
            .await
            .map_err(|status| describe(&status))?;
        pause(faults, to, from).await;
        if faults.is_cut(from, to) {
            return Err(lost());
        }
        Ok(response.into_inner())
    }
}

async fn pause(faults: &Faults, from: u64, to: u64) {
    let delay = faults.delay_of(from, to);
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
}

fn describe(status: &tonic::Status) -> String {
    format!("{:?}: {}", status.code(), status.message())
}

fn unreachable(message: impl ToString) -> Error {
    RPCError::Unreachable(Unreachable::from_string(message))
}

/// Delays each item of a stream, without holding up those behind it.
fn delayed<S>(stream: S, faults: Faults, from: u64, to: u64) -> impl Stream<Item = S::Item> + Send
where
    S: Stream + Send,
    S::Item: Send,
{
    stream
        .map(move |item| {
            let delay = faults.delay_of(from, to);
            let due = (!delay.is_zero()).then(|| tokio::time::Instant::now() + delay);
            async move {
                if let Some(due) = due {
                    tokio::time::sleep_until(due).await;
                }
                item
            }
        })
        .buffered(DELAYED_MAX)
}

/// The network as openraft uses it.
pub(crate) struct Network {
    pub(crate) peers: Peers,
}

impl RaftNetworkFactory<TypeConfig> for Network {
    type Network = Connection;

    async fn new_client(&mut self, target: u64, node: &Member) -> Connection {
        self.connection(target, node, Lane::Bulk)
    }

    async fn new_heartbeat_client(&mut self, target: u64, node: &Member) -> Connection {
        self.connection(target, node, Lane::Control)
    }

    async fn new_snapshot_client(&mut self, target: u64, node: &Member) -> Connection {
        self.connection(target, node, Lane::Snapshot)
    }
}

impl Network {
    fn connection(&self, target: u64, node: &Member, lane: Lane) -> Connection {
        let held = Arc::default();
        Connection { peers: self.peers.clone(), target, node: node.clone(), lane, held }
    }
}

/// A connection of openraft to one peer.
pub(crate) struct Connection {
    peers: Peers,
    target: u64,
    node: Member,
    lane: Lane,
    held: Arc<Held>,
}

/// What a follower has acknowledged to one leader.
#[derive(Debug, Default)]
struct Held {
    /// The highest index, or 0.
    upto: AtomicU64,
    complained: AtomicBool,
}

impl Held {
    /// Refuses the answer of a follower that has lost what it acknowledged. openraft would end this leader
    /// instead, and with it the service of everybody.
    fn check(&self, node: u64, result: &StreamAppendResult<TypeConfig>) -> Result<(), Error> {
        let conflict = match result {
            Ok(last) => {
                let index = last.as_ref().map_or(0, |last| last.index);
                self.upto.fetch_max(index, Ordering::AcqRel);
                return Ok(());
            }
            Err(StreamAppendError::Conflict(conflict)) => conflict.index,
            Err(StreamAppendError::HigherVote(_)) => return Ok(()),
        };
        let upto = self.upto.load(Ordering::Acquire);
        if conflict > upto || upto == 0 { Ok(()) } else { Err(self.complain(node, conflict)) }
    }

    fn complain(&self, node: u64, missing: u64) -> Error {
        if !self.complained.swap(true, Ordering::AcqRel) {
            tracing::error!(
                node,
                missing,
                "a member has lost log entries that it had acknowledged: was its folder set back? It is \
                 sent nothing any more; stop it, and bring it back with an empty folder under a new node id"
            );
        }
        unreachable(format!("node {node} has lost entry {missing}, which it acknowledged"))
    }
}

impl Connection {
    fn client(&self) -> Result<Client, Error> {
        self.peers.client(self.target, Some(&self.node), self.lane).map_err(unreachable)
    }

    async fn call<T, F>(
        &self,
        option: &RPCOption,
        call: impl FnOnce(Client) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<tonic::Response<T>, tonic::Status>>,
    {
        let call = self.peers.call(self.target, Some(&self.node), call);
        match tokio::time::timeout(option.hard_ttl(), call).await {
            Ok(result) => result.map_err(unreachable),
            Err(_) => {
                Err(unreachable(format!("no answer within {} ms", option.hard_ttl().as_millis())))
            }
        }
    }

    /// Asks for a vote by one of the two calls for it.
    async fn ask_vote<F>(
        &self,
        option: &RPCOption,
        request: &VoteRequest<TypeConfig>,
        call: impl FnOnce(Client, proto::VoteRequest) -> F,
    ) -> Result<VoteResponse<TypeConfig>, Error>
    where
        F: Future<Output = Result<tonic::Response<proto::VoteResponse>, tonic::Status>>,
    {
        let request = wire::vote_request_to(request);
        let response = self.call(option, |client| call(client, request)).await?;
        wire::vote_response_from(&response).map_err(unreachable)
    }

    fn lost(&self) -> Error {
        unreachable(format!(
            "the network between node {} and node {} is cut",
            self.peers.shared.node_id, self.target
        ))
    }

    /// Opens the stream of appends.
    async fn pipeline<S>(
        &self,
        mut input: S,
    ) -> Result<BoxStream<'static, Result<StreamAppendResult<TypeConfig>, Error>>, Error>
    where
        S: Stream<Item = AppendEntriesRequest<TypeConfig>> + Send + Unpin + 'static,
    {
        let (from, to) = (self.peers.shared.node_id, self.target);
        let faults = self.peers.shared.faults.clone();
        // openraft waits here after a failure, so the stream is opened only for a request.
        let Some(first) = input.next().await else {
            return Ok(Box::pin(futures::stream::empty()));
        };
        if faults.is_cut(from, to) {
            return Err(self.lost());
        }
        // openraft ends the input to start over. Whatever else ends the answers is a failure.
        let done = Arc::new(AtomicBool::new(false));
        let end_of_input = Arc::clone(&done);
        let end = futures::stream::poll_fn(move |_| {
            end_of_input.store(true, Ordering::Release);
            Poll::Ready(None)
        });
        let requests = futures::stream::once(std::future::ready(first))
            .chain(input)
            .map(|request| wire::append_to(&request))
            .chain(end);
        let requests = delayed(requests, faults.clone(), from, to)
            .take_until(Box::pin(faults.clone().until_cut(from, to)));
        let responses = self
            .client()?
            .append(requests)
            .await
            .map_err(|status| unreachable(describe(&status)))?;
        let held = Arc::clone(&self.held);
        let answers = responses.into_inner().map(move |response| {
            let response = response.map_err(|status| unreachable(describe(&status)))?;
            let result = wire::append_result_from(response).map_err(unreachable)?;
            held.check(to, &result)?;
            Ok(result)
        });
        let ended = unreachable(format!("node {to} ended the stream of appends"));
        let end =
            futures::stream::once(
                async move { (!done.load(Ordering::Acquire)).then_some(Err(ended)) },
            )
            .filter_map(std::future::ready);
        let answers = delayed(answers, faults.clone(), to, from)
            .take_until(Box::pin(faults.until_cut(from, to)))
            .chain(end);
        Ok(Box::pin(answers))
    }

    async fn send_snapshot(
        &self,
        vote: Vote,
        snapshot: SnapshotDir,
    ) -> Result<SnapshotResponse<TypeConfig>, Error> {
        let (from, to) = (self.peers.shared.node_id, self.target);
        let faults = self.peers.shared.faults.clone();
        if faults.is_cut(from, to) {
            return Err(self.lost());
        }
        let (parts, queue) = tokio::sync::mpsc::channel(PARTS_AHEAD);
        let header = proto::SnapshotHeader {
            vote: Some(wire::vote_to(&vote)),
            manifest: Some(snapshot.manifest().clone()),
        };
        let part = |part| proto::SnapshotPart { part: Some(part) };
        let header = part(proto::snapshot_part::Part::Header(header));
        let reader = runtime::spawn(async move {
            let mut wanted = parts.send(header).await.is_ok();
            let mut reader = snapshot.reader();
            while wanted {
                let read = runtime::blocking(move || {
                    let data = reader.next_part();
                    (data, reader)
                });
                let data;
                (data, reader) = read.await.map_err(|error| error.to_string())?;
                let Some(data) = data.map_err(|error| error.to_string())? else { break };
                let data = proto::snapshot_part::Part::Data(data.into());
                wanted = parts.send(part(data)).await.is_ok();
            }
            Ok::<_, String>(())
        });
        let queue = tokio_stream::wrappers::ReceiverStream::new(queue);
        let stream = delayed(queue, faults.clone(), from, to)
            .take_until(Box::pin(faults.clone().until_cut(from, to)));
        let sent = self.client()?.install_snapshot(stream).await;
        // The peer notices a file that could not be read as one that ends early.
        match reader.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(unreachable(format!("send a snapshot: {error}"))),
            Err(error) => return Err(unreachable(format!("send a snapshot: {error}"))),
        }
        let response = sent.map_err(|status| unreachable(describe(&status)))?.into_inner();
        if faults.is_cut(from, to) {
            return Err(self.lost());
        }
        let vote = wire::required_vote(response.vote.as_ref()).map_err(unreachable)?;
        Ok(SnapshotResponse::new(vote))
    }
}

impl RaftNetworkV2<TypeConfig> for Connection {
    type SnapshotData = SnapshotDir;

    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<TypeConfig>, Error> {
        let acknowledged = request.prev_log_id.as_ref().map_or(0, |id| id.index);
        let request = wire::append_to(&request);
        let response =
            self.call(&option, |mut client| async move { client.heartbeat(request).await }).await?;
        let response = wire::append_response_from(response).map_err(unreachable)?;
        // A heartbeat comes after an entry that the follower has acknowledged.
        if matches!(response, AppendEntriesResponse::Conflict) {
            return Err(self.held.complain(self.target, acknowledged));
        }
        Ok(response)
    }

    fn stream_append<'s, S>(
        &'s mut self,
        input: S,
        option: RPCOption,
    ) -> BoxFuture<'s, Result<BoxStream<'s, Result<StreamAppendResult<TypeConfig>, Error>>, Error>>
    where
        S: Stream<Item = AppendEntriesRequest<TypeConfig>> + Send + Unpin + 'static,
    {
        match self.lane {
            Lane::Control | Lane::Snapshot => stream_append_sequential(self, input, option),
            Lane::Bulk => Box::pin(async move {
                let answers: BoxStream<'s, _> = self.pipeline(input).await?;
                Ok(answers)
            }),
        }
    }

    async fn vote(
        &mut self,
        request: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, Error> {
        self.ask_vote(
            &option,
            &request,
            |mut client, request| async move { client.vote(request).await },
        )
        .await
    }

    async fn pre_vote(
        &mut self,
        request: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, Error> {
        self.ask_vote(&option, &request, |mut client, request| async move {
            client.pre_vote(request).await
        })
        .await
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot,
        cancel: impl Future<Output = ReplicationClosed> + Send + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<TypeConfig>, StreamingError<TypeConfig>> {
        tokio::select! {
            biased;
            closed = cancel => Err(StreamingError::Closed(closed)),
            sent = self.send_snapshot(vote, snapshot.snapshot) => Ok(sent?),
        }
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<Result<(), TransferLeaderError<TypeConfig>>, Error> {
        let message = proto::TransferLeaderRequest {
            from_leader: Some(wire::vote_to(request.from_leader())),
            to_node_id: *request.to_node_id(),
            last_log_id: request.last_log_id().map(wire::log_id_to),
        };
        let response: proto::TransferLeaderResponse = self
            .call(&option, |mut client| async move { client.transfer_leader(message).await })
            .await?;
        if response.refused.is_empty() { Ok(Ok(())) } else { Err(unreachable(response.refused)) }
    }
}
