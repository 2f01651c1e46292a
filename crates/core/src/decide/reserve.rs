//! Reserve, and Admit: bind a key to its request where the intent is born, without claiming it.

use crate::command::Reserve;
use crate::decide::absent::{self, Newcomer};
use crate::decide::{Context, Decision, claim};
use crate::outcome::{Answer, Refusal, Reserved};
use crate::policy::Requirement;
use crate::record::{Logical, Record, State};

/// Decides a reservation. Semantics §5.
pub fn reserve(context: &mut Context<'_>, prior: Option<&Record>, reserve: &Reserve) -> Decision {
    if context.policy.fingerprint == Requirement::Required && reserve.fingerprints.is_empty() {
        return Decision::refuse(claim::fingerprint_missing());
    }
    let known = prior.and_then(|it| Some((it, it.logical(&context.cluster.clock)?)));
    match known {
        Some((record, logical)) => present(record, logical, reserve),
        None => create(context, reserve),
    }
}

/// A key that exists: its state, unchanged.
fn present(record: &Record, logical: Logical, reserve: &Reserve) -> Decision {
    if logical != Logical::Unbound
        && let Err(refusal) = claim::check_fingerprint(record, &reserve.fingerprints)
    {
        return Decision::refuse(refusal);
    }
    let sent = reserve.intent_time;
    let identity_expire_time = if let State::Reserved { identity_expire_time } = &record.state {
        Some(*identity_expire_time)
    } else {
        None
    };
    Decision::answer(Answer::Reserved(Box::new(Reserved {
        created: false,
        state: logical,
        epoch: record.epoch,
        first_seen_time: record.first_seen_time,
        identity_expire_time,
        intent_time: record.intent_time,
        intent_time_differs: sent.is_some() && sent != record.intent_time,
        horizon_checked: false,
        similar_keys: Vec::new(),
    })))
}

fn create(context: &mut Context<'_>, reserve: &Reserve) -> Decision {
    let newcomer = Newcomer {
        fingerprints: &reserve.fingerprints,
        intent_time: reserve.intent_time,
        needs_reservation: false,
        admitted: reserve.admit.is_some(),
        allow_duplicate_intent: reserve.allow_duplicate_intent,
    };
    if let Err(refusal) = absent::check(context, &newcomer) {
        return Decision::refuse(refusal);
    }
    let mut record = absent::record(context, &newcomer);
    record.reserved = true;
    record.reserve_labels = reserve.labels.clone();
    record.admitted =
        reserve.admit.as_ref().map(|admit| (admit.principal.clone(), admit.reason.clone()));
    let identity_expire_time = context.policy.identity_retention.from(context.now());
    let answer = Answer::Reserved(Box::new(Reserved {
        created: true,
        state: Logical::Reserved,
        epoch: record.epoch,
        first_seen_time: record.first_seen_time,
        identity_expire_time: Some(identity_expire_time),
        intent_time: record.intent_time,
        intent_time_differs: false,
        horizon_checked: record.intent_time.is_some() && reserve.admit.is_none(),
        similar_keys: absent::similar_keys(context),
    }));
    Decision::change(record, answer)
}

/// What a call that names a record gets if there is none.
pub(super) fn missing() -> Decision {
    Decision::refuse(Refusal::RecordNotFound)
}
