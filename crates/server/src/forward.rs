//! Sends a call on to the leader, once.
//!
//! A call that was forwarded already goes no further, so a cluster that disagrees about who leads
//! can never pass a call in circles. What matters is what a lost answer means: as long as nothing
//! was sent the call can go anywhere, afterwards only the same call may be repeated.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use firstclaim_core::limits::CLIENT_MESSAGE_BYTES_MAX;
use firstclaim_core::name::Region;
use http::uri::PathAndQuery;
use prost::Message;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{ConnectError, Request, Response, Status};
use tonic_prost::ProstCodec;
use tonic_types::StatusExt as _;

use crate::call::Call;
use crate::metrics::{ForwardEnd, Metrics};
use crate::status::{DOMAIN, Failure, LeaderHint};
use crate::transport::{CONNECTION_WINDOW_BYTES, STREAM_WINDOW_BYTES};

/// How long a connection to the leader may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Leaders whose connections are kept: one at a time leads, a few take turns.
const CHANNELS_MAX: usize = 16;
/// How often an idle connection is tried, so that a dead leader is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// Connections to leaders.
#[derive(Debug)]
pub(crate) struct Forwarder {
    channels: Mutex<BTreeMap<String, Channel>>,
    metrics: Arc<Metrics>,
    /// Where the calls come in that are forwarded.
    region: Region,
}

impl Forwarder {
    pub(crate) fn new(metrics: Arc<Metrics>, region: Region) -> Self {
        Self { channels: Mutex::default(), metrics, region }
    }

    /// Sends `message` to the leader with what is left of the caller's time.
    pub(crate) async fn forward<M, R>(
        &self,
        leader: &LeaderHint,
        path: &'static str,
        call: &Call,
        message: M,
    ) -> Result<Response<R>, Status>
    where
        M: Message + Send + Sync + 'static,
        R: Message + Default + Send + Sync + 'static,
    {
        let (end, result) = self.send(leader, path, call, message).await;
        self.metrics.forward(end);
        result
    }

    async fn send<M, R>(
        &self,
        leader: &LeaderHint,
        path: &'static str,
        call: &Call,
        message: M,
    ) -> (ForwardEnd, Result<Response<R>, Status>)
    where
        M: Message + Send + Sync + 'static,
        R: Message + Default + Send + Sync + 'static,
    {
        let connected = tokio::time::timeout_at(call.deadline, self.connected(leader)).await;
        let mut client = match connected {
            Ok(Ok(client)) => client,
            Ok(Err(error)) => {
                tracing::debug!(leader = leader.endpoint, %error, "the leader cannot be reached");
                return (ForwardEnd::NotSent, Err(not_sent(leader)));
            }
            Err(_elapsed) => {
                let failure = Failure::too_late(call.timeout.as_millis());
                return (ForwardEnd::NotSent, Err(failure.with_leader(Some(leader)).into()));
            }
        };
        let mut request = Request::new(message);
        *request.metadata_mut() = call.metadata(&self.region);
        request.set_timeout(call.remaining());
        let answer =
            client.unary(request, PathAndQuery::from_static(path), ProstCodec::<M, R>::default());
        match tokio::time::timeout_at(call.deadline, answer).await {
            Ok(Ok(response)) => (ForwardEnd::Answered, Ok(response)),
            Ok(Err(status)) => sort(leader, status),
            Err(_elapsed) => (ForwardEnd::Lost, Err(lost(leader, "the leader did not answer"))),
        }
    }

    async fn connected(
        &self,
        leader: &LeaderHint,
    ) -> Result<Grpc<Channel>, Box<dyn Error + Send + Sync>> {
        let channel = match self.pooled(&leader.endpoint) {
            Some(channel) => channel,
            None => {
                let channel = Endpoint::from_shared(leader.endpoint.clone())?
                    .connect_timeout(CONNECT_TIMEOUT)
                    .tcp_nodelay(true)
                    .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
                    .initial_stream_window_size(STREAM_WINDOW_BYTES)
                    .http2_keep_alive_interval(KEEP_ALIVE)
                    .keep_alive_timeout(KEEP_ALIVE)
                    .connect()
                    .await?;
                self.keep(leader.endpoint.clone(), channel)
            }
        };
        let mut client = Grpc::new(channel)
            .max_decoding_message_size(CLIENT_MESSAGE_BYTES_MAX)
            .max_encoding_message_size(CLIENT_MESSAGE_BYTES_MAX);
        client.ready().await?;
        Ok(client)
    }

    fn pooled(&self, endpoint: &str) -> Option<Channel> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner).get(endpoint).cloned()
    }

    fn keep(&self, endpoint: String, channel: Channel) -> Channel {
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        if channels.len() >= CHANNELS_MAX {
            channels.clear();
        }
        channels.entry(endpoint).or_insert(channel).clone()
    }
}

/// Tells the leader's own answer from a failure on the way to it.
fn sort<R>(leader: &LeaderHint, status: Status) -> (ForwardEnd, Result<Response<R>, Status>) {
    let answered = status.get_details_error_info().is_some_and(|info| info.domain == DOMAIN);
    if answered {
        return (ForwardEnd::Answered, Err(status));
    }
    tracing::debug!(leader = leader.endpoint, %status, "a forwarded call has no answer");
    if never_connected(&status) {
        (ForwardEnd::NotSent, Err(not_sent(leader)))
    } else {
        (ForwardEnd::Lost, Err(lost(leader, "the connection to the leader broke")))
    }
}

fn never_connected(status: &Status) -> bool {
    let mut cause = status.source();
    while let Some(error) = cause {
        if error.is::<ConnectError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

fn not_sent(leader: &LeaderHint) -> Status {
    let message = format!(
        "the leader ({}) cannot be reached from here, and nothing was sent; repeat the call, here \
         or at another node",
        leader.region
    );
    Failure::no_leader(&message).with_leader(Some(leader)).into()
}

fn lost(leader: &LeaderHint, why: &str) -> Status {
    Failure::unknown(why).with_leader(Some(leader)).into()
}

#[cfg(test)]
mod tests {
    use firstclaim_proto::v1;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tonic::metadata::MetadataMap;

    use super::*;

    /// The empty SETTINGS frame that a server of HTTP/2 begins with.
    const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];

    async fn send(endpoint: &str) -> (String, String, bool) {
        let leader = LeaderHint { region: "eu-west".to_owned(), endpoint: endpoint.to_owned() };
        let forwarder = Forwarder::new(Metrics::new(), Region::unknown());
        let call = Call::new(&MetadataMap::new());
        let path = "/firstclaim.v1.ClaimService/Renew";
        let answer: Result<Response<v1::RenewResponse>, Status> =
            forwarder.forward(&leader, path, &call, v1::RenewRequest::default()).await;
        let status = answer.expect_err("nobody answers");
        let info = status.get_details_error_info().expect("error info");
        assert_eq!(info.metadata["leader_endpoint"], endpoint);
        let retry = status.get_details_retry_info().is_some();
        (info.reason, info.metadata["applied"].clone(), retry)
    }

    #[tokio::test]
    async fn a_leader_that_cannot_be_reached_has_not_got_the_call() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let endpoint = format!("http://{}", listener.local_addr().expect("bound"));
        drop(listener);
        assert_eq!(send(&endpoint).await, ("NO_LEADER".into(), "no".into(), true));
    }

    #[tokio::test]
    async fn a_leader_that_goes_away_before_it_answers_may_have_got_the_call() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let endpoint = format!("http://{}", listener.local_addr().expect("bound"));
        let leader = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            stream.write_all(&SETTINGS).await.expect("written");
            // Its preface and settings, then the call itself.
            let mut seen = Vec::new();
            while seen.len() < 150 {
                let read = stream.read_buf(&mut seen).await.expect("read");
                if read == 0 {
                    break;
                }
            }
        });
        assert_eq!(send(&endpoint).await, ("OUTCOME_UNKNOWN".into(), "maybe".into(), true));
        leader.await.expect("joined");
    }
}
