//! Release: gives a claim back with what the holder knows.

use crate::command::{Release, ReleaseKind};
use crate::decide::{Context, Decision, stale};
use crate::effect::{Journal, OpenCause};
use crate::outcome::{Answer, Refusal, Released, ReleasedState};
use crate::planted::{self, Planted};
use crate::record::{Ending, Record, State};
use crate::time::{Expiry, Millis};

/// Decides a release. Semantics §6.
pub fn release(context: &mut Context<'_>, prior: Option<&Record>, release: &Release) -> Decision {
    let Some(record) = prior else { return stale::refuse(None) };
    if !stale::holds(record, &release.holder) {
        return stale::refuse(Some(record));
    }
    match (&record.state, &release.kind) {
        (State::Completed(completion), _) => stale::already_completed(completion),
        (State::Retryable { .. }, ReleaseKind::Retry { .. })
        | (State::Unbound { .. }, ReleaseKind::Unbind)
        | (State::Unresolved { .. }, ReleaseKind::Unknown { .. }) => repeated(record),
        (State::Retryable { .. } | State::Unbound { .. } | State::Reserved { .. }, _) => {
            stale::refuse(Some(record))
        }
        (State::Claimed, ReleaseKind::Unknown { note }) => unknown(context, record, note),
        (State::Claimed | State::Unresolved { .. }, ReleaseKind::Retry { retry_after }) => {
            retry(context, record, *retry_after)
        }
        (State::Claimed | State::Unresolved { .. }, ReleaseKind::Unbind) => unbind(context, record),
    }
}

fn repeated(record: &Record) -> Decision {
    match released(record) {
        Some(released) => Decision::answer(Answer::Released(released)),
        None => stale::refuse(Some(record)),
    }
}

fn released(record: &Record) -> Option<Released> {
    let state = match record.state {
        State::Retryable { not_before, identity_expire_time } => {
            ReleasedState::Retryable { not_before, identity_expire_time }
        }
        State::Unbound { identity_expire_time, .. } => {
            ReleasedState::Unbound { identity_expire_time }
        }
        State::Unresolved { since } => ReleasedState::Unresolved { since },
        State::Reserved { .. } | State::Claimed | State::Completed(_) => return None,
    };
    Some(Released { epoch: record.epoch, state })
}

/// Nobody knows: the work of this epoch is open from now on, and stays so until it is settled.
fn unknown(context: &Context<'_>, record: &Record, note: &str) -> Decision {
    let mut next = record.clone();
    if !planted::is(Planted::ReleaseForgetsWork) {
        next.note_own_work(&context.cluster.clock, OpenCause::ReleasedUnknown, note);
    }
    next.state = State::Unresolved { since: context.now() };
    changed(context, next, Ending::ReleasedUnknown)
}

/// Nothing happened. The holder's own work does not hinder, unless it was called unknown before.
fn retry(context: &Context<'_>, record: &Record, retry_after: Millis) -> Decision {
    let mut next = record.clone();
    if record.state == State::Claimed {
        // All that can be open of its own is a lapse that somebody's settlement wrote down.
        next.works.retain(|work| work.epoch != record.epoch || !work.findings.open());
    }
    let noted = Journal { works: next.works.clone(), effects: next.effects.clone() }.open();
    if !noted.is_empty() && !planted::is(Planted::RetryWithOpen) {
        return unsettled(record, noted);
    }
    let now = context.now();
    let not_before = now.after(retry_after);
    // Never forgotten before it may be tried again: that would be a first claim too early.
    let expiry = context.policy.identity_retention.from(now).max(Expiry::At(not_before));
    next.state = State::Retryable { not_before, identity_expire_time: expiry };
    changed(context, next, Ending::ReleasedRetry)
}

/// Nothing happened, and the key is free for another request: only if nothing can have happened.
fn unbind(context: &Context<'_>, record: &Record) -> Decision {
    let open = record.open(&context.cluster.clock);
    if !open.is_empty() {
        return unsettled(record, open);
    }
    if record.reserved {
        return not_allowed("the key was reserved for its request and cannot be unbound");
    }
    if !record.effects.is_empty() && !planted::is(Planted::UnbindAfterEffect) {
        return not_allowed("an effect was recorded under this request");
    }
    let now = context.now();
    let mut next = record.clone();
    let identity_expire_time = context.policy.identity_retention.from(now);
    next.state = State::Unbound { not_before: now, identity_expire_time };
    changed(context, next, Ending::ReleasedUnbind)
}

fn unsettled(record: &Record, open: Journal) -> Decision {
    Decision::refuse(Refusal::UnsettledEffects { life: record.life, open })
}

fn not_allowed(problem: &str) -> Decision {
    Decision::refuse(Refusal::EffectNotAllowed { problem: problem.to_owned() })
}

fn changed(context: &Context<'_>, mut next: Record, ending: Ending) -> Decision {
    next.last_write_time = context.now();
    next.end(&context.cluster.clock, ending);
    match released(&next) {
        Some(released) => Decision::change(next, Answer::Released(released)),
        None => stale::refuse(Some(&next)),
    }
}
