//! I7: a first claim whose intent time was checked was never claimed before, as long as clocks are off
//! by no more than the skew.
//!
//! Clauses: semantics §5 (replay horizon), §8 (deletions), §10 I7.

use std::collections::BTreeMap;

use firstclaim_core::outcome::AcquiredKind;
use firstclaim_core::{Answer, Millis, RecordRef, Slot, Timestamp};

use super::{Broken, Checked, Property, Seen};

/// When each life of a key was claimed first, and the skew that was granted then.
#[derive(Debug, Default)]
pub(super) struct Horizon {
    claimed: BTreeMap<RecordRef, Vec<(u64, Timestamp, Millis)>>,
}

impl Horizon {
    pub(super) fn check(&mut self, seen: &Seen<'_>) -> Checked {
        let (Ok(Answer::Acquired(it)), Some(record)) = (&seen.outcome.result, seen.about) else {
            return Ok(());
        };
        let lives = self.claimed.entry(record.clone()).or_default();
        if lives.iter().any(|(life, ..)| *life == it.life) {
            return Ok(());
        }
        let checked = it.kind == AcquiredKind::First && it.horizon_checked;
        if let Some(born) = it.intent_time.filter(|_| checked)
            && let Some((life, claimed, _)) =
                lives.iter().find(|(_, claimed, skew)| born.before(*skew) <= *claimed)
        {
            let says = format!("born at {}, claimed at {} in life {life}", born.0, claimed.0);
            return Err(Broken::new(Property::I7, says));
        }
        lives.push((it.life, seen.outcome.store_time, skew(seen, record)));
        Ok(())
    }
}

/// The skew that the policy grants now.
fn skew(seen: &Seen<'_>, record: &RecordRef) -> Millis {
    let of = (record.tenant.clone(), record.namespace.clone());
    match (seen.store.tenants.get(&record.tenant), seen.store.namespaces.get(&of)) {
        (Some(Slot::Live(tenant)), Some(Slot::Live(namespace))) => {
            namespace.effective(tenant).intent_time_skew
        }
        _ => Millis(0),
    }
}
