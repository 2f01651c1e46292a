//! External side effects: what was permitted, what is known about it, and what is open.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::invalid::Invalid;
use crate::limits;
use crate::name::{
    AttemptId, EffectId, OwnerLabel, Principal, ProviderKey, ProviderName, SlotName,
};
use crate::planted::{self, Planted};
use crate::policy::{OnLapse, Retention};
use crate::record::Epoch;
use crate::time::{Millis, Timestamp};

/// Bytes with their media type: the request of an effect, or the evidence of a settlement. Digest
/// and length outlive the bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// What the bytes are.
    pub content_type: String,
    /// SHA-256 of the bytes.
    pub digest: Vec<u8>,
    /// How many bytes.
    pub length: u64,
    /// The bytes, unless they were purged.
    pub bytes: Option<Vec<u8>>,
}

impl Content {
    /// Content that is stored here.
    #[must_use]
    pub fn new(bytes: Vec<u8>, content_type: String) -> Self {
        Self {
            content_type,
            digest: Sha256::digest(&bytes).to_vec(),
            length: bytes.len() as u64,
            bytes: Some(bytes),
        }
    }

    /// Whether both are the same bytes of the same type, stored or not.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        (&self.digest, &self.content_type) == (&other.digest, &other.content_type)
    }
}

/// What inside a life of a key is meant: a recorded effect, or the work of an epoch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum EffectName {
    /// A recorded effect.
    Effect(EffectId),
    /// The implicit effect of an EXECUTE epoch that recorded none.
    Work(Epoch),
}

/// Names one effect for ever: the life of the record and the effect in it. On the wire `7/payment`
/// or, for the work of epoch 12, `7@12`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EffectUid {
    /// [`Record::life`](crate::Record::life).
    pub life: u64,
    /// Which effect of it.
    pub name: EffectName,
}

impl EffectUid {
    /// Reads what [`fmt::Display`] writes.
    ///
    /// # Errors
    ///
    /// [`Invalid`] for anything else.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let at = text.find(['/', '@']);
        let parsed = at.and_then(|at| {
            let (life, name) = (text[..at].parse().ok()?, &text[at + 1..]);
            let name = if text.as_bytes()[at] == b'/' {
                EffectName::Effect(EffectId::parse(name).ok()?)
            } else {
                EffectName::Work(Epoch(name.parse().ok()?))
            };
            Some(Self { life, name })
        });
        parsed.ok_or_else(|| {
            Invalid::new(
                "uid",
                format!("is {text:?}"),
                "send the uid of an effect, such as 7/payment, or of an epoch's work, such as 7@12, as an answer shows it",
            )
        })
    }
}

impl fmt::Display for EffectUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            EffectName::Effect(id) => write!(f, "{}/{id}", self.life),
            EffectName::Work(epoch) => write!(f, "{}@{}", self.life, epoch.0),
        }
    }
}

/// Leave to send an effect once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Permit {
    /// The dispatch number that the caller named, from 1.
    pub number: u32,
    /// To whom it was given.
    pub epoch: Epoch,
    /// When it was given.
    pub permitted_time: Timestamp,
    /// An honest holder sends before this time or never.
    pub not_after: Timestamp,
}

/// What somebody found out about an effect, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// It happened.
    Committed,
    /// It did not: the provider refused it, and will refuse it again for that key.
    Refused {
        /// The provider's HTTP status, if it has one.
        status: Option<u16>,
    },
    /// It did not: the provider, asked after `as_of`, does not know it.
    NotFound {
        /// A store time of a linearizable answer obtained before the look-up began.
        as_of: Timestamp,
    },
    /// It did not: an operator answers for that. Only in a Resolve.
    Overridden,
}

impl Verdict {
    /// Whether it says that the effect happened.
    #[must_use]
    pub const fn committed(self) -> bool {
        matches!(self, Self::Committed)
    }
}

/// A verdict with its evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settlement {
    /// What was found.
    pub verdict: Verdict,
    /// What shows it.
    pub evidence: Content,
    /// When it was told.
    pub time: Timestamp,
    /// Who told it.
    pub principal: Principal,
}

/// What is known about an effect. The first settlement stays, but for a COMMITTED after a
/// NOT_COMMITTED.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Findings {
    /// What counts.
    pub settlement: Option<Settlement>,
    /// A COMMITTED came after a NOT_COMMITTED, and nobody has resolved that.
    pub conflict: bool,
    /// What contradicts it; kept for people.
    pub contradictions: Vec<Settlement>,
}

/// What a settlement was to the findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The first one.
    New,
    /// Known already: nothing changed.
    Repeated,
    /// A COMMITTED after a NOT_COMMITTED: it counts.
    Conflict,
    /// It contradicts a COMMITTED, which stays.
    Contradiction {
        /// Whether it is kept for people.
        kept: bool,
    },
}

impl Findings {
    /// Whether nobody knows, or those who know contradict each other.
    #[must_use]
    pub fn open(&self) -> bool {
        self.settlement.is_none() || self.conflict
    }

    /// Whether it is known to have happened.
    #[must_use]
    pub fn committed(&self) -> bool {
        self.settlement.as_ref().is_some_and(|settlement| settlement.verdict.committed())
    }

    /// Takes a settlement in.
    pub fn settle(&mut self, settlement: Settlement) -> Found {
        let Some(first) = &self.settlement else {
            self.settlement = Some(settlement);
            return Found::New;
        };
        match (first.verdict.committed(), settlement.verdict.committed()) {
            (false, false) if planted::is(Planted::SecondNotCommittedReplaces) => {
                self.settlement = Some(settlement);
                Found::New
            }
            (false, false) => Found::Repeated,
            (true, true) if first.evidence.digest == settlement.evidence.digest => Found::Repeated,
            (true, _) => Found::Contradiction { kept: self.contradict(settlement) },
            (false, true) if planted::is(Planted::ConflictUnnoticed) => {
                self.settlement = Some(settlement);
                Found::New
            }
            (false, true) => {
                let first = self.settlement.replace(settlement);
                if let Some(first) = first {
                    self.contradict(first);
                }
                self.conflict = true;
                Found::Conflict
            }
        }
    }

    /// Keeps a settlement that does not count. Returns whether it is kept, now or from before.
    fn contradict(&mut self, settlement: Settlement) -> bool {
        let known = self.contradictions.iter().any(|kept| {
            kept.verdict.committed() == settlement.verdict.committed()
                && kept.evidence.digest == settlement.evidence.digest
        });
        if !known && self.contradictions.len() < limits::CONTRADICTIONS_KEPT {
            self.contradictions.push(settlement);
            return true;
        }
        known
    }

    /// Takes the bytes of all evidence away.
    pub(crate) fn purge(&mut self) {
        for settlement in self.settlement.iter_mut().chain(&mut self.contradictions) {
            settlement.evidence.bytes = None;
        }
    }
}

/// One external side effect, journaled before it is dispatched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effect {
    /// The caller's name for it in this record.
    pub id: EffectId,
    /// Effects of one slot exclude each other.
    pub slot: SlotName,
    /// Where it is sent.
    pub provider: ProviderName,
    /// The key that the provider is given, by which it can tell repeats.
    pub provider_key: Option<ProviderKey>,
    /// For how long after the first dispatch the provider tells repeats by that key; unknown if
    /// none.
    pub dedup_window: Option<Retention>,
    /// What is sent.
    pub request: Content,
    /// Every permit, by number.
    pub permits: Vec<Permit>,
    /// The longest settle horizon of the grants that permitted it.
    pub settle_horizon: Millis,
    /// What is known.
    pub findings: Findings,
}

impl Effect {
    /// The latest time at which an honest holder can have sent it.
    #[must_use]
    pub fn last_not_after(&self) -> Timestamp {
        self.permits.iter().map(|permit| permit.not_after).max().unwrap_or_default()
    }

    /// When it was first permitted.
    #[must_use]
    pub fn first_permitted(&self) -> Timestamp {
        let times = self.permits.iter().map(|permit| permit.permitted_time);
        let first =
            if planted::is(Planted::WindowOfLastPermit) { times.max() } else { times.min() };
        first.unwrap_or_default()
    }

    /// Whether the provider still tells repeats apart when one is sent as late as `not_after` and
    /// its fate is looked up `settle_horizon` later.
    #[must_use]
    pub fn redispatchable(&self, not_after: Timestamp, settle_horizon: Millis) -> bool {
        let (Some(_), Some(window)) = (&self.provider_key, self.dedup_window) else {
            return false;
        };
        let latest = self.last_not_after().max(not_after);
        let horizon = self.settle_horizon.max(settle_horizon);
        !window.from(self.first_permitted()).has_come(latest.after(horizon))
    }
}

/// Why the work of an epoch is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OpenCause {
    /// Its lease ran out with nothing recorded.
    Lapsed,
    /// Its holder said that the outcome is unknown.
    ReleasedUnknown,
    /// Contradictory evidence about an earlier effect interrupted it.
    Interrupted,
}

/// The implicit effect of an EXECUTE epoch, once it is or was open, or somebody settled it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// Whose work.
    pub epoch: Epoch,
    /// The attempt that held the epoch.
    pub attempt_id: AttemptId,
    /// Who that was.
    pub owner: OwnerLabel,
    /// Why it was opened; none if it never was, and somebody told of it all the same.
    pub cause: Option<OpenCause>,
    /// Since when.
    pub since: Timestamp,
    /// The latest effective deadline ever given to the epoch.
    pub deadline: Timestamp,
    /// How long after that a "not found" proves nothing.
    pub settle_horizon: Millis,
    /// What the holder said about it.
    pub note: String,
    /// What is known.
    pub findings: Findings,
}

/// What happened, or may have happened, outside.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    /// Work of EXECUTE epochs that recorded nothing.
    pub works: Vec<Work>,
    /// Recorded effects.
    pub effects: Vec<Effect>,
}

impl Journal {
    /// What of it is open.
    #[must_use]
    pub fn open(self) -> Self {
        Self {
            works: self.works.into_iter().filter(|work| work.findings.open()).collect(),
            effects: self.effects.into_iter().filter(|effect| effect.findings.open()).collect(),
        }
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.works.is_empty() && self.effects.is_empty()
    }

    /// Since when the oldest of it may have happened.
    #[must_use]
    pub fn since(&self) -> Option<Timestamp> {
        let works = self.works.iter().map(|work| work.since);
        works.chain(self.effects.iter().map(Effect::first_permitted)).min()
    }

    /// The names of all in it, in a life of a record.
    #[must_use]
    pub fn uids(&self, life: u64) -> Vec<EffectUid> {
        let works = self.works.iter().map(|work| EffectName::Work(work.epoch));
        let effects = self.effects.iter().map(|effect| EffectName::Effect(effect.id.clone()));
        works.chain(effects).map(|name| EffectUid { life, name }).collect()
    }
}

/// What the holder of an EXECUTE claim has to know of the grants before its own. A claim that rose learns
/// it from the answer that shows the rise: what it is about to do may be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inherited {
    /// Names this life of the key: the first half of every effect's uid.
    pub life: u64,
    /// What a lapse of the present grant means.
    pub on_lapse: OnLapse,
    /// Everything that happened, or did not, with its evidence.
    pub journal: Journal,
}
