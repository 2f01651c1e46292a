//! `ClaimService`: the right to act on an intent.

use std::sync::Arc;
use std::time::Duration;

use firstclaim_core::command::Claim;
use firstclaim_core::{Command, Millis, RecordId, RecordRef, Store as _};
use firstclaim_proto::convert::{claim, dispatch, holder, record, reserve, settle, time};
use firstclaim_proto::v1;
use firstclaim_proto::v1::claim_service_server::ClaimService;
use futures::FutureExt as _;
use prost::Message as _;
use tokio::time::Instant;
use tonic::{Request, Response, Status};

use super::{batch, carry_out, namespace_of};
use crate::call::Call;
use crate::node::{Fail, Method, Node};
use crate::rate::Limit;
use crate::status::Failure;
use crate::{claiming, edge, waiting};

macro_rules! method {
    ($name:literal) => {
        Method { name: $name, path: concat!("/firstclaim.v1.ClaimService/", $name) }
    };
}

const CLAIM: Method = method!("Claim");
const RENEW: Method = method!("Renew");
const COMPLETE: Method = method!("Complete");
const RELEASE: Method = method!("Release");
const GET: Method = method!("Get");
const CLAIM_BATCH: Method = method!("ClaimBatch");
const COMPLETE_BATCH: Method = method!("CompleteBatch");
const RECORD_EFFECT: Method = method!("RecordEffect");
const SETTLE_EFFECT: Method = method!("SettleEffect");
const RESERVE: Method = method!("Reserve");

/// The service.
#[derive(Clone, Debug)]
pub(crate) struct Claims(pub(crate) Arc<Node>);

#[tonic::async_trait]
impl ClaimService for Claims {
    async fn claim(
        &self,
        request: Request<v1::ClaimRequest>,
    ) -> Result<Response<v1::ClaimResponse>, Status> {
        let node = &self.0;
        node.serve(CLAIM, request, |call, message| answer_claim(node, call, message)).await
    }

    async fn renew(
        &self,
        request: Request<v1::RenewRequest>,
    ) -> Result<Response<v1::RenewResponse>, Status> {
        let node = &self.0;
        node.serve(RENEW, request, async |call, message| {
            let read = |message| holder::read_renew(message).map(Command::Renew);
            let encode = |answer, store_time| holder::renew_response(&answer, store_time);
            carry_out(node, RENEW, (call, message), read, encode).await
        })
        .await
    }

    async fn complete(
        &self,
        request: Request<v1::CompleteRequest>,
    ) -> Result<Response<v1::CompleteResponse>, Status> {
        let node = &self.0;
        node.serve(COMPLETE, request, async |call, message| {
            let read = |message| holder::read_complete(message).map(Command::Complete);
            carry_out(node, COMPLETE, (call, message), read, holder::complete_response).await
        })
        .await
    }

    async fn release(
        &self,
        request: Request<v1::ReleaseRequest>,
    ) -> Result<Response<v1::ReleaseResponse>, Status> {
        let node = &self.0;
        node.serve(RELEASE, request, async |call, message| {
            let read = |message| holder::read_release(message).map(Command::Release);
            let encode = |answer, store_time| holder::release_response(&answer, store_time);
            carry_out(node, RELEASE, (call, message), read, encode).await
        })
        .await
    }

    async fn get(
        &self,
        request: Request<v1::GetRequest>,
    ) -> Result<Response<v1::GetResponse>, Status> {
        let node = &self.0;
        node.serve(GET, request, async |call, message| {
            let (name, consistency) = record::read_get(message)?;
            if consistency != v1::Consistency::Local {
                node.linearize(&call).await?;
            }
            get(node, &name)
        })
        .await
    }

    async fn claim_batch(
        &self,
        request: Request<v1::ClaimBatchRequest>,
    ) -> Result<Response<v1::ClaimBatchResponse>, Status> {
        let node = &self.0;
        node.serve(CLAIM_BATCH, request, async |call, message| {
            batch::claims(node, CLAIM_BATCH, &call, message).await
        })
        .await
    }

    async fn complete_batch(
        &self,
        request: Request<v1::CompleteBatchRequest>,
    ) -> Result<Response<v1::CompleteBatchResponse>, Status> {
        let node = &self.0;
        node.serve(COMPLETE_BATCH, request, async |call, message| {
            batch::completions(node, COMPLETE_BATCH, &call, message).await
        })
        .await
    }

    async fn record_effect(
        &self,
        request: Request<v1::RecordEffectRequest>,
    ) -> Result<Response<v1::RecordEffectResponse>, Status> {
        let node = &self.0;
        node.serve(RECORD_EFFECT, request, async |call, message| {
            let read = |message| dispatch::read_record_effect(message).map(Command::RecordEffect);
            let encode = |answer, store_time| dispatch::record_effect_response(&answer, store_time);
            carry_out(node, RECORD_EFFECT, (call, message), read, encode).await
        })
        .await
    }

    async fn settle_effect(
        &self,
        request: Request<v1::SettleEffectRequest>,
    ) -> Result<Response<v1::SettleEffectResponse>, Status> {
        let node = &self.0;
        node.serve(SETTLE_EFFECT, request, async |call, message| {
            let read = |message| settle::read(message).map(Command::SettleEffect);
            let encode = |answer, store_time| settle::response(&answer, store_time);
            carry_out(node, SETTLE_EFFECT, (call, message), read, encode).await
        })
        .await
    }

    async fn reserve(
        &self,
        request: Request<v1::ReserveRequest>,
    ) -> Result<Response<v1::ReserveResponse>, Status> {
        let node = &self.0;
        node.serve(RESERVE, request, async |call, message| {
            if node.replica.is_leader() {
                let asked = reserve::read(message.clone())?;
                let limit = edge::limit(&node.replica, &asked.record).map_err(|error| {
                    tracing::error!(%error, "the state cannot be read");
                    Failure::internal("read its state")
                })?;
                claiming::admit(node, &asked.record, limit)?;
            }
            let read = |message| reserve::read(message).map(Command::Reserve);
            carry_out(node, RESERVE, (call, message), read, reserve::response).await
        })
        .await
    }
}

async fn answer_claim(
    node: &Node,
    mut call: Call,
    message: v1::ClaimRequest,
) -> Result<Response<v1::ClaimResponse>, Fail> {
    let bytes = message.encoded_len();
    // The message itself is needed again only where the claim goes to the leader. It never waits
    // there: the node that was asked does.
    let forward = !node.replica.is_leader() || message.wait.is_some();
    let kept = forward.then(|| v1::ClaimRequest { wait: None, ..message.clone() });
    let claim::Asked { claim: asked, wait } = claim::read(message, call.region(&node.region))?;
    let (replayed, limit) = claiming::look(node, &asked)?;
    if let Some(response) = replayed {
        return Ok(Response::new(response));
    }
    if wait == Millis(0) || call.forwarded {
        let claim = Once { claim: asked, message: kept, bytes, limit };
        return claim.decide(node, &call).await.map(Response::new);
    }
    let wait = Duration::from_millis(wait.0);
    call.allow(wait);
    let give_up = (Instant::now() + wait).min(call.deadline);
    let once = || once_more(node, &call, &asked, (kept.as_ref(), bytes)).boxed();
    waiting::decide(node, &asked, give_up, once).await.map(Response::new)
}

/// Has a claim that waits decided once more.
async fn once_more(
    node: &Node,
    call: &Call,
    asked: &Claim,
    (message, bytes): (Option<&v1::ClaimRequest>, usize),
) -> Result<v1::ClaimResponse, Fail> {
    let (replayed, limit) = claiming::look(node, asked)?;
    if let Some(response) = replayed {
        return Ok(response);
    }
    let once = Once { claim: asked.clone(), message: message.cloned(), bytes, limit };
    once.decide(node, call).await
}

/// A claim that this node cannot answer from its own state.
struct Once {
    claim: Claim,
    /// As it goes to the leader; none if this node led when it came.
    message: Option<v1::ClaimRequest>,
    bytes: usize,
    limit: Option<Limit>,
}

impl Once {
    async fn decide(self, node: &Node, call: &Call) -> Result<v1::ClaimResponse, Fail> {
        if let Some(message) = self.message.filter(|_| !node.replica.is_leader()) {
            return node.forward(CLAIM, call, message).await.map(Response::into_inner);
        }
        claiming::admit(node, &self.claim.record, self.limit)?;
        claiming::decide(node, call, self.claim, self.bytes).await
    }
}

fn get(node: &Node, name: &RecordRef) -> Result<Response<v1::GetResponse>, Fail> {
    let (applied_index, (clock, record)) = node.read(|state| {
        let clock = state.cluster()?.clock;
        let (_, namespace) = match namespace_of(state, &name.tenant, &name.namespace)? {
            Ok(found) => found,
            Err(refusal) => return Ok((clock, Err(refusal))),
        };
        let id = RecordId { namespace: namespace.id, key: name.key.clone() };
        let record = state.record(&id)?;
        Ok((clock, Ok(record)))
    })?;
    let record = record.map_err(|refusal| Failure::not_found(&refusal))?;
    let shown = record.as_ref().and_then(|record| record::record(name, record, &clock));
    let Some(shown) = shown else { return Err(Failure::record_not_found(clock.now()).into()) };
    Ok(Response::new(v1::GetResponse {
        record: Some(shown),
        applied_index,
        store_time: Some(time::timestamp(clock.now())),
    }))
}
