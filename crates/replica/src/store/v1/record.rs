//! The records of format 1.

use firstclaim_core::effect::{Findings, OpenCause as PresentCause, Work};
use firstclaim_core::limits;
use firstclaim_core::name::Region;
use firstclaim_core::outcome::AcquiredKind;
use firstclaim_core::record::{
    self as present, Disposition, Ending, Evidence, Frozen, Mode, ResultBody,
};
use firstclaim_core::{
    AttemptId, Epoch, Expiry, FingerprintSet, Labels, Millis, OwnerLabel, Timestamp,
};
use serde::{Deserialize, Serialize};

/// The latest grant of a record. It held the labels of its attempt.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Grant {
    epoch: Epoch,
    attempt_id: AttemptId,
    owner: OwnerLabel,
    mode: Mode,
    granted_time: Timestamp,
    lease: Millis,
    lease_written_time: Timestamp,
    lease_expire_time: Timestamp,
    journaled: bool,
    revoked: bool,
    labels: Labels,
}

/// An attempt that is remembered, before its times, its labels and its end were.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct KnownAttempt {
    attempt_id: AttemptId,
    owner: OwnerLabel,
    epoch: Epoch,
    mode: Mode,
    journaled: bool,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum OpenCause {
    Lapsed,
    ReleasedUnknown,
}

/// The work of an epoch while it was open. It was dropped when it was settled.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct OpenWork {
    epoch: Epoch,
    attempt_id: AttemptId,
    owner: OwnerLabel,
    cause: OpenCause,
    since: Timestamp,
    deadline: Timestamp,
    settle_horizon: Millis,
    note: String,
}

/// How a record was completed, before results could be purged.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Completion {
    disposition: Disposition,
    result: ResultBody,
    completed_time: Timestamp,
    epoch: Epoch,
    attempt_id: AttemptId,
    owner: OwnerLabel,
    late: bool,
    by_evidence: bool,
    result_expire_time: Expiry,
    identity_expire_time: Expiry,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum State {
    Reserved { identity_expire_time: Expiry },
    Claimed,
    Unresolved { since: Timestamp },
    Retryable { not_before: Timestamp, identity_expire_time: Expiry },
    Unbound { not_before: Timestamp, identity_expire_time: Expiry },
    Completed(Box<Completion>),
}

/// All that is known about one key.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    life: u64,
    fingerprints: FingerprintSet,
    first_seen_time: Timestamp,
    intent_time: Option<Timestamp>,
    reserved: bool,
    last_write_time: Timestamp,
    epoch: Epoch,
    grant: Option<Grant>,
    frozen: Frozen,
    execute_grants: u32,
    attempts: Vec<KnownAttempt>,
    works: Vec<OpenWork>,
    evidence: Vec<Evidence>,
    unbound_epoch: Epoch,
    state: State,
}

impl From<Record> for present::Record {
    /// What was not stored is filled in so that nothing is permitted that would not have been: the
    /// key counts as bound as late as it can have been, open work as having had all grace. The
    /// revision is 0: the record has not changed since there are revisions.
    fn from(record: Record) -> Self {
        Self {
            life: record.life,
            bound_time: record.bound_time(),
            attempts: record.known_attempts(),
            fingerprints: record.fingerprints,
            first_seen_time: record.first_seen_time,
            intent_time: record.intent_time,
            reserved: record.reserved,
            admitted: None,
            reserve_labels: Labels::default(),
            last_write_time: record.last_write_time,
            epoch: record.epoch,
            grant: record.grant.map(Into::into),
            frozen: record.frozen,
            execute_grants: record.execute_grants,
            works: record.works.into_iter().map(Into::into).collect(),
            effects: Vec::new(),
            resolution: None,
            revision: 0,
            evidence: record.evidence,
            unbound_epoch: record.unbound_epoch,
            state: record.state.into(),
        }
    }
}

impl Record {
    /// When the key was bound to its present request. After an unbinding that was some time before
    /// the latest grant.
    fn bound_time(&self) -> Timestamp {
        match &self.grant {
            Some(grant) if self.unbound_epoch != Epoch::NONE => grant.granted_time,
            Some(_) | None => self.first_seen_time,
        }
    }

    fn known_attempts(&self) -> Vec<present::KnownAttempt> {
        let known = |(place, attempt)| self.known_attempt(place, attempt);
        self.attempts.iter().enumerate().map(known).collect()
    }

    /// What is known about an attempt. Of all but the latest, the time and the labels were not kept:
    /// they are said to have been granted when the life of the key began.
    fn known_attempt(&self, place: usize, attempt: &KnownAttempt) -> present::KnownAttempt {
        let latest = self.grant.as_ref().filter(|grant| grant.epoch == attempt.epoch);
        present::KnownAttempt {
            attempt_id: attempt.attempt_id.clone(),
            owner: attempt.owner.clone(),
            epoch: attempt.epoch,
            kind: self.kind(place, attempt),
            mode: attempt.mode,
            journaled: attempt.journaled,
            region: Region::unknown(),
            granted_time: latest.map_or(self.first_seen_time, |grant| grant.granted_time),
            labels: latest.map(|grant| grant.labels.clone()).unwrap_or_default(),
            ended: if latest.is_some() { self.ended() } else { self.superseded(attempt.epoch) },
            // Which grace it got was not kept: it is given all.
            deadline: latest
                .map_or(self.last_write_time, |grant| grant.lease_expire_time)
                .after(limits::GRACE_MAX),
            settle_horizon: self.frozen.settle_horizon,
        }
    }

    /// How the attempt acquired its claim. A retry after a release cannot be told from a takeover any
    /// more, and is called one.
    fn kind(&self, place: usize, attempt: &KnownAttempt) -> AcquiredKind {
        let before = place.checked_sub(1).and_then(|before| self.attempts.get(before));
        match (attempt.mode, before) {
            (Mode::Resume | Mode::Reconcile, _) => AcquiredKind::Recovery,
            (Mode::Execute, None) if self.attempts.len() < limits::ATTEMPTS_KEPT => {
                AcquiredKind::First
            }
            (Mode::Execute, Some(before))
                if self.unbound_epoch != Epoch::NONE && before.epoch == self.unbound_epoch =>
            {
                AcquiredKind::Rebound
            }
            (Mode::Execute, _) => AcquiredKind::Takeover,
        }
    }

    /// How the latest grant ended, if it has.
    fn ended(&self) -> Option<(Ending, Timestamp)> {
        let (ending, time) = match &self.state {
            State::Reserved { .. } | State::Claimed => return None,
            State::Unresolved { since } => (Ending::ReleasedUnknown, *since),
            State::Retryable { .. } => (Ending::ReleasedRetry, self.last_write_time),
            State::Unbound { .. } => (Ending::ReleasedUnbind, self.last_write_time),
            State::Completed(completion) if completion.epoch == self.epoch => {
                (ending_of(completion), completion.completed_time)
            }
            State::Completed(completion) => (Ending::Overtaken, completion.completed_time),
        };
        Some((ending, time))
    }

    /// How a grant before the latest one ended, which was at the latest when that was given.
    fn superseded(&self, epoch: Epoch) -> Option<(Ending, Timestamp)> {
        if let State::Completed(completion) = &self.state
            && completion.epoch == epoch
        {
            return Some((ending_of(completion), completion.completed_time));
        }
        let work = self.works.iter().find(|work| work.epoch == epoch);
        let ending = match work.map(|work| &work.cause) {
            Some(OpenCause::ReleasedUnknown) => Ending::ReleasedUnknown,
            _ if epoch == self.unbound_epoch => Ending::ReleasedUnbind,
            Some(OpenCause::Lapsed) | None => Ending::Lapsed,
        };
        let known = self.grant.as_ref().map_or(self.last_write_time, |grant| grant.granted_time);
        Some((ending, known))
    }
}

fn ending_of(completion: &Completion) -> Ending {
    match completion.disposition {
        Disposition::Succeeded => Ending::Succeeded,
        Disposition::Failed => Ending::Failed,
    }
}

impl From<Grant> for present::Grant {
    fn from(grant: Grant) -> Self {
        Self {
            epoch: grant.epoch,
            attempt_id: grant.attempt_id,
            owner: grant.owner,
            mode: grant.mode,
            granted_time: grant.granted_time,
            lease: grant.lease,
            lease_written_time: grant.lease_written_time,
            lease_expire_time: grant.lease_expire_time,
            journaled: grant.journaled,
            revoked: grant.revoked,
            // Nothing could revoke a grant.
            revoked_deadline: Timestamp::default(),
        }
    }
}

impl From<OpenWork> for Work {
    /// The deadline that was stored left out the grace of windows that had closed by then.
    fn from(work: OpenWork) -> Self {
        Self {
            epoch: work.epoch,
            attempt_id: work.attempt_id,
            owner: work.owner,
            cause: Some(match work.cause {
                OpenCause::Lapsed => PresentCause::Lapsed,
                OpenCause::ReleasedUnknown => PresentCause::ReleasedUnknown,
            }),
            since: work.since,
            deadline: work.deadline.after(limits::GRACE_MAX),
            settle_horizon: work.settle_horizon,
            note: work.note,
            findings: Findings::default(),
        }
    }
}

impl From<State> for present::State {
    fn from(state: State) -> Self {
        match state {
            State::Reserved { identity_expire_time } => Self::Reserved { identity_expire_time },
            State::Claimed => Self::Claimed,
            State::Unresolved { since } => Self::Unresolved { since },
            State::Retryable { not_before, identity_expire_time } => {
                Self::Retryable { not_before, identity_expire_time }
            }
            State::Unbound { not_before, identity_expire_time } => {
                Self::Unbound { not_before, identity_expire_time }
            }
            State::Completed(completion) => Self::Completed(Box::new((*completion).into())),
        }
    }
}

impl From<Completion> for present::Completion {
    fn from(completion: Completion) -> Self {
        Self {
            disposition: completion.disposition,
            result: completion.result,
            completed_time: completion.completed_time,
            epoch: completion.epoch,
            attempt_id: completion.attempt_id,
            owner: completion.owner,
            late: completion.late,
            by_evidence: completion.by_evidence,
            result_expire_time: completion.result_expire_time,
            identity_expire_time: completion.identity_expire_time,
            purged: false,
        }
    }
}
