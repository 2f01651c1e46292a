//! Claim: the request, and its four answers.

use firstclaim_core::command::Claim;
use firstclaim_core::name::Region;
use firstclaim_core::outcome::{Acquired, Pending, PendingReason, Permitted, Replay, Unresolved};
use firstclaim_core::{
    Answer, AttemptId, Epoch, IdempotencyKey, Labels, Millis, OwnerLabel, Refusal, Timestamp,
    limits,
};

use super::effect::{journal, read_journal};
use super::enums::{self, read_kind, read_mode, read_on_lapse};
use super::fingerprint::{fingerprints, read_fingerprints};
use super::time::{self, duration, timestamp};
use super::{Faults, WrongAnswer, dispatch, result};
use crate::v1;
use crate::v1::claim_response::Outcome as WireOutcome;

/// A claim, and how long its caller waits for an answer other than Pending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// What goes through the log.
    pub claim: Claim,
    /// How long the node that was asked holds the caller; zero for not at all.
    pub wait: Millis,
}

/// Reads a claim that came in at `region`.
///
/// Whether a fingerprint is needed, and how long a lease may be, is the policy's to say: the log
/// checks that.
///
/// # Errors
///
/// Every fault of the request.
pub fn read(request: v1::ClaimRequest, region: Region) -> Result<Asked, Faults> {
    let mut faults = Faults::default();
    let record = faults.record_ref(request.tenant, request.namespace, request.key);
    let attempt_id = faults.take(AttemptId::parse(request.attempt_id));
    let owner = faults.take(OwnerLabel::parse(request.owner));
    let fingerprints = faults.absorb(read_fingerprints(request.fingerprints));
    let lease = lease(&mut faults, request.lease);
    let intent_time = faults.timestamp("intent_time", request.intent_time);
    let labels = faults.take(Labels::parse(request.labels));
    let wait = wait(&mut faults, request.wait);
    if request.complete_with.is_some() && !request.effects.is_empty() {
        let fix = "record effects and complete later, or complete at once without effects";
        faults.note("complete_with", "is sent together with effects", fix);
    }
    let effects = dispatch::read_dispatches(&mut faults, request.effects);
    let complete_with = request
        .complete_with
        .and_then(|with| faults.absorb_in("complete_with", result::read_complete_with(with)));
    let build = || {
        let claim = Claim {
            record: record?,
            attempt_id: attempt_id?,
            owner: owner?,
            fingerprints: fingerprints?,
            lease,
            intent_time,
            labels: labels?,
            accept_recovery: request.accept_recovery,
            region,
            effects,
            complete_with,
            allow_duplicate_intent: request.allow_duplicate_intent,
        };
        Some(Asked { claim, wait })
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

fn wait(faults: &mut Faults, wire: Option<prost_types::Duration>) -> Millis {
    let wait = faults.duration("wait", wire).unwrap_or_default();
    if wait > limits::WAIT_MAX {
        let fix = format!("use at most {}, and ask again after that", limits::WAIT_MAX);
        faults.note("wait", format!("is {wait}"), fix);
    }
    wait
}

/// The request of a claim.
#[must_use]
pub fn request(asked: Asked) -> v1::ClaimRequest {
    let Asked { claim, wait } = asked;
    v1::ClaimRequest {
        tenant: claim.record.tenant.into(),
        namespace: claim.record.namespace.into(),
        key: claim.record.key.into(),
        attempt_id: claim.attempt_id.into(),
        owner: claim.owner.into(),
        fingerprints: fingerprints(&claim.fingerprints),
        lease: claim.lease.map(duration),
        intent_time: claim.intent_time.map(timestamp),
        labels: claim.labels.into(),
        accept_recovery: claim.accept_recovery,
        wait: (wait > Millis(0)).then(|| duration(wait)),
        effects: claim.effects.into_iter().map(dispatch::dispatch).collect(),
        complete_with: claim.complete_with.map(result::complete_with),
        allow_duplicate_intent: claim.allow_duplicate_intent,
    }
}

/// The response of a claim. `failure` says how the refusal of an effect leaves.
///
/// # Errors
///
/// [`WrongAnswer`] if the answer is not that of a claim.
pub fn response(
    answer: Answer,
    store_time: Timestamp,
    failure: impl Fn(&Refusal) -> v1::Failure,
) -> Result<v1::ClaimResponse, WrongAnswer> {
    let outcome = match answer {
        Answer::Acquired(acquired) => WireOutcome::Acquired(acquired_to_wire(*acquired, failure)),
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
        | Answer::Ticked
        | Answer::Permitted(_)
        | Answer::Settled(_)
        | Answer::Reserved(_)
        | Answer::Resolved(_)
        | Answer::Revoked(_)
        | Answer::Purged(_)
        | Answer::Extended(_)
        | Answer::Reported) => return Err(WrongAnswer::to("claim", &other)),
    };
    Ok(v1::ClaimResponse { outcome: Some(outcome), store_time: Some(timestamp(store_time)) })
}

fn acquired_to_wire(acquired: Acquired, failure: impl Fn(&Refusal) -> v1::Failure) -> v1::Acquired {
    use v1::dispatch_answer::Outcome;
    let dispatched = |one: Result<Permitted, Refusal>| v1::DispatchAnswer {
        outcome: Some(match one {
            Ok(permitted) => Outcome::Permit(dispatch::permitted(&permitted)),
            Err(refusal) => Outcome::Failure(failure(&refusal)),
        }),
    };
    v1::Acquired {
        kind: enums::kind(acquired.kind).into(),
        epoch: acquired.epoch.0,
        mode: enums::mode(acquired.mode).into(),
        lease_expire_time: Some(timestamp(acquired.lease_expire_time)),
        safe_to_dispatch_until: Some(time::safe_to_dispatch_until(acquired.lease_expire_time)),
        on_lapse: enums::on_lapse(acquired.on_lapse).into(),
        effects: journal(acquired.life, &acquired.journal, &[]),
        first_seen_time: Some(timestamp(acquired.first_seen_time)),
        execute_grants: acquired.execute_grants,
        horizon_checked: acquired.horizon_checked,
        intent_time: acquired.intent_time.map(timestamp),
        intent_time_differs: acquired.intent_time_differs,
        result_retention: Some(duration(acquired.result_retention)),
        identity_retention: Some(time::retention(acquired.identity_retention)),
        similar_keys: acquired.similar_keys.into_iter().map(String::from).collect(),
        life: acquired.life,
        dispatches: acquired.permits.into_iter().map(dispatched).collect(),
        completion: acquired.completion.map(result::completion),
    }
}

fn replay_to_wire(replay: Replay) -> v1::Replay {
    v1::Replay {
        completion: Some(result::completion(replay.completion)),
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
        open: journal(unresolved.life, &unresolved.open, &[]),
        since: Some(timestamp(unresolved.since)),
        epoch: unresolved.epoch.0,
        first_seen_time: Some(timestamp(unresolved.first_seen_time)),
        who_may_settle: format!(
            "whoever knows, by SettleEffect; the holder of epoch {}, by Complete; a claim with \
             accept_recovery that finds out; or a person, by Resolve",
            unresolved.epoch.0
        ),
        life: unresolved.life,
    }
}

/// The answer to a claim, as a client sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Answered {
    /// One of the four. The effects that the claim carried are in `dispatches`, not here.
    pub answer: Answer,
    /// What became of each effect that the claim carried, by position: a permit, or the refusal as
    /// a status would say it.
    pub dispatches: Vec<Result<Permitted, v1::Failure>>,
    /// The store time at which it was decided.
    pub store_time: Timestamp,
}

/// Reads the answer to a claim.
///
/// # Errors
///
/// What is missing or newer than this client. The intent must then be taken for not claimed.
pub fn read_response(response: v1::ClaimResponse) -> Result<Answered, Faults> {
    let mut faults = Faults::default();
    let store_time = faults.need_timestamp("store_time", response.store_time);
    let mut dispatches = Vec::new();
    let answer = match response.outcome {
        Some(WireOutcome::Acquired(mut wire)) => {
            dispatches = read_dispatch_answers(&mut faults, std::mem::take(&mut wire.dispatches));
            faults
                .absorb_in("acquired", read_acquired(wire))
                .map(|acquired| Answer::Acquired(Box::new(acquired)))
        }
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
    let build = || Some(Answered { answer: answer?, dispatches, store_time: store_time? });
    let built = build();
    faults.finish(built)
}

fn read_dispatch_answers(
    faults: &mut Faults,
    wire: Vec<v1::DispatchAnswer>,
) -> Vec<Result<Permitted, v1::Failure>> {
    use v1::dispatch_answer::Outcome;
    let mut read = Vec::new();
    for (at, one) in wire.into_iter().enumerate() {
        let field = format!("acquired.dispatches[{at}]");
        match one.outcome {
            Some(Outcome::Permit(permit)) => {
                read.extend(faults.absorb_in(&field, dispatch::read_permitted(permit)).map(Ok));
            }
            Some(Outcome::Failure(failure)) => read.push(Err(failure)),
            None => faults.note(field, "is missing or newer than this client", "send nothing"),
        }
    }
    read
}

fn read_acquired(wire: v1::Acquired) -> Result<Acquired, Faults> {
    let mut faults = Faults::default();
    let kind = faults.take(read_kind(wire.kind));
    let mode = faults.take(read_mode(wire.mode));
    let on_lapse = faults.take(read_on_lapse(wire.on_lapse));
    let result_retention = faults.need_duration("result_retention", wire.result_retention);
    let identity_retention = faults
        .need("identity_retention", wire.identity_retention)
        .and_then(|wire| faults.take(time::read_retention("identity_retention", wire)));
    let lease_expire_time = faults.need_timestamp("lease_expire_time", wire.lease_expire_time);
    let first_seen_time = faults.need_timestamp("first_seen_time", wire.first_seen_time);
    let intent_time = faults.timestamp("intent_time", wire.intent_time);
    let journal = read_journal(&mut faults, "effects", wire.effects);
    let completion = match wire.completion {
        None => Some(None),
        Some(wire) => faults.absorb_in("completion", result::read_completion(wire)).map(Some),
    };
    let similar_keys = read_keys(&mut faults, "similar_keys", wire.similar_keys);
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
            life: wire.life,
            journal: journal?,
            permits: Vec::new(),
            completion: completion?,
            similar_keys,
        })
    };
    let built = build();
    faults.finish(built)
}

/// Reads a list of keys out of an answer.
pub(super) fn read_keys(
    faults: &mut Faults,
    field: &str,
    wire: Vec<String>,
) -> Vec<IdempotencyKey> {
    let mut read = Vec::new();
    for (at, key) in wire.into_iter().enumerate() {
        read.extend(faults.take_as(&format!("{field}[{at}]"), IdempotencyKey::parse(key)));
    }
    read
}

fn read_replay(wire: v1::Replay) -> Result<Replay, Faults> {
    let mut faults = Faults::default();
    let completion = faults
        .need("completion", wire.completion)
        .and_then(|completion| faults.absorb_in("completion", result::read_completion(completion)));
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
    let open = read_journal(&mut faults, "open", wire.open);
    let since = faults.need_timestamp("since", wire.since);
    let first_seen_time = faults.need_timestamp("first_seen_time", wire.first_seen_time);
    let build = || {
        Some(Unresolved {
            open: open?,
            life: wire.life,
            since: since?,
            epoch: Epoch(wire.epoch),
            first_seen_time: first_seen_time?,
        })
    };
    let built = build();
    faults.finish(built)
}
