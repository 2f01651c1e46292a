//! V6, V7, V8: where the clocks are as close as the contract asks for, store time does not stand still
//! while one leader stamps, and is never ahead of true time by more than they are. What a lease or a
//! retention decides, it decides by store time, and the model checks that.
//!
//! A leader whose clock ran ahead and is set back may let store time stand still until it is right
//! again: that is safe, and allowed.

use std::collections::BTreeMap;

use crate::clock::START;
use crate::history::{Call, Told};
use crate::run::Evidence;

/// How much a clock may be slow, and what rounding to milliseconds can take, in microseconds a second.
const SLACK: u64 = 500;
const ROUNDING: u64 = 2_000;

pub(super) fn check(evidence: &Evidence) -> Vec<String> {
    if !evidence.swarm.clocks_hold() {
        return Vec::new();
    }
    let terms: BTreeMap<u64, u64> =
        evidence.log.iter().map(|entry| (entry.index, entry.term)).collect();
    // In microseconds since the start; before it while a clock is behind.
    let decided = |call: &Call| match &call.told {
        Told::Decided { index, outcome } => {
            let since = outcome.store_time.0.cast_signed() - START.cast_signed();
            Some((*terms.get(index)?, since * 1_000))
        }
        Told::Unknown | Told::NotProposed | Told::Local(_) | Told::Read { .. } => None,
    };
    let mut begun: Vec<&Call> =
        evidence.calls.iter().filter(|call| decided(call).is_some()).collect();
    let mut ended = begun.clone();
    begun.sort_by_key(|call| call.invoked);
    ended.sort_by_key(|call| call.returned);
    let mut before = ended.into_iter().peekable();
    // By term: the call that store time was furthest ahead of true time at, once it was over.
    let mut ahead: BTreeMap<u64, (i64, &Call)> = BTreeMap::new();
    let mut faults = Vec::new();
    for call in begun {
        while let Some(done) = before.next_if(|done| done.returned < call.invoked) {
            let Some((term, time)) = decided(done) else { continue };
            let by = time - done.returned_at.cast_signed();
            let known = ahead.entry(term).or_insert((by, done));
            if by > known.0 {
                *known = (by, done);
            }
        }
        let Some((term, time)) = decided(call) else { continue };
        if let Some((by, earlier)) = ahead.get(&term) {
            let since = call.invoked_at - earlier.returned_at;
            let slack = ROUNDING + since / 1_000_000 * SLACK;
            if time + slack.cast_signed() < call.invoked_at.cast_signed() + by {
                faults.push(format!(
                    "time (V8): in term {term} store time stood still: call {} began {since} us \
                     after call {} had ended, and store time came {} us too short",
                    call.id,
                    earlier.id,
                    call.invoked_at.cast_signed() + by - time
                ));
            }
        }
        let most = (call.returned_at + evidence.swarm.offset_max * 1_000 + 50_000).cast_signed();
        if time > most {
            faults.push(format!(
                "time (V7): call {} was decided at a store time {} us ahead of all clocks",
                call.id,
                time - most
            ));
        }
    }
    faults.truncate(5);
    faults
}
