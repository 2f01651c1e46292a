//! Claim: the request, and its four answers.

use firstclaim_core::command::Claim;
use firstclaim_core::outcome::{
    Acquired, AcquiredKind, Pending, PendingReason, Replay, Unresolved,
};
use firstclaim_core::policy::OnLapse;
use firstclaim_core::record::OpenWork;
use firstclaim_core::{
    Answer, AttemptId, Epoch, Invalid, Labels, Millis, OwnerLabel, Timestamp, limits,
};

use super::record::{self, unknown};
use super::time::{self, duration, timestamp};
use super::{Faults, WrongAnswer};
use crate::v1;
use crate::v1::claim_response::Outcome as WireOutcome;

/// Reads a claim.
///
/// Whether a fingerprint is needed, and how long a lease may be, is the policy's to say: the log
/// checks that.
///
/// # Errors
///
/// Every fault of the request.
pub fn read(request: v1::ClaimRequest) -> Result<Claim, Faults> {
    let mut faults = Faults::default();
    let record = faults.record_ref(request.tenant, request.namespace, request.key);
    let attempt_id = faults.take(AttemptId::parse(request.attempt_id));
    let owner = faults.take(OwnerLabel::parse(request.owner));
    let fingerprints = faults.absorb(record::read_fingerprints(request.fingerprints));
    let lease = lease(&mut faults, request.lease);
    let intent_time = faults.timestamp("intent_time", request.intent_time);
    let labels = faults.take(Labels::parse(request.labels));
    let build = || {
        Some(Claim {
            record: record?,
            attempt_id: attempt_id?,
            owner: owner?,
            fingerprints: fingerprints?,
            lease,
            intent_time,
            labels: labels?,
            accept_recovery: request.accept_recovery,
        })
    };
    let built = build();
    faults.finish(built)
}

/// Reads a wanted lease: absent, or at least the shortest.
pub(super) fn lease(faults: &mut Faults, wire: Option<prost_types::Duration>) -> Option<Millis> {
    let lease = faults.duration("lease", wire)?;
    if (limits::LEASE_MIN..=limits::LEASE_POLICY_MAX).contains(&lease) {
        return Some(lease);
    }
    let (min, max) = (limits::LEASE_MIN, limits::LEASE_POLICY_MAX);
    let fix = format!("use {min} to {max}, or leave it out for the policy's own");
    faults.note("lease", format!("is {lease}"), fix);
    None
}

/// The request of a claim.
#[must_use]
pub fn request(claim: Claim) -> v1::ClaimRequest {
    v1::ClaimRequest {
        tenant: claim.record.tenant.into(),
        namespace: claim.record.namespace.into(),
        key: claim.record.key.into(),
        attempt_id: claim.attempt_id.into(),
        owner: claim.owner.into(),
        fingerprints: record::fingerprints(&claim.fingerprints),
        lease: claim.lease.map(duration),
        intent_time: claim.intent_time.map(timestamp),
        labels: claim.labels.into(),
        accept_recovery: claim.accept_recovery,
    }
}

/// The response of a claim.
///
/// # Errors
///
/// [`WrongAnswer`] if the answer is not that of a claim.
pub fn response(answer: Answer, store_time: Timestamp) -> Result<v1::ClaimResponse, WrongAnswer> {
    let outcome = match answer {
        Answer::Acquired(acquired) => WireOutcome::Acquired(acquired_to_wire(&acquired)),
        Answer::Replay(replay) => WireOutcome::Replay(replay_to_wire(*replay)),
        Answer::Pending(pending) => WireOutcome::Pending(pending_to_wire(*pending)),
        Answer::Unresolved(unresolved) => WireOutcome::Unresolved(unresolved_to_wire(&unresolved)),
        other @ (Answer::Renewed(_)
        | Answer::Completed(_)
        | Answer::Released(_)
        | Answer::Tenant(_)
        | Answer::Namespace(_)
        | Answer::Deleted(_)
        | Answer::Swept(_)
        | Answer::Ticked) => return Err(WrongAnswer::to("claim", &other)),
    };
    Ok(v1::ClaimResponse { outcome: Some(outcome), store_time: Some(timestamp(store_time)) })
}

fn acquired_to_wire(acquired: &Acquired) -> v1::Acquired {
    let kind = match acquired.kind {
        AcquiredKind::First => v1::AcquiredKind::First,
        AcquiredKind::AlreadyHeld => v1::AcquiredKind::AlreadyHeld,
        AcquiredKind::Recovery => v1::AcquiredKind::Recovery,
        AcquiredKind::Takeover => v1::AcquiredKind::Takeover,
        AcquiredKind::Retry => v1::AcquiredKind::Retry,
        AcquiredKind::Rebound => v1::AcquiredKind::Rebound,
    };
    v1::Acquired {
        kind: kind.into(),
        epoch: acquired.epoch.0,
        mode: record::mode(acquired.mode).into(),
        lease_expire_time: Some(timestamp(acquired.lease_expire_time)),
        safe_to_dispatch_until: Some(record::safe_to_dispatch_until(acquired.lease_expire_time)),
        on_lapse: record::on_lapse(acquired.on_lapse).into(),
        effects: acquired.open.iter().map(record::effect).collect(),
        first_seen_time: Some(timestamp(acquired.first_seen_time)),
        execute_grants: acquired.execute_grants,
        horizon_checked: acquired.horizon_checked,
        intent_time: acquired.intent_time.map(timestamp),
        intent_time_differs: acquired.intent_time_differs,
        result_retention: Some(duration(acquired.result_retention)),
        identity_retention: Some(time::retention(acquired.identity_retention)),
    }
}

fn replay_to_wire(replay: Replay) -> v1::Replay {
    v1::Replay {
        completion: Some(record::completion(replay.completion)),
        by_this_attempt: replay.by_this_attempt,
        result_dropped: replay.result_dropped,
        age: Some(duration(replay.age)),
        first_seen_time: Some(timestamp(replay.first_seen_time)),
    }
}

fn pending_to_wire(pending: Pending) -> v1::Pending {
    let reason = match pending.reason {
        PendingReason::Held => v1::PendingReason::Held,
        PendingReason::TakeoverDelayed => v1::PendingReason::TakeoverDelayed,
        PendingReason::Backoff => v1::PendingReason::Backoff,
    };
    v1::Pending {
        reason: reason.into(),
        owner: pending.holder.map(String::from).unwrap_or_default(),
        until: Some(timestamp(pending.until)),
        retry_after: Some(duration(pending.retry_after)),
        epoch: pending.epoch.0,
    }
}

fn unresolved_to_wire(unresolved: &Unresolved) -> v1::Unresolved {
    v1::Unresolved {
        open: unresolved.open.iter().map(record::effect).collect(),
        since: Some(timestamp(unresolved.since)),
        epoch: unresolved.epoch.0,
        first_seen_time: Some(timestamp(unresolved.first_seen_time)),
        who_may_settle: format!(
            "the holder of epoch {}, by Complete; or a claim with accept_recovery that finds out \
             what happened, by Complete",
            unresolved.epoch.0
        ),
    }
}

/// Reads the answer to a claim, and the store time at which it was decided.
///
/// # Errors
///
/// What is missing or newer than this client. The intent must then be taken for not claimed.
pub fn read_response(response: v1::ClaimResponse) -> Result<(Answer, Timestamp), Faults> {
    let mut faults = Faults::default();
    let store_time = faults.need_timestamp("store_time", response.store_time);
    let answer = match response.outcome {
        Some(WireOutcome::Acquired(wire)) => faults
            .absorb_in("acquired", read_acquired(wire))
            .map(|acquired| Answer::Acquired(Box::new(acquired))),
        Some(WireOutcome::Replay(wire)) => faults
            .absorb_in("replay", read_replay(wire))
            .map(|replay| Answer::Replay(Box::new(replay))),
        Some(WireOutcome::Pending(wire)) => faults
            .absorb_in("pending", read_pending(wire))
            .map(|pending| Answer::Pending(Box::new(pending))),
        Some(WireOutcome::Unresolved(wire)) => faults
            .absorb_in("unresolved", read_unresolved(wire))
            .map(|unresolved| Answer::Unresolved(Box::new(unresolved))),
        None => {
            let fix = "take the intent for not claimed, and upgrade the client";
            faults.note("outcome", "is missing or newer than this client", fix);
            None
        }
    };
    faults.finish(answer.zip(store_time))
}

fn read_acquired(wire: v1::Acquired) -> Result<Acquired, Faults> {
    let mut faults = Faults::default();
    let kind = faults.take(read_kind(wire.kind));
    let mode = faults.take(record::read_mode(wire.mode));
    let on_lapse = match wire.on_lapse() {
        v1::OnLapse::Recover => Some(OnLapse::Recover),
        v1::OnLapse::Takeover => Some(OnLapse::Takeover),
        v1::OnLapse::Unspecified => faults.need("on_lapse", None),
    };
    let result_retention = faults.need_duration("result_retention", wire.result_retention);
    let identity_retention = faults
        .need("identity_retention", wire.identity_retention)
        .and_then(|wire| faults.take(time::read_retention("identity_retention", wire)));
    let lease_expire_time = faults.need_timestamp("lease_expire_time", wire.lease_expire_time);
    let first_seen_time = faults.need_timestamp("first_seen_time", wire.first_seen_time);
    let intent_time = faults.timestamp("intent_time", wire.intent_time);
    let open = read_open(&mut faults, "effects", wire.effects);
    let build = || {
        Some(Acquired {
            kind: kind?,
            epoch: Epoch(wire.epoch),
            mode: mode?,
            on_lapse: on_lapse?,
            result_retention: result_retention?,
            identity_retention: identity_retention?,
            lease_expire_time: lease_expire_time?,
            first_seen_time: first_seen_time?,
            intent_time,
            intent_time_differs: wire.intent_time_differs,
            horizon_checked: wire.horizon_checked,
            execute_grants: wire.execute_grants,
            open,
        })
    };
    let built = build();
    faults.finish(built)
}

fn read_kind(wire: i32) -> Result<AcquiredKind, Invalid> {
    match v1::AcquiredKind::try_from(wire) {
        Ok(v1::AcquiredKind::First) => Ok(AcquiredKind::First),
        Ok(v1::AcquiredKind::AlreadyHeld) => Ok(AcquiredKind::AlreadyHeld),
        Ok(v1::AcquiredKind::Recovery) => Ok(AcquiredKind::Recovery),
        Ok(v1::AcquiredKind::Takeover) => Ok(AcquiredKind::Takeover),
        Ok(v1::AcquiredKind::Retry) => Ok(AcquiredKind::Retry),
        Ok(v1::AcquiredKind::Rebound) => Ok(AcquiredKind::Rebound),
        Ok(v1::AcquiredKind::Unspecified) | Err(_) => {
            Err(unknown("kind", wire, "upgrade the client to one that knows it"))
        }
    }
}

fn read_open(faults: &mut Faults, field: &str, wire: Vec<v1::Effect>) -> Vec<OpenWork> {
    let mut open = Vec::new();
    for (at, effect) in wire.into_iter().enumerate() {
        open.extend(faults.absorb_in(&format!("{field}[{at}]"), record::read_effect(effect)));
    }
    open
}

fn read_replay(wire: v1::Replay) -> Result<Replay, Faults> {
    let mut faults = Faults::default();
    let completion = faults
        .need("completion", wire.completion)
        .and_then(|completion| faults.absorb_in("completion", record::read_completion(completion)));
    let age = faults.need_duration("age", wire.age);
    let first_seen_time = faults.need_timestamp("first_seen_time", wire.first_seen_time);
    let build = || {
        Some(Replay {
            completion: completion?,
            first_seen_time: first_seen_time?,
            by_this_attempt: wire.by_this_attempt,
            result_dropped: wire.result_dropped,
            age: age?,
        })
    };
    let built = build();
    faults.finish(built)
}

fn read_pending(wire: v1::Pending) -> Result<Pending, Faults> {
    let mut faults = Faults::default();
    let reason = match wire.reason() {
        v1::PendingReason::Held => Some(PendingReason::Held),
        v1::PendingReason::TakeoverDelayed => Some(PendingReason::TakeoverDelayed),
        v1::PendingReason::Backoff => Some(PendingReason::Backoff),
        v1::PendingReason::Unspecified => faults.need("reason", None),
    };
    let holder =
        if wire.owner.is_empty() { None } else { faults.take(OwnerLabel::parse(wire.owner)) };
    let until = faults.need_timestamp("until", wire.until);
    let retry_after = faults.need_duration("retry_after", wire.retry_after);
    let build = || {
        Some(Pending {
            reason: reason?,
            holder,
            until: until?,
            retry_after: retry_after?,
            epoch: Epoch(wire.epoch),
        })
    };
    let built = build();
    faults.finish(built)
}

fn read_unresolved(wire: v1::Unresolved) -> Result<Unresolved, Faults> {
    let mut faults = Faults::default();
    let open = read_open(&mut faults, "open", wire.open);
    let since = faults.need_timestamp("since", wire.since);
    let first_seen_time = faults.need_timestamp("first_seen_time", wire.first_seen_time);
    let build = || {
        Some(Unresolved {
            open,
            since: since?,
            epoch: Epoch(wire.epoch),
            first_seen_time: first_seen_time?,
        })
    };
    let built = build();
    faults.finish(built)
}
