//! Purge: drops the result of a completed record, and all else that may be personal in it.

use crate::command::Purge;
use crate::decide::{Context, Decision, reserve};
use crate::name::Labels;
use crate::outcome::{Answer, Purged, Refusal};
use crate::record::{Logical, Record, State};

/// Decides a purge. Semantics §6. Fingerprint, digest and deadlines stay: the key is never
/// executed again.
pub fn purge(context: &mut Context<'_>, prior: Option<&Record>, purge: &Purge) -> Decision {
    let Some(record) = prior else { return reserve::missing() };
    let mut next = record.clone();
    let State::Completed(completion) = &mut next.state else {
        let state = record.logical(&context.cluster.clock).unwrap_or(Logical::Lapsed);
        return Decision::refuse(Refusal::NotPurgeable { epoch: record.epoch, state });
    };
    if record.epoch != purge.expected_epoch {
        let state = Logical::Completed;
        return Decision::refuse(Refusal::NotPurgeable { epoch: record.epoch, state });
    }
    let repeated = completion.purged;
    completion.purged = true;
    completion.result = completion.result.without_bytes();
    completion.result.reference = None;
    for attempt in &mut next.attempts {
        attempt.labels = Labels::default();
    }
    next.reserve_labels = Labels::default();
    for effect in &mut next.effects {
        effect.request.bytes = None;
        effect.findings.purge();
    }
    for work in &mut next.works {
        work.note.clear();
        work.findings.purge();
    }
    if let Some(resolution) = &mut next.resolution {
        resolution.evidence.bytes = None;
    }
    let answer = Answer::Purged(Purged { epoch: record.epoch, repeated });
    Decision::kept(context, record, next, Ok(answer))
}
