//! Claim: the table of semantics §5, row by row; the first matching row wins.

use crate::command::{Claim, CompleteWith};
use crate::decide::absent::{self, Newcomer};
use crate::decide::record_effect::permit;
use crate::decide::{Context, Decision, complete};
use crate::effect::Journal;
use crate::fingerprint::{Comparison, FingerprintSet};
use crate::invalid::Invalid;
use crate::limits;
use crate::outcome::{
    Acquired, AcquiredKind, Answer, Pending, PendingReason, Permitted, Refusal, Replay, Unresolved,
};
use crate::planted::{self, Planted};
use crate::policy::{Policy, Requirement};
use crate::record::{
    Completion, Disposition, Ending, Frozen, Grant, KnownAttempt, Logical, Mode, Record, State,
};
use crate::time::{Millis, Timestamp};

/// Decides a claim. `prior` is the record unless it is forgotten.
pub fn claim(context: &mut Context<'_>, prior: Option<&Record>, claim: &Claim) -> Decision {
    let lease = match check_fields(context, claim) {
        Ok(lease) => lease,
        Err(refusal) => return Decision::refuse(refusal),
    };
    let claim = &Asked { claim, lease };
    let Some(record) = prior else { return first(context, claim) };
    let Some(logical) = record.logical(&context.cluster.clock) else {
        return first(context, claim);
    };
    // Rows 1 and 2: before the state, on every path.
    let skips = logical == Logical::Completed && planted::is(Planted::ReplaySkipsFingerprint);
    if logical != Logical::Unbound
        && !skips
        && let Err(refusal) = check_fingerprint(record, &claim.claim.fingerprints)
    {
        return Decision::refuse(refusal);
    }
    // Row 3.
    if let State::Completed(completion) = &record.state {
        return Decision::answer(replayed(replay(context.now(), record, completion, claim.claim)));
    }
    if let Some(decision) = same_attempt(context, record, logical, claim) {
        return decision;
    }
    by_state(context, record, logical, claim)
}

/// What any replica may answer to a claim from its own applied state: a replay, or nothing.
///
/// `record` may be stale: a completed record never changes, so what it answered once it answers
/// until its result expires. `latest` is the latest that store time can be now; past it, only the
/// log may say whether the bytes are gone. Semantics §8.
#[must_use]
pub fn local_replay(
    policy: &Policy,
    record: &Record,
    claim: &Claim,
    applied: Timestamp,
    latest: Timestamp,
) -> Option<Replay> {
    let State::Completed(completion) = &record.state else { return None };
    if policy.fingerprint == Requirement::Required && claim.fingerprints.is_empty()
        || claim.lease.is_some_and(|lease| lease < limits::LEASE_MIN || lease > policy.lease_max)
        || record.fingerprints.compare(&claim.fingerprints) != Comparison::Same
        || completion.result_expire_time.has_come(applied.max(latest))
        || completion.identity_expire_time.has_come(applied.max(latest))
    {
        return None;
    }
    Some(replay(applied, record, completion, claim))
}

/// A claim whose fields fit the policy.
struct Asked<'a> {
    claim: &'a Claim,
    lease: Millis,
}

fn check_fields(context: &Context<'_>, claim: &Claim) -> Result<Millis, Refusal> {
    let policy = context.policy;
    if policy.fingerprint == Requirement::Required && claim.fingerprints.is_empty() {
        return Err(fingerprint_missing());
    }
    let lease = claim.lease.unwrap_or(policy.lease_default);
    if lease < limits::LEASE_MIN || lease > policy.lease_max {
        return Err(invalid(
            "lease",
            format!("is {lease}"),
            format!("use {} to {}", limits::LEASE_MIN, policy.lease_max),
        ));
    }
    Ok(lease)
}

/// What a call without a fingerprint gets where one is required.
pub(super) fn fingerprint_missing() -> Refusal {
    invalid(
        "fingerprints",
        "is missing, and the namespace requires one",
        "send scheme and digest of the canonical request",
    )
}

fn invalid(field: &str, problem: impl Into<String>, fix: impl Into<String>) -> Refusal {
    Refusal::Invalid(vec![Invalid::new(field, problem, fix)])
}

/// Rows 1 and 2.
pub(super) fn check_fingerprint(record: &Record, sent: &FingerprintSet) -> Result<(), Refusal> {
    match record.fingerprints.compare(sent) {
        Comparison::Same => Ok(()),
        Comparison::Differs { scheme, parts } => Err(Refusal::FingerprintMismatch {
            scheme: scheme.into(),
            parts,
            first_seen_time: record.first_seen_time,
        }),
        Comparison::Incomparable => {
            let schemes = |set: &FingerprintSet| {
                set.all().iter().map(|one| one.scheme().as_str().to_owned()).collect()
            };
            Err(Refusal::FingerprintIncomparable {
                bound: schemes(&record.fingerprints),
                sent: schemes(sent),
                first_seen_time: record.first_seen_time,
            })
        }
    }
}

/// Row 3. The bytes are gone at their time, whether or not the sweeper came by.
fn replay(now: Timestamp, record: &Record, completion: &Completion, claim: &Claim) -> Replay {
    let mut shown = completion.clone();
    let kept = planted::is(Planted::ResultUntilSwept);
    let expired = completion.result_expire_time.has_come(now) && !kept;
    if expired {
        shown.result = completion.result.without_bytes();
    }
    // Over the policy's bound the bytes were never stored: nothing is here to be read, either.
    let nothing_here = shown.result.bytes.is_none() && shown.result.reference.is_none();
    Replay {
        first_seen_time: record.first_seen_time,
        by_this_attempt: completion.attempt_id == claim.attempt_id,
        result_dropped: expired || nothing_here,
        age: now.since(completion.completed_time),
        completion: shown,
    }
}

fn replayed(replay: Replay) -> Answer {
    Answer::Replay(Box::new(replay))
}

/// Rows 4 to 6.
fn same_attempt(
    context: &Context<'_>,
    record: &Record,
    logical: Logical,
    claim: &Asked<'_>,
) -> Option<Decision> {
    let attempt_id = &claim.claim.attempt_id;
    let known = record.attempts.iter().rev().find(|known| known.attempt_id == *attempt_id)?;
    if known.owner != claim.claim.owner {
        return Some(Decision::refuse(Refusal::AttemptIdReused { owner: known.owner.clone() }));
    }
    if let (Logical::Live, Some(grant)) = (logical, &record.grant)
        && grant.attempt_id == *attempt_id
    {
        return Some(held(context, record, grant, claim));
    }
    if planted::is(Planted::AttemptGrantedTwice) {
        return None;
    }
    Some(Decision::refuse(Refusal::AttemptSpent { epoch: known.epoch }))
}

/// Row 5: the same grant once more; effects that it carries are permitted as before.
fn held(context: &Context<'_>, record: &Record, grant: &Grant, claim: &Asked<'_>) -> Decision {
    let mut next = record.clone();
    let permits = match grant.mode {
        Mode::Execute => permits(context, &mut next, claim),
        Mode::Resume | Mode::Reconcile => Vec::new(),
    };
    let answer = acquired(context, &next, AcquiredKind::AlreadyHeld, claim);
    let answer = Answer::Acquired(Box::new(Acquired { permits, ..answer }));
    Decision::kept(context, record, next, Ok(answer))
}

/// A permit, or a refusal, for each effect that the claim carries.
fn permits(
    context: &Context<'_>,
    record: &mut Record,
    claim: &Asked<'_>,
) -> Vec<Result<Permitted, Refusal>> {
    claim.claim.effects.iter().map(|dispatch| permit(context, record, dispatch)).collect()
}

/// Rows 7 to 17.
fn by_state(
    context: &mut Context<'_>,
    record: &Record,
    logical: Logical,
    claim: &Asked<'_>,
) -> Decision {
    let now = context.now();
    let exhausted =
        context.policy.max_attempts > 0 && record.execute_grants >= context.policy.max_attempts;
    match &record.state {
        State::Claimed | State::Unresolved { .. } => {
            if let Some(until) = held_until(context, record, logical) {
                return until;
            }
            lapsed(context, record, claim, exhausted)
        }
        State::Retryable { not_before, .. } | State::Unbound { not_before, .. }
            if now < *not_before =>
        {
            pending(now, record, PendingReason::Backoff, *not_before)
        }
        _ if exhausted => exhausted_refusal(context, record),
        State::Retryable { .. } => {
            grant(context, record.clone(), claim, AcquiredKind::Retry, Mode::Execute)
        }
        State::Unbound { .. } => rebind(context, record, claim),
        State::Reserved { .. } => {
            grant(context, record.clone(), claim, AcquiredKind::First, Mode::Execute)
        }
        State::Completed(completion) => {
            Decision::answer(replayed(replay(now, record, completion, claim.claim)))
        }
    }
}

/// Rows 7 and 8.
fn held_until(context: &Context<'_>, record: &Record, logical: Logical) -> Option<Decision> {
    let now = context.now();
    let grant = record.grant.as_ref()?;
    if logical == Logical::Live {
        let deadline = record.deadline(&context.cluster.clock)?;
        return Some(pending(now, record, PendingReason::Held, deadline));
    }
    let free = grant.lease_expire_time.after(record.frozen.takeover_delay);
    if logical == Logical::Lapsed && now < free {
        return Some(pending(now, record, PendingReason::TakeoverDelayed, free));
    }
    None
}

fn pending(now: Timestamp, record: &Record, reason: PendingReason, until: Timestamp) -> Decision {
    Decision::answer(Answer::Pending(Box::new(Pending {
        reason,
        holder: record.grant.as_ref().map(|grant| grant.owner.clone()),
        until,
        retry_after: until.since(now),
        epoch: record.epoch,
    })))
}

/// Rows 9, 10, 12, 13 and 14: lapsed or unresolved.
fn lapsed(
    context: &mut Context<'_>,
    record: &Record,
    claim: &Asked<'_>,
    exhausted: bool,
) -> Decision {
    let open = record.open(&context.cluster.clock);
    let accepts = claim.claim.accept_recovery;
    if !open.is_empty() && !accepts {
        let since = open.since().unwrap_or(record.last_write_time);
        return Decision::answer(Answer::Unresolved(Box::new(Unresolved {
            open,
            life: record.life,
            since,
            epoch: record.epoch,
            first_seen_time: record.first_seen_time,
        })));
    }
    let mut next = record.clone();
    // What a lapsed holder left open stays open through this grant and all later ones.
    next.note_lapse(&context.cluster.clock);
    if !open.is_empty() && !planted::is(Planted::ExecuteBesideOpen) {
        let mode = recovery_mode(context, &open, claim);
        return grant(context, next, claim, AcquiredKind::Recovery, mode);
    }
    if exhausted && accepts {
        return grant(context, next, claim, AcquiredKind::Recovery, Mode::Reconcile);
    }
    if exhausted {
        return exhausted_refusal(context, record);
    }
    grant(context, next, claim, AcquiredKind::Takeover, Mode::Execute)
}

/// RESUME if all that is open can be sent once more under the new lease, else RECONCILE.
fn recovery_mode(context: &Context<'_>, open: &Journal, claim: &Asked<'_>) -> Mode {
    let not_after = context.now().after(claim.lease);
    let again = open.works.is_empty()
        && open.effects.iter().all(|effect| {
            !effect.findings.conflict
                && effect.redispatchable(not_after, context.policy.settle_horizon)
        });
    if again { Mode::Resume } else { Mode::Reconcile }
}

fn exhausted_refusal(context: &Context<'_>, record: &Record) -> Decision {
    Decision::refuse(Refusal::AttemptsExhausted {
        execute_grants: record.execute_grants,
        max_attempts: context.policy.max_attempts,
    })
}

/// Row 16: the key stands for another request from now on.
fn rebind(context: &mut Context<'_>, record: &Record, claim: &Asked<'_>) -> Decision {
    if let Err(refusal) = absent::check_duplicate(context, claim.claim.allow_duplicate_intent) {
        return Decision::refuse(refusal);
    }
    let mut next = record.clone();
    next.fingerprints = claim.claim.fingerprints.clone();
    next.intent_time = claim.claim.intent_time;
    next.bound_time = context.now();
    next.unbound_epoch = record.epoch;
    // They were of the request before.
    next.works.clear();
    grant(context, next, claim, AcquiredKind::Rebound, Mode::Execute)
}

/// Row 18, and the checks that only an absent key has to pass.
fn first(context: &mut Context<'_>, claim: &Asked<'_>) -> Decision {
    let newcomer = Newcomer {
        fingerprints: &claim.claim.fingerprints,
        intent_time: claim.claim.intent_time,
        needs_reservation: context.policy.reserve == Requirement::Required,
        admitted: false,
        allow_duplicate_intent: claim.claim.allow_duplicate_intent,
    };
    if let Err(refusal) = absent::check(context, &newcomer) {
        return Decision::refuse(refusal);
    }
    let record = absent::record(context, &newcomer);
    grant(context, record, claim, AcquiredKind::First, Mode::Execute)
}

/// Gives a new epoch to the asking attempt.
fn grant(
    context: &mut Context<'_>,
    mut record: Record,
    claim: &Asked<'_>,
    kind: AcquiredKind,
    mode: Mode,
) -> Decision {
    let now = context.now();
    if planted::is(Planted::GrantForgetsWork) {
        record.works.clear();
    }
    let epoch = context.cluster.next_epoch();
    let asked = claim.claim;
    record.end(&context.cluster.clock, Ending::Lapsed);
    record.remember(KnownAttempt {
        attempt_id: asked.attempt_id.clone(),
        owner: asked.owner.clone(),
        epoch,
        kind,
        mode,
        journaled: false,
        region: asked.region.clone(),
        granted_time: now,
        labels: asked.labels.clone(),
        ended: None,
        deadline: now.after(claim.lease),
        settle_horizon: context.policy.settle_horizon,
    });
    if mode == Mode::Execute || planted::is(Planted::CapCountsRecovery) {
        record.execute_grants = record.execute_grants.saturating_add(1);
    }
    record.epoch = epoch;
    record.frozen = Frozen::from_policy(context.policy);
    record.last_write_time = now;
    record.state = State::Claimed;
    record.grant = Some(Grant {
        epoch,
        attempt_id: asked.attempt_id.clone(),
        owner: asked.owner.clone(),
        mode,
        granted_time: now,
        lease: claim.lease,
        lease_written_time: now,
        lease_expire_time: now.after(claim.lease),
        journaled: false,
        revoked: false,
        revoked_deadline: Timestamp::default(),
    });
    let permits = match mode {
        Mode::Execute => permits(context, &mut record, claim),
        Mode::Resume | Mode::Reconcile => Vec::new(),
    };
    let answer = acquired(context, &record, kind, claim);
    let completion = match &asked.complete_with {
        Some(with) if mode == Mode::Execute => complete_at_once(context, &mut record, asked, with),
        Some(_) | None => None,
    };
    let answer = Acquired { permits, completion, ..answer };
    Decision::change(record, Answer::Acquired(Box::new(answer)))
}

/// The claim carries its own end. Nothing is open: an EXECUTE grant needs that. A failure is not stored
/// beside work that is known to have been done; the grant stands, with the evidence in hand.
fn complete_at_once(
    context: &Context<'_>,
    record: &mut Record,
    claim: &Claim,
    with: &CompleteWith,
) -> Option<Completion> {
    let failed = with.disposition == Disposition::Failed;
    if failed && record.works.iter().any(|work| work.findings.committed()) {
        return None;
    }
    let ending = if failed { Ending::Failed } else { Ending::Succeeded };
    record.end(&context.cluster.clock, ending);
    let by = (record.epoch, claim.attempt_id.clone(), claim.owner.clone());
    let completion = complete::completion(context, with.disposition, &with.result, by);
    record.state = State::Completed(Box::new(completion.clone()));
    Some(Completion { result: completion.result.without_bytes(), ..completion })
}

fn acquired(
    context: &Context<'_>,
    record: &Record,
    kind: AcquiredKind,
    claim: &Asked<'_>,
) -> Acquired {
    let sent = claim.claim.intent_time;
    let clock = &context.cluster.clock;
    let grant = record.grant.as_ref();
    Acquired {
        kind,
        epoch: record.epoch,
        mode: grant.map_or(Mode::Reconcile, |grant| grant.mode),
        on_lapse: record.frozen.on_lapse,
        result_retention: record.frozen.result_retention,
        identity_retention: record.frozen.identity_retention,
        lease_expire_time: grant.map_or(context.now(), |grant| grant.lease_expire_time),
        first_seen_time: record.first_seen_time,
        intent_time: record.intent_time,
        intent_time_differs: sent.is_some() && sent != record.intent_time,
        horizon_checked: kind == AcquiredKind::First
            && record.intent_time.is_some()
            && record.admitted.is_none(),
        execute_grants: record.execute_grants,
        life: record.life,
        journal: record.journal(clock),
        permits: Vec::new(),
        completion: None,
        similar_keys: absent::similar_keys(context),
    }
}
