//! How calls travel between replicas: the seam to the network.
//!
//! gRPC over TCP. A simulator carries the same calls, byte by byte, without it.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use firstclaim_core::limits::PEER_MESSAGE_BYTES_MAX;
use firstclaim_proto::peer::v1::peer_service_server::PeerServiceServer;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::transport::Endpoint;
use tonic::transport::server::TcpIncoming;

use crate::limits::PEER_WINDOW_BYTES;
use crate::network::Route;
use crate::peer::Peer;

/// A connection to a peer, which is made when it is needed and again when it is lost.
pub(crate) type Channel = tonic::transport::Channel;

/// A connection that is made once it is used. After such a silence it counts as lost.
pub(crate) fn connect(route: Route, addr: &str, silence: Duration) -> Result<Channel, String> {
    let endpoint = Endpoint::from_shared(format!("http://{addr}"))
        .map_err(|error| format!("the address {addr:?} of node {}: {error}", route.to))?
        .connect_timeout(silence)
        .initial_stream_window_size(PEER_WINDOW_BYTES)
        .initial_connection_window_size(PEER_WINDOW_BYTES)
        // A peer that died without a word is noticed by its silence.
        .http2_keep_alive_interval(silence)
        .keep_alive_timeout(silence)
        .keep_alive_while_idle(true)
        .tcp_nodelay(true);
    Ok(endpoint.connect_lazy())
}

/// Where the other replicas call.
pub(crate) struct Listener {
    socket: TcpListener,
    addr: SocketAddr,
}

impl Listener {
    pub(crate) async fn bind(addr: SocketAddr) -> io::Result<Self> {
        let socket = TcpListener::bind(addr).await?;
        let addr = socket.local_addr()?;
        Ok(Self { socket, addr })
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Answers calls until the token is cancelled.
    pub(crate) async fn serve(
        self,
        service: Peer,
        silence: Duration,
        stopping: CancellationToken,
    ) -> Result<(), String> {
        let service = PeerServiceServer::new(service)
            .max_decoding_message_size(PEER_MESSAGE_BYTES_MAX)
            .max_encoding_message_size(PEER_MESSAGE_BYTES_MAX);
        tonic::transport::Server::builder()
            .initial_stream_window_size(PEER_WINDOW_BYTES)
            .initial_connection_window_size(PEER_WINDOW_BYTES)
            .http2_keepalive_interval(Some(silence))
            .http2_keepalive_timeout(Some(silence))
            .add_service(service)
            .serve_with_incoming_shutdown(
                TcpIncoming::from(self.socket).with_nodelay(Some(true)),
                stopping.cancelled_owned(),
            )
            .await
            .map_err(|error| error.to_string())
    }
}
