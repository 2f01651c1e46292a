//! The whole round for a delivery with one external effect: claim and record in one step, send under
//! the permit, settle and complete in one step.
//!
//! ```text
//! claim + effect ─▶ permit ─▶ send ─▶ complete + settlement
//! ```
//!
//! The provider's key and the journal together make a lost answer harmless: whoever comes next may
//! send the *same* effect again while the provider still tells repeats, or has to look it up.

use crate::claim::Claim;
use crate::client::Client;
use crate::effects::{EffectRequest, Finding, Permit};
use crate::error::Error;
use crate::execute::{ExecuteError, Executed, Execution, claim_patiently, give_back};
use crate::outcome::{ClaimOutcome, Completion, inline};
use crate::request::ClaimRequest;
use crate::{Reason, v1};

/// What became of a send. The bytes are kept as the evidence and as the result: at most 16 KiB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It happened; this is what the provider answered.
    Committed {
        /// The media type of the answer.
        content_type: String,
        /// The answer.
        answer: Vec<u8>,
    },
    /// It did not, and the unchanged request never will: the provider refused it and will refuse it
    /// again for that key. 409, 429 and 5xx are no such refusals.
    Refused {
        /// The provider's HTTP status, if it has one.
        status: Option<u32>,
        /// The media type of the answer.
        content_type: String,
        /// The answer.
        answer: Vec<u8>,
    },
    /// Nobody knows, or it was too late to send. The effect stays open.
    Unknown {
        /// What to tell whoever has to find out.
        note: String,
    },
}

impl Sent {
    /// It happened; this is what the provider answered.
    pub fn committed(content_type: impl Into<String>, answer: impl Into<Vec<u8>>) -> Self {
        Self::Committed { content_type: content_type.into(), answer: answer.into() }
    }

    /// The provider refused it for good.
    pub fn refused(
        status: Option<u32>,
        content_type: impl Into<String>,
        answer: impl Into<Vec<u8>>,
    ) -> Self {
        Self::Refused { status, content_type: content_type.into(), answer: answer.into() }
    }

    /// Nobody knows, because of that.
    pub fn unknown(note: impl Into<String>) -> Self {
        Self::Unknown { note: note.into() }
    }
}

/// Claims, sends the one effect of the intent under a permit, and stores how it ended.
///
/// `effect` says what is sent, as the n-th effect of the record (from 1): a further one is only asked
/// for where all those before it certainly did not happen, and it needs its own id and provider key.
/// `send` runs at most once, and only under a permit. It asks [`Permit::check`] immediately before it
/// sends, gives the provider [`Permit::provider_key`], and sends once.
///
/// The request must be a new one: an attempt that held the claim before may have sent already.
///
/// With a request that accepts recovery, an effect that an earlier attempt may have sent is sent again
/// if its provider still tells repeats; else [`ExecuteError::Reconcile`] hands over the claim. Without,
/// it is [`ExecuteError::Unresolved`]. Where evidence says that the effect happened, the record is
/// completed with that evidence, and nothing is sent.
///
/// Nothing is acknowledged for the caller: what to do with the delivery is said by the result.
///
/// # Errors
///
/// [`ExecuteError`].
///
/// # Cancel safety
///
/// Dropping the future drops the claim: the lease lapses, and the effect may have happened.
pub async fn execute_journaled<E, F, Fut>(
    client: &Client,
    request: ClaimRequest,
    execution: Execution,
    effect: E,
    send: F,
) -> Result<Executed, ExecuteError>
where
    E: Fn(u32) -> EffectRequest,
    F: FnOnce(Claim, Permit) -> Fut,
    Fut: Future<Output = Sent>,
{
    let first = effect(1);
    let request = ClaimRequest { effects: vec![first.clone()], complete_with: None, ..request };
    let claim = match claim_patiently(client, request, execution).await? {
        ClaimOutcome::Acquired(claim) => claim,
        ClaimOutcome::Completed(acquired) => return Ok(Executed::CompletedAtOnce(acquired)),
        ClaimOutcome::Replay(replay) => return Ok(Executed::Replayed(replay)),
        ClaimOutcome::Pending(pending) => return Ok(Executed::Pending(pending)),
        ClaimOutcome::Unresolved(unresolved) => return Err(ExecuteError::Unresolved(unresolved)),
    };
    let found = match claim.mode() {
        v1::Mode::Execute => permit(&claim, &first, &effect).await,
        v1::Mode::Resume => resume(&claim).await,
        v1::Mode::Reconcile | v1::Mode::Unspecified => Ok(Found::Unclear),
    };
    let sent = match found {
        Ok(Found::Permit(permit)) => {
            let sent = send(claim.clone(), permit.clone()).await;
            report(&claim, &permit, sent).await
        }
        Ok(Found::Committed(evidence)) => {
            let data = inline(evidence.content_type, evidence.data);
            let completion = Completion::new(v1::Disposition::Succeeded, data);
            claim.finish(completion).await.map(Executed::Completed)
        }
        Ok(Found::Unclear) => return Err(ExecuteError::Reconcile(claim)),
        Err(error) => return Err(refused(&claim, error, execution).await),
    };
    sent.map_err(|error| ExecuteError::Report { claim, error })
}

/// What there is to do under a grant.
enum Found {
    /// Send.
    Permit(Permit),
    /// Nothing: this shows that it happened.
    Committed(v1::Content),
    /// Find out first.
    Unclear,
}

/// Under EXECUTE nothing is open: it happened, or it may be sent, as a new effect where an earlier one
/// is known not to have happened.
async fn permit<E>(claim: &Claim, first: &EffectRequest, effect: &E) -> Result<Found, Error>
where
    E: Fn(u32) -> EffectRequest,
{
    let error = match claim.permits().first() {
        Some(Ok(permit)) => return Ok(Found::Permit(permit.clone())),
        Some(Err(error)) if error.reason() == Reason::EffectSettled => error.clone(),
        Some(Err(error)) => return Err(error.clone()),
        None => return Err(Error::malformed("the answer to an effect")),
    };
    let known = &claim.acquired().effects;
    let slot = |effect: &&v1::Effect| same_slot(&effect.slot, &first.slot);
    let earlier: Vec<&v1::Effect> = known
        .iter()
        .filter(|effect| effect.kind() == v1::EffectKind::Recorded)
        .filter(slot)
        .collect();
    let committed = |effect: &&&v1::Effect| effect.state() == v1::EffectState::Committed;
    if let Some(happened) = earlier.iter().find(committed) {
        let evidence = happened.settlement.as_ref().and_then(|found| found.evidence.clone());
        return Ok(Found::Committed(evidence.unwrap_or_default()));
    }
    let next = effect(u32::try_from(earlier.len()).unwrap_or(u32::MAX).saturating_add(1));
    if next.effect_id == first.effect_id {
        return Err(error);
    }
    claim.record_effect(&next).await.map(Found::Permit)
}

/// Under RESUME everything open may be sent again; this round knows how to send one effect.
async fn resume(claim: &Claim) -> Result<Found, Error> {
    let open = |effect: &&v1::Effect| effect.state() == v1::EffectState::Open;
    let open: Vec<&v1::Effect> = claim.acquired().effects.iter().filter(open).collect();
    match open.as_slice() {
        [one] => match EffectRequest::again(one) {
            Some(again) => claim.record_effect(&again).await.map(Found::Permit),
            None => Ok(Found::Unclear),
        },
        _ => Ok(Found::Unclear),
    }
}

/// An empty name is that of the default slot.
fn same_slot(one: &str, other: &str) -> bool {
    let name = |slot: &str| if slot.is_empty() { "default".to_owned() } else { slot.to_owned() };
    name(one) == name(other)
}

/// Gives a claim back for which there is no leave to send.
async fn refused(claim: &Claim, error: Error, execution: Execution) -> ExecuteError {
    // Nothing was sent under this grant; if earlier effects are open, the store refuses this, and the
    // lease lapses. What went wrong first is what the caller has to hear.
    if let Err(kept) = give_back(claim, execution.backoff).await {
        tracing::debug!(reason = kept.reason_text(), "give a claim back");
    }
    ExecuteError::Effect(error)
}

async fn report(claim: &Claim, permit: &Permit, sent: Sent) -> Result<Executed, Error> {
    let (disposition, finding, content_type, answer) = match sent {
        Sent::Committed { content_type, answer } => {
            (v1::Disposition::Succeeded, Finding::Committed, content_type, answer)
        }
        Sent::Refused { status, content_type, answer } => {
            (v1::Disposition::Failed, Finding::Refused { status }, content_type, answer)
        }
        Sent::Unknown { note } => {
            return claim.release_unknown(note).await.map(Executed::Unknown);
        }
    };
    let settlement = permit.settlement(finding).evidence(content_type.as_str(), answer.as_slice());
    let completion =
        Completion::new(disposition, inline(content_type, answer)).settling(settlement);
    claim.finish(completion).await.map(Executed::Completed)
}
