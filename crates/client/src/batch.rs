//! Many claims, or many completions, of one tenant in one call: decided in order, each seeing those
//! before it, each with an answer or a refusal of its own.
//!
//! A batch may be repeated whole: every item carries its attempt id, so that the log recognises what
//! it decided before.

use tonic::transport::Channel;

use crate::client::{Client, method};
use crate::error::Error;
use crate::outcome::Completion;
use crate::request::{ClaimRequest, HolderRef};
use crate::retry::Repeat;
use crate::v1;

type ClaimService = v1::claim_service_client::ClaimServiceClient<Channel>;

impl Client {
    /// Claims many keys of one tenant: 1 to 500, without `wait`. The answers are as they came, by
    /// position: nothing is renewed. Repeat the items whose error has a
    /// [`retry_after`](Error::retry_after), with the same requests.
    ///
    /// # Errors
    ///
    /// Of the whole call; see [`Error`].
    pub async fn claim_batch(
        &self,
        tenant: &str,
        claims: &[ClaimRequest],
    ) -> Result<Vec<Result<v1::ClaimResponse, Error>>, Error> {
        use v1::claim_batch_item::Outcome;
        let items = claims.iter().map(|claim| claim.message(self.owner())).collect();
        let request = v1::ClaimBatchRequest { tenant: tenant.to_owned(), items };
        let response: v1::ClaimBatchResponse =
            self.call(Repeat::Safe, request, method!(ClaimService, claim_batch)).await?;
        check_count(claims.len(), response.items.len())?;
        let items = response.items.into_iter().map(|item| match item.outcome {
            Some(Outcome::Answer(answer)) => Ok(answer),
            Some(Outcome::Failure(failure)) => Err(Error::from_failure(&failure)),
            None => Err(Error::malformed("the outcome of an item")),
        });
        Ok(items.collect())
    }

    /// Completes many keys of one tenant: 1 to 500. Repeat the items whose error has a
    /// [`retry_after`](Error::retry_after), unchanged.
    ///
    /// # Errors
    ///
    /// Of the whole call; see [`Error`].
    pub async fn complete_batch(
        &self,
        tenant: &str,
        completions: Vec<(HolderRef, Completion)>,
    ) -> Result<Vec<Result<v1::CompleteResponse, Error>>, Error> {
        use v1::complete_batch_item::Outcome;
        let asked = completions.len();
        let items = completions.into_iter().map(|(holder, completion)| holder.complete(completion));
        let request =
            v1::CompleteBatchRequest { tenant: tenant.to_owned(), items: items.collect() };
        let response: v1::CompleteBatchResponse =
            self.call(Repeat::Safe, request, method!(ClaimService, complete_batch)).await?;
        check_count(asked, response.items.len())?;
        let items = response.items.into_iter().map(|item| match item.outcome {
            Some(Outcome::Answer(answer)) => Ok(answer),
            Some(Outcome::Failure(failure)) => Err(Error::from_failure(&failure)),
            None => Err(Error::malformed("the outcome of an item")),
        });
        Ok(items.collect())
    }
}

/// Answers belong to items by position, so there must be as many.
fn check_count(asked: usize, answered: usize) -> Result<(), Error> {
    if asked == answered {
        return Ok(());
    }
    Err(Error::malformed(&format!("{} of the {asked} items", asked.abs_diff(answered))))
}
