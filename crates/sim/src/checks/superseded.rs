//! I3: once superseded, an epoch changes nothing except through evidence.
//!
//! Clauses: semantics §6 (the last row of the holder calls), §10 I3.

use firstclaim_core::command::{Command, Holder};
use firstclaim_core::{Refusal, Slot};

use super::{Broken, Checked, Property, Seen};

/// Looks at a holder's call with an epoch that is not the present one.
pub(super) fn check(seen: &Seen<'_>) -> Checked {
    let Some(holder) = holder(seen.command) else { return Ok(()) };
    let Some(before) = seen.before.filter(|before| holder.epoch < before.epoch) else {
        return Ok(());
    };
    let Some(after) = seen.after else { return Ok(()) };
    if after.life != before.life || gone(seen) {
        return Ok(());
    }
    let refused = matches!(seen.outcome.result, Err(Refusal::StaleEpoch { .. }));
    if !refused {
        let says = format!("epoch {} was superseded by {}", holder.epoch.0, before.epoch.0);
        return Err(Broken::new(Property::I3, says));
    }
    let same = after.epoch == before.epoch
        && after.grant == before.grant
        && after.execute_grants == before.execute_grants
        && after.attempts.len() == before.attempts.len();
    if !same {
        let says = format!("superseded epoch {} changed the grant", holder.epoch.0);
        return Err(Broken::new(Property::I3, says));
    }
    Ok(())
}

/// Whether the namespace is not there: then nobody holds anything.
fn gone(seen: &Seen<'_>) -> bool {
    let slot = |record: &firstclaim_core::RecordRef| {
        seen.store.tenants.get(&record.tenant).is_some_and(|it| matches!(it, Slot::Live(_)))
    };
    !seen.about.is_some_and(slot)
}

/// Who calls, if it is a holder's call.
pub(super) fn holder(command: &Command) -> Option<&Holder> {
    match command {
        Command::Renew(it) => Some(&it.holder),
        Command::Complete(it) => Some(&it.holder),
        Command::Release(it) => Some(&it.holder),
        Command::RecordEffect(it) => Some(&it.holder),
        Command::Claim(_)
        | Command::PutTenant(_)
        | Command::PutNamespace(_)
        | Command::DeleteTenant(_)
        | Command::DeleteNamespace(_)
        | Command::Sweep(_)
        | Command::Tick
        | Command::SettleEffect(_)
        | Command::Reserve(_)
        | Command::Resolve(_)
        | Command::Revoke(_)
        | Command::Purge(_)
        | Command::ExtendExisting(_)
        | Command::Report(_) => None,
    }
}
