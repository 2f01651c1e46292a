//! `ClaimService`: the right to act on an intent.

use std::sync::Arc;

use firstclaim_core::outcome::{AcquiredKind, Pending};
use firstclaim_core::{Answer, Command, Millis, RecordId, RecordRef, Refusal, Slot, Store as _};
use firstclaim_proto::convert::{claim, holder, record, time};
use firstclaim_proto::v1;
use firstclaim_proto::v1::claim_service_server::ClaimService;
use prost::Message as _;
use rand::Rng as _;
use tonic::{Request, Response, Status};

use super::decided;
use crate::call::Call;
use crate::local_replay;
use crate::metrics::ReplayPath;
use crate::node::{Fail, Method, Node, Written};
use crate::status::Failure;
use crate::telemetry::key_digest;

const CLAIM: Method = Method { name: "Claim", path: "/firstclaim.v1.ClaimService/Claim" };
const RENEW: Method = Method { name: "Renew", path: "/firstclaim.v1.ClaimService/Renew" };
const COMPLETE: Method = Method { name: "Complete", path: "/firstclaim.v1.ClaimService/Complete" };
const RELEASE: Method = Method { name: "Release", path: "/firstclaim.v1.ClaimService/Release" };
const GET: Method = Method { name: "Get", path: "/firstclaim.v1.ClaimService/Get" };

/// Spreads those who wait for one claim, so that they do not come back at once.
const JITTER_MAX: Millis = Millis(500);

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
            match node.write(RENEW, &call, message, read).await? {
                Written::There(response) => Ok(response),
                Written::Here(outcome) => {
                    let (answer, store_time) = decided(*outcome)?;
                    Ok(Response::new(holder::renew_response(&answer, store_time)?))
                }
            }
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
            match node.write(COMPLETE, &call, message, read).await? {
                Written::There(response) => Ok(response),
                Written::Here(outcome) => {
                    let (answer, store_time) = decided(*outcome)?;
                    Ok(Response::new(holder::complete_response(answer, store_time)?))
                }
            }
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
            match node.write(RELEASE, &call, message, read).await? {
                Written::There(response) => Ok(response),
                Written::Here(outcome) => {
                    let (answer, store_time) = decided(*outcome)?;
                    Ok(Response::new(holder::release_response(&answer, store_time)?))
                }
            }
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
}

async fn answer_claim(
    node: &Node,
    call: Call,
    message: v1::ClaimRequest,
) -> Result<Response<v1::ClaimResponse>, Fail> {
    let bytes = message.encoded_len();
    // The message itself is needed again only where the claim goes to the leader as it came.
    let kept = (!node.replica.is_leader()).then(|| message.clone());
    let asked = claim::read(message)?;
    let replayed = local_replay::answer(&node.replica, &asked).map_err(|error| {
        tracing::error!(%error, "the state cannot be read");
        Failure::internal("read its state")
    })?;
    if let Some((replay, store_time)) = replayed {
        node.metrics.replay(ReplayPath::Local);
        let answer = Answer::Replay(Box::new(replay));
        note(node, &asked.record, &answer, ReplayPath::Local);
        return Ok(Response::new(claim::response(answer, store_time)?));
    }
    if let Some(message) = kept {
        return node.forward(CLAIM, &call, message).await;
    }
    let (record, command) = (asked.record.clone(), Command::Claim(asked));
    let (mut answer, store_time) = decided(node.submit(&call, command, bytes).await?)?;
    note(node, &record, &answer, ReplayPath::Log);
    if let Answer::Pending(pending) = &mut answer {
        spread(pending);
    } else if matches!(answer, Answer::Replay(_)) {
        node.metrics.replay(ReplayPath::Log);
    }
    Ok(Response::new(claim::response(answer, store_time)?))
}

/// Counts and logs what a claim came to. A duplicate that was stopped is what this program is for.
fn note(node: &Node, record: &RecordRef, answer: &Answer, path: ReplayPath) {
    let outcome = outcome_name(answer);
    node.metrics.claim(outcome);
    let key_digest = key_digest(record);
    let region = node.config.region();
    let namespace = record.namespace.as_str();
    if matches!(answer, Answer::Replay(_) | Answer::Pending(_) | Answer::Unresolved(_)) {
        tracing::debug!(namespace, key_digest, region, outcome, ?path, "duplicate, skipped");
    } else {
        tracing::debug!(namespace, key_digest, region, outcome, "claim");
    }
}

fn outcome_name(answer: &Answer) -> &'static str {
    match answer {
        Answer::Acquired(acquired) => match acquired.kind {
            AcquiredKind::First => "first",
            AcquiredKind::AlreadyHeld => "already_held",
            AcquiredKind::Recovery => "recovery",
            AcquiredKind::Takeover => "takeover",
            AcquiredKind::Retry => "retry",
            AcquiredKind::Rebound => "rebound",
        },
        Answer::Replay(_) => "replay",
        Answer::Pending(_) => "pending",
        Answer::Unresolved(_) => "unresolved",
        Answer::Renewed(_)
        | Answer::Completed(_)
        | Answer::Released(_)
        | Answer::Tenant(_)
        | Answer::Namespace(_)
        | Answer::Deleted(_)
        | Answer::Swept(_)
        | Answer::Ticked => "other",
    }
}

/// Adds to the wait, never takes from it: who comes early only waits again.
fn spread(pending: &mut Pending) {
    let most = JITTER_MAX.0.min(pending.retry_after.0 / 4 + 50);
    let jitter = Millis(rand::rng().random_range(0..=most));
    pending.retry_after = pending.retry_after.plus(jitter);
}

fn get(node: &Node, name: &RecordRef) -> Result<Response<v1::GetResponse>, Fail> {
    let (applied_index, found) = node.read(|state| {
        let clock = state.cluster()?.clock;
        let Some(Slot::Live(_)) = state.tenant(&name.tenant)? else {
            return Ok((clock, Err(Refusal::TenantNotFound)));
        };
        let Some(Slot::Live(namespace)) = state.namespace(&name.tenant, &name.namespace)? else {
            return Ok((clock, Err(Refusal::NamespaceNotFound)));
        };
        let id = RecordId { namespace: namespace.id, key: name.key.clone() };
        let record = state.record(&id)?;
        Ok((clock, Ok(record)))
    })?;
    let (clock, record) = found;
    let record = record.map_err(|refusal| Failure::not_found(&refusal))?;
    let shown = record.as_ref().and_then(|record| record::record(name, record, &clock));
    let Some(shown) = shown else { return Err(Failure::record_not_found(clock.now()).into()) };
    Ok(Response::new(v1::GetResponse {
        record: Some(shown),
        applied_index,
        store_time: Some(time::timestamp(clock.now())),
    }))
}

#[cfg(test)]
mod tests {
    use firstclaim_core::outcome::PendingReason;
    use firstclaim_core::{Epoch, Timestamp};

    use super::*;

    #[test]
    fn jitter_never_shortens_a_wait() {
        for _ in 0..200 {
            let mut pending = Pending {
                reason: PendingReason::Held,
                holder: None,
                until: Timestamp(1000),
                retry_after: Millis(700),
                epoch: Epoch(1),
            };
            spread(&mut pending);
            assert!((700..=700 + 225).contains(&pending.retry_after.0), "{pending:?}");
        }
    }
}
