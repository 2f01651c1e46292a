//! V6, V7, V8: whatever the wall clocks do, store time moves on from where it was when a leader was
//! elected, as fast as that leader's time passes. Where they are as close as the contract asks for, it
//! does not stand still while one leader stamps, and is never ahead of true time by more than they are.
//! What a lease or a retention decides, it decides by store time, and the model checks that.
//!
//! A leader whose clock ran ahead and is set back may let store time stand still until it is right
//! again: that is safe, and allowed.

use std::collections::BTreeMap;

use firstclaim_core::Timestamp;
use firstclaim_replica::simulated::LoggedPayload;

use crate::clock::START;
use crate::history::{Call, Told};
use crate::run::Evidence;

/// How much a clock may be slow, and what rounding to milliseconds can take, in microseconds a second.
const SLACK: u64 = 500;
const ROUNDING: u64 = 2_000;

pub(super) fn check(evidence: &Evidence) -> Vec<String> {
    let decided = decided(evidence);
    let mut faults = moves_on(evidence, &decided);
    if evidence.swarm.clocks_hold() {
        faults.extend(stands_still(&decided));
        faults.extend(ahead_of_all(&decided, evidence.swarm.offset_max));
    }
    faults.truncate(5);
    faults
}

/// A call that the log has decided.
#[derive(Clone, Copy)]
struct Decided<'a> {
    call: &'a Call,
    /// The term of its entry.
    term: u64,
    /// Its store time, in microseconds since the start; below zero while a clock is behind.
    time: i64,
}

impl Decided<'_> {
    /// How far its store time is ahead of true time, at its end.
    fn ahead(&self) -> i64 {
        self.time - self.call.returned_at.cast_signed()
    }
}

fn since_start(time: Timestamp) -> i64 {
    (time.0.cast_signed() - START.cast_signed()) * 1_000
}

/// The calls that the log has decided, in the order in which they began.
fn decided(evidence: &Evidence) -> Vec<Decided<'_>> {
    let terms: BTreeMap<u64, u64> =
        evidence.log.iter().map(|entry| (entry.index, entry.term)).collect();
    let mut decided: Vec<Decided<'_>> = evidence
        .calls
        .iter()
        .filter_map(|call| {
            let Told::Decided { index, outcome } = &call.told else { return None };
            let time = since_start(outcome.store_time);
            Some(Decided { call, term: *terms.get(index)?, time })
        })
        .collect();
    decided.sort_by_key(|it| it.call.invoked);
    decided
}

/// In each term store time moves on from where the terms before have left it. A leader counts from its
/// first stamp at the latest, and knows of the terms before once it has applied an entry of its own.
fn moves_on(evidence: &Evidence, decided: &[Decided<'_>]) -> Vec<String> {
    let mut now: Option<i64> = None;
    let mut before: BTreeMap<u64, Option<i64>> = BTreeMap::new();
    for entry in &evidence.log {
        before.entry(entry.term).or_insert(now);
        if let LoggedPayload::Commands(time, _) = &entry.payload {
            now = now.max(Some(since_start(*time)));
        }
    }
    // By term: the first call that was over.
    let mut first: BTreeMap<u64, &Call> = BTreeMap::new();
    for it in decided {
        let known = first.entry(it.term).or_insert(it.call);
        if it.call.returned < known.returned {
            *known = it.call;
        }
    }
    let late = decided.iter().filter_map(|it| {
        let (start, first) = ((*before.get(&it.term)?)?, first.get(&it.term)?);
        if it.call.invoked < first.returned {
            return None;
        }
        too_short(it, start, first, "did not move on")
    });
    late.collect()
}

/// What is wrong if store time has not moved on from a reading by what has passed since a call had ended,
/// less what a slow clock and rounding take.
fn too_short(it: &Decided<'_>, reading: i64, ended: &Call, what: &str) -> Option<String> {
    let since = it.call.invoked_at - ended.returned_at;
    let slack = ROUNDING + since / 1_000_000 * SLACK;
    let least = reading + since.cast_signed() - slack.cast_signed();
    (it.time < least).then(|| {
        format!(
            "time (V8): in term {} store time {what}: call {} began {since} us after call {} had \
             ended, and store time came {} us too short",
            it.term,
            it.call.id,
            ended.id,
            least - it.time
        )
    })
}

/// While one leader stamps, store time moves on from each call to the next.
fn stands_still(decided: &[Decided<'_>]) -> Vec<String> {
    let mut ended = decided.to_vec();
    ended.sort_by_key(|it| it.call.returned);
    let mut before = ended.into_iter().peekable();
    // By term: the call that store time was furthest ahead of true time at, once it was over.
    let mut furthest: BTreeMap<u64, Decided<'_>> = BTreeMap::new();
    let mut faults = Vec::new();
    for it in decided {
        while let Some(done) = before.next_if(|done| done.call.returned < it.call.invoked) {
            let known = furthest.entry(done.term).or_insert(done);
            if done.ahead() > known.ahead() {
                *known = done;
            }
        }
        if let Some(earlier) = furthest.get(&it.term) {
            faults.extend(too_short(it, earlier.time, earlier.call, "stood still"));
        }
    }
    faults
}

/// Store time is not ahead of true time by more than the clocks are.
fn ahead_of_all(decided: &[Decided<'_>], offset_max: u64) -> Vec<String> {
    let ahead = decided.iter().filter_map(|it| {
        let most = (it.call.returned_at + offset_max * 1_000 + 50_000).cast_signed();
        (it.time > most).then(|| {
            format!(
                "time (V7): call {} was decided at a store time {} us ahead of all clocks",
                it.call.id,
                it.time - most
            )
        })
    });
    ahead.collect()
}
