//! A provider that tells repeats by its keys, and remembers what it refused. The only witness of
//! effects.

use std::collections::BTreeMap;

use firstclaim_core::EffectUid;

use firstclaim_sim::Random;

/// What is asked of the provider: an effect of one slot of one intent.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) intent: u8,
    pub(crate) slot: u8,
    /// The record's name for it, which goes along as a reference.
    pub(crate) uid: EffectUid,
    pub(crate) key: Option<String>,
    /// For how long repeats are told by the key; `u64::MAX` is for ever.
    pub(crate) window: u64,
}

/// What the provider answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Response {
    /// It is done, now or before.
    Done,
    /// Refused for good: the same key will be refused again.
    Refused,
    /// Try again.
    Unavailable,
}

/// The provider.
#[derive(Clone, Debug, Default)]
pub(crate) struct Provider {
    /// By key: when it came first, and what became of it.
    known: BTreeMap<String, (u64, Response)>,
    /// Every effect: intent, slot, life of the record.
    pub(crate) effects: Vec<(u8, u8, EffectUid)>,
    /// Repeats that were told.
    pub(crate) repeats: u64,
}

impl Provider {
    /// A request comes in.
    pub(crate) fn receive(&mut self, now: u64, request: &Request, random: &mut Random) -> Response {
        if let Some(key) = &request.key
            && let Some((first, response)) = self.known.get(key)
        {
            let told = now.saturating_sub(*first) < request.window;
            if told || *response == Response::Refused {
                self.repeats += 1;
                return *response;
            }
        }
        let response = random.weighted(&[
            (7, Response::Done),
            (2, Response::Refused),
            (2, Response::Unavailable),
        ]);
        if response == Response::Unavailable {
            return response;
        }
        if let Some(key) = &request.key {
            self.known.insert(key.clone(), (now, response));
        }
        if response == Response::Done {
            self.effects.push((request.intent, request.slot, request.uid.clone()));
        }
        response
    }

    /// Looks up whether an effect happened.
    pub(crate) fn happened(&self, uid: &EffectUid) -> bool {
        self.effects.iter().any(|(_, _, known)| known == uid)
    }
}
