//! V1 to V5, V11, blind to our numbers: the calls of each key can be told one after the other.

use std::collections::BTreeMap;

use firstclaim_core::command::ReleaseKind;
use firstclaim_core::effect::Verdict as Found;
use firstclaim_core::outcome::{AcquiredKind, ReleasedState};
use firstclaim_core::record::{Logical, ResultBody, State as Stored};
use firstclaim_core::{Answer, AttemptId, Command, FingerprintSet, Outcome, Record, Refusal};

use crate::history::{self, Call, Told};
use crate::linear::key::{
    Asked, Call as Spoken, Key as Rules, Phase, State, Told as Answered, View,
};
use crate::linear::{Timed, Verdict, check as linear};
use crate::names::{self, Key, Kind};
use crate::reach::{Mark, Reached};
use crate::run::{Evidence, Report};

/// Steps that a key may take.
const BUDGET: u64 = 3_000_000;

pub(super) fn check(evidence: &Evidence, report: &mut Report, reached: &Reached) -> Vec<String> {
    let mut keys: BTreeMap<Key, Vec<(&Call, Timed<Spoken>)>> = BTreeMap::new();
    for call in &evidence.calls {
        let Some(key) = call.key else { continue };
        // A node alone can know that a key is not forgotten yet only while the clocks hold.
        let beyond_the_contract = key.kind == Kind::Short && !evidence.swarm.clocks_hold();
        if beyond_the_contract && matches!(call.told, Told::Local(_)) {
            continue;
        }
        if let Some(timed) = timed(key, call) {
            keys.entry(key).or_default().push((call, timed));
        }
    }
    let mut faults = Vec::new();
    for (key, calls) in keys {
        report.histories += 1;
        let firsts = calls.iter().filter(|(_, it)| matches!(it.call.told, Answered::First(_)));
        if firsts.count() > 1 {
            reached.mark(Mark::Forgotten);
        }
        let timed: Vec<Timed<Spoken>> = calls.iter().map(|(_, timed)| timed.clone()).collect();
        let rules = Rules { forgets: key.kind == Kind::Short };
        match linear(&rules, State::absent(), &timed, BUDGET) {
            Verdict::Linear { .. } => {}
            Verdict::OutOfBudget => {
                faults
                    .push(format!("keys: ran out of budget with {} calls of {key:?}", calls.len()));
            }
            Verdict::Broken { placed, stuck } => faults.push(told(key, &calls, &placed, stuck)),
        }
    }
    faults.truncate(5);
    faults
}

/// The end of what could be told in order, and what could not.
fn told(key: Key, calls: &[(&Call, Timed<Spoken>)], placed: &[usize], stuck: usize) -> String {
    let one = |at: usize| {
        let (call, timed) = &calls[at];
        format!(
            "\n    call {} node {} [{}, {}] {:?} -> {:?}",
            call.id,
            call.node,
            timed.invoked,
            timed.returned.map_or("never".to_owned(), |at| at.to_string()),
            timed.call.asked,
            timed.call.told
        )
    };
    let last: String = placed.iter().rev().take(8).rev().map(|at| one(*at)).collect();
    format!(
        "keys (V1-V5, V11): {key:?} cannot be told in order; after{last}\n  comes{}",
        one(stuck)
    )
}

fn token(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).fold(0, |token, byte| token << 8 | u64::from(*byte))
}

fn result(result: &ResultBody) -> u64 {
    token(&result.digest)
}

fn attempt(attempt: &AttemptId) -> u64 {
    attempt.as_str().trim_start_matches('a').parse().unwrap_or(u64::MAX)
}

fn request(key: Key, fingerprints: &FingerprintSet) -> u64 {
    if *fingerprints == names::fingerprints(key, false) { 1 } else { 2 }
}

fn timed(key: Key, call: &Call) -> Option<Timed<Spoken>> {
    let (told, returned) = match &call.told {
        Told::NotProposed => return None,
        Told::Unknown => (Answered::Unknown, None),
        Told::Decided { outcome, .. } | Told::Local(outcome) => {
            (answered(outcome), Some(call.returned))
        }
        Told::Read { record, .. } => {
            let view = record.as_ref().map(|record| view(key, record));
            (Answered::Record(view), Some(call.returned))
        }
    };
    let asked = match &call.asked {
        history::Asked::Propose(command) => asked(key, command)?,
        // Nothing was told, and nothing can have been done.
        history::Asked::Look(_) | history::Asked::Get if told == Answered::Unknown => return None,
        history::Asked::Look(command) => asked(key, command)?,
        history::Asked::Get => Asked::Get,
    };
    Some(Timed { invoked: call.invoked, returned, call: Spoken { asked, told } })
}

#[expect(clippy::wildcard_enum_match_arm, reason = "callers send no others")]
fn asked(key: Key, command: &Command) -> Option<Asked> {
    Some(match command {
        Command::Claim(it) => Asked::Claim {
            attempt: attempt(&it.attempt_id),
            request: request(key, &it.fingerprints),
        },
        Command::Reserve(it) => Asked::Reserve { request: request(key, &it.fingerprints) },
        Command::Renew(it) => {
            Asked::Renew { epoch: it.holder.epoch.0, attempt: attempt(&it.holder.attempt_id) }
        }
        Command::Complete(it) => Asked::Complete {
            epoch: it.holder.epoch.0,
            attempt: attempt(&it.holder.attempt_id),
            result: result(&it.result),
        },
        Command::Release(it) => Asked::Release {
            epoch: it.holder.epoch.0,
            attempt: attempt(&it.holder.attempt_id),
            retry: matches!(it.kind, ReleaseKind::Retry { .. }),
        },
        Command::SettleEffect(it) => Asked::Settle {
            evidence: token(&it.settle.evidence.digest),
            committed: it.settle.verdict == Found::Committed,
        },
        _ => return None,
    })
}

fn phase(logical: Logical) -> Phase {
    match logical {
        Logical::Reserved => Phase::Reserved,
        Logical::Live | Logical::Lapsed => Phase::Held,
        Logical::Unresolved => Phase::Unresolved,
        Logical::Retryable | Logical::Unbound => Phase::Retryable,
        Logical::Completed => Phase::Completed,
    }
}

fn answered(outcome: &Outcome) -> Answered {
    match &outcome.result {
        Ok(answer) => answer_of(answer),
        Err(refusal) => refused(refusal),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "callers ask for no others")]
fn answer_of(answer: &Answer) -> Answered {
    match answer {
        Answer::Acquired(it) => match it.kind {
            AcquiredKind::First => Answered::First(it.epoch.0),
            AcquiredKind::AlreadyHeld => Answered::AlreadyHeld(it.epoch.0),
            AcquiredKind::Recovery | AcquiredKind::Takeover => Answered::Takeover(it.epoch.0),
            AcquiredKind::Retry | AcquiredKind::Rebound => Answered::Retry(it.epoch.0),
        },
        Answer::Replay(it) => Answered::Replay(result(&it.completion.result)),
        Answer::Pending(it) => Answered::Pending(it.epoch.0),
        Answer::Unresolved(it) => Answered::Unresolved(it.epoch.0),
        Answer::Renewed(it) => Answered::Renewed(it.epoch.0),
        Answer::Completed(it) => Answered::Completed(it.completion.epoch.0),
        Answer::Released(it) => Answered::Released(match it.state {
            ReleasedState::Retryable { .. } | ReleasedState::Unbound { .. } => Phase::Retryable,
            ReleasedState::Unresolved { .. } => Phase::Unresolved,
        }),
        Answer::Settled(it) => {
            Answered::Settled { phase: phase(it.state), completed: it.completed_record }
        }
        Answer::Reserved(it) => Answered::Reserved { created: it.created },
        _ => Answered::Refused,
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the rules of a key tell these apart only")]
fn refused(refusal: &Refusal) -> Answered {
    match refusal {
        Refusal::FingerprintMismatch { .. } => Answered::Mismatch,
        Refusal::AttemptSpent { epoch } => Answered::Spent(epoch.0),
        Refusal::LeaseExpired { .. } => Answered::LeaseExpired,
        Refusal::ResultConflict { .. } => Answered::ResultConflict,
        Refusal::AlreadyCompleted { .. } => Answered::AlreadyCompleted,
        Refusal::UnsettledEffects { .. } => Answered::Unsettled,
        Refusal::EvidenceConflict { .. } => Answered::Contradicted,
        Refusal::StaleEpoch { epoch, completed_record, .. } => {
            Answered::Stale { epoch: epoch.map(|epoch| epoch.0), completed: *completed_record }
        }
        _ => Answered::Refused,
    }
}

fn view(key: Key, record: &Record) -> View {
    let (phase, result) = match &record.state {
        Stored::Reserved { .. } => (Phase::Reserved, None),
        Stored::Claimed => (Phase::Held, None),
        Stored::Unresolved { .. } => (Phase::Unresolved, None),
        Stored::Retryable { .. } | Stored::Unbound { .. } => (Phase::Retryable, None),
        Stored::Completed(it) => (Phase::Completed, Some(result(&it.result))),
    };
    View { phase, epoch: record.epoch.0, request: request(key, &record.fingerprints), result }
}
