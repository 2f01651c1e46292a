//! I4: of a slot at most one effect may have happened, and no permit reaches beyond the time for which
//! its provider tells repeats.
//!
//! Clauses: semantics §5 (modes), §6 (RecordEffect), §10 I4.

use firstclaim_core::effect::Effect;
use firstclaim_core::record::Mode;
use firstclaim_core::{Answer, Command};

use super::{Broken, Checked, Property, Seen};

/// Looks at the effects of a record after a permit was given.
pub(super) fn check(seen: &Seen<'_>) -> Checked {
    let gives = match &seen.outcome.result {
        Ok(Answer::Permitted(it)) => !it.repeated,
        Ok(Answer::Acquired(it)) => !it.permits.is_empty(),
        _ => false,
    };
    let Some(record) = seen.after.filter(|_| gives) else { return Ok(()) };
    for (at, effect) in record.effects.iter().enumerate() {
        if let Some(later) = record.effects[at + 1..].iter().find(|it| beside(effect, it)) {
            let says = format!("{} was permitted beside {}", later.id, effect.id);
            return Err(Broken::new(Property::I4, says));
        }
        check_window(effect)?;
    }
    let new = |command: &Command| matches!(command, Command::RecordEffect(_));
    let before = seen.before.map_or(0, |before| before.effects.len());
    let mode = seen.before.and_then(|it| it.grant.as_ref()).map(|grant| grant.mode);
    if new(seen.command) && record.effects.len() > before && mode != Some(Mode::Execute) {
        return Err(Broken::new(Property::I4, format!("a new effect in mode {mode:?}")));
    }
    Ok(())
}

/// Whether `later` was permitted while nobody had said that `earlier` did not happen.
fn beside(earlier: &Effect, later: &Effect) -> bool {
    let denied = |settlement: &firstclaim_core::effect::Settlement| {
        let since = later.permits.first().map(|permit| permit.permitted_time);
        !settlement.verdict.committed() && Some(settlement.time) <= since
    };
    let told = earlier.findings.settlement.iter().chain(&earlier.findings.contradictions);
    earlier.slot == later.slot && !told.into_iter().any(denied)
}

fn check_window(effect: &Effect) -> Checked {
    let Some(first) = effect.permits.first() else { return Ok(()) };
    let until = effect.dedup_window.map(|window| window.from(first.permitted_time));
    for (at, permit) in effect.permits.iter().enumerate().skip(1) {
        let latest = effect.permits[..=at].iter().map(|it| it.not_after).max().unwrap_or_default();
        if effect.provider_key.is_none() || until.is_none_or(|until| until.has_come(latest)) {
            let says = format!("{}: permit {} is outside the window", effect.id, permit.number);
            return Err(Broken::new(Property::I4, says));
        }
        let numbers = effect.permits[..at].iter().any(|given| given.number >= permit.number);
        if numbers {
            let says = format!("{}: number {} was given twice", effect.id, permit.number);
            return Err(Broken::new(Property::I4, says));
        }
    }
    Ok(())
}
