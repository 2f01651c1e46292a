//! The answers to a claim, and what a holder reports in the end.

use crate::claim::Claim;
use crate::effects::Settlement;
use crate::v1;

/// What a claim was answered. None of these is an error.
#[derive(Debug)]
pub enum ClaimOutcome {
    /// The caller holds the claim. The lease is renewed as long as the guard lives.
    Acquired(Claim),
    /// The caller was granted the claim and completed the record in the same step, because it asked
    /// for that (`complete_with`). If that answer is lost, the repeat is a replay `by_this_attempt`.
    Completed(v1::Acquired),
    /// The intent is completed; this is how.
    Replay(v1::Replay),
    /// Not now; ask again after `retry_after`, with the same request.
    Pending(v1::Pending),
    /// It may have happened, and this caller did not say that it can find out.
    Unresolved(v1::Unresolved),
}

/// How an intent ended, as its holder reports it.
#[derive(Clone, Debug, PartialEq)]
pub struct Completion {
    /// Whether it was carried out.
    pub disposition: v1::Disposition,
    /// What it leaves behind.
    pub result: v1::Result,
    /// What became of effects: taken in before the rest is judged, and kept whatever becomes of the
    /// call. They mean nothing to a claim that completes at once.
    pub settlements: Vec<Settlement>,
}

impl Completion {
    /// It was carried out, with that result.
    pub fn succeeded(content_type: impl Into<String>, result: impl Into<Vec<u8>>) -> Self {
        Self::new(v1::Disposition::Succeeded, inline(content_type, result))
    }

    /// It ended without being carried out, for good.
    pub fn failed(content_type: impl Into<String>, result: impl Into<Vec<u8>>) -> Self {
        Self::new(v1::Disposition::Failed, inline(content_type, result))
    }

    /// It ended like that, and leaves that behind.
    #[must_use]
    pub fn new(disposition: v1::Disposition, result: v1::Result) -> Self {
        Self { disposition, result, settlements: Vec::new() }
    }

    /// The same, saying also what became of an effect.
    #[must_use]
    pub fn settling(mut self, settlement: Settlement) -> Self {
        self.settlements.push(settlement);
        self
    }
}

/// A result that is kept with the record.
pub(crate) fn inline(content_type: impl Into<String>, bytes: impl Into<Vec<u8>>) -> v1::Result {
    v1::Result {
        content_type: content_type.into(),
        body: Some(v1::result::Body::Inline(bytes.into())),
        ..v1::Result::default()
    }
}
