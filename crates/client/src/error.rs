//! Why a call failed, and whether it can still take effect.

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use firstclaim_core::Reason;
use firstclaim_proto::error::APPLIED;
pub use firstclaim_proto::error::Applied;
use tonic::{Code, ConnectError, Status};
use tonic_types::StatusExt;

use crate::config::ConfigError;
use crate::{time, v1};

/// One field that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldViolation {
    /// Path of the field in the request.
    pub field: String,
    /// What is wrong with it, and what to do.
    pub description: String,
}

/// What one endpoint answered, or why it did not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TryFailure {
    /// The endpoint.
    pub endpoint: String,
    /// Whether a node answered there.
    pub reached: bool,
    /// What it said, or why it could not be reached.
    pub problem: String,
}

/// A failed call.
#[derive(Clone, Debug)]
pub struct Error(Box<Parts>);

#[derive(Clone, Debug)]
struct Parts {
    reason: Reason,
    reason_text: String,
    applied: Applied,
    code: Code,
    message: String,
    metadata: BTreeMap<String, String>,
    violations: Vec<FieldViolation>,
    retry_after: Option<Duration>,
    tries: Vec<TryFailure>,
}

impl Error {
    /// Why. A reason that this version does not know is [`Reason::Internal`]; see
    /// [`Error::reason_text`].
    #[must_use]
    pub fn reason(&self) -> Reason {
        self.0.reason
    }

    /// The reason as the node named it.
    #[must_use]
    pub fn reason_text(&self) -> &str {
        &self.0.reason_text
    }

    /// Whether the call can still take effect.
    #[must_use]
    pub fn applied(&self) -> Applied {
        self.0.applied
    }

    /// The gRPC code.
    #[must_use]
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// Whether the caller is not known, or not allowed to do this.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        matches!(self.0.code, Code::Unauthenticated | Code::PermissionDenied)
    }

    /// What happened, in words.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The values behind the message.
    #[must_use]
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.0.metadata
    }

    /// The fields that are wrong.
    #[must_use]
    pub fn violations(&self) -> &[FieldViolation] {
        &self.0.violations
    }

    /// When the same call should be repeated, if it should.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// The last failure of each endpoint that was tried.
    #[must_use]
    pub fn tries(&self) -> &[TryFailure] {
        &self.0.tries
    }

    /// A try that was given up on this side, at a time when the call may have been on its way.
    pub(crate) fn no_answer(waited: Duration) -> Self {
        let message = format!("no answer within {} ms", waited.as_millis());
        Self::new(Reason::OutcomeUnknown, Applied::Maybe, Code::DeadlineExceeded, message)
    }

    /// A call for which there was no time to ask anybody.
    pub(crate) fn no_time(waited: Duration) -> Self {
        let message = format!("no endpoint could be asked within {} ms", waited.as_millis());
        Self::new(Reason::DeadlineExceeded, Applied::No, Code::DeadlineExceeded, message)
    }

    /// A client that could not be made.
    pub(crate) fn settings(error: &ConfigError) -> Self {
        let code = Code::InvalidArgument;
        Self::new(Reason::InvalidArgument, Applied::No, code, error.to_string())
    }

    /// An answer that lacks what it must have.
    pub(crate) fn malformed(what: &str) -> Self {
        let message = format!("the node's answer lacks {what}; is it of a later version?");
        Self::new(Reason::Internal, Applied::Maybe, Code::Internal, message)
    }

    fn new(reason: Reason, applied: Applied, code: Code, message: String) -> Self {
        Self(Box::new(Parts {
            reason,
            reason_text: reason.as_str().to_owned(),
            applied,
            code,
            message,
            metadata: BTreeMap::new(),
            violations: Vec::new(),
            retry_after: None,
            tries: Vec::new(),
        }))
    }

    /// Reads what a node, or the way to it, answered to a call of the services in [`crate::v1`].
    #[must_use]
    pub fn from_status(status: &Status) -> Self {
        let details = status.get_error_details();
        let Some(info) = details.error_info() else { return Self::without_details(status) };
        let applied = info.metadata.get(APPLIED).and_then(|text| Applied::parse(text));
        let applied = applied.unwrap_or(Applied::Maybe);
        let reason = Reason::parse(&info.reason).unwrap_or(Reason::Internal);
        let mut error = Self::new(reason, applied, status.code(), status.message().to_owned());
        error.0.reason_text.clone_from(&info.reason);
        error.0.metadata = info.metadata.clone().into_iter().collect();
        error.0.retry_after = details.retry_info().and_then(|retry| retry.retry_delay);
        if let Some(bad) = details.bad_request() {
            error.0.violations = bad
                .field_violations
                .iter()
                .map(|fault| FieldViolation {
                    field: fault.field.clone(),
                    description: fault.description.clone(),
                })
                .collect();
        }
        error
    }

    /// Reads how one item of a call was refused.
    pub(crate) fn from_failure(failure: &v1::Failure) -> Self {
        let code = Code::from_i32(i32::try_from(failure.code).unwrap_or(i32::MAX));
        let reason = Reason::parse(&failure.reason).unwrap_or(Reason::Internal);
        let applied = failure.metadata.get(APPLIED).and_then(|text| Applied::parse(text));
        let applied = applied.unwrap_or(Applied::Maybe);
        let mut error = Self::new(reason, applied, code, failure.message.clone());
        error.0.reason_text.clone_from(&failure.reason);
        error.0.metadata.clone_from(&failure.metadata);
        error.0.retry_after = failure.retry_after.as_ref().and_then(time::from_wire);
        error
    }

    /// A status that no firstclaim node wrote on purpose: of the transport, of a proxy, or of the
    /// gRPC library.
    fn without_details(status: &Status) -> Self {
        let code = status.code();
        let message = describe(status);
        if never_sent(status) {
            return Self::new(Reason::Unreachable, Applied::No, code, message);
        }
        let (reason, applied) = match code {
            Code::InvalidArgument | Code::OutOfRange | Code::Unimplemented => {
                (Reason::InvalidArgument, Applied::No)
            }
            Code::ResourceExhausted => (Reason::Overloaded, Applied::No),
            Code::Unauthenticated
            | Code::PermissionDenied
            | Code::NotFound
            | Code::AlreadyExists
            | Code::FailedPrecondition => (Reason::Internal, Applied::No),
            Code::Ok
            | Code::Cancelled
            | Code::Unknown
            | Code::DeadlineExceeded
            | Code::Aborted
            | Code::Internal
            | Code::Unavailable
            | Code::DataLoss => (Reason::OutcomeUnknown, Applied::Maybe),
        };
        Self::new(reason, applied, code, message)
    }

    /// Whether another endpoint, or the same one later, may answer better: the client repeats such a
    /// call by itself until its time is over.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        if self.applied() == Applied::Decided {
            return false;
        }
        let failed = self.applied() == Applied::Maybe || self.0.retry_after.is_some();
        self.0.reason.should_repeat() || (self.0.reason == Reason::Internal && failed)
    }

    /// Whether a node answered at all.
    pub(crate) fn reached(&self) -> bool {
        self.0.reason != Reason::Unreachable && !self.0.metadata.is_empty()
    }

    pub(crate) fn with_tries(mut self, tries: Vec<TryFailure>) -> Self {
        self.0.tries = tries;
        self
    }

    /// The same failure of a call for which no connection was made at all.
    pub(crate) fn nobody_reached(mut self, waited: Duration) -> Self {
        if self.0.reason == Reason::Unreachable {
            self.0.message = format!(
                "no connection to any of {} endpoints within {} ms",
                self.0.tries.len(),
                waited.as_millis()
            );
        }
        self
    }

    /// The same failure of a call that may have taken effect in an earlier try.
    pub(crate) fn outcome_unknown(self, waited: Duration) -> Self {
        let last = self.0;
        let message = format!(
            "the call may or may not have taken effect; given up after {} ms, last: {}",
            waited.as_millis(),
            last.message
        );
        let mut error = Self::new(Reason::OutcomeUnknown, Applied::Maybe, last.code, message);
        error.0.metadata = last.metadata;
        error.0.tries = last.tries;
        error
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.reason_text, self.0.message)
    }
}

impl StdError for Error {}

/// Whether the connection was never made, so that nothing can have been sent over it.
fn never_sent(status: &Status) -> bool {
    sources(status).any(|error| error.is::<ConnectError>())
}

/// The message with its causes, which the transport keeps to itself ("transport error").
fn describe(status: &Status) -> String {
    let mut text = status.message().to_owned();
    for source in sources(status) {
        let cause = source.to_string();
        if !cause.is_empty() && !text.contains(&cause) {
            text = if text.is_empty() { cause } else { format!("{text}: {cause}") };
        }
    }
    if text.is_empty() { format!("{:?}", status.code()) } else { text }
}

fn sources<'a>(status: &'a Status) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(status.source(), |error| {
        let error: &'a (dyn StdError + 'static) = *error;
        error.source()
    })
}

#[cfg(test)]
mod tests {
    use firstclaim_proto::error::DOMAIN;
    use tonic_types::ErrorDetails;

    use super::*;

    fn status(reason: &str, applied: &str) -> Status {
        let metadata = [(APPLIED.to_owned(), applied.to_owned())];
        let details = ErrorDetails::with_error_info(reason, DOMAIN, metadata);
        Status::with_error_details(Code::Unavailable, "the words", details)
    }

    #[test]
    fn what_a_node_says_is_taken_over() {
        let error = Error::from_status(&status("NO_QUORUM", "no"));
        assert_eq!((error.reason(), error.applied()), (Reason::NoQuorum, Applied::No));
        assert_eq!(error.to_string(), "NO_QUORUM: the words");
        assert!(error.is_transient() && error.reached());
    }

    #[test]
    fn an_unknown_reason_keeps_its_name() {
        let error = Error::from_status(&status("BRAND_NEW", "decided"));
        assert_eq!((error.reason(), error.reason_text()), (Reason::Internal, "BRAND_NEW"));
        assert!(!error.is_transient());
    }

    #[test]
    fn an_unclear_word_about_application_is_maybe() {
        assert_eq!(Error::from_status(&status("INTERNAL", "?")).applied(), Applied::Maybe);
        assert_eq!(Error::from_status(&Status::unavailable("gone")).applied(), Applied::Maybe);
    }
}
