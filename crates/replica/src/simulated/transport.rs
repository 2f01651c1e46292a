//! How calls travel between simulated replicas: as HTTP messages that the world carries.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use firstclaim_core::limits::PEER_MESSAGE_BYTES_MAX;
use firstclaim_proto::peer::v1::peer_service_server::PeerServiceServer;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};

use crate::network::{self, Route};
use crate::peer::Peer;
use crate::runtime::Process;

/// A request of one replica to another.
pub type Request = http::Request<Body>;
/// Its answer.
pub type Response = http::Response<Body>;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// Heartbeats, votes, questions: each call has one request message and one answer.
    Control,
    /// Appends, as a stream in both directions.
    Bulk,
    /// Snapshots, as a stream to the peer.
    Snapshot,
}

/// Who calls whom.
#[derive(Clone, Debug)]
pub struct Call {
    /// The caller.
    pub from: u64,
    /// Who is called.
    pub to: u64,
    /// By which connection.
    pub lane: Lane,
    /// After such a silence a connection counts as lost.
    pub silence: Duration,
    /// Whose tasks send the request.
    pub caller: Process,
}

/// Answers requests, in tasks of its process.
#[derive(Clone)]
pub struct Answering {
    process: Process,
    service: PeerServiceServer<Peer>,
}

impl fmt::Debug for Answering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Answering").field(&self.process).finish()
    }
}

impl Answering {
    /// Whose tasks answer.
    #[must_use]
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Answers a request.
    ///
    /// # Errors
    ///
    /// If the process ends before there is an answer.
    pub async fn answer(&self, request: Request) -> Result<Response, Status> {
        let mut service = self.service.clone();
        let answer = self.process.run(async move { service.call(request).await }).await;
        let Ok(answer) = answer.map_err(|_ended| Status::unavailable("the process has ended"))?;
        Ok(answer)
    }
}

/// The way to a peer.
#[derive(Clone, Debug)]
pub(crate) struct Channel(Call);

pub(crate) fn connect(route: Route, _addr: &str, silence: Duration) -> Result<Channel, String> {
    let Route { from, to, lane } = route;
    let lane = match lane {
        network::Lane::Control => Lane::Control,
        network::Lane::Bulk => Lane::Bulk,
        network::Lane::Snapshot => Lane::Snapshot,
    };
    Ok(Channel(Call { from, to, lane, silence, caller: Process::current() }))
}

impl Service<Request> for Channel {
    type Response = Response;
    type Error = Status;
    type Future = BoxFuture<Response, Status>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        self.0.caller.world().call(self.0.clone(), request)
    }
}

/// Where the other replicas call.
pub(crate) struct Listener {
    addr: SocketAddr,
}

impl Listener {
    pub(crate) async fn bind(addr: SocketAddr) -> io::Result<Self> {
        Ok(Self { addr })
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub(crate) async fn serve(
        self,
        service: Peer,
        _silence: Duration,
        stopping: CancellationToken,
    ) -> Result<(), String> {
        let service = PeerServiceServer::new(service)
            .max_decoding_message_size(PEER_MESSAGE_BYTES_MAX)
            .max_encoding_message_size(PEER_MESSAGE_BYTES_MAX);
        let process = Process::current();
        let (node, world) = (process.node(), Arc::clone(process.world()));
        world.listen(node, Some(Answering { process, service }));
        stopping.cancelled().await;
        world.listen(node, None);
        Ok(())
    }
}
