//! From the answer of the real implementation to what is compared of it.

use firstclaim_core::effect::{Effect, Findings, Journal, Work};
use firstclaim_core::outcome::{self, Answer, Inherited, Outcome, PendingReason, Refusal};
use firstclaim_core::policy::OnLapse;
use firstclaim_core::record::{self, Logical};
use firstclaim_core::{EffectName, EffectUid, IdempotencyKey, Timestamp};

use crate::observation::{
    Acquired, Completion, Known, Observation, Permitted, Refused, Replay, Reserved, Seen, Settled,
};

/// Leaves out of an answer what is not compared.
#[must_use]
pub fn observe(outcome: &Outcome) -> Observation {
    match &outcome.result {
        Ok(answer) => answered(answer, outcome.store_time),
        Err(refusal) => Observation::Refused(refused(refusal)),
    }
}

fn answered(answer: &Answer, now: Timestamp) -> Observation {
    match answer {
        Answer::Acquired(it) => Observation::Acquired(Box::new(acquired(it))),
        Answer::Replay(it) => Observation::Replay(Box::new(replay(it))),
        Answer::Pending(it) => pending(it, now),
        Answer::Unresolved(it) => Observation::Unresolved {
            open: journal(&it.open, it.life),
            since: it.since,
            epoch: it.epoch,
            first_seen_time: it.first_seen_time,
        },
        Answer::Renewed(it) => Observation::Renewed {
            epoch: it.epoch,
            mode: it.mode,
            lease_expire_time: it.lease_expire_time,
            inherited: inherited(it.inherited.as_ref()),
        },
        Answer::Completed(it) => {
            Observation::Completed { completion: completion(&it.completion), repeated: it.repeated }
        }
        Answer::Released(it) => Observation::Released { epoch: it.epoch, state: it.state },
        Answer::Tenant(it) => Observation::Policy {
            effective: Box::new(it.effective.clone()),
            previous: it.previous.clone().map(Box::new),
            validate_only: it.validate_only,
        },
        Answer::Namespace(it) => Observation::Policy {
            effective: Box::new(it.effective.clone()),
            previous: it.previous.clone().map(Box::new),
            validate_only: it.validate_only,
        },
        Answer::Deleted(it) => {
            Observation::Deleted { namespaces: it.namespaces, forced: it.forced }
        }
        Answer::Swept(_) => Observation::Swept,
        Answer::Ticked => Observation::Ticked,
        Answer::Reported => Observation::Reported,
        Answer::Permitted(it) => Observation::Permitted(permitted(it)),
        Answer::Settled(it) => Observation::Settled(Box::new(Settled {
            uid: it.uid.clone(),
            known: known(&it.findings),
            repeated: it.repeated,
            state: it.state,
            mode: it.mode,
            open: journal(&it.open, it.uid.life),
            completed_record: it.completed_record,
            inherited: inherited(it.inherited.as_ref()),
        })),
        Answer::Reserved(it) => Observation::Reserved(Box::new(reserved(it))),
        Answer::Resolved(it) => {
            Observation::Resolved { epoch: it.epoch, state: it.state, repeated: it.repeated }
        }
        Answer::Revoked(it) => Observation::Revoked {
            epoch: it.epoch,
            lease_expire_time: it.lease_expire_time,
            repeated: it.repeated,
        },
        Answer::Purged(it) => Observation::Purged { epoch: it.epoch, repeated: it.repeated },
        Answer::Extended(it) => {
            Observation::Extended { seen: it.seen, extended: it.extended, next: it.next.clone() }
        }
    }
}

fn acquired(it: &outcome::Acquired) -> Acquired {
    let each = |one: &Result<outcome::Permitted, Refusal>| match one {
        Ok(one) => Ok(permitted(one)),
        Err(refusal) => Err(refused(refusal)),
    };
    Acquired {
        kind: it.kind,
        epoch: it.epoch,
        mode: it.mode,
        on_lapse: it.on_lapse,
        result_retention: it.result_retention,
        identity_retention: it.identity_retention,
        lease_expire_time: it.lease_expire_time,
        first_seen_time: it.first_seen_time,
        intent_time: it.intent_time,
        intent_time_differs: it.intent_time_differs,
        horizon_checked: it.horizon_checked,
        execute_grants: it.execute_grants,
        life: it.life,
        journal: journal(&it.journal, it.life),
        permits: it.permits.iter().map(each).collect(),
        completion: it.completion.as_ref().map(completion),
        similar_keys: sorted(&it.similar_keys),
    }
}

/// Keys of one millisecond have no order.
fn sorted(keys: &[IdempotencyKey]) -> Vec<IdempotencyKey> {
    let mut keys = keys.to_vec();
    keys.sort();
    keys
}

fn replay(it: &outcome::Replay) -> Replay {
    Replay {
        completion: completion(&it.completion),
        first_seen_time: it.first_seen_time,
        by_this_attempt: it.by_this_attempt,
        result_dropped: it.result_dropped,
        bytes: it.completion.result.bytes.clone(),
        age: it.age,
    }
}

fn pending(it: &outcome::Pending, now: Timestamp) -> Observation {
    let paused = it.reason == PendingReason::Backoff;
    Observation::Pending {
        reason: it.reason,
        holder: it.holder.clone().filter(|_| !paused),
        until: it.until,
        sane_hint: it.retry_after.0 > 0 && it.retry_after <= it.until.since(now),
        epoch: it.epoch,
    }
}

fn reserved(it: &outcome::Reserved) -> Reserved {
    Reserved {
        created: it.created,
        state: it.state,
        epoch: it.epoch,
        first_seen_time: it.first_seen_time,
        identity_expire_time: it.identity_expire_time.filter(|_| it.state == Logical::Reserved),
        intent_time: it.intent_time,
        intent_time_differs: it.intent_time_differs,
        horizon_checked: it.created && it.horizon_checked,
        similar_keys: sorted(&it.similar_keys),
    }
}

fn permitted(it: &outcome::Permitted) -> Permitted {
    Permitted {
        uid: it.uid.clone(),
        provider_key: it.provider_key.clone(),
        number: it.permit.number,
        epoch: it.permit.epoch,
        not_after: it.permit.not_after,
        repeated: it.repeated,
    }
}

fn completion(it: &record::Completion) -> Completion {
    Completion {
        disposition: it.disposition,
        digest: it.result.digest.clone(),
        length: it.result.length,
        oversize: it.result.oversize,
        completed_time: it.completed_time,
        epoch: it.epoch,
        attempt_id: it.attempt_id.clone(),
        owner: it.owner.clone(),
        late: it.late,
        by_evidence: it.by_evidence,
        result_expire_time: it.result_expire_time,
        identity_expire_time: it.identity_expire_time,
    }
}

fn inherited(it: Option<&Inherited>) -> Option<(OnLapse, Vec<Seen>)> {
    it.map(|it| (it.on_lapse, journal(&it.journal, it.life)))
}

/// Everything in a journal, by uid.
fn journal(it: &Journal, life: u64) -> Vec<Seen> {
    let works = it.works.iter().map(|one| work(one, life));
    let mut all: Vec<Seen> = works.chain(it.effects.iter().map(|one| effect(one, life))).collect();
    all.sort_by(|left, right| left.uid.cmp(&right.uid));
    all
}

fn work(it: &Work, life: u64) -> Seen {
    let known = known(&it.findings);
    let open = matches!(known, Known::Open | Known::Conflict);
    Seen {
        uid: EffectUid { life, name: EffectName::Work(it.epoch) },
        known,
        latest: Some(it.deadline).filter(|_| open),
        settle_horizon: Some(it.settle_horizon).filter(|_| open),
        permits: Vec::new(),
        holder: Some((it.attempt_id.clone(), it.owner.clone())),
        since: Some(it.since).filter(|_| known == Known::Open),
    }
}

fn effect(it: &Effect, life: u64) -> Seen {
    let permits = it.permits.iter().map(|one| (one.number, one.epoch, one.not_after));
    Seen {
        uid: EffectUid { life, name: EffectName::Effect(it.id.clone()) },
        known: known(&it.findings),
        latest: Some(it.permits.iter().map(|one| one.not_after).max().unwrap_or_default()),
        settle_horizon: Some(it.settle_horizon),
        permits: permits.collect(),
        holder: None,
        since: None,
    }
}

fn known(it: &Findings) -> Known {
    match &it.settlement {
        None => Known::Open,
        Some(_) if it.conflict => Known::Conflict,
        Some(one) if one.verdict == firstclaim_core::effect::Verdict::Committed => Known::Committed,
        Some(_) => Known::NotCommitted,
    }
}

fn uids(it: &Journal, life: u64) -> Vec<EffectUid> {
    journal(it, life).into_iter().map(|one| one.uid).collect()
}

fn refused(refusal: &Refusal) -> Refused {
    match refusal.clone() {
        Refusal::Invalid(faults) => {
            // The path depends on the message that the field came in.
            let last = |path: String| path.rsplit('.').next().map(str::to_owned);
            Refused::Invalid {
                fields: faults.into_iter().filter_map(|it| last(it.field)).collect(),
            }
        }
        Refusal::IntentTimeInFuture { skew, .. } => Refused::IntentTimeInFuture { skew },
        Refusal::TenantNotFound => Refused::TenantNotFound,
        Refusal::NamespaceNotFound => Refused::NamespaceNotFound,
        Refusal::RecordNotFound => Refused::RecordNotFound,
        Refusal::AlreadyExists { .. } => Refused::AlreadyExists,
        Refusal::NameInDeletion { free_time, .. } => Refused::NameInDeletion { free_time },
        Refusal::EtagMismatch { .. } => Refused::EtagMismatch,
        Refusal::StillInUse { .. } => Refused::StillInUse,
        Refusal::FingerprintMismatch { scheme, parts, first_seen_time } => {
            Refused::FingerprintMismatch { scheme, parts, first_seen_time }
        }
        Refusal::FingerprintIncomparable { first_seen_time, .. } => {
            Refused::FingerprintIncomparable { first_seen_time }
        }
        Refusal::AttemptIdReused { owner } => Refused::AttemptIdReused { owner },
        Refusal::AttemptSpent { epoch } => Refused::AttemptSpent { epoch },
        Refusal::AttemptsExhausted { execute_grants, max_attempts } => {
            Refused::AttemptsExhausted { execute_grants, max_attempts }
        }
        Refusal::LateReplay { intent_time } => Refused::LateReplay { intent_time },
        Refusal::KeyNotReserved => Refused::KeyNotReserved,
        Refusal::DuplicateIntent { similar_keys } => {
            Refused::DuplicateIntent { similar_keys: sorted(&similar_keys) }
        }
        Refusal::RecordsExhausted { records_max } => Refused::RecordsExhausted { records_max },
        Refusal::StaleEpoch { epoch, evidence_kept, completed_record } => {
            Refused::StaleEpoch { epoch, evidence_kept, completed_record }
        }
        Refusal::LeaseExpired { lease_expire_time } => Refused::LeaseExpired { lease_expire_time },
        Refusal::Revoked => Refused::Revoked,
        Refusal::AlreadyCompleted { epoch, completed_time, evidence_kept } => {
            Refused::AlreadyCompleted { epoch, completed_time, evidence_kept }
        }
        Refusal::ResultConflict { stored_digest, sent_digest } => {
            Refused::ResultConflict { stored: stored_digest, sent: sent_digest }
        }
        Refusal::UnsettledEffects { life, open } => {
            Refused::UnsettledEffects { open: uids(&open, life) }
        }
        Refusal::StillLive { until } => Refused::StillLive { until },
        Refusal::NotPurgeable { epoch, state } => Refused::NotPurgeable { epoch, state },
        Refusal::EffectNotFound { uid } => Refused::EffectNotFound { uid },
        Refusal::EffectOpen { uid } => Refused::EffectOpen { uid },
        Refusal::EffectSettled { uid, findings } => {
            Refused::EffectSettled { uid, known: known(&findings) }
        }
        Refusal::EffectMismatch { uid, field } => Refused::EffectMismatch { uid, field },
        Refusal::RedispatchUnsafe { uid, dedup_until } => {
            Refused::RedispatchUnsafe { uid, dedup_until }
        }
        Refusal::DispatchNumber { uid, next } => Refused::DispatchNumber { uid, next },
        Refusal::EvidenceConflict { uid, evidence_kept } => {
            Refused::EvidenceConflict { uid, evidence_kept }
        }
        Refusal::NotYetProvable { uid, provable_time } => {
            Refused::NotYetProvable { uid, provable_time }
        }
        Refusal::EffectNotAllowed { .. } => Refused::EffectNotAllowed,
    }
}
