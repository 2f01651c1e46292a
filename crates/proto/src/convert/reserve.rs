//! Reserve and Admit: a key is bound to its request where the intent is born.

use firstclaim_core::command::{Admission, Reserve};
use firstclaim_core::name::Principal;
use firstclaim_core::outcome::Reserved;
use firstclaim_core::{Answer, Epoch, Expiry, Labels, Timestamp};

use super::claim::read_keys;
use super::enums::{self, read_state};
use super::fingerprint::{fingerprints, read_fingerprints};
use super::time::{self, timestamp};
use super::{Faults, WrongAnswer};
use crate::v1;

/// Reads a producer's reservation.
///
/// # Errors
///
/// Every fault of the request.
pub fn read(request: v1::ReserveRequest) -> Result<Reserve, Faults> {
    let mut faults = Faults::default();
    let record = faults.record_ref(request.tenant, request.namespace, request.key);
    let fingerprints = faults.absorb(read_fingerprints(request.fingerprints));
    let intent_time = faults.timestamp("intent_time", request.intent_time);
    let labels = faults.take(Labels::parse(request.labels));
    let build = || {
        Some(Reserve {
            record: record?,
            fingerprints: fingerprints?,
            intent_time,
            labels: labels?,
            allow_duplicate_intent: request.allow_duplicate_intent,
            admit: None,
        })
    };
    let built = build();
    faults.finish(built)
}

/// Reads an admission: a reservation that somebody answers for.
///
/// # Errors
///
/// Every fault of the request.
pub fn read_admit(request: v1::AdmitRequest) -> Result<Reserve, Faults> {
    let mut faults = Faults::default();
    let reserve = faults
        .need("reserve", request.reserve)
        .and_then(|wire| faults.absorb_in("reserve", read(wire)));
    let reason = faults.reason(request.reason);
    let principal = faults.take(Principal::parse(request.principal));
    let build = || {
        let admit = Some(Admission { principal: principal?, reason: reason? });
        Some(Reserve { admit, ..reserve? })
    };
    let built = build();
    faults.finish(built)
}

/// The request of a reservation; what admits it is not in it.
#[must_use]
pub fn request(reserve: Reserve) -> v1::ReserveRequest {
    v1::ReserveRequest {
        tenant: reserve.record.tenant.into(),
        namespace: reserve.record.namespace.into(),
        key: reserve.record.key.into(),
        fingerprints: fingerprints(&reserve.fingerprints),
        intent_time: reserve.intent_time.map(timestamp),
        labels: reserve.labels.into(),
        allow_duplicate_intent: reserve.allow_duplicate_intent,
    }
}

/// The request of an admission.
#[must_use]
pub fn admit_request(reserve: Reserve, admission: Admission) -> v1::AdmitRequest {
    v1::AdmitRequest {
        reserve: Some(request(reserve)),
        reason: admission.reason,
        principal: admission.principal.into(),
    }
}

/// The response of a reservation or an admission.
///
/// # Errors
///
/// [`WrongAnswer`] if the answer is not that of a reservation.
pub fn response(answer: Answer, store_time: Timestamp) -> Result<v1::ReserveResponse, WrongAnswer> {
    let Answer::Reserved(reserved) = answer else {
        return Err(WrongAnswer::to("reservation", &answer));
    };
    Ok(v1::ReserveResponse {
        created: reserved.created,
        // A lapsed record shows as such: what is open in it is for Get to say.
        state: enums::state(reserved.state, false).into(),
        epoch: reserved.epoch.0,
        first_seen_time: Some(timestamp(reserved.first_seen_time)),
        identity_expire_time: reserved.identity_expire_time.and_then(time::expiry),
        intent_time: reserved.intent_time.map(timestamp),
        intent_time_differs: reserved.intent_time_differs,
        horizon_checked: reserved.horizon_checked,
        similar_keys: reserved.similar_keys.into_iter().map(String::from).collect(),
        store_time: Some(timestamp(store_time)),
    })
}

/// Reads the answer to a reservation or an admission, and its store time. A missing
/// `identity_expire_time` is read as never for a reserved key.
///
/// # Errors
///
/// What is missing or newer than this client.
pub fn read_response(response: v1::ReserveResponse) -> Result<(Reserved, Timestamp), Faults> {
    use firstclaim_core::record::Logical;
    let mut faults = Faults::default();
    let state = faults.take(read_state(response.state));
    let first_seen_time = faults.need_timestamp("first_seen_time", response.first_seen_time);
    let expire = faults.timestamp("identity_expire_time", response.identity_expire_time);
    let intent_time = faults.timestamp("intent_time", response.intent_time);
    let similar_keys = read_keys(&mut faults, "similar_keys", response.similar_keys);
    let store_time = faults.need_timestamp("store_time", response.store_time);
    let build = || {
        let state = state?;
        let kept = expire.map_or(Expiry::Never, Expiry::At);
        let reserved = Reserved {
            created: response.created,
            state,
            epoch: Epoch(response.epoch),
            first_seen_time: first_seen_time?,
            identity_expire_time: (state == Logical::Reserved).then_some(kept),
            intent_time,
            intent_time_differs: response.intent_time_differs,
            horizon_checked: response.horizon_checked,
            similar_keys,
        };
        Some((reserved, store_time?))
    };
    let built = build();
    faults.finish(built)
}
