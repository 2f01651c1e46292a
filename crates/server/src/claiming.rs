//! How a claim is answered: from this node's own state if it is a replay, else by the leader's log.

use firstclaim_core::command::Claim;
use firstclaim_core::outcome::{AcquiredKind, Pending};
use firstclaim_core::{Answer, Command, Millis, Outcome, Reason, RecordRef, Refusal, Timestamp};
use firstclaim_proto::convert::claim;
use firstclaim_proto::v1;
use rand::Rng as _;
use tokio::time::Instant;

use crate::audit;
use crate::call::Call;
use crate::edge::{self, Look};
use crate::metrics::ReplayPath;
use crate::node::{Fail, Node};
use crate::rate::Limit;
use crate::status::Failure;
use crate::telemetry::key_digest;

/// Spreads those who wait for one claim, so that they do not come back at once.
const JITTER_MAX: Millis = Millis(500);

/// The replay of a claim from this node's own state, if it may answer it, and what else was seen.
pub(crate) fn look(
    node: &Node,
    asked: &Claim,
) -> Result<(Option<v1::ClaimResponse>, Option<Limit>), Fail> {
    let Look { answer, limit } = edge::look(&node.replica, asked).map_err(|error| {
        tracing::error!(%error, "the state cannot be read");
        Failure::internal("read its state")
    })?;
    let Some(Outcome { store_time, result }) = answer else { return Ok((None, limit)) };
    note(node, asked, result.as_ref(), store_time, ReplayPath::Local);
    match result {
        Ok(answer) => Ok((Some(respond(answer, store_time)?), limit)),
        Err(refusal) => Err(Failure::refused(&refusal, store_time).into()),
    }
}

/// Whether the namespace may make one more claim now.
pub(crate) fn admit(node: &Node, record: &RecordRef, limit: Option<Limit>) -> Result<(), Failure> {
    let Some(limit) = limit else { return Ok(()) };
    node.rate.take(limit, Instant::now()).map_err(|wait| {
        let records = &node.metrics.records;
        let scope = records.scope(&record.tenant, &record.namespace);
        records.claim_refusal(&scope, Reason::RateLimited);
        Failure::rate_limited(limit.per_second, wait)
    })
}

/// Has the log decide a claim, at the leader.
pub(crate) async fn decide(
    node: &Node,
    call: &Call,
    asked: Claim,
    bytes: usize,
) -> Result<v1::ClaimResponse, Fail> {
    let told = told(&asked);
    let outcome = node.submit(call, Command::Claim(asked), bytes).await?;
    finish(node, &told, outcome)
}

/// What is needed of a claim once it is decided: not its bodies.
pub(crate) fn told(asked: &Claim) -> Claim {
    Claim {
        record: asked.record.clone(),
        attempt_id: asked.attempt_id.clone(),
        owner: asked.owner.clone(),
        fingerprints: asked.fingerprints.clone(),
        lease: asked.lease,
        intent_time: asked.intent_time,
        labels: asked.labels.clone(),
        accept_recovery: asked.accept_recovery,
        region: asked.region.clone(),
        effects: Vec::new(),
        complete_with: None,
        allow_duplicate_intent: asked.allow_duplicate_intent,
    }
}

/// Tells of a claim that was decided, and answers it.
pub(crate) fn finish(
    node: &Node,
    asked: &Claim,
    outcome: Outcome,
) -> Result<v1::ClaimResponse, Fail> {
    let Outcome { store_time, mut result } = outcome;
    note(node, asked, result.as_ref(), store_time, ReplayPath::Log);
    if let Ok(Answer::Pending(pending)) = &mut result {
        spread(pending);
    }
    match result {
        Ok(answer) => Ok(respond(answer, store_time)?),
        Err(refusal) => Err(Failure::refused(&refusal, store_time).into()),
    }
}

fn respond(
    answer: Answer,
    store_time: Timestamp,
) -> Result<v1::ClaimResponse, firstclaim_proto::convert::WrongAnswer> {
    let failure = |refusal: &Refusal| Failure::refused(refusal, store_time).into_item();
    claim::response(answer, store_time, failure)
}

/// Counts and logs what a claim came to, and notes it for the history if it was not granted. A
/// duplicate that was stopped is what this program is for.
fn note(
    node: &Node,
    asked: &Claim,
    result: Result<&Answer, &Refusal>,
    store_time: Timestamp,
    path: ReplayPath,
) {
    let record = &asked.record;
    let (key_digest, region) = (key_digest(record), asked.region.as_str());
    let (tenant, namespace) = (record.tenant.as_str(), record.namespace.as_str());
    let seen = match result {
        Ok(answer) => {
            let outcome = count(node, asked, answer, path);
            let skipped = skipped(answer);
            match skipped {
                Some(outcome) => tell_of_duplicate(node, asked, outcome, path),
                None => tracing::debug!(tenant, namespace, key_digest, region, outcome, "claim"),
            }
            skipped
        }
        Err(refusal) => {
            count_refusal(node, record, refusal);
            let outcome = refusal.reason().as_str();
            if matches!(refusal, Refusal::DuplicateIntent { .. }) {
                tell_of_duplicate(node, asked, outcome, path);
            }
            concerns_a_record(refusal).then_some(outcome)
        }
    };
    if let Some(outcome) = seen {
        let lost = node.sightings.note(asked, outcome, store_time);
        node.metrics.sightings_dropped.inc_by(lost);
    }
}

/// The log line of a duplicate that was stopped: the work behind it was skipped, and here is its sign.
fn tell_of_duplicate(node: &Node, asked: &Claim, outcome: &str, path: ReplayPath) {
    let Some(left_out) = node.duplicate_lines.take(Instant::now()) else { return };
    tracing::info!(
        tenant = asked.record.tenant.as_str(),
        namespace = asked.record.namespace.as_str(),
        key_digest = key_digest(&asked.record),
        owner = asked.owner.as_str(),
        region = asked.region.as_str(),
        outcome,
        ?path,
        lines_left_out = left_out,
        "duplicate, skipped"
    );
}

/// What the history calls an answer that granted nothing.
fn skipped(answer: &Answer) -> Option<&'static str> {
    if matches!(answer, Answer::Replay(_)) {
        Some("REPLAY")
    } else if matches!(answer, Answer::Pending(_)) {
        Some("PENDING")
    } else if matches!(answer, Answer::Unresolved(_)) {
        Some("UNRESOLVED")
    } else {
        None
    }
}

fn count(node: &Node, asked: &Claim, answer: &Answer, path: ReplayPath) -> &'static str {
    let (record, records) = (&asked.record, &node.metrics.records);
    let scope = records.scope(&record.tenant, &record.namespace);
    let outcome = outcome_name(answer);
    records.claim(&scope, outcome);
    if let Answer::Replay(replay) = answer {
        records.replay(&scope, path, replay.age);
    }
    if let Answer::Acquired(acquired) = answer {
        if acquired.kind == AcquiredKind::Rebound {
            audit::Entry::rebound(record, asked.owner.as_str()).tell(None);
        }
        if !acquired.similar_keys.is_empty() {
            records.duplicate_intent(&scope, false);
        }
        if acquired.intent_time_differs {
            records.intent_time_moved(&scope);
        }
        for permitted in acquired.permits.iter().flatten().filter(|permit| !permit.repeated) {
            records.permit(&scope, permitted.permit.number == 1);
        }
        if let Some(completion) = &acquired.completion {
            records.completion(&scope, completion.disposition, completion.late);
        }
    }
    outcome
}

/// Counts a claim or a reservation that the log refused.
pub(crate) fn count_refusal(node: &Node, record: &RecordRef, refusal: &Refusal) {
    // Names of what does not exist are not counted by: there are too many of them.
    if matches!(refusal, Refusal::TenantNotFound | Refusal::NamespaceNotFound) {
        return;
    }
    let records = &node.metrics.records;
    let scope = records.scope(&record.tenant, &record.namespace);
    records.claim(&scope, "refused");
    records.claim_refusal(&scope, refusal.reason());
    if matches!(refusal, Refusal::DuplicateIntent { .. }) {
        records.duplicate_intent(&scope, true);
    }
}

/// Whether a refusal says something about a record that exists: then its history should know.
fn concerns_a_record(refusal: &Refusal) -> bool {
    matches!(
        refusal,
        Refusal::FingerprintMismatch { .. }
            | Refusal::FingerprintIncomparable { .. }
            | Refusal::AttemptIdReused { .. }
            | Refusal::AttemptSpent { .. }
            | Refusal::AttemptsExhausted { .. }
    )
}

fn outcome_name(answer: &Answer) -> &'static str {
    match answer {
        Answer::Acquired(acquired) => match acquired.kind {
            AcquiredKind::First => "first",
            AcquiredKind::AlreadyHeld => "already_held",
            AcquiredKind::Recovery => "recovery",
            AcquiredKind::Takeover => "takeover",
            AcquiredKind::Retry => "retry",
            AcquiredKind::Rebound => "rebound",
        },
        Answer::Replay(_) => "replay",
        Answer::Pending(_) => "pending",
        Answer::Unresolved(_) => "unresolved",
        Answer::Renewed(_)
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
        | Answer::Reported => "other",
    }
}

/// Adds to the wait, never takes from it: who comes early only waits again.
fn spread(pending: &mut Pending) {
    let most = JITTER_MAX.0.min(pending.retry_after.0 / 4 + 50);
    let jitter = Millis(rand::rng().random_range(0..=most));
    pending.retry_after = pending.retry_after.plus(jitter);
}

#[cfg(test)]
mod tests {
    use firstclaim_core::Epoch;
    use firstclaim_core::outcome::PendingReason;

    use super::*;

    /// Reported elsewhere: case 37.
    #[test]
    fn jitter_never_shortens_a_wait() {
        for _ in 0..200 {
            let mut pending = Pending {
                reason: PendingReason::Held,
                holder: None,
                until: Timestamp(1000),
                retry_after: Millis(700),
                epoch: Epoch(1),
            };
            spread(&mut pending);
            assert!((700..=700 + 225).contains(&pending.retry_after.0), "{pending:?}");
        }
    }
}
