//! ClaimBatch and CompleteBatch: many items in few log entries, decided in their order.

use firstclaim_core::command::{Claim, Complete};
use firstclaim_core::limits::{ENTRY_BYTES_MAX, ENTRY_COMMANDS_MAX};
use firstclaim_core::{Command, Outcome};
use firstclaim_proto::convert::{batch, holder};
use firstclaim_proto::v1;
use prost::Message;
use tonic::Response;

use super::decided;
use crate::call::Call;
use crate::claiming;
use crate::node::{Fail, Method, Node, check_size};
use crate::rate::Limit;
use crate::status::{Applied, Failure};

/// An item that the log has to decide: its place in the batch, the bytes of its request, itself.
struct Item<T> {
    at: usize,
    bytes: usize,
    asked: T,
}

/// A claim that the log has to decide, with the limit of its namespace.
type OpenClaim = Item<(Claim, Option<Limit>)>;

/// What is kept of an item for its answer, and how it becomes a command.
type Asking<T, K> = (fn(&T) -> K, fn(T) -> Command);

/// What is known of each item so far.
type Answers<R> = Vec<Option<Result<R, v1::Failure>>>;

/// Answers a batch of claims: replays from this node's own state, the rest by the leader's log.
pub(super) async fn claims(
    node: &Node,
    method: Method,
    call: &Call,
    message: v1::ClaimBatchRequest,
) -> Result<Response<v1::ClaimBatchResponse>, Fail> {
    let leads = node.replica.is_leader();
    let sizes: Vec<usize> = message.items.iter().map(Message::encoded_len).collect();
    let kept = (!leads).then(|| message.clone());
    let items = batch::read_claims(message, &call.region(&node.region))?;
    let mut answers: Answers<v1::ClaimResponse> = Vec::new();
    let mut open: Vec<OpenClaim> = Vec::new();
    for (at, item) in items.into_iter().enumerate() {
        let bytes = sizes.get(at).copied().unwrap_or_default();
        let read = item.map_err(|faults| Failure::invalid(faults.all(), Applied::No));
        match read.and_then(|claim| check_size(bytes).map(|()| claim)) {
            Err(failure) => answers.push(Some(Err(refused(node, failure)))),
            Ok(claim) => {
                let (replayed, limit) = claiming::look(node, &claim)?;
                if replayed.is_none() {
                    open.push(Item { at, bytes, asked: (claim, limit) });
                }
                answers.push(replayed.map(Ok));
            }
        }
    }
    match kept {
        Some(message) => forward_claims(node, method, call, (message, &open), &mut answers).await?,
        None => decide_claims(node, call, open, &mut answers).await?,
    }
    let items = answers.into_iter().map(|one| batch::claim_item(or_unknown(one))).collect();
    Ok(Response::new(v1::ClaimBatchResponse { items }))
}

/// Sends the items that are still open to the leader.
async fn forward_claims(
    node: &Node,
    method: Method,
    call: &Call,
    (message, open): (v1::ClaimBatchRequest, &[OpenClaim]),
    answers: &mut Answers<v1::ClaimResponse>,
) -> Result<(), Fail> {
    use v1::claim_batch_item::Outcome;
    if open.is_empty() {
        return Ok(());
    }
    let items = pick(message.items, open);
    let rest = v1::ClaimBatchRequest { tenant: message.tenant, items };
    let answered: Response<v1::ClaimBatchResponse> = node.forward(method, call, rest).await?;
    for (item, answer) in open.iter().zip(answered.into_inner().items) {
        answers[item.at] = answer.outcome.map(|outcome| match outcome {
            Outcome::Answer(answer) => Ok(answer),
            Outcome::Failure(failure) => Err(failure),
        });
    }
    Ok(())
}

/// The requests of the items that are still open, in their order.
fn pick<R, T>(requests: Vec<R>, open: &[Item<T>]) -> Vec<R> {
    let mut wanted = open.iter().map(|item| item.at).peekable();
    let numbered = requests.into_iter().enumerate();
    numbered.filter(|(at, _)| wanted.next_if_eq(at).is_some()).map(|(_, item)| item).collect()
}

async fn decide_claims(
    node: &Node,
    call: &Call,
    open: Vec<OpenClaim>,
    answers: &mut Answers<v1::ClaimResponse>,
) -> Result<(), Fail> {
    let mut admitted = Vec::new();
    for Item { at, bytes, asked: (claim, limit) } in open {
        match claiming::admit(node, &claim.record, limit) {
            Ok(()) => admitted.push(Item { at, bytes, asked: claim }),
            Err(failure) => answers[at] = Some(Err(refused(node, failure))),
        }
    }
    decide(node, call, admitted, (claiming::told, Command::Claim), |at, asked, outcome| {
        let answered = outcome.and_then(|outcome| claiming::finish(node, &asked, outcome));
        answers[at] = Some(answered.map_err(|fail| item_failure(node, fail)));
    })
    .await;
    Ok(())
}

/// Answers a batch of completions.
pub(super) async fn completions(
    node: &Node,
    method: Method,
    call: &Call,
    message: v1::CompleteBatchRequest,
) -> Result<Response<v1::CompleteBatchResponse>, Fail> {
    if !node.replica.is_leader() {
        return node.forward(method, call, message).await;
    }
    let sizes: Vec<usize> = message.items.iter().map(Message::encoded_len).collect();
    let items = batch::read_completions(message)?;
    let mut answers: Answers<v1::CompleteResponse> = Vec::new();
    let mut open: Vec<Item<Complete>> = Vec::new();
    for (at, item) in items.into_iter().enumerate() {
        let bytes = sizes.get(at).copied().unwrap_or_default();
        let read = item.map_err(|faults| Failure::invalid(faults.all(), Applied::No));
        match read.and_then(|asked| check_size(bytes).map(|()| asked)) {
            Err(failure) => answers.push(Some(Err(refused(node, failure)))),
            Ok(asked) => {
                open.push(Item { at, bytes, asked });
                answers.push(None);
            }
        }
    }
    decide(node, call, open, (|_: &Complete| (), Command::Complete), |at, (), outcome| {
        let encode = |outcome| {
            let (answer, store_time) = decided(outcome)?;
            Ok(holder::complete_response(answer, store_time)?)
        };
        let answered = outcome.and_then(encode);
        answers[at] = Some(answered.map_err(|fail| item_failure(node, fail)));
    })
    .await;
    let items = answers.into_iter().map(|one| batch::complete_item(or_unknown(one))).collect();
    Ok(Response::new(v1::CompleteBatchResponse { items }))
}

/// Has the log decide the items in their order, entry by entry: the next one is proposed when the
/// one before it is decided. Where one has no answer, the rest is not proposed.
async fn decide<T, K>(
    node: &Node,
    call: &Call,
    items: Vec<Item<T>>,
    (told, command): Asking<T, K>,
    mut done: impl FnMut(usize, K, Result<Outcome, Fail>),
) {
    let mut items = items.into_iter().peekable();
    let mut stopped = false;
    while items.peek().is_some() {
        let (mut commands, mut places, mut bytes) = (Vec::new(), Vec::new(), 0);
        while let Some(item) = items.next_if(|item| {
            commands.is_empty()
                || commands.len() < ENTRY_COMMANDS_MAX && bytes + item.bytes <= ENTRY_BYTES_MAX
        }) {
            bytes += item.bytes;
            places.push((item.at, told(&item.asked)));
            commands.push(command(item.asked));
        }
        if stopped {
            places.into_iter().for_each(|(at, kept)| {
                done(at, kept, Err(Failure::not_reached().into()));
            });
            continue;
        }
        match node.submit_all(call, commands, bytes).await {
            Ok(outcomes) => {
                for ((at, kept), outcome) in places.into_iter().zip(outcomes) {
                    done(at, kept, Ok(outcome));
                }
            }
            Err(failure) => {
                stopped = true;
                for (at, kept) in places {
                    done(at, kept, Err(failure.clone().into()));
                }
            }
        }
    }
}

/// The refusal of an item, counted.
fn refused(node: &Node, failure: Failure) -> v1::Failure {
    node.metrics.refusal(failure.reason());
    failure.into_item()
}

fn item_failure(node: &Node, fail: Fail) -> v1::Failure {
    match fail {
        Fail::Here(failure) => refused(node, *failure),
        // Items are decided here or not at all; a status of the leader stands for all of them.
        Fail::There(_) => Failure::unknown("the leader's answer cannot be read").into_item(),
    }
}

/// Every item has an answer by now; one that has none may have taken effect.
fn or_unknown<R>(answer: Option<Result<R, v1::Failure>>) -> Result<R, v1::Failure> {
    answer.unwrap_or_else(|| {
        Err(Failure::unknown("the leader's answer does not name this item").into_item())
    })
}
