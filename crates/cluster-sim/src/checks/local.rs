//! V11, semantics 8: a node answers from its own state only Replay, and only while nobody can have been
//! told that the result, or the key, is gone.

use firstclaim_core::{Answer, Timestamp};

use crate::history::{Call, Told};
use crate::run::Evidence;

pub(super) fn check(evidence: &Evidence) -> Vec<String> {
    let store_time = |call: &Call| match &call.told {
        Told::Decided { outcome, .. } => Some(outcome.store_time),
        Told::Read { store_time, .. } => Some(*store_time),
        Told::Unknown | Told::NotProposed | Told::Local(_) => None,
    };
    let mut ended: Vec<&Call> =
        evidence.calls.iter().filter(|call| store_time(call).is_some()).collect();
    ended.sort_by_key(|call| call.returned);
    let mut looks: Vec<&Call> =
        evidence.calls.iter().filter(|call| matches!(call.told, Told::Local(_))).collect();
    looks.sort_by_key(|call| call.invoked);
    let mut before = ended.into_iter().peekable();
    let mut latest = Timestamp(0);
    let mut faults = Vec::new();
    for look in looks {
        while let Some(done) = before.next_if(|done| done.returned < look.invoked) {
            latest = latest.max(store_time(done).unwrap_or_default());
        }
        let Told::Local(outcome) = &look.told else { continue };
        let Ok(Answer::Replay(replay)) = &outcome.result else {
            faults.push(format!(
                "local (V11): call {} was answered by node {} alone: {:?}",
                look.id, look.node, outcome.result
            ));
            continue;
        };
        if !evidence.swarm.clocks_hold() {
            continue;
        }
        let completion = &replay.completion;
        let bytes = !replay.result_dropped && completion.result.bytes.is_some();
        let gone = completion.identity_expire_time.has_come(latest)
            || bytes && completion.result_expire_time.has_come(latest);
        if gone {
            faults.push(format!(
                "local (V11): call {} was given a result by node {} that is gone: {:?} or {:?}, \
                 and store time had come to {latest:?}",
                look.id, look.node, completion.result_expire_time, completion.identity_expire_time
            ));
        }
    }
    faults.truncate(5);
    faults
}
