//! What a holder calls: Renew, Complete, Release.

use firstclaim_core::command::{Complete, Holder, Release, ReleaseKind, Renew};
use firstclaim_core::effect::Journal;
use firstclaim_core::outcome::{Completed, Released, ReleasedState};
use firstclaim_core::policy::OnLapse;
use firstclaim_core::record::Mode;
use firstclaim_core::{Answer, AttemptId, Epoch, Millis, RecordRef, Timestamp, limits};

use super::claim::lease;
use super::enums::{self, disposition, read_disposition, read_mode};
use super::time::{self, duration, timestamp};
use super::{Faults, WrongAnswer, effect, result, settle};
use crate::v1;
use crate::v1::release_request::Intent;

/// Reads what proves a grant.
pub(super) fn read(
    faults: &mut Faults,
    record: Option<RecordRef>,
    epoch: u64,
    attempt_id: String,
) -> Option<Holder> {
    let attempt_id = faults.take(AttemptId::parse(attempt_id));
    let epoch = faults.epoch("epoch", epoch);
    Some(Holder { record: record?, epoch: epoch?, attempt_id: attempt_id? })
}

/// Reads a renewal.
///
/// # Errors
///
/// Every fault of the request.
pub fn read_renew(request: v1::RenewRequest) -> Result<Renew, Faults> {
    let mut faults = Faults::default();
    let record = faults.record_ref(request.tenant, request.namespace, request.key);
    let holder = read(&mut faults, record, request.epoch, request.attempt_id);
    let lease = lease(&mut faults, request.lease);
    faults.finish(holder.map(|holder| Renew { holder, lease }))
}

/// The request of a renewal.
#[must_use]
pub fn renew_request(renew: Renew) -> v1::RenewRequest {
    let Holder { record, epoch, attempt_id } = renew.holder;
    v1::RenewRequest {
        tenant: record.tenant.into(),
        namespace: record.namespace.into(),
        key: record.key.into(),
        attempt_id: attempt_id.into(),
        epoch: epoch.0,
        lease: renew.lease.map(duration),
    }
}

/// The response of a renewal.
///
/// # Errors
///
/// [`WrongAnswer`] if the answer is not that of a renewal.
pub fn renew_response(
    answer: &Answer,
    store_time: Timestamp,
) -> Result<v1::RenewResponse, WrongAnswer> {
    let Answer::Renewed(renewed) = answer else { return Err(WrongAnswer::to("renewal", answer)) };
    let (on_lapse, effects) = effect::inherited(renewed.inherited.as_ref());
    Ok(v1::RenewResponse {
        lease_expire_time: Some(timestamp(renewed.lease_expire_time)),
        safe_to_dispatch_until: Some(time::safe_to_dispatch_until(renewed.lease_expire_time)),
        store_time: Some(timestamp(store_time)),
        mode: enums::mode(renewed.mode).into(),
        epoch: renewed.epoch.0,
        on_lapse: on_lapse.into(),
        effects,
    })
}

/// A longer lease, as a client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenewAnswer {
    /// Its epoch.
    pub epoch: Epoch,
    /// What it allows.
    pub mode: Mode,
    /// The new deadline.
    pub lease_expire_time: Timestamp,
    /// For EXECUTE after others: what a lapse means.
    pub on_lapse: Option<OnLapse>,
    /// For EXECUTE after others: what happened and what did not.
    pub journal: Journal,
    /// Store time.
    pub store_time: Timestamp,
}

/// Reads the answer to a renewal.
///
/// # Errors
///
/// What is missing or newer than this client.
pub fn read_renew_response(response: v1::RenewResponse) -> Result<RenewAnswer, Faults> {
    let mut faults = Faults::default();
    let lease = faults.need_timestamp("lease_expire_time", response.lease_expire_time);
    let store_time = faults.need_timestamp("store_time", response.store_time);
    let mode = faults.take(read_mode(response.mode));
    let (on_lapse, journal) =
        effect::read_inherited(&mut faults, response.on_lapse, response.effects);
    let build = || {
        Some(RenewAnswer {
            epoch: Epoch(response.epoch),
            mode: mode?,
            lease_expire_time: lease?,
            on_lapse: on_lapse?,
            journal: journal?,
            store_time: store_time?,
        })
    };
    let built = build();
    faults.finish(built)
}

/// Reads a completion.
///
/// # Errors
///
/// Every fault of the request.
pub fn read_complete(request: v1::CompleteRequest) -> Result<Complete, Faults> {
    let mut faults = Faults::default();
    let record = faults.record_ref(request.tenant, request.namespace, request.key);
    let holder = read(&mut faults, record, request.epoch, request.attempt_id);
    let disposition = faults.take(read_disposition(request.disposition));
    let result = faults.absorb(result::read_result(request.result));
    let settlements = settle::read_settlements(&mut faults, request.settlements);
    let build = || {
        Some(Complete { holder: holder?, disposition: disposition?, result: result?, settlements })
    };
    let built = build();
    faults.finish(built)
}

/// The request of a completion.
#[must_use]
pub fn complete_request(complete: Complete) -> v1::CompleteRequest {
    let Holder { record, epoch, attempt_id } = complete.holder;
    v1::CompleteRequest {
        tenant: record.tenant.into(),
        namespace: record.namespace.into(),
        key: record.key.into(),
        attempt_id: attempt_id.into(),
        epoch: epoch.0,
        disposition: disposition(complete.disposition).into(),
        result: Some(result::result(complete.result)),
        settlements: complete.settlements.into_iter().map(settle::settlement).collect(),
    }
}

/// The response of a completion.
///
/// # Errors
///
/// [`WrongAnswer`] if the answer is not that of a completion.
pub fn complete_response(
    answer: Answer,
    store_time: Timestamp,
) -> Result<v1::CompleteResponse, WrongAnswer> {
    let Answer::Completed(completed) = answer else {
        return Err(WrongAnswer::to("completion", &answer));
    };
    let Completed { completion, repeated } = *completed;
    Ok(v1::CompleteResponse {
        result_dropped: completion.result.oversize,
        completion: Some(result::completion(completion)),
        repeated,
        store_time: Some(timestamp(store_time)),
    })
}

/// Reads the answer to a completion, and its store time.
///
/// # Errors
///
/// What is missing or newer than this client.
pub fn read_complete_response(
    response: v1::CompleteResponse,
) -> Result<(Completed, Timestamp), Faults> {
    let mut faults = Faults::default();
    let store_time = faults.need_timestamp("store_time", response.store_time);
    let completion = faults
        .need("completion", response.completion)
        .and_then(|wire| faults.absorb_in("completion", result::read_completion(wire)));
    let completed =
        completion.map(|completion| Completed { completion, repeated: response.repeated });
    faults.finish(completed.zip(store_time))
}

/// Reads a release.
///
/// # Errors
///
/// Every fault of the request.
pub fn read_release(request: v1::ReleaseRequest) -> Result<Release, Faults> {
    let mut faults = Faults::default();
    let record = faults.record_ref(request.tenant, request.namespace, request.key);
    let holder = read(&mut faults, record, request.epoch, request.attempt_id);
    let kind = match request.intent {
        Some(Intent::Retry(retry)) => faults
            .retry_after("retry.retry_after", retry.retry_after)
            .map(|retry_after| ReleaseKind::Retry { retry_after }),
        Some(Intent::Unbind(v1::ReleaseUnbind {})) => Some(ReleaseKind::Unbind),
        Some(Intent::Unknown(unknown)) => note(&mut faults, unknown.note),
        None => {
            let fix = "send retry or unbind if nothing happened, unknown if something may have";
            faults.note("intent", "is missing", fix);
            None
        }
    };
    faults.finish(holder.zip(kind).map(|(holder, kind)| Release { holder, kind }))
}

impl Faults {
    /// Reads how long nobody may try again; absent is not at all.
    pub(super) fn retry_after(
        &mut self,
        field: &str,
        wire: Option<prost_types::Duration>,
    ) -> Option<Millis> {
        let Some(wire) = wire else { return Some(Millis(0)) };
        let retry_after = self.take(time::read_duration(field, wire))?;
        if retry_after > limits::BACKOFF_MAX {
            let fix = format!("use at most {}", limits::BACKOFF_MAX);
            self.note(field, format!("is {retry_after}"), fix);
            return None;
        }
        Some(retry_after)
    }
}

fn note(faults: &mut Faults, note: String) -> Option<ReleaseKind> {
    if note.len() > limits::NOTE_BYTES_MAX {
        let fix = format!("use at most {} bytes", limits::NOTE_BYTES_MAX);
        faults.note("unknown.note", format!("is {} bytes long", note.len()), fix);
        return None;
    }
    Some(ReleaseKind::Unknown { note })
}

/// The request of a release.
#[must_use]
pub fn release_request(release: Release) -> v1::ReleaseRequest {
    let Holder { record, epoch, attempt_id } = release.holder;
    let intent = match release.kind {
        ReleaseKind::Retry { retry_after } => {
            Intent::Retry(v1::ReleaseRetry { retry_after: Some(duration(retry_after)) })
        }
        ReleaseKind::Unbind => Intent::Unbind(v1::ReleaseUnbind {}),
        ReleaseKind::Unknown { note } => Intent::Unknown(v1::ReleaseUnknown { note }),
    };
    v1::ReleaseRequest {
        tenant: record.tenant.into(),
        namespace: record.namespace.into(),
        key: record.key.into(),
        attempt_id: attempt_id.into(),
        epoch: epoch.0,
        intent: Some(intent),
    }
}

/// The response of a release.
///
/// # Errors
///
/// [`WrongAnswer`] if the answer is not that of a release.
pub fn release_response(
    answer: &Answer,
    store_time: Timestamp,
) -> Result<v1::ReleaseResponse, WrongAnswer> {
    let Answer::Released(released) = answer else {
        return Err(WrongAnswer::to("release", answer));
    };
    let mut response = v1::ReleaseResponse {
        epoch: released.epoch.0,
        store_time: Some(timestamp(store_time)),
        ..v1::ReleaseResponse::default()
    };
    match released.state {
        ReleasedState::Retryable { not_before, identity_expire_time } => {
            response.set_state(v1::RecordState::Retryable);
            response.not_before = Some(timestamp(not_before));
            response.identity_expire_time = time::expiry(identity_expire_time);
        }
        ReleasedState::Unbound { identity_expire_time } => {
            response.set_state(v1::RecordState::Unbound);
            response.identity_expire_time = time::expiry(identity_expire_time);
        }
        ReleasedState::Unresolved { since } => {
            response.set_state(v1::RecordState::Unresolved);
            response.since = Some(timestamp(since));
        }
    }
    Ok(response)
}

/// Reads the answer to a release, and its store time.
///
/// # Errors
///
/// What is missing or newer than this client.
pub fn read_release_response(
    response: v1::ReleaseResponse,
) -> Result<(Released, Timestamp), Faults> {
    let mut faults = Faults::default();
    let store_time = faults.need_timestamp("store_time", response.store_time);
    let identity_expire_time =
        faults.take(time::read_expiry("identity_expire_time", response.identity_expire_time));
    let state = match response.state() {
        v1::RecordState::Retryable => faults
            .need_timestamp("not_before", response.not_before)
            .zip(identity_expire_time)
            .map(|(not_before, identity_expire_time)| ReleasedState::Retryable {
                not_before,
                identity_expire_time,
            }),
        v1::RecordState::Unbound => identity_expire_time
            .map(|identity_expire_time| ReleasedState::Unbound { identity_expire_time }),
        v1::RecordState::Unresolved => faults
            .need_timestamp("since", response.since)
            .map(|since| ReleasedState::Unresolved { since }),
        v1::RecordState::Unspecified
        | v1::RecordState::Reserved
        | v1::RecordState::Claimed
        | v1::RecordState::Lapsed
        | v1::RecordState::Completed => {
            let fix = "read the record, and upgrade the client";
            faults.note("state", "is not that of a released record", fix);
            None
        }
    };
    let epoch = Epoch(response.epoch);
    faults.finish(state.map(|state| Released { epoch, state }).zip(store_time))
}
