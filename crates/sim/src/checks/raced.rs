//! I10: keys that are never forgotten have exactly one first claim, however many workers raced for them.
//!
//! Counted in namespaces that keep identities for ever and were never deleted. Clauses: semantics §5
//! (rows 3 to 18), §10 I10. Regions and restores are not simulated here.

use std::collections::BTreeMap;

use firstclaim_core::outcome::AcquiredKind;
use firstclaim_core::policy::Retention;
use firstclaim_core::record::State;
use firstclaim_core::{Answer, Expiry, Record, RecordRef};

use super::{Broken, Checked, Property, Seen};

/// First claims by key.
#[derive(Debug, Default)]
pub(super) struct Raced {
    keys: BTreeMap<RecordRef, u64>,
}

impl Raced {
    pub(super) fn check(&mut self, seen: &Seen<'_>) -> Checked {
        if let Ok(Answer::Deleted(_)) = &seen.outcome.result {
            // What was deleted may be claimed first again.
            self.keys.retain(|key, _| !deleted(seen, key));
        }
        let Some(key) = seen.about else { return Ok(()) };
        if !seen.after.is_some_and(for_ever) {
            // From now on it ages.
            self.keys.remove(key);
            return Ok(());
        }
        let Ok(Answer::Acquired(it)) = &seen.outcome.result else { return Ok(()) };
        if it.kind != AcquiredKind::First && !self.keys.contains_key(key) {
            return Ok(());
        }
        let firsts = self.keys.entry(key.clone()).or_default();
        if it.kind == AcquiredKind::First {
            *firsts += 1;
        }
        if *firsts > 1 {
            let says = format!("{:?} was claimed first {firsts} times", key.key);
            return Err(Broken::new(Property::I10, says));
        }
        Ok(())
    }

    pub(super) fn end(&self) -> Checked {
        match self.keys.iter().find(|(_, firsts)| **firsts != 1) {
            None => Ok(()),
            Some((key, firsts)) => {
                let says = format!("{:?} was claimed first {firsts} times", key.key);
                Err(Broken::new(Property::I10, says))
            }
        }
    }
}

/// Whether time never takes the record away.
fn for_ever(record: &Record) -> bool {
    match &record.state {
        State::Claimed | State::Unresolved { .. } => {
            record.frozen.identity_retention == Retention::Forever
        }
        State::Reserved { identity_expire_time }
        | State::Retryable { identity_expire_time, .. }
        | State::Unbound { identity_expire_time, .. } => *identity_expire_time == Expiry::Never,
        State::Completed(completion) => completion.identity_expire_time == Expiry::Never,
    }
}

fn deleted(seen: &Seen<'_>, key: &RecordRef) -> bool {
    if let firstclaim_core::Command::DeleteNamespace(it) = seen.command {
        return it.tenant == key.tenant && it.namespace == key.namespace;
    }
    if let firstclaim_core::Command::DeleteTenant(it) = seen.command {
        return it.tenant == key.tenant;
    }
    false
}
