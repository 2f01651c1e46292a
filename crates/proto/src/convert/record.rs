//! The whole record, as Get, lists and watches show it.

use firstclaim_core::record::{Evidence, KnownAttempt, Logical, Resolution, State};
use firstclaim_core::{Record, RecordRef, StoreClock};

use super::Faults;
use super::effect::{content, journal};
use super::enums::{self, disposition};
use super::fingerprint::fingerprints;
use super::result::completion;
use super::time::{self, timestamp};
use crate::v1;

/// Reads which record a Get asks for, and how fresh it must be: LINEARIZABLE or LOCAL.
///
/// # Errors
///
/// Every fault of the request.
pub fn read_get(request: v1::GetRequest) -> Result<(RecordRef, v1::Consistency), Faults> {
    let mut faults = Faults::default();
    let consistency = match v1::Consistency::try_from(request.consistency) {
        Ok(v1::Consistency::Unspecified | v1::Consistency::Linearizable) => {
            Some(v1::Consistency::Linearizable)
        }
        Ok(v1::Consistency::Local) => Some(v1::Consistency::Local),
        Err(_) => {
            let problem = format!("is {}, which this server does not know", request.consistency);
            faults.note("consistency", problem, "use LINEARIZABLE or LOCAL");
            None
        }
    };
    let record = faults.record_ref(request.tenant, request.namespace, request.key);
    faults.finish(record.zip(consistency))
}

/// A Get of `record`.
#[must_use]
pub fn get_request(record: &RecordRef, consistency: v1::Consistency) -> v1::GetRequest {
    v1::GetRequest {
        tenant: record.tenant.as_str().to_owned(),
        namespace: record.namespace.as_str().to_owned(),
        key: record.key.as_str().to_owned(),
        consistency: consistency.into(),
    }
}

/// The record as Get shows it; none if it is forgotten at the clock's time.
#[must_use]
pub fn record(name: &RecordRef, record: &Record, clock: &StoreClock) -> Option<v1::Record> {
    let known = record.journal(clock);
    let state = enums::state(record.logical(clock)?, !record.open(clock).is_empty());
    let mut shown = v1::Record {
        tenant: name.tenant.as_str().to_owned(),
        namespace: name.namespace.as_str().to_owned(),
        key: name.key.as_str().to_owned(),
        state: state.into(),
        epoch: record.epoch.0,
        fingerprints: fingerprints(&record.fingerprints),
        first_seen_time: Some(timestamp(record.first_seen_time)),
        intent_time: record.intent_time.map(timestamp),
        execute_grants: record.execute_grants,
        effects: journal(record.life, &known, &record.attempts),
        on_lapse: enums::on_lapse(record.frozen.on_lapse).into(),
        life: record.life,
        reserved: record.reserved,
        reserve_labels: record.reserve_labels.pairs().clone(),
        revision: record.revision,
        resolution: record.resolution.as_ref().map(resolution),
        stale_reports: record.evidence.iter().map(stale_report).collect(),
        attempts: attempts(record, clock),
        ..v1::Record::default()
    };
    if let Some((principal, reason)) = &record.admitted {
        shown.admitted_by = principal.as_str().to_owned();
        shown.admit_reason.clone_from(reason);
    }
    if state == v1::RecordState::Unbound {
        shown.fingerprints.clear();
    }
    show_grant(&mut shown, record, clock);
    show_state(&mut shown, record, clock);
    Some(shown)
}

/// The record as lists show it: without the bytes of its result, requests and evidence.
#[must_use]
pub fn brief(name: &RecordRef, stored: &Record, clock: &StoreClock) -> Option<v1::Record> {
    let mut shown = record(name, stored, clock)?;
    if let Some(result) = shown.completion.as_mut().and_then(|done| done.result.as_mut())
        && matches!(result.body, Some(v1::result::Body::Inline(_)))
    {
        result.body = None;
    }
    for effect in &mut shown.effects {
        if let Some(request) = &mut effect.request {
            request.data.clear();
        }
        for settlement in effect.settlement.iter_mut().chain(&mut effect.contradictions) {
            if let Some(evidence) = &mut settlement.evidence {
                evidence.data.clear();
            }
        }
    }
    if let Some(evidence) = shown.resolution.as_mut().and_then(|it| it.evidence.as_mut()) {
        evidence.data.clear();
    }
    Some(shown)
}

fn show_grant(shown: &mut v1::Record, record: &Record, clock: &StoreClock) {
    let Some(grant) = &record.grant else { return };
    shown.mode = enums::mode(grant.mode).into();
    shown.owner = grant.owner.as_str().to_owned();
    shown.attempt_id = grant.attempt_id.as_str().to_owned();
    shown.revoked = grant.revoked;
    if let Some(known) = record.attempt(grant.epoch) {
        shown.labels.clone_from(known.labels.pairs());
    }
    shown.lease_expire_time = Some(timestamp(grant.lease_expire_time));
    shown.effective_deadline = record.deadline(clock).map(timestamp);
    if record.logical(clock) == Some(Logical::Lapsed) {
        let free = grant.lease_expire_time.after(record.frozen.takeover_delay);
        shown.not_before = Some(timestamp(free)).filter(|_| free > clock.now());
    }
}

fn show_state(shown: &mut v1::Record, record: &Record, clock: &StoreClock) {
    match &record.state {
        State::Claimed | State::Unresolved { .. } => {}
        State::Reserved { identity_expire_time } => {
            shown.identity_expire_time = time::expiry(*identity_expire_time);
        }
        State::Retryable { not_before, identity_expire_time }
        | State::Unbound { not_before, identity_expire_time } => {
            shown.not_before = Some(timestamp(*not_before));
            shown.identity_expire_time = time::expiry(*identity_expire_time);
        }
        State::Completed(stored) => {
            let gone = stored.result_expire_time.has_come(clock.now());
            let mut stored = (**stored).clone();
            if gone {
                stored.result = stored.result.without_bytes();
            }
            let nothing_here = stored.result.bytes.is_none() && stored.result.reference.is_none();
            shown.identity_expire_time = time::expiry(stored.identity_expire_time);
            shown.result_dropped = gone || nothing_here;
            shown.completion = Some(completion(stored));
        }
    }
}

/// The attempts that are remembered, oldest first. A lapse that nobody has written down yet shows,
/// too.
#[must_use]
pub fn attempts(record: &Record, clock: &StoreClock) -> Vec<v1::Attempt> {
    let lapsed = record
        .grant
        .as_ref()
        .filter(|_| record.logical(clock) == Some(Logical::Lapsed))
        .and_then(|grant| Some((grant.epoch, record.deadline(clock)?)));
    let shown = |known: &KnownAttempt| {
        let mut shown = attempt(known);
        if let Some((epoch, deadline)) = lapsed
            && known.epoch == epoch
            && known.ended.is_none()
        {
            shown.ending = v1::Ending::Lapsed.into();
            shown.end_time = Some(timestamp(deadline));
        }
        shown
    };
    record.attempts.iter().map(shown).collect()
}

fn attempt(known: &KnownAttempt) -> v1::Attempt {
    let ending = known.ended.map_or(v1::Ending::Unspecified, |(ending, _)| enums::ending(ending));
    v1::Attempt {
        attempt_id: known.attempt_id.as_str().to_owned(),
        owner: known.owner.as_str().to_owned(),
        epoch: known.epoch.0,
        kind: enums::kind(known.kind).into(),
        mode: enums::mode(known.mode).into(),
        journaled: known.journaled,
        region: known.region.as_str().to_owned(),
        grant_time: Some(timestamp(known.granted_time)),
        labels: known.labels.pairs().clone(),
        ending: ending.into(),
        end_time: known.ended.map(|(_, time)| timestamp(time)),
    }
}

fn resolution(resolution: &Resolution) -> v1::Resolution {
    v1::Resolution {
        epoch: resolution.epoch.0,
        principal: resolution.principal.as_str().to_owned(),
        reason: resolution.reason.clone(),
        evidence: Some(content(resolution.evidence.clone())),
        resolve_time: Some(timestamp(resolution.time)),
    }
}

fn stale_report(evidence: &Evidence) -> v1::StaleReport {
    v1::StaleReport {
        epoch: evidence.epoch.0,
        disposition: disposition(evidence.disposition).into(),
        digest: evidence.digest.clone(),
        report_time: Some(timestamp(evidence.time)),
    }
}
