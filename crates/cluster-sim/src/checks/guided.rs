//! V1 to V5, V9, V10, I9, I12, guided by the log: the entries that were committed, replayed through the
//! model, give exactly the answers that callers were given; what was told not to be proposed is not
//! among them, and nothing is twice.

use std::collections::BTreeMap;

use firstclaim_core::{Answer, Command, Outcome, RecordRef, Stamp};
use firstclaim_replica::simulated::LoggedPayload;
use firstclaim_sim::{Model, observe};

use crate::history::{self, Call, Told};
use crate::reach::{Mark, Reached};
use crate::run::{Evidence, Report};

pub(super) fn check(evidence: &Evidence, report: &mut Report, reached: &Reached) -> Vec<String> {
    let mut faults = Vec::new();
    for pair in evidence.log.windows(2) {
        if pair[1].index != pair[0].index + 1 {
            faults.push(format!("guided: no node could show entry {}", pair[0].index + 1));
            return faults;
        }
    }
    let mut places: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for entry in &evidence.log {
        if let Some(call) = history::call_of(entry) {
            places.entry(call).or_default().push(entry.index);
        }
    }
    for call in &evidence.calls {
        let at = places.get(&call.id).map(Vec::as_slice).unwrap_or_default();
        faults.extend(misplaced(call, at, reached));
    }
    faults.extend(replay(evidence, report));
    faults.truncate(5);
    faults
}

/// Whether a call is in the log as often as it may be, and where it was told.
fn misplaced(call: &Call, at: &[u64], reached: &Reached) -> Option<String> {
    let (id, node) = (call.id, call.node);
    if at.len() > 1 {
        return Some(format!("guided (V10): call {id} is in the log {} times: {at:?}", at.len()));
    }
    match &call.told {
        Told::NotProposed if !at.is_empty() => Some(format!(
            "guided (I9): node {node} told that call {id} was not proposed, and it is entry {at:?}"
        )),
        Told::Decided { index, .. } if at != [*index] => Some(format!(
            "guided (I12): node {node} told that call {id} is entry {index}, and it is {at:?}"
        )),
        Told::Unknown if matches!(call.asked, history::Asked::Propose(_)) => {
            let mark = if at.is_empty() { Mark::UnknownNeverApplied } else { Mark::UnknownApplied };
            reached.mark(mark);
            None
        }
        Told::Unknown
        | Told::NotProposed
        | Told::Decided { .. }
        | Told::Local(_)
        | Told::Read { .. } => None,
    }
}

/// The record that a command of the callers is about.
#[expect(clippy::wildcard_enum_match_arm, reason = "callers send no others")]
fn record_of(command: &Command) -> Option<&RecordRef> {
    match command {
        Command::Claim(it) => Some(&it.record),
        Command::Reserve(it) => Some(&it.record),
        Command::SettleEffect(it) => Some(&it.record),
        Command::Renew(it) => Some(&it.holder.record),
        Command::Complete(it) => Some(&it.holder.record),
        Command::Release(it) => Some(&it.holder.record),
        _ => None,
    }
}

/// What an answer calls the life that it is about.
fn life_of(outcome: &Outcome) -> Option<u64> {
    match &outcome.result {
        Ok(Answer::Acquired(it)) => Some(it.life),
        Ok(Answer::Unresolved(it)) => Some(it.life),
        Ok(Answer::Settled(it)) => Some(it.uid.life),
        _ => None,
    }
}

fn replay(evidence: &Evidence, report: &mut Report) -> Vec<String> {
    let mut told: BTreeMap<u64, &Call> = BTreeMap::new();
    // What lives are called is not the model's to say: it is told from the answers.
    let mut lives: BTreeMap<&RecordRef, BTreeMap<u64, u64>> = BTreeMap::new();
    for call in &evidence.calls {
        let (Told::Decided { index, outcome }, history::Asked::Propose(command)) =
            (&call.told, &call.asked)
        else {
            continue;
        };
        told.insert(*index, call);
        if let (Some(record), Some(life)) = (record_of(command), life_of(outcome)) {
            lives.entry(record).or_default().insert(*index, life);
        }
    }
    let mut model = Model::default();
    let mut faults = Vec::new();
    for entry in &evidence.log {
        let LoggedPayload::Commands(time, commands) = &entry.payload else { continue };
        report.entries += 1;
        let stamp = Stamp { term: entry.term, index: entry.index, time: *time };
        for (at, command) in commands.iter().enumerate() {
            let life = record_of(command)
                .and_then(|record| lives.get(record)?.range(entry.index..).next());
            if let Some((_, life)) = life {
                model.name_next_life(*life);
            }
            let expected = model.apply(stamp, command);
            let Some(call) = told.get(&entry.index).filter(|_| at == 0) else { continue };
            let Told::Decided { outcome, .. } = &call.told else { continue };
            let real = observe(outcome);
            if !real.agrees(&expected) {
                faults.push(format!(
                    "guided (V1-V5): entry {} decided {command:?}; call {} was told {real:?}, \
                     and the model says {expected:?}",
                    entry.index, call.id
                ));
            }
            if model.now() != outcome.store_time {
                faults.push(format!(
                    "guided (V8): entry {} was decided at {:?}, and the model says {:?}",
                    entry.index,
                    outcome.store_time,
                    model.now()
                ));
            }
            if faults.len() > 3 {
                return faults;
            }
        }
    }
    faults
}
