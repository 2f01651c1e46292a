//! A firstclaim node that answers from a script, over real loopback gRPC.

mod records;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use firstclaim_client::v1;
use firstclaim_client::v1::claim_service_server::{ClaimService, ClaimServiceServer};
use firstclaim_client::v1::record_service_server::RecordServiceServer;
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
    /// The same as Grant, after so long.
    LateGrant {
        after: Duration,
        lease: Duration,
    },
    /// Answers a claim with exactly that.
    Claimed(Box<v1::claim_response::Outcome>),
    /// Gives a permit that holds so long.
    Permit {
        left: Duration,
    },
    /// Answers a renewal or a settlement as a record with a claim in that mode.
    Mode(v1::Mode),
    /// A renewal of a claim that rose to EXECUTE: what happened before, or did not.
    Risen(Vec<v1::Effect>),
    /// Answers a batch with that many answers; of every item but the first the fate is unknown.
    Items(usize),
    /// Streams records with these revisions, then ends the stream, or breaks it.
    Records {
        revisions: Vec<u64>,
        ends: bool,
    },
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
    claims: Arc<Mutex<Vec<v1::ClaimRequest>>>,
    completions: Arc<Mutex<Vec<v1::CompleteRequest>>>,
    dispatches: Arc<Mutex<Vec<v1::Dispatch>>>,
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
        .add_service(RecordServiceServer::new(node.clone()))
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

    /// The claims as they came.
    pub(crate) fn claims(&self) -> Vec<v1::ClaimRequest> {
        self.claims.lock().unwrap().clone()
    }

    /// The completions as they came.
    pub(crate) fn completions(&self) -> Vec<v1::CompleteRequest> {
        self.completions.lock().unwrap().clone()
    }

    /// The dispatches that leave was asked for.
    pub(crate) fn dispatches(&self) -> Vec<v1::Dispatch> {
        self.dispatches.lock().unwrap().clone()
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

pub(crate) fn at(millis: u64) -> Option<prost_types::Timestamp> {
    Some(prost_types::Timestamp {
        seconds: i64::try_from(millis / 1000).unwrap(),
        nanos: i32::try_from(millis % 1000).unwrap() * 1_000_000,
    })
}

/// The store's time in all answers: what counts is the difference.
pub(crate) const NOW: u64 = 1_000_000;

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap()
}

/// A grant, with leave to send whatever the claim carried.
pub(crate) fn acquired(
    kind: v1::AcquiredKind,
    epoch: u64,
    lease: Duration,
    effects: &[v1::Dispatch],
) -> v1::Acquired {
    let permits = effects.iter().map(|effect| v1::DispatchAnswer {
        outcome: Some(v1::dispatch_answer::Outcome::Permit(permit(effect, epoch, lease))),
    });
    v1::Acquired {
        kind: kind.into(),
        epoch,
        mode: v1::Mode::Execute.into(),
        lease_expire_time: at(NOW + millis(lease)),
        safe_to_dispatch_until: at(NOW + millis(lease)),
        execute_grants: 1,
        dispatches: permits.collect(),
        ..v1::Acquired::default()
    }
}

fn permit(effect: &v1::Dispatch, epoch: u64, left: Duration) -> v1::DispatchPermit {
    v1::DispatchPermit {
        uid: format!("7/{}", effect.effect_id),
        provider_key: effect.provider_key.clone(),
        permit: Some(v1::Permit {
            number: effect.number,
            epoch,
            permit_time: at(NOW),
            not_after: at(NOW + millis(left)),
        }),
        repeated: false,
    }
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
        self.claims.lock().unwrap().push(request.clone());
        let grant =
            |kind, epoch, lease| Outcome::Acquired(acquired(kind, epoch, lease, &request.effects));
        let outcome = match self.next("claim", &request.attempt_id, 0).await? {
            Some(Step::Grant { epoch, lease }) => grant(First, epoch, lease),
            Some(Step::Held { epoch, left }) => grant(AlreadyHeld, epoch, left),
            Some(Step::LateGrant { after, lease }) => {
                tokio::time::sleep(after).await;
                grant(First, 1, lease)
            }
            Some(Step::Claimed(outcome)) => *outcome,
            Some(Step::Replay(text)) => Outcome::Replay(replay(text)),
            Some(Step::Pending(after)) => Outcome::Pending(v1::Pending {
                retry_after: Some(firstclaim_client::time::to_wire(after)),
                ..v1::Pending::default()
            }),
            Some(Step::Unresolved) => {
                Outcome::Unresolved(v1::Unresolved { epoch: 9, ..v1::Unresolved::default() })
            }
            Some(_) | None => grant(First, 1, Duration::from_secs(30)),
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
        let (mode, effects) = match step {
            Some(Step::Mode(mode)) => (mode, Vec::new()),
            Some(Step::Risen(effects)) => (v1::Mode::Execute, effects),
            Some(_) | None => (v1::Mode::Execute, Vec::new()),
        };
        Ok(Response::new(v1::RenewResponse {
            lease_expire_time: at(NOW + millis(lease)),
            safe_to_dispatch_until: at(NOW + millis(lease)),
            store_time: at(NOW),
            mode: mode.into(),
            epoch: request.epoch,
            on_lapse: v1::OnLapse::Recover.into(),
            effects,
        }))
    }

    async fn complete(
        &self,
        request: Request<v1::CompleteRequest>,
    ) -> Result<Response<v1::CompleteResponse>, Status> {
        let request = request.into_inner();
        self.completions.lock().unwrap().push(request.clone());
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

    async fn claim_batch(
        &self,
        request: Request<v1::ClaimBatchRequest>,
    ) -> Result<Response<v1::ClaimBatchResponse>, Status> {
        use v1::claim_batch_item::Outcome;
        let request = request.into_inner();
        let first = request.items.first().map(|item| item.attempt_id.clone()).unwrap_or_default();
        let step = self.next("claim batch", &first, 0).await?;
        let count = if let Some(Step::Items(count)) = step { count } else { request.items.len() };
        let items = (0..count).map(|at| {
            let answer = v1::ClaimResponse { outcome: None, store_time: at_now() };
            let outcome =
                if at == 0 { Outcome::Answer(answer) } else { Outcome::Failure(unknown()) };
            v1::ClaimBatchItem { outcome: Some(outcome) }
        });
        Ok(Response::new(v1::ClaimBatchResponse { items: items.collect() }))
    }

    async fn complete_batch(
        &self,
        request: Request<v1::CompleteBatchRequest>,
    ) -> Result<Response<v1::CompleteBatchResponse>, Status> {
        use v1::complete_batch_item::Outcome;
        let request = request.into_inner();
        let (first, epoch) = request
            .items
            .first()
            .map(|item| (item.attempt_id.clone(), item.epoch))
            .unwrap_or_default();
        let step = self.next("complete batch", &first, epoch).await?;
        let count = if let Some(Step::Items(count)) = step { count } else { request.items.len() };
        let items = (0..count).map(|at| {
            let outcome = if at == 0 {
                Outcome::Answer(v1::CompleteResponse::default())
            } else {
                Outcome::Failure(unknown())
            };
            v1::CompleteBatchItem { outcome: Some(outcome) }
        });
        Ok(Response::new(v1::CompleteBatchResponse { items: items.collect() }))
    }

    async fn record_effect(
        &self,
        request: Request<v1::RecordEffectRequest>,
    ) -> Result<Response<v1::RecordEffectResponse>, Status> {
        let request = request.into_inner();
        let dispatch = request.dispatch.unwrap_or_default();
        self.dispatches.lock().unwrap().push(dispatch.clone());
        let step = self.next("record effect", &request.attempt_id, request.epoch).await?;
        let left = match step {
            Some(Step::Permit { left }) => left,
            Some(_) | None => Duration::from_secs(30),
        };
        let permit = Some(permit(&dispatch, request.epoch, left));
        Ok(Response::new(v1::RecordEffectResponse { permit, store_time: at_now() }))
    }

    async fn settle_effect(
        &self,
        request: Request<v1::SettleEffectRequest>,
    ) -> Result<Response<v1::SettleEffectResponse>, Status> {
        let request = request.into_inner();
        let step = self.next("settle", &request.principal, 0).await?;
        let mode = match step {
            Some(Step::Mode(mode)) => mode,
            Some(_) | None => v1::Mode::Unspecified,
        };
        Ok(Response::new(v1::SettleEffectResponse {
            mode: mode.into(),
            store_time: at_now(),
            ..v1::SettleEffectResponse::default()
        }))
    }

    async fn reserve(
        &self,
        _request: Request<v1::ReserveRequest>,
    ) -> Result<Response<v1::ReserveResponse>, Status> {
        self.next("reserve", "", 0).await?;
        Ok(Response::new(v1::ReserveResponse::default()))
    }
}

fn at_now() -> Option<prost_types::Timestamp> {
    at(NOW)
}

/// An item whose fate is not known.
fn unknown() -> v1::Failure {
    v1::Failure {
        code: 4,
        reason: "OUTCOME_UNKNOWN".to_owned(),
        message: "scripted".to_owned(),
        metadata: [("applied".to_owned(), "maybe".to_owned())].into(),
        retry_after: Some(firstclaim_client::time::to_wire(Duration::from_millis(10))),
    }
}
