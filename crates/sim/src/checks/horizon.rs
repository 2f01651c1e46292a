//! I7: a first claim whose intent time was checked was never claimed before, as long as clocks are off
//! by no more than the skew.
//!
//! Clauses: semantics §5 (replay horizon), §8 (deletions), §10 I7.

use std::collections::BTreeMap;

use firstclaim_core::outcome::AcquiredKind;
use firstclaim_core::{Answer, Millis, RecordRef, Slot, Timestamp};

use super::{Broken, Checked, Property, Seen};

/// A life that was claimed.
#[derive(Clone, Debug)]
struct Life {
    name: u64,
    claimed: Timestamp,
    /// The skew that was granted then.
    skew: Millis,
}

/// The lives of each key.
#[derive(Clone, Debug, Default)]
pub(super) struct Horizon {
    lives: BTreeMap<RecordRef, Vec<Life>>,
}

impl Horizon {
    pub(super) fn check(&mut self, seen: &Seen<'_>) -> Checked {
        let (Ok(Answer::Acquired(it)), Some(record)) = (&seen.outcome.result, seen.about) else {
            return Ok(());
        };
        let lives = self.lives.entry(record.clone()).or_default();
        if lives.iter().any(|life| life.name == it.life) {
            return Ok(());
        }
        let skew = skew(seen, record);
        let checked = it.kind == AcquiredKind::First && it.horizon_checked;
        if let Some(born) = it.intent_time.filter(|_| checked)
            && let Some(life) = lives.iter().find(|life| born.before(life.skew) <= life.claimed)
        {
            let (claimed, name) = (life.claimed.0, life.name);
            let says = format!("born at {}, claimed at {claimed} in life {name}", born.0);
            return Err(Broken::new(Property::I7, says));
        }
        let claimed = seen.outcome.store_time;
        lives.push(Life { name: it.life, claimed, skew });
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
