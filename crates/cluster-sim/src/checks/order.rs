//! V9, V11: what was answered before a call began comes before it in the log, and a linearizable read
//! has seen it.

use crate::history::{Call, Told};
use crate::run::Evidence;

pub(super) fn check(evidence: &Evidence) -> Vec<String> {
    let place = |call: &Call| match &call.told {
        Told::Decided { index, .. } => Some((*index, true)),
        Told::Read { index, .. } => Some((*index, false)),
        Told::Unknown | Told::NotProposed | Told::Local(_) => None,
    };
    let mut begun: Vec<&Call> =
        evidence.calls.iter().filter(|call| place(call).is_some()).collect();
    let mut ended = begun.clone();
    begun.sort_by_key(|call| call.invoked);
    ended.sort_by_key(|call| call.returned);
    let mut before = ended.into_iter().peekable();
    let mut latest: Option<(u64, u64)> = None;
    let mut faults = Vec::new();
    for call in begun {
        while let Some(done) = before.next_if(|done| done.returned < call.invoked) {
            let index = place(done).map_or(0, |(index, _)| index);
            if latest.is_none_or(|(known, _)| index > known) {
                latest = Some((index, done.id));
            }
        }
        let (Some((index, writes)), Some((known, earlier))) = (place(call), latest) else {
            continue;
        };
        if index < known || writes && index == known {
            faults.push(format!(
                "order (V11): call {} at node {} came to entry {index} after call {earlier} was \
                 answered at entry {known}",
                call.id, call.node
            ));
        }
    }
    faults.truncate(5);
    faults
}
