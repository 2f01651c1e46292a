//! What a completed intent left behind: results, and how a record was completed.

use firstclaim_core::command::CompleteWith;
use firstclaim_core::record::{Completion, ResultBody};
use firstclaim_core::{AttemptId, Epoch, OwnerLabel, limits};

use super::Faults;
use super::enums::{disposition, read_disposition};
use super::time::{self, timestamp};
use crate::v1;

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
        purged: completion.purged,
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
            purged: wire.purged,
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
    faults.content_type("result.content_type", &wire.content_type);
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

/// How a claim, or a resolution, completes its record.
#[must_use]
pub fn complete_with(with: CompleteWith) -> v1::CompleteWith {
    v1::CompleteWith {
        disposition: disposition(with.disposition).into(),
        result: Some(result(with.result)),
    }
}

/// Reads how a claim, or a resolution, completes its record.
///
/// # Errors
///
/// Every fault of it.
pub fn read_complete_with(wire: v1::CompleteWith) -> Result<CompleteWith, Faults> {
    let mut faults = Faults::default();
    let disposition = faults.take(read_disposition(wire.disposition));
    let result = faults.absorb(read_result(wire.result));
    let build = || Some(CompleteWith { disposition: disposition?, result: result? });
    let built = build();
    faults.finish(built)
}
