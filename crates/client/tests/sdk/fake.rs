//! A firstclaim node that answers from a script, over real loopback gRPC.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use firstclaim_client::v1;
use firstclaim_client::v1::claim_service_server::{ClaimService, ClaimServiceServer};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic::{Code, Request, Response, Status};
use tonic_types::{ErrorDetails, StatusExt};

/// What the node does with one call.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Answers as if all went well.
    Grant {
        epoch: u64,
        lease: Duration,
    },
    /// The grant again, with what is left of it.
    Held {
        epoch: u64,
        left: Duration,
    },
    Replay(&'static str),
    Pending(Duration),
    Unresolved,
    /// Fails with a reason.
    Fail {
        reason: &'static str,
        applied: &'static str,
        leader: Option<String>,
    },
    /// Takes effect, as far as anybody knows, but never answers in time.
    Silence,
    /// Fails in a way that no node would: as a proxy, or a broken transport.
    Garbled,
}

/// A call as the node saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) call: &'static str,
    pub(crate) attempt_id: String,
    pub(crate) epoch: u64,
}

#[derive(Clone, Default)]
pub(crate) struct Node {
    script: Arc<Mutex<VecDeque<Step>>>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

/// A node that listens; it stops when this is dropped.
pub(crate) struct Running {
    pub(crate) node: Node,
    pub(crate) address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Running {
    pub(crate) fn endpoint(&self) -> String {
        self.address.to_string()
    }
}

/// Starts a node with a script. When the script is over it grants, renews and completes.
pub(crate) async fn start(script: impl IntoIterator<Item = Step>) -> Running {
    let node =
        Node { script: Arc::new(Mutex::new(script.into_iter().collect())), ..Node::default() };
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::builder()
        .add_service(ClaimServiceServer::new(node.clone()))
        .serve_with_incoming(TcpListenerStream::new(listener));
    let task = tokio::spawn(async move { server.await.unwrap() });
    Running { node, address, task }
}

/// An address at which nobody listens.
pub(crate) async fn nobody() -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    listener.local_addr().unwrap().to_string()
}

impl Node {
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub(crate) fn calls(&self, call: &str) -> usize {
        self.seen().iter().filter(|seen| seen.call == call).count()
    }

    /// Notes the call and returns the next step, if the script has one.
    async fn next(
        &self,
        call: &'static str,
        attempt_id: &str,
        epoch: u64,
    ) -> Result<Option<Step>, Status> {
        let seen = Seen { call, attempt_id: attempt_id.to_owned(), epoch };
        self.seen.lock().unwrap().push(seen);
        let step = self.script.lock().unwrap().pop_front();
        match step {
            Some(Step::Fail { reason, applied, leader }) => Err(failure(reason, applied, leader)),
            Some(Step::Garbled) => Err(Status::unavailable("502 bad gateway")),
            Some(Step::Silence) => {
                tokio::time::sleep(Duration::from_secs(60)).await;
                Err(Status::internal("nobody waits for this any more"))
            }
            step => Ok(step),
        }
    }
}

fn failure(reason: &str, applied: &str, leader: Option<String>) -> Status {
    let said = ("applied".to_owned(), applied.to_owned());
    let mut details = ErrorDetails::new();
    match leader {
        Some(leader) => {
            let hint = ("leader_endpoint".to_owned(), leader);
            details.set_error_info(reason, "firstclaim", [said, hint]);
        }
        None => {
            details.set_error_info(reason, "firstclaim", [said]);
        }
    }
    let code = if applied == "decided" { Code::Aborted } else { Code::Unavailable };
    Status::with_error_details(code, format!("scripted {reason}"), details)
}

fn at(millis: u64) -> Option<prost_types::Timestamp> {
    Some(prost_types::Timestamp {
        seconds: i64::try_from(millis / 1000).unwrap(),
        nanos: i32::try_from(millis % 1000).unwrap() * 1_000_000,
    })
}

/// The store's time in all answers: what counts is the difference.
const NOW: u64 = 1_000_000;

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap()
}

fn acquired(kind: v1::AcquiredKind, epoch: u64, lease: Duration) -> v1::claim_response::Outcome {
    v1::claim_response::Outcome::Acquired(v1::Acquired {
        kind: kind.into(),
        epoch,
        mode: v1::Mode::Execute.into(),
        lease_expire_time: at(NOW + millis(lease)),
        safe_to_dispatch_until: at(NOW + millis(lease)),
        ..v1::Acquired::default()
    })
}

fn replay(text: &str) -> v1::Replay {
    let result = v1::Result {
        content_type: "text/plain".to_owned(),
        body: Some(v1::result::Body::Inline(text.as_bytes().to_vec())),
        ..v1::Result::default()
    };
    let completion = v1::Completion {
        disposition: v1::Disposition::Succeeded.into(),
        result: Some(result),
        ..v1::Completion::default()
    };
    v1::Replay { completion: Some(completion), ..v1::Replay::default() }
}

#[tonic::async_trait]
impl ClaimService for Node {
    async fn claim(
        &self,
        request: Request<v1::ClaimRequest>,
    ) -> Result<Response<v1::ClaimResponse>, Status> {
        use v1::AcquiredKind::{AlreadyHeld, First};
        use v1::claim_response::Outcome;
        let request = request.into_inner();
        let outcome = match self.next("claim", &request.attempt_id, 0).await? {
            Some(Step::Grant { epoch, lease }) => acquired(First, epoch, lease),
            Some(Step::Held { epoch, left }) => acquired(AlreadyHeld, epoch, left),
            Some(Step::Replay(text)) => Outcome::Replay(replay(text)),
            Some(Step::Pending(after)) => Outcome::Pending(v1::Pending {
                retry_after: Some(firstclaim_client::time::to_wire(after)),
                ..v1::Pending::default()
            }),
            Some(Step::Unresolved) => {
                Outcome::Unresolved(v1::Unresolved { epoch: 9, ..v1::Unresolved::default() })
            }
            Some(Step::Fail { .. } | Step::Silence | Step::Garbled) | None => {
                acquired(First, 1, Duration::from_secs(30))
            }
        };
        Ok(Response::new(v1::ClaimResponse { outcome: Some(outcome), store_time: at(NOW) }))
    }

    async fn renew(
        &self,
        request: Request<v1::RenewRequest>,
    ) -> Result<Response<v1::RenewResponse>, Status> {
        let request = request.into_inner();
        let step = self.next("renew", &request.attempt_id, request.epoch).await?;
        let lease = match step {
            Some(Step::Grant { lease, .. }) => lease,
            Some(_) | None => Duration::from_secs(30),
        };
        Ok(Response::new(v1::RenewResponse {
            lease_expire_time: at(NOW + millis(lease)),
            safe_to_dispatch_until: at(NOW + millis(lease)),
            store_time: at(NOW),
            mode: v1::Mode::Execute.into(),
            epoch: request.epoch,
        }))
    }

    async fn complete(
        &self,
        request: Request<v1::CompleteRequest>,
    ) -> Result<Response<v1::CompleteResponse>, Status> {
        let request = request.into_inner();
        self.next("complete", &request.attempt_id, request.epoch).await?;
        let completion =
            v1::Completion { disposition: request.disposition, ..v1::Completion::default() };
        Ok(Response::new(v1::CompleteResponse {
            completion: Some(completion),
            ..v1::CompleteResponse::default()
        }))
    }

    async fn release(
        &self,
        request: Request<v1::ReleaseRequest>,
    ) -> Result<Response<v1::ReleaseResponse>, Status> {
        let request = request.into_inner();
        let call = match request.intent {
            Some(v1::release_request::Intent::Retry(_)) => "release retry",
            Some(v1::release_request::Intent::Unbind(_)) => "release unbind",
            Some(v1::release_request::Intent::Unknown(_)) => "release unknown",
            None => "release",
        };
        self.next(call, &request.attempt_id, request.epoch).await?;
        Ok(Response::new(v1::ReleaseResponse::default()))
    }

    async fn get(
        &self,
        _request: Request<v1::GetRequest>,
    ) -> Result<Response<v1::GetResponse>, Status> {
        self.next("get", "", 0).await?;
        Ok(Response::new(v1::GetResponse::default()))
    }
}
