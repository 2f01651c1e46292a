//! The four answers to a claim, and what a holder reports in the end.

use crate::claim::Claim;
use crate::v1;

/// What a claim was answered. None of the four is an error.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one a call; boxes would stand in callers' patterns")]
pub enum ClaimOutcome {
    /// The caller holds the claim. The lease is renewed as long as the guard lives.
    Acquired(Claim),
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
}

impl Completion {
    /// It was carried out, with that result.
    pub fn succeeded(content_type: impl Into<String>, result: impl Into<Vec<u8>>) -> Self {
        let result = inline(content_type, result);
        Self { disposition: v1::Disposition::Succeeded, result }
    }

    /// It ended without being carried out, for good.
    pub fn failed(content_type: impl Into<String>, result: impl Into<Vec<u8>>) -> Self {
        let result = inline(content_type, result);
        Self { disposition: v1::Disposition::Failed, result }
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
