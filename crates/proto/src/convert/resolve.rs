//! Resolve: a person or a reconciler ends what nobody else could.

use firstclaim_core::command::{Resolve, Resolved};
use firstclaim_core::effect::Verdict;
use firstclaim_core::name::Principal;
use firstclaim_core::outcome::ResolvedAnswer;
use firstclaim_core::{Answer, AttemptId, EffectUid, Epoch, Timestamp, limits};

use super::effect::{content, read_verdict, verdict};
use super::enums::{self, read_state};
use super::result::{complete_with, read_complete_with};
use super::time::{duration, timestamp};
use super::{Faults, WrongAnswer};
use crate::v1;
use crate::v1::resolve_request::State;

/// Verdicts of one resolution: effects of a record, and as much work.
const VERDICTS_MAX: usize = 2 * limits::EFFECTS_MAX;

/// Reads a resolution.
///
/// # Errors
///
/// Every fault of the request.
pub fn read(request: v1::ResolveRequest) -> Result<Resolve, Faults> {
    let mut faults = Faults::default();
    let record = faults.record_ref(request.tenant, request.namespace, request.key);
    let expected_epoch = faults.epoch("expected_epoch", request.expected_epoch);
    let attempt_id = faults.take(AttemptId::parse(request.attempt_id));
    let verdicts = read_verdicts(&mut faults, request.verdicts);
    let evidence = faults.content("evidence", request.evidence, limits::EVIDENCE_BYTES_MAX);
    let reason = faults.reason(request.reason);
    let principal = faults.take(Principal::parse(request.principal));
    let state = match request.state {
        Some(State::Completed(with)) => {
            faults.absorb_in("completed", read_complete_with(with)).map(Resolved::Completed)
        }
        Some(State::Retryable(retry)) => faults
            .retry_after("retryable.retry_after", retry.retry_after)
            .map(|retry_after| Resolved::Retryable { retry_after }),
        None => {
            let fix =
                "send completed if the intent is done with, retryable if it may be tried again";
            faults.note("state", "is missing", fix);
            None
        }
    };
    let build = || {
        Some(Resolve {
            record: record?,
            expected_epoch: expected_epoch?,
            attempt_id: attempt_id?,
            verdicts,
            evidence: evidence?,
            reason: reason?,
            principal: principal?,
            state: state?,
        })
    };
    let built = build();
    faults.finish(built)
}

fn read_verdicts(faults: &mut Faults, wire: Vec<v1::ResolveVerdict>) -> Vec<(EffectUid, Verdict)> {
    if wire.len() > VERDICTS_MAX {
        let fix = format!("send at most {VERDICTS_MAX}: one for each effect that is open");
        faults.note("verdicts", format!("has {} entries", wire.len()), fix);
        return Vec::new();
    }
    let mut read = Vec::new();
    for (at, one) in wire.into_iter().enumerate() {
        let parent = format!("verdicts[{at}]");
        let uid = faults.take_in(&parent, EffectUid::parse(&one.uid));
        let verdict = faults.take_in(&parent, read_verdict(one.verdict));
        read.extend(uid.zip(verdict));
    }
    read
}

/// The request of a resolution.
#[must_use]
pub fn request(resolve: Resolve) -> v1::ResolveRequest {
    let one = |(uid, found): (EffectUid, Verdict)| v1::ResolveVerdict {
        uid: uid.to_string(),
        verdict: Some(verdict(found)),
    };
    v1::ResolveRequest {
        tenant: resolve.record.tenant.into(),
        namespace: resolve.record.namespace.into(),
        key: resolve.record.key.into(),
        expected_epoch: resolve.expected_epoch.0,
        attempt_id: resolve.attempt_id.into(),
        verdicts: resolve.verdicts.into_iter().map(one).collect(),
        evidence: Some(content(resolve.evidence)),
        reason: resolve.reason,
        principal: resolve.principal.into(),
        state: Some(match resolve.state {
            Resolved::Completed(with) => State::Completed(complete_with(with)),
            Resolved::Retryable { retry_after } => {
                State::Retryable(v1::ReleaseRetry { retry_after: Some(duration(retry_after)) })
            }
        }),
    }
}

/// The response of a resolution.
///
/// # Errors
///
/// [`WrongAnswer`] if the answer is not that of a resolution.
pub fn response(
    answer: &Answer,
    store_time: Timestamp,
) -> Result<v1::ResolveResponse, WrongAnswer> {
    let Answer::Resolved(resolved) = answer else {
        return Err(WrongAnswer::to("resolution", answer));
    };
    Ok(v1::ResolveResponse {
        epoch: resolved.epoch.0,
        state: enums::state(resolved.state, false).into(),
        repeated: resolved.repeated,
        store_time: Some(timestamp(store_time)),
    })
}

/// Reads the answer to a resolution, and its store time.
///
/// # Errors
///
/// What is missing or newer than this client.
pub fn read_response(response: v1::ResolveResponse) -> Result<(ResolvedAnswer, Timestamp), Faults> {
    let mut faults = Faults::default();
    let state = faults.take(read_state(response.state));
    let store_time = faults.need_timestamp("store_time", response.store_time);
    let build = || {
        let epoch = Epoch(response.epoch);
        let answer = ResolvedAnswer { epoch, state: state?, repeated: response.repeated };
        Some((answer, store_time?))
    };
    let built = build();
    faults.finish(built)
}
