//! What operators decide besides Resolve: Revoke, PurgeRecord, ExtendExisting.

use firstclaim_core::command::{ExtendExisting, Purge, Revoke};
use firstclaim_core::name::Principal;
use firstclaim_core::outcome::{Extended, Purged, RevokedAnswer};
use firstclaim_core::{
    Answer, Epoch, IdempotencyKey, NamespaceName, TenantName, Timestamp, limits,
};

use super::time::timestamp;
use super::{Faults, WrongAnswer};
use crate::v1;

/// Reads a revocation.
///
/// # Errors
///
/// Every fault of the request.
pub fn read_revoke(request: v1::RevokeRequest) -> Result<Revoke, Faults> {
    let mut faults = Faults::default();
    let record = faults.record_ref(request.tenant, request.namespace, request.key);
    let epoch = faults.epoch("epoch", request.epoch);
    let reason = faults.reason(request.reason);
    let principal = faults.take(Principal::parse(request.principal));
    let build =
        || Some(Revoke { record: record?, epoch: epoch?, reason: reason?, principal: principal? });
    let built = build();
    faults.finish(built)
}

/// The request of a revocation.
#[must_use]
pub fn revoke_request(revoke: Revoke) -> v1::RevokeRequest {
    v1::RevokeRequest {
        tenant: revoke.record.tenant.into(),
        namespace: revoke.record.namespace.into(),
        key: revoke.record.key.into(),
        epoch: revoke.epoch.0,
        reason: revoke.reason,
        principal: revoke.principal.into(),
    }
}

/// The response of a revocation.
///
/// # Errors
///
/// [`WrongAnswer`] if the answer is not that of a revocation.
pub fn revoke_response(
    answer: &Answer,
    store_time: Timestamp,
) -> Result<v1::RevokeResponse, WrongAnswer> {
    let Answer::Revoked(revoked) = answer else {
        return Err(WrongAnswer::to("revocation", answer));
    };
    Ok(v1::RevokeResponse {
        epoch: revoked.epoch.0,
        lease_expire_time: Some(timestamp(revoked.lease_expire_time)),
        repeated: revoked.repeated,
        store_time: Some(timestamp(store_time)),
    })
}

/// Reads the answer to a revocation, and its store time.
///
/// # Errors
///
/// What is missing.
pub fn read_revoke_response(
    response: &v1::RevokeResponse,
) -> Result<(RevokedAnswer, Timestamp), Faults> {
    let mut faults = Faults::default();
    let lease = faults.need_timestamp("lease_expire_time", response.lease_expire_time);
    let store_time = faults.need_timestamp("store_time", response.store_time);
    let build = || {
        let (epoch, repeated) = (Epoch(response.epoch), response.repeated);
        Some((RevokedAnswer { epoch, lease_expire_time: lease?, repeated }, store_time?))
    };
    let built = build();
    faults.finish(built)
}

/// Reads a purge.
///
/// # Errors
///
/// Every fault of the request.
pub fn read_purge(request: v1::PurgeRecordRequest) -> Result<Purge, Faults> {
    let mut faults = Faults::default();
    let record = faults.record_ref(request.tenant, request.namespace, request.key);
    let expected_epoch = faults.epoch("expected_epoch", request.expected_epoch);
    let reason = faults.reason(request.reason);
    let principal = faults.take(Principal::parse(request.principal));
    let build = || {
        Some(Purge {
            record: record?,
            expected_epoch: expected_epoch?,
            reason: reason?,
            principal: principal?,
        })
    };
    let built = build();
    faults.finish(built)
}

/// The request of a purge.
#[must_use]
pub fn purge_request(purge: Purge) -> v1::PurgeRecordRequest {
    v1::PurgeRecordRequest {
        tenant: purge.record.tenant.into(),
        namespace: purge.record.namespace.into(),
        key: purge.record.key.into(),
        expected_epoch: purge.expected_epoch.0,
        reason: purge.reason,
        principal: purge.principal.into(),
    }
}

/// The response of a purge.
///
/// # Errors
///
/// [`WrongAnswer`] if the answer is not that of a purge.
pub fn purge_response(
    answer: &Answer,
    store_time: Timestamp,
) -> Result<v1::PurgeRecordResponse, WrongAnswer> {
    let Answer::Purged(purged) = answer else { return Err(WrongAnswer::to("purge", answer)) };
    Ok(v1::PurgeRecordResponse {
        epoch: purged.epoch.0,
        repeated: purged.repeated,
        store_time: Some(timestamp(store_time)),
    })
}

/// Reads the answer to a purge, and its store time.
///
/// # Errors
///
/// What is missing.
pub fn read_purge_response(
    response: &v1::PurgeRecordResponse,
) -> Result<(Purged, Timestamp), Faults> {
    let mut faults = Faults::default();
    let store_time = faults.need_timestamp("store_time", response.store_time);
    let purged = Purged { epoch: Epoch(response.epoch), repeated: response.repeated };
    faults.finish(Some(purged).zip(store_time))
}

/// Reads a page of records to be kept longer.
///
/// # Errors
///
/// Every fault of the request.
pub fn read_extend(request: v1::ExtendExistingRequest) -> Result<ExtendExisting, Faults> {
    let mut faults = Faults::default();
    let tenant = faults.take(TenantName::parse(request.tenant));
    let namespace = faults.take(NamespaceName::parse(request.namespace));
    let after = faults.optional(request.page_token, IdempotencyKey::parse);
    let principal = faults.take(Principal::parse(request.principal));
    let build = || {
        Some(ExtendExisting {
            tenant: tenant?,
            namespace: namespace?,
            after: after?,
            limit: limits::SWEEP_RECORDS_MAX,
            principal: principal?,
        })
    };
    let built = build();
    faults.finish(built)
}

/// The request of a page of records to be kept longer.
#[must_use]
pub fn extend_request(extend: ExtendExisting) -> v1::ExtendExistingRequest {
    v1::ExtendExistingRequest {
        tenant: extend.tenant.into(),
        namespace: extend.namespace.into(),
        page_token: extend.after.map(String::from).unwrap_or_default(),
        principal: extend.principal.into(),
    }
}

/// The response of a page of records that are kept longer.
///
/// # Errors
///
/// [`WrongAnswer`] if the answer is not that of an extension.
pub fn extend_response(
    answer: Answer,
    store_time: Timestamp,
) -> Result<v1::ExtendExistingResponse, WrongAnswer> {
    let Answer::Extended(extended) = answer else {
        return Err(WrongAnswer::to("extension", &answer));
    };
    Ok(v1::ExtendExistingResponse {
        seen: extended.seen,
        extended: extended.extended,
        next_page_token: extended.next.map(String::from).unwrap_or_default(),
        store_time: Some(timestamp(store_time)),
    })
}

/// Reads the answer to a page of records to be kept longer, and its store time.
///
/// # Errors
///
/// What is missing.
pub fn read_extend_response(
    response: v1::ExtendExistingResponse,
) -> Result<(Extended, Timestamp), Faults> {
    let mut faults = Faults::default();
    let next = faults.optional(response.next_page_token, IdempotencyKey::parse);
    let store_time = faults.need_timestamp("store_time", response.store_time);
    let build = || {
        let (seen, extended) = (response.seen, response.extended);
        Some((Extended { seen, extended, next: next? }, store_time?))
    };
    let built = build();
    faults.finish(built)
}
