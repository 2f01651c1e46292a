//! The one table from a refusal, or from a failure on the way, to a gRPC status.
//!
//! Every status carries `google.rpc.ErrorInfo` with a [`Reason`], the domain `firstclaim`, and in
//! its metadata `applied` and every variable of the sentence. `RetryInfo` is there exactly when the
//! same call should be repeated. Semantics §7.

use std::collections::BTreeMap;
use std::time::Duration;

use firstclaim_core::{Invalid, Millis, Reason, Refusal, Timestamp};
use firstclaim_proto::convert::time;
use firstclaim_proto::error::{APPLIED, LEADER_ENDPOINT, LEADER_REGION, STORE_TIME};
pub(crate) use firstclaim_proto::error::{Applied, DOMAIN};
use firstclaim_proto::v1;
use firstclaim_replica::{Fate, ProposeError};
use tonic::{Code, Status};
use tonic_types::{BadRequest, ErrorDetail, ErrorInfo, FieldViolation, RetryInfo, StatusExt as _};

use crate::refusal;

/// Field violations that one status carries: a status is a header, and headers are small.
const VIOLATIONS_MAX: usize = 16;
/// How soon to repeat a call that met an election or a restart.
const RETRY_SOON: Duration = Duration::from_millis(200);
/// How soon to repeat a call that met too much load.
const RETRY_LOAD: Duration = Duration::from_millis(500);
/// How soon to repeat a call that waits for all members.
const RETRY_MEMBERS: Duration = Duration::from_secs(2);

/// Where the leader is, as far as the answering node knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeaderHint {
    pub(crate) region: String,
    pub(crate) endpoint: String,
}

/// A failure that is about to leave: everything that the status is made of.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    reason: Reason,
    applied: Applied,
    message: String,
    metadata: BTreeMap<String, String>,
    violations: Vec<Invalid>,
    /// When to repeat the call, if it is known better than by its reason.
    retry_after: Option<Duration>,
}

impl Failure {
    pub(crate) fn new(reason: Reason, applied: Applied, message: impl Into<String>) -> Self {
        Self {
            reason,
            applied,
            message: message.into(),
            metadata: BTreeMap::new(),
            violations: Vec::new(),
            retry_after: None,
        }
    }

    /// Says when to repeat the call, which its reason must allow.
    pub(crate) fn after(mut self, delay: Duration) -> Self {
        self.retry_after = Some(delay);
        self
    }

    /// After how long the same call should be repeated; none if repeating it is not the answer.
    fn retry_after(&self) -> Option<Duration> {
        let delay = self.retry_after.unwrap_or(retry_delay(self.reason));
        self.reason.should_repeat().then_some(delay)
    }

    /// Names a variable of the sentence.
    #[expect(clippy::needless_pass_by_value, reason = "numbers are given by value")]
    pub(crate) fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.metadata.insert(name.to_owned(), value.to_string());
        self
    }

    /// Says where to go instead.
    pub(crate) fn with_leader(self, leader: Option<&LeaderHint>) -> Self {
        match leader {
            Some(hint) => {
                self.with(LEADER_REGION, &hint.region).with(LEADER_ENDPOINT, &hint.endpoint)
            }
            None => self,
        }
    }

    /// Faults of fields; `applied` says whether the log found them.
    pub(crate) fn invalid(faults: &[Invalid], applied: Applied) -> Self {
        let told = faults.iter().take(VIOLATIONS_MAX);
        let mut message = told.map(ToString::to_string).collect::<Vec<_>>().join("; ");
        if faults.len() > VIOLATIONS_MAX {
            message.push_str(&format!("; and {} more faults", faults.len() - VIOLATIONS_MAX));
        }
        let mut failure = Self::new(Reason::InvalidArgument, applied, message);
        failure.violations = faults.iter().take(VIOLATIONS_MAX).cloned().collect();
        if let Some(first) = faults.first() {
            failure.metadata.insert("field".to_owned(), first.field.clone());
        }
        failure
    }

    /// A command that the log refused.
    pub(crate) fn refused(refusal: &Refusal, store_time: Timestamp) -> Self {
        let failure = refusal::describe(refusal).with(STORE_TIME, refusal::time(store_time));
        if let Refusal::NotYetProvable { provable_time, .. } = refusal {
            return failure.after(Duration::from_millis(provable_time.since(store_time).0));
        }
        failure
    }

    /// The namespace gets more claims than its policy allows.
    pub(crate) fn rate_limited(claims_per_second: u32, wait: Duration) -> Self {
        let wait_ms = wait.as_millis();
        let message = format!(
            "the namespace gets more than the {claims_per_second} claims a second that its policy \
             allows (claims_per_second), so this one was not taken on; repeat it after {wait_ms} ms"
        );
        Self::new(Reason::RateLimited, Applied::No, message)
            .with("claims_per_second", claims_per_second)
            .with("wait_ms", wait_ms)
            .after(wait)
    }

    /// An item of a batch whose turn never came.
    pub(crate) fn not_reached() -> Self {
        Self::no_leader(
            "an item before this one in the batch has no answer, so this one was not proposed; \
             repeat the batch with the same attempt ids",
        )
    }

    /// A proposal or a linearizable read without an answer.
    pub(crate) fn unanswered(error: &ProposeError) -> Self {
        match error {
            ProposeError::NotLeader { .. } => Self::no_leader(
                "this node does not lead, and a forwarded call is not forwarded again: \
                 send it to the leader",
            ),
            ProposeError::NoLeader => Self::no_leader(
                "no leader is known at the moment; repeat the call, here or at another node",
            ),
            ProposeError::NoQuorum => Self::new(
                Reason::NoQuorum,
                Applied::No,
                "the leader reaches no majority of the members, so nothing was done; \
                 repeat the call at a node on the majority's side",
            ),
            ProposeError::Overloaded => Self::overloaded("too many calls are under way"),
            ProposeError::TooLarge { reason } => Self::invalid(
                &[Invalid::new("request", format!("is too large: {reason}"), "send less")],
                Applied::No,
            ),
            ProposeError::Stopping => Self::draining(),
            ProposeError::TimedOut { waited_ms } => {
                Self::unknown("no majority confirmed the call in time").with("waited_ms", waited_ms)
            }
            ProposeError::LeadershipLost => {
                Self::unknown("another leader was elected while the call was under way")
            }
            ProposeError::Failed { .. } => Self::unknown("the node failed during the call"),
            other => match other.fate() {
                Fate::NotProposed => Self::new(Reason::Internal, Applied::No, other.to_string()),
                Fate::Unknown => Self::unknown("the call has no answer"),
            },
        }
    }

    /// A linearizable read without an answer; reading has no effect, so all of them may be repeated.
    pub(crate) fn unread(error: &ProposeError) -> Self {
        match error {
            ProposeError::TimedOut { waited_ms } => Self::new(
                Reason::NoQuorum,
                Applied::No,
                format!(
                    "no majority confirmed within {waited_ms} ms that the read is up to date;                      repeat it, or read with consistency LOCAL"
                ),
            )
            .with("waited_ms", waited_ms),
            ProposeError::LeadershipLost => {
                Self::no_leader("another leader was elected during the read; repeat it")
            }
            ProposeError::Failed { .. } => Self::internal("read its state"),
            ProposeError::NotLeader { .. }
            | ProposeError::NoLeader
            | ProposeError::NoQuorum
            | ProposeError::Overloaded
            | ProposeError::TooLarge { .. }
            | ProposeError::Stopping
            | _ => Self::unanswered(error),
        }
    }

    /// The call may have taken effect.
    pub(crate) fn unknown(why: &str) -> Self {
        let message = format!(
            "{why}: it may or may not have taken effect; repeat the same call with the same \
             attempt_id, which can do no harm"
        );
        Self::new(Reason::OutcomeUnknown, Applied::Maybe, message).with("cause", why)
    }

    pub(crate) fn no_leader(message: &str) -> Self {
        Self::new(Reason::NoLeader, Applied::No, message)
    }

    pub(crate) fn overloaded(why: &str) -> Self {
        let message = format!("{why}, so this one was not taken on; wait, then repeat it");
        Self::new(Reason::Overloaded, Applied::No, message).with("cause", why)
    }

    pub(crate) fn draining() -> Self {
        Self::new(
            Reason::NodeDraining,
            Applied::No,
            "this node is going down and takes nothing on; repeat the call at another node",
        )
    }

    /// The caller's time was up before the call reached the log.
    pub(crate) fn too_late(deadline_ms: u128) -> Self {
        let message = format!(
            "the call's deadline of {deadline_ms} ms passed before it reached the log, so nothing \
             was done; repeat it with more time"
        );
        Self::new(Reason::DeadlineExceeded, Applied::No, message).with("deadline_ms", deadline_ms)
    }

    pub(crate) fn record_not_found(store_time: Timestamp) -> Self {
        let message = "there is no record of this key: it was never claimed here, or is forgotten";
        Self::new(Reason::RecordNotFound, Applied::No, message)
            .with("store_time", refusal::time(store_time))
    }

    /// What was asked for does not exist, by a read.
    pub(crate) fn not_found(refusal: &Refusal) -> Self {
        let mut failure = refusal::describe(refusal);
        failure.applied = Applied::No;
        failure
    }

    /// The node's own fault.
    pub(crate) fn internal(doing: &str) -> Self {
        let message = format!(
            "this node failed to {doing}; repeat the call at another node, and see this node's log"
        );
        Self::new(Reason::Internal, Applied::No, message).with("action", doing)
    }

    /// Its reason.
    pub(crate) fn reason(&self) -> Reason {
        self.reason
    }

    /// Whether the log said so.
    pub(crate) fn is_decided(&self) -> bool {
        self.applied == Applied::Decided
    }

    #[cfg(test)]
    pub(crate) fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    #[cfg(test)]
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// The failure of one item of a call.
    pub(crate) fn into_item(self) -> v1::Failure {
        let retry_after = self.retry_after().map(|delay| {
            time::duration(Millis(u64::try_from(delay.as_millis()).unwrap_or(u64::MAX)))
        });
        let mut metadata = self.metadata;
        metadata.insert(APPLIED.to_owned(), self.applied.as_str().to_owned());
        v1::Failure {
            code: code(self.reason) as u32,
            reason: self.reason.as_str().to_owned(),
            message: self.message,
            metadata,
            retry_after,
        }
    }

    /// The status that leaves.
    pub(crate) fn into_status(self) -> Status {
        let retry_after = self.retry_after();
        let mut metadata = self.metadata;
        metadata.insert(APPLIED.to_owned(), self.applied.as_str().to_owned());
        let mut details = vec![ErrorDetail::ErrorInfo(ErrorInfo {
            reason: self.reason.as_str().to_owned(),
            domain: DOMAIN.to_owned(),
            metadata: metadata.into_iter().collect(),
        })];
        if !self.violations.is_empty() {
            let violation = |fault: Invalid| FieldViolation {
                description: format!("{}; {}", fault.problem, fault.fix),
                field: fault.field,
                ..FieldViolation::default()
            };
            let violations: Vec<_> = self.violations.into_iter().map(violation).collect();
            details.push(ErrorDetail::BadRequest(BadRequest::new(violations)));
        }
        if let Some(delay) = retry_after {
            details.push(ErrorDetail::RetryInfo(RetryInfo::new(Some(delay))));
        }
        Status::with_error_details_vec(code(self.reason), self.message, details)
    }
}

impl From<Failure> for Status {
    fn from(failure: Failure) -> Self {
        failure.into_status()
    }
}

/// The gRPC code of a reason.
pub(crate) const fn code(reason: Reason) -> Code {
    match reason {
        Reason::InvalidArgument | Reason::IntentTimeInFuture => Code::InvalidArgument,
        Reason::TenantNotFound
        | Reason::NamespaceNotFound
        | Reason::RecordNotFound
        | Reason::EffectNotFound => Code::NotFound,
        Reason::AlreadyExists => Code::AlreadyExists,
        Reason::NameInDeletion
        | Reason::StillInUse
        | Reason::FingerprintMismatch
        | Reason::FingerprintIncomparable
        | Reason::AttemptIdReused
        | Reason::AttemptSpent
        | Reason::AttemptsExhausted
        | Reason::LateReplay
        | Reason::AlreadyCompleted
        | Reason::UnsettledEffects
        | Reason::EffectNotAllowed
        | Reason::EffectOpen
        | Reason::EffectSettled
        | Reason::RedispatchUnsafe
        | Reason::NotYetProvable
        | Reason::StillLive
        | Reason::NotPurgeable
        | Reason::KeyNotReserved
        | Reason::DuplicateIntent => Code::FailedPrecondition,
        Reason::EtagMismatch
        | Reason::StaleEpoch
        | Reason::LeaseExpired
        | Reason::Revoked
        | Reason::ResultConflict
        | Reason::EffectMismatch
        | Reason::EvidenceConflict => Code::Aborted,
        Reason::RecordsExhausted
        | Reason::RateLimited
        | Reason::Overloaded
        | Reason::StorageFull => Code::ResourceExhausted,
        Reason::NoQuorum
        | Reason::NoLeader
        | Reason::NodeDraining
        | Reason::Unreachable
        | Reason::OutcomeUnknown => Code::Unavailable,
        Reason::DeadlineExceeded => Code::DeadlineExceeded,
        Reason::Internal => Code::Internal,
    }
}

/// After how long to repeat a call that should be repeated and says no time of its own.
const fn retry_delay(reason: Reason) -> Duration {
    if matches!(reason, Reason::Overloaded | Reason::StorageFull) {
        RETRY_LOAD
    } else if matches!(reason, Reason::NameInDeletion) {
        RETRY_MEMBERS
    } else {
        RETRY_SOON
    }
}

#[cfg(test)]
mod tests;
