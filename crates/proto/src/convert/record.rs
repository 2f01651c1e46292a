//! What is known about a key: results, completions, open work, and the whole record as Get shows it.

use firstclaim_core::policy::OnLapse;
use firstclaim_core::record::{
    Completion, Disposition, Logical, Mode, OpenCause, OpenWork, ResultBody, State,
};
use firstclaim_core::{
    AttemptId, Epoch, Fingerprint, FingerprintSet, Invalid, OwnerLabel, Record, RecordRef, Scheme,
    StoreClock, Timestamp, limits,
};

use super::Faults;
use super::time::{self, duration, timestamp};
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
    let open = record.open_works(clock);
    let state = match record.logical(clock)? {
        Logical::Reserved => v1::RecordState::Reserved,
        Logical::Live => v1::RecordState::Claimed,
        Logical::Lapsed if open.is_empty() => v1::RecordState::Lapsed,
        Logical::Lapsed | Logical::Unresolved => v1::RecordState::Unresolved,
        Logical::Retryable => v1::RecordState::Retryable,
        Logical::Unbound => v1::RecordState::Unbound,
        Logical::Completed => v1::RecordState::Completed,
    };
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
        effects: open.iter().map(effect).collect(),
        on_lapse: on_lapse(record.frozen.on_lapse).into(),
        ..v1::Record::default()
    };
    if state == v1::RecordState::Unbound {
        shown.fingerprints.clear();
    }
    show_grant(&mut shown, record, clock);
    show_state(&mut shown, record, clock);
    Some(shown)
}

fn show_grant(shown: &mut v1::Record, record: &Record, clock: &StoreClock) {
    let Some(grant) = &record.grant else { return };
    shown.mode = mode(grant.mode).into();
    shown.owner = grant.owner.as_str().to_owned();
    shown.labels = grant.labels.pairs().clone();
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
            shown.identity_expire_time = time::expiry(stored.identity_expire_time);
            shown.result_dropped = gone || stored.result.oversize;
            shown.completion = Some(completion(stored));
        }
    }
}

/// How a record was completed.
#[must_use]
pub fn completion(completion: Completion) -> v1::Completion {
    v1::Completion {
        disposition: disposition(completion.disposition).into(),
        result: Some(result(completion.result)),
        complete_time: Some(timestamp(completion.completed_time)),
        epoch: completion.epoch.0,
        attempt_id: completion.attempt_id.into(),
        owner: completion.owner.into(),
        late: completion.late,
        by_evidence: completion.by_evidence,
        result_expire_time: time::expiry(completion.result_expire_time),
        identity_expire_time: time::expiry(completion.identity_expire_time),
    }
}

/// Reads how a record was completed.
///
/// # Errors
///
/// Every fault of the answer.
pub fn read_completion(wire: v1::Completion) -> Result<Completion, Faults> {
    let mut faults = Faults::default();
    let disposition = faults.take(read_disposition(wire.disposition));
    let result = faults.need("result", wire.result).map(stored_result);
    let completed_time = faults.need_timestamp("complete_time", wire.complete_time);
    let attempt_id = faults.take(AttemptId::parse(wire.attempt_id));
    let owner = faults.take(OwnerLabel::parse(wire.owner));
    let result_expire =
        faults.take(time::read_expiry("result_expire_time", wire.result_expire_time));
    let identity_expire =
        faults.take(time::read_expiry("identity_expire_time", wire.identity_expire_time));
    let build = || {
        Some(Completion {
            disposition: disposition?,
            result: result?,
            completed_time: completed_time?,
            epoch: Epoch(wire.epoch),
            attempt_id: attempt_id?,
            owner: owner?,
            late: wire.late,
            by_evidence: wire.by_evidence,
            result_expire_time: result_expire?,
            identity_expire_time: identity_expire?,
        })
    };
    let built = build();
    faults.finish(built)
}

/// A stored result.
#[must_use]
pub fn result(body: ResultBody) -> v1::Result {
    let stored = match (body.bytes, body.reference) {
        (Some(bytes), _) => Some(v1::result::Body::Inline(bytes)),
        (None, Some(uri)) => Some(v1::result::Body::Reference(v1::ResultReference {
            uri,
            digest: body.digest.clone(),
            length: body.length,
        })),
        (None, None) => None,
    };
    v1::Result {
        content_type: body.content_type,
        body: stored,
        digest: body.digest,
        length: body.length,
        oversize: body.oversize,
    }
}

/// Takes a result from an answer as the server describes it.
fn stored_result(wire: v1::Result) -> ResultBody {
    let (bytes, reference) = match wire.body {
        Some(v1::result::Body::Inline(bytes)) => (Some(bytes), None),
        Some(v1::result::Body::Reference(reference)) => (None, Some(reference.uri)),
        None => (None, None),
    };
    ResultBody {
        digest: wire.digest,
        length: wire.length,
        content_type: wire.content_type,
        reference,
        bytes,
        oversize: wire.oversize,
    }
}

/// Reads the result of a completion; digest and length of inline bytes are computed here.
///
/// # Errors
///
/// Every fault of the result, with paths from the request on.
pub fn read_result(wire: Option<v1::Result>) -> Result<ResultBody, Faults> {
    let mut faults = Faults::default();
    let wire = wire.unwrap_or_default();
    if wire.content_type.len() > limits::CONTENT_TYPE_BYTES_MAX {
        let problem = format!("is {} bytes long", wire.content_type.len());
        let fix = format!("use at most {} bytes", limits::CONTENT_TYPE_BYTES_MAX);
        faults.note("result.content_type", problem, fix);
    }
    if wire.content_type.chars().any(char::is_control) {
        let fix = "send a media type, such as application/json";
        faults.note("result.content_type", "holds a control character", fix);
    }
    let body = match wire.body {
        None => ResultBody::inline(Vec::new(), wire.content_type),
        Some(v1::result::Body::Inline(bytes)) => {
            if bytes.len() > limits::RESULT_BYTES_MAX {
                let problem = format!("is {} bytes long", bytes.len());
                let fix = format!(
                    "send at most {} bytes, or keep them elsewhere and send a reference",
                    limits::RESULT_BYTES_MAX
                );
                faults.note("result.inline", problem, fix);
                return Err(faults);
            }
            ResultBody::inline(bytes, wire.content_type)
        }
        Some(v1::result::Body::Reference(reference)) => {
            check_reference(&mut faults, &reference);
            ResultBody {
                digest: reference.digest,
                length: reference.length,
                content_type: wire.content_type,
                reference: Some(reference.uri),
                bytes: None,
                oversize: false,
            }
        }
    };
    faults.finish(Some(body))
}

fn check_reference(faults: &mut Faults, reference: &v1::ResultReference) {
    let most = limits::RESULT_REFERENCE_BYTES_MAX;
    if reference.uri.is_empty() {
        faults.note("result.reference.uri", "is empty", format!("send 1 to {most} bytes"));
    } else if reference.uri.len() > most {
        let problem = format!("is {} bytes long", reference.uri.len());
        faults.note("result.reference.uri", problem, format!("use at most {most} bytes"));
    }
    let (min, max) = (limits::DIGEST_BYTES_MIN, limits::DIGEST_BYTES_MAX);
    if !(min..=max).contains(&reference.digest.len()) {
        let problem = format!("is {} bytes long", reference.digest.len());
        let fix = format!("send {min} to {max} bytes, such as a SHA-256");
        faults.note("result.reference.digest", problem, fix);
    }
}

/// Open work, as the effect that it is.
#[must_use]
pub fn effect(work: &OpenWork) -> v1::Effect {
    let cause = match work.cause {
        OpenCause::Lapsed => v1::OpenCause::Lapsed,
        OpenCause::ReleasedUnknown => v1::OpenCause::ReleasedUnknown,
    };
    v1::Effect {
        kind: v1::EffectKind::Work.into(),
        epoch: work.epoch.0,
        state: v1::EffectState::Open.into(),
        owner: work.owner.as_str().to_owned(),
        open_since: Some(timestamp(work.since)),
        last_deadline: Some(timestamp(work.deadline)),
        note: work.note.clone(),
        settle_horizon: Some(duration(work.settle_horizon)),
        attempt_id: work.attempt_id.as_str().to_owned(),
        cause: cause.into(),
    }
}

/// Reads open work.
///
/// # Errors
///
/// Every fault of the answer; another kind or state of effect is one, as it asks for a newer client.
pub fn read_effect(wire: v1::Effect) -> Result<OpenWork, Faults> {
    let mut faults = Faults::default();
    if wire.kind() != v1::EffectKind::Work || wire.state() != v1::EffectState::Open {
        faults.note("kind", "is not open work", "upgrade the client to one that knows it");
    }
    let cause = match wire.cause() {
        v1::OpenCause::Lapsed => Some(OpenCause::Lapsed),
        v1::OpenCause::ReleasedUnknown => Some(OpenCause::ReleasedUnknown),
        v1::OpenCause::Unspecified => faults.need("cause", None),
    };
    let attempt_id = faults.take(AttemptId::parse(wire.attempt_id));
    let owner = faults.take(OwnerLabel::parse(wire.owner));
    let since = faults.need_timestamp("open_since", wire.open_since);
    let deadline = faults.need_timestamp("last_deadline", wire.last_deadline);
    let settle_horizon = faults.need_duration("settle_horizon", wire.settle_horizon);
    let build = || {
        Some(OpenWork {
            epoch: Epoch(wire.epoch),
            attempt_id: attempt_id?,
            owner: owner?,
            cause: cause?,
            since: since?,
            deadline: deadline?,
            settle_horizon: settle_horizon?,
            note: wire.note,
        })
    };
    let built = build();
    faults.finish(built)
}

/// Fingerprints on the wire.
#[must_use]
pub fn fingerprints(set: &FingerprintSet) -> Vec<v1::Fingerprint> {
    set.all()
        .iter()
        .map(|one| v1::Fingerprint {
            scheme: one.scheme().as_str().to_owned(),
            digest: one.digest().to_vec(),
            parts: one.parts().clone(),
        })
        .collect()
}

/// Reads fingerprints.
///
/// # Errors
///
/// The first fault of each fingerprint, and of the set.
pub fn read_fingerprints(wire: Vec<v1::Fingerprint>) -> Result<FingerprintSet, Faults> {
    let mut faults = Faults::default();
    if wire.len() > limits::FINGERPRINTS_MAX {
        // As the set would say, without reading an unbounded number of them.
        let fix = format!("use at most {}", limits::FINGERPRINTS_MAX);
        faults.note("fingerprints", format!("has {} schemes", wire.len()), fix);
        return Err(faults);
    }
    let mut read = Vec::new();
    for (at, one) in wire.into_iter().enumerate() {
        let parent = format!("fingerprints[{at}]");
        let scheme = faults.take_in(&parent, Scheme::parse(one.scheme));
        // Digest faults are told even where the scheme is wrong, too.
        let named = scheme.clone().map_or_else(|| Scheme::parse("unnamed"), Ok);
        let fingerprint = named.and_then(|scheme| Fingerprint::new(scheme, one.digest, one.parts));
        read.extend(faults.take_in(&parent, fingerprint).filter(|_| scheme.is_some()));
    }
    let set = faults.take(FingerprintSet::new(read));
    faults.finish(set)
}

/// A mode on the wire.
#[must_use]
pub fn mode(mode: Mode) -> v1::Mode {
    match mode {
        Mode::Execute => v1::Mode::Execute,
        Mode::Resume => v1::Mode::Resume,
        Mode::Reconcile => v1::Mode::Reconcile,
    }
}

/// Reads a mode.
///
/// # Errors
///
/// [`Invalid`] for one that is not set or not known.
pub fn read_mode(wire: i32) -> Result<Mode, Invalid> {
    match v1::Mode::try_from(wire) {
        Ok(v1::Mode::Execute) => Ok(Mode::Execute),
        Ok(v1::Mode::Resume) => Ok(Mode::Resume),
        Ok(v1::Mode::Reconcile) => Ok(Mode::Reconcile),
        Ok(v1::Mode::Unspecified) | Err(_) => {
            Err(unknown("mode", wire, "use EXECUTE, RESUME or RECONCILE"))
        }
    }
}

/// What a lapse means, on the wire.
#[must_use]
pub fn on_lapse(on_lapse: OnLapse) -> v1::OnLapse {
    match on_lapse {
        OnLapse::Recover => v1::OnLapse::Recover,
        OnLapse::Takeover => v1::OnLapse::Takeover,
    }
}

/// A disposition on the wire.
#[must_use]
pub fn disposition(disposition: Disposition) -> v1::Disposition {
    match disposition {
        Disposition::Succeeded => v1::Disposition::Succeeded,
        Disposition::Failed => v1::Disposition::Failed,
    }
}

/// Reads a disposition.
///
/// # Errors
///
/// [`Invalid`] for one that is not set or not known.
pub fn read_disposition(wire: i32) -> Result<Disposition, Invalid> {
    match v1::Disposition::try_from(wire) {
        Ok(v1::Disposition::Succeeded) => Ok(Disposition::Succeeded),
        Ok(v1::Disposition::Failed) => Ok(Disposition::Failed),
        Ok(v1::Disposition::Unspecified) | Err(_) => Err(unknown(
            "disposition",
            wire,
            "send SUCCEEDED, or FAILED if it must never be tried again",
        )),
    }
}

/// The fault of an enum that is not set, or holds what this version does not know.
pub(super) fn unknown(field: &str, wire: i32, fix: &str) -> Invalid {
    let problem =
        if wire == 0 { "is not set".to_owned() } else { format!("is {wire}, which is not known") };
    Invalid::new(field, problem, fix)
}

/// Until when it is safe to start something: the end of the lease as promised, grace aside.
#[must_use]
pub fn safe_to_dispatch_until(lease_expire_time: Timestamp) -> prost_types::Timestamp {
    timestamp(lease_expire_time)
}
