//! Providers that remember what they refused, and tell repeats if they are given a key. The only
//! witnesses of effects.

use std::collections::{BTreeMap, BTreeSet};

use firstclaim_core::EffectUid;
use firstclaim_core::record::Epoch;

use crate::Random;

/// What is asked of a provider: an effect of one slot of one intent.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) intent: usize,
    pub(crate) slot: u8,
    /// The record's name for it, which goes along as a reference.
    pub(crate) uid: EffectUid,
    /// Who sends it.
    pub(crate) epoch: Epoch,
    /// None for work, and where the provider knows no keys.
    pub(crate) key: Option<String>,
    /// For how long repeats are told by the key; `u64::MAX` is for ever.
    pub(crate) window: u64,
    /// When the lease ends that it is sent under.
    pub(crate) lease_expire: u64,
}

/// What a provider answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Response {
    /// It is done, now or before.
    Done,
    /// Refused for good: the same key will be refused again.
    Refused,
    /// Try again.
    Unavailable,
}

/// What came of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) response: Response,
    /// Whether it was told by its key.
    pub(crate) repeat: bool,
}

/// All providers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Provider {
    /// By key: when it came first, and what became of it.
    known: BTreeMap<String, (u64, Response)>,
    /// Every effect.
    effects: BTreeSet<EffectUid>,
}

impl Provider {
    /// A request comes in.
    pub(crate) fn receive(&mut self, now: u64, request: &Request, random: &mut Random) -> Received {
        if let Some(key) = &request.key
            && let Some((first, response)) = self.known.get(key)
        {
            let told = now.saturating_sub(*first) < request.window;
            if told || *response == Response::Refused {
                return Received { response: *response, repeat: true };
            }
        }
        let refused = random.chance(22);
        let response = if refused { Response::Refused } else { Response::Done };
        if let Some(key) = &request.key {
            self.known.insert(key.clone(), (now, response));
        }
        if response == Response::Done {
            self.effects.insert(request.uid.clone());
        }
        Received { response, repeat: false }
    }

    /// Looks up whether an effect happened.
    pub(crate) fn happened(&self, uid: &EffectUid) -> bool {
        self.effects.contains(uid)
    }
}
