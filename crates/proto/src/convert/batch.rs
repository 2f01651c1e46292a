//! ClaimBatch and CompleteBatch: many calls of one tenant in one.
//!
//! A batch is refused whole only for a fault of the batch itself: too many items, another tenant. An
//! item that is wrong is refused alone, by its position.

use firstclaim_core::command::{Claim, Complete};
use firstclaim_core::name::Region;
use firstclaim_core::outcome::Completed;
use firstclaim_core::{Millis, TenantName, Timestamp, limits};

use super::claim::{self, Answered, Asked};
use super::{Faults, holder};
use crate::v1;

/// What each item of a batch became, by position.
pub type Items<T> = Vec<Result<T, Faults>>;

/// What a node answered to each item, by position: an answer, or the failure as a status would say
/// it.
pub type Answers<T> = Vec<Result<T, v1::Failure>>;

/// Reads a batch of claims that came in at `region`.
///
/// # Errors
///
/// Every fault of the batch itself.
pub fn read_claims(
    request: v1::ClaimBatchRequest,
    region: &Region,
) -> Result<Items<Claim>, Faults> {
    let mut items = request.items;
    check(&request.tenant, items.iter_mut().map(|item| &mut item.tenant))?;
    let read = |item: v1::ClaimRequest| {
        let Asked { claim, wait } = claim::read(item, region.clone())?;
        if wait > Millis(0) {
            let mut faults = Faults::default();
            faults.note("wait", format!("is {wait}"), "leave it out: a batch never waits");
            return Err(faults);
        }
        Ok(claim)
    };
    Ok(items.into_iter().map(read).collect())
}

/// Reads a batch of completions.
///
/// # Errors
///
/// Every fault of the batch itself.
pub fn read_completions(request: v1::CompleteBatchRequest) -> Result<Items<Complete>, Faults> {
    let mut items = request.items;
    check(&request.tenant, items.iter_mut().map(|item| &mut item.tenant))?;
    Ok(items.into_iter().map(holder::read_complete).collect())
}

/// Checks what is a batch's own, and fills the tenant in where an item leaves it out.
fn check<'a>(
    tenant: &str,
    items: impl ExactSizeIterator<Item = &'a mut String>,
) -> Result<(), Faults> {
    let mut faults = Faults::default();
    let sound = faults.take(TenantName::parse(tenant)).is_some();
    let max = limits::BATCH_ITEMS_MAX;
    if !(1..=max).contains(&items.len()) {
        let problem = format!("has {} entries", items.len());
        faults.note("items", problem, format!("send 1 to {max}"));
        return Err(faults);
    }
    for (at, own) in items.enumerate() {
        if own.is_empty() {
            tenant.clone_into(own);
        } else if own != tenant && sound {
            let fix = "leave it out: a batch is of one tenant";
            faults.note(format!("items[{at}].tenant"), "is not that of the batch", fix);
        }
    }
    faults.finish(sound.then_some(()))
}

/// The request of a batch of claims.
#[must_use]
pub fn claims_request(tenant: TenantName, claims: Vec<Claim>) -> v1::ClaimBatchRequest {
    let item = |claim| claim::request(Asked { claim, wait: Millis(0) });
    v1::ClaimBatchRequest { tenant: tenant.into(), items: claims.into_iter().map(item).collect() }
}

/// The request of a batch of completions.
#[must_use]
pub fn completions_request(
    tenant: TenantName,
    completions: Vec<Complete>,
) -> v1::CompleteBatchRequest {
    v1::CompleteBatchRequest {
        tenant: tenant.into(),
        items: completions.into_iter().map(holder::complete_request).collect(),
    }
}

/// What became of one claim of a batch.
#[must_use]
pub fn claim_item(outcome: Result<v1::ClaimResponse, v1::Failure>) -> v1::ClaimBatchItem {
    use v1::claim_batch_item::Outcome;
    v1::ClaimBatchItem {
        outcome: Some(match outcome {
            Ok(answer) => Outcome::Answer(answer),
            Err(failure) => Outcome::Failure(failure),
        }),
    }
}

/// What became of one completion of a batch.
#[must_use]
pub fn complete_item(outcome: Result<v1::CompleteResponse, v1::Failure>) -> v1::CompleteBatchItem {
    use v1::complete_batch_item::Outcome;
    v1::CompleteBatchItem {
        outcome: Some(match outcome {
            Ok(answer) => Outcome::Answer(answer),
            Err(failure) => Outcome::Failure(failure),
        }),
    }
}

/// Reads the answers to a batch of `sent` claims.
///
/// # Errors
///
/// What is missing or newer than this client.
pub fn read_claims_response(
    response: v1::ClaimBatchResponse,
    sent: usize,
) -> Result<Answers<Answered>, Faults> {
    use v1::claim_batch_item::Outcome;
    let mut faults = Faults::default();
    faults.answers(response.items.len(), sent);
    let mut read = Vec::new();
    for (at, item) in response.items.into_iter().enumerate() {
        let field = format!("items[{at}]");
        match item.outcome {
            Some(Outcome::Answer(answer)) => {
                read.extend(faults.absorb_in(&field, claim::read_response(answer)).map(Ok));
            }
            Some(Outcome::Failure(failure)) => read.push(Err(failure)),
            None => faults.unknown_outcome(&field),
        }
    }
    faults.finish(Some(read))
}

/// Reads the answers to a batch of `sent` completions, each with its store time.
///
/// # Errors
///
/// What is missing or newer than this client.
pub fn read_completions_response(
    response: v1::CompleteBatchResponse,
    sent: usize,
) -> Result<Answers<(Completed, Timestamp)>, Faults> {
    use v1::complete_batch_item::Outcome;
    let mut faults = Faults::default();
    faults.answers(response.items.len(), sent);
    let mut read = Vec::new();
    for (at, item) in response.items.into_iter().enumerate() {
        let field = format!("items[{at}]");
        match item.outcome {
            Some(Outcome::Answer(answer)) => {
                let answer = faults.absorb_in(&field, holder::read_complete_response(answer));
                read.extend(answer.map(Ok));
            }
            Some(Outcome::Failure(failure)) => read.push(Err(failure)),
            None => faults.unknown_outcome(&field),
        }
    }
    faults.finish(Some(read))
}

impl Faults {
    fn answers(&mut self, answered: usize, sent: usize) {
        if answered != sent {
            let problem = format!("has {answered} entries for {sent} that were sent");
            self.note("items", problem, "repeat the batch with the same attempt ids");
        }
    }

    fn unknown_outcome(&mut self, field: &str) {
        let fix = "take the item for not decided, and upgrade the client";
        self.note(format!("{field}.outcome"), "is missing or newer than this client", fix);
    }
}
