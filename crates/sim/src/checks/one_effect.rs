//! I13: no slot of an intent of honest workers has two effects while its record lives, or ever where the
//! intent's time is sent.
//!
//! Counted at the simulated providers, which are the only witnesses. A second *request* is allowed if the
//! provider tells it by our key; a second *effect* never is. Clauses: semantics §3, §5, §6, §10 I13.

use std::collections::BTreeMap;

use firstclaim_core::{EffectUid, RecordRef};

use super::{Broken, Checked, Property};

/// An effect that came about at a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) record: RecordRef,
    pub(crate) slot: u8,
    pub(crate) uid: EffectUid,
    /// Whether the intent's time is sent with every claim.
    pub(crate) timed: bool,
}

/// Effects by intent and slot.
#[derive(Debug, Default)]
pub(super) struct OneEffect {
    effects: BTreeMap<(RecordRef, u8), Vec<EffectUid>>,
}

impl OneEffect {
    pub(super) fn check(&mut self, arrival: &Arrival) -> Checked {
        let key = (arrival.record.clone(), arrival.slot);
        let effects = self.effects.entry(key).or_default();
        effects.push(arrival.uid.clone());
        let same = |uid: &&EffectUid| arrival.timed || uid.life == arrival.uid.life;
        let count = effects.iter().filter(same).count();
        if count > 1 {
            let names: Vec<_> = effects.iter().map(ToString::to_string).collect();
            let (key, slot) = (arrival.record.key.as_str(), arrival.slot);
            let says = format!("slot {slot} of {key} was paid {count} times: {names:?}");
            return Err(Broken::new(Property::I13, says));
        }
        Ok(())
    }
}
