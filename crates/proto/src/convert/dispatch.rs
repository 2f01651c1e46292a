//! RecordEffect: the dispatch that is asked for, and the leave to send it.

use firstclaim_core::command::{Dispatch, RecordEffect};
use firstclaim_core::name::{EffectId, ProviderKey, ProviderName, SlotName};
use firstclaim_core::outcome::Permitted;
use firstclaim_core::{Answer, EffectUid, Timestamp, limits};

use super::effect::{content, permit, read_permit};
use super::time::{self, duration, timestamp};
use super::{Faults, WrongAnswer, holder};
use crate::v1;

/// Reads the dispatch of an effect.
///
/// # Errors
///
/// Every fault of it.
pub fn read_dispatch(wire: v1::Dispatch) -> Result<Dispatch, Faults> {
    let mut faults = Faults::default();
    let id = faults.take(EffectId::parse(wire.effect_id));
    let slot = faults.optional(wire.slot, SlotName::parse);
    let provider = faults.take(ProviderName::parse(wire.provider));
    let provider_key = faults.optional(wire.provider_key, ProviderKey::parse);
    let dedup_window = wire
        .dedup_window
        .and_then(|window| faults.take(time::read_retention("dedup_window", window)));
    let request = faults.content("request", wire.request, limits::EFFECT_REQUEST_BYTES_MAX);
    let within = faults.duration("within", wire.within);
    if let Some(within) = within.filter(|within| *within < limits::DISPATCH_MIN) {
        let fix = format!("use at least {}, or leave it out", limits::DISPATCH_MIN);
        faults.note("within", format!("is {within}"), fix);
    }
    let build = || {
        Some(Dispatch {
            id: id?,
            number: wire.number.max(1),
            slot: slot?.unwrap_or_else(SlotName::default_slot),
            provider: provider?,
            provider_key: provider_key?,
            dedup_window,
            request: request?,
            within,
        })
    };
    let built = build();
    faults.finish(built)
}

/// The dispatch of an effect on the wire.
#[must_use]
pub fn dispatch(dispatch: Dispatch) -> v1::Dispatch {
    v1::Dispatch {
        effect_id: dispatch.id.into(),
        number: dispatch.number,
        slot: dispatch.slot.into(),
        provider: dispatch.provider.into(),
        provider_key: dispatch.provider_key.map(String::from).unwrap_or_default(),
        dedup_window: dispatch.dedup_window.map(time::retention),
        request: Some(content(dispatch.request)),
        within: dispatch.within.map(duration),
    }
}

/// Reads the dispatches that a claim carries.
pub(super) fn read_dispatches(faults: &mut Faults, wire: Vec<v1::Dispatch>) -> Vec<Dispatch> {
    if wire.len() > limits::EFFECTS_PER_CALL_MAX {
        let fix = format!("send at most {}", limits::EFFECTS_PER_CALL_MAX);
        faults.note("effects", format!("has {} entries", wire.len()), fix);
        return Vec::new();
    }
    let mut read = Vec::new();
    for (at, one) in wire.into_iter().enumerate() {
        read.extend(faults.absorb_in(&format!("effects[{at}]"), read_dispatch(one)));
    }
    read
}

/// Reads a call for leave to send an effect.
///
/// # Errors
///
/// Every fault of the request.
pub fn read_record_effect(request: v1::RecordEffectRequest) -> Result<RecordEffect, Faults> {
    let mut faults = Faults::default();
    let record = faults.record_ref(request.tenant, request.namespace, request.key);
    let holder = holder::read(&mut faults, record, request.epoch, request.attempt_id);
    let dispatch = faults
        .need("dispatch", request.dispatch)
        .and_then(|wire| faults.absorb_in("dispatch", read_dispatch(wire)));
    let build = || Some(RecordEffect { holder: holder?, dispatch: dispatch? });
    let built = build();
    faults.finish(built)
}

/// The request of a call for leave to send an effect.
#[must_use]
pub fn record_effect_request(command: RecordEffect) -> v1::RecordEffectRequest {
    let RecordEffect { holder, dispatch: asked } = command;
    v1::RecordEffectRequest {
        tenant: holder.record.tenant.into(),
        namespace: holder.record.namespace.into(),
        key: holder.record.key.into(),
        attempt_id: holder.attempt_id.into(),
        epoch: holder.epoch.0,
        dispatch: Some(dispatch(asked)),
    }
}

/// A permit with what it is for.
#[must_use]
pub fn permitted(permitted: &Permitted) -> v1::DispatchPermit {
    v1::DispatchPermit {
        uid: permitted.uid.to_string(),
        provider_key: permitted.provider_key.clone().map(String::from).unwrap_or_default(),
        permit: Some(permit(permitted.permit)),
        repeated: permitted.repeated,
    }
}

/// Reads a permit with what it is for.
///
/// # Errors
///
/// Every fault of the answer.
pub fn read_permitted(wire: v1::DispatchPermit) -> Result<Permitted, Faults> {
    let mut faults = Faults::default();
    let uid = faults.take(EffectUid::parse(&wire.uid));
    let provider_key = faults.optional(wire.provider_key, ProviderKey::parse);
    let permit = faults
        .need("permit", wire.permit)
        .and_then(|permit| faults.absorb_in("permit", read_permit(&permit)));
    let build = || {
        Some(Permitted {
            uid: uid?,
            provider_key: provider_key?,
            permit: permit?,
            repeated: wire.repeated,
        })
    };
    let built = build();
    faults.finish(built)
}

/// The response of a call for leave to send an effect.
///
/// # Errors
///
/// [`WrongAnswer`] if the answer is not a permit.
pub fn record_effect_response(
    answer: &Answer,
    store_time: Timestamp,
) -> Result<v1::RecordEffectResponse, WrongAnswer> {
    let Answer::Permitted(given) = answer else {
        return Err(WrongAnswer::to("record effect", answer));
    };
    Ok(v1::RecordEffectResponse {
        permit: Some(permitted(given)),
        store_time: Some(timestamp(store_time)),
    })
}

/// Reads the answer to a call for leave to send an effect, and its store time.
///
/// # Errors
///
/// What is missing or newer than this client.
pub fn read_record_effect_response(
    response: v1::RecordEffectResponse,
) -> Result<(Permitted, Timestamp), Faults> {
    let mut faults = Faults::default();
    let permitted = faults
        .need("permit", response.permit)
        .and_then(|wire| faults.absorb_in("permit", read_permitted(wire)));
    let store_time = faults.need_timestamp("store_time", response.store_time);
    faults.finish(permitted.zip(store_time))
}
