//! Small and whole: every sequence of a few calls up to a length, on two keys, with two requests and
//! three steps of the clock.
//!
//! What random worlds find by luck they may miss by luck; here nothing is missed that fits in. Sequences
//! that differ only in which key or which request came first are tried once.

use firstclaim_core::command::{
    Claim, Command, Complete, CompleteWith, Dispatch, Holder, Purge, PutMode, PutNamespace,
    PutTenant, RecordEffect, Release, ReleaseKind, Renew, Resolve, Resolved, Revoke, Settle,
    SettleEffect, Sweep,
};
use firstclaim_core::effect::Verdict;
use firstclaim_core::name::{EffectId, Labels, ProviderKey, Region};
use firstclaim_core::policy::{OnLapse, Retention};
use firstclaim_core::record::{Disposition, Epoch};
use firstclaim_core::{
    Answer, AttemptId, EffectName, EffectUid, Millis, Outcome, PolicyPatch, RecordRef, Stamp,
    Timestamp,
};

use crate::Figures;
use crate::checks::{Broken, Oracles};
use crate::history::Entry;
use crate::judge::Judge;
use crate::names::{self, name};
use crate::tell::tell;

/// One thing that can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Letter {
    /// A new attempt claims a key for a request, and accepts recovery or not.
    Claim {
        key: u8,
        request: u8,
        recovers: bool,
    },
    /// The latest holder (0) or the one before (1) completes.
    Complete {
        key: u8,
        back: usize,
        failed: bool,
    },
    Renew,
    Retry,
    Unknown,
    /// The next permit of an effect; both are of one slot.
    Record(u8),
    /// What is open is settled: an effect first.
    Settle(bool),
    /// What is open is overridden, and the record becomes COMPLETED or RETRYABLE.
    Resolve(bool),
    Revoke,
    Purge,
    Sweep,
    /// The policy says TAKEOVER from now on.
    Policy,
    Elect,
    Pass(u64),
}

/// Which things can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alphabet {
    /// Claims and completions of two keys by two requests.
    Claims,
    /// Effects, settlements and releases of one key.
    Effects,
    /// What operators do to one key.
    Operators,
}

const LEASE: u64 = 2_000;
const RETENTION: u64 = 5_000;
/// Half a lease, a lease, and a retention.
const STEPS: [Letter; 3] = [Letter::Pass(LEASE / 2), Letter::Pass(LEASE), Letter::Pass(RETENTION)];

impl Alphabet {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Claims, Self::Effects, Self::Operators];

    fn letters(self) -> Vec<Letter> {
        let claim = |key, request, recovers| Letter::Claim { key, request, recovers };
        let complete = |key, back, failed| Letter::Complete { key, back, failed };
        let mut letters = match self {
            Self::Claims => vec![
                claim(0, 0, true),
                claim(0, 1, true),
                claim(1, 0, true),
                claim(1, 1, true),
                complete(0, 0, false),
                complete(0, 1, false),
                complete(1, 0, false),
                complete(1, 1, false),
                Letter::Elect,
            ],
            Self::Effects => vec![
                claim(0, 0, true),
                claim(0, 0, false),
                Letter::Record(0),
                Letter::Record(1),
                Letter::Settle(true),
                Letter::Settle(false),
                complete(0, 0, false),
                complete(0, 0, true),
                Letter::Retry,
                Letter::Unknown,
            ],
            Self::Operators => vec![
                claim(0, 0, true),
                complete(0, 0, false),
                complete(0, 1, false),
                Letter::Renew,
                Letter::Unknown,
                Letter::Resolve(true),
                Letter::Resolve(false),
                Letter::Revoke,
                Letter::Purge,
                Letter::Sweep,
                Letter::Policy,
            ],
        };
        letters.extend(STEPS);
        letters
    }
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Exhausted {
    /// Sequences that were tried.
    pub sequences: u64,
    /// The first one that broke something, with what it broke.
    pub broken: Option<(Vec<String>, Broken)>,
}

/// Tries every sequence up to a length.
#[must_use]
pub fn exhaust(alphabet: Alphabet, length: u32) -> Exhausted {
    let mut exhausted = Exhausted::default();
    let letters = alphabet.letters();
    let mut path = Vec::new();
    match Position::new() {
        Ok(start) => descend(&start, &letters, length, &mut path, &mut exhausted),
        Err(broken) => exhausted.broken = Some((Vec::new(), broken)),
    }
    exhausted
}

fn descend(
    position: &Position,
    letters: &[Letter],
    length: u32,
    path: &mut Vec<Letter>,
    exhausted: &mut Exhausted,
) {
    for letter in letters {
        // Time that goes by at the end shows nothing.
        let last = length == 1 && matches!(letter, Letter::Pass(_) | Letter::Elect);
        if last || !position.first_of_its_kind(*letter) {
            continue;
        }
        let mut next = position.clone();
        path.push(*letter);
        match next.take(*letter) {
            Ok(false) => {}
            Ok(true) => {
                exhausted.sequences += 1;
                if length > 1 {
                    descend(&next, letters, length - 1, path, exhausted);
                }
            }
            Err(broken) => exhausted.broken = Some((describe(path), broken)),
        }
        path.pop();
        if exhausted.broken.is_some() {
            return;
        }
    }
}

/// A sequence as text.
fn describe(path: &[Letter]) -> Vec<String> {
    let mut lines = Vec::new();
    let Ok(mut position) = Position::new() else { return lines };
    for letter in path {
        if let Some(command) = position.command(*letter) {
            let mut entry = Entry::call(position.stamp(), &command);
            let (outcome, _) = position.judge.clone().call(position.stamp(), &command);
            entry.answer(&outcome, None);
            lines.push(tell(&entry));
        }
        if position.take(*letter).is_err() {
            break;
        }
    }
    lines
}

/// Where a sequence has come to.
#[derive(Clone)]
struct Position {
    judge: Judge,
    now: u64,
    term: u64,
    index: u64,
    /// Keys and requests that were named.
    named: (u8, u8),
    /// Grants and resolutions of each key, with their attempts.
    granted: [Vec<(Epoch, AttemptId)>; 2],
}

impl Position {
    fn new() -> Result<Self, Broken> {
        let mut position = Self {
            judge: Judge::new(Oracles { model: true, replica: false }),
            now: 1_000_000,
            term: 1,
            index: 0,
            named: (0, 0),
            granted: [Vec::new(), Vec::new()],
        };
        let tenant = PutTenant {
            tenant: names::tenant("small"),
            policy: PolicyPatch::default(),
            mode: PutMode::Create { members_applied: 0 },
            validate_only: false,
        };
        position.call(&Command::PutTenant(tenant))?;
        let create = PutMode::Create { members_applied: 0 };
        let namespace = policy(OnLapse::Recover, create);
        position.call(&namespace)?;
        Ok(position)
    }

    /// Keys and requests are told apart by the order in which they come.
    fn first_of_its_kind(&self, letter: Letter) -> bool {
        let (keys, requests) = self.named;
        if let Letter::Claim { key, request, .. } = letter {
            key <= keys && request <= requests
        } else {
            true
        }
    }

    fn stamp(&self) -> Stamp {
        Stamp { term: self.term, index: self.index + 1, time: Timestamp(self.now) }
    }

    fn call(&mut self, command: &Command) -> Result<Outcome, Broken> {
        let stamp = self.stamp();
        self.index += 1;
        // Nobody counts here, and counts are long to copy.
        self.judge.figures = Figures::default();
        let (outcome, checked) = self.judge.call(stamp, command);
        self.judge.figures = Figures::default();
        checked.map(|()| outcome)
    }

    /// Returns whether it can happen here.
    fn take(&mut self, letter: Letter) -> Result<bool, Broken> {
        if let Letter::Pass(millis) = letter {
            self.now += millis;
        } else if letter == Letter::Elect {
            self.term += 1;
        } else {
            let Some(command) = self.command(letter) else { return Ok(false) };
            let outcome = self.call(&command)?;
            self.learn(letter, &command, &outcome);
        }
        Ok(true)
    }

    fn learn(&mut self, letter: Letter, command: &Command, outcome: &Outcome) {
        if let Letter::Claim { key, request, .. } = letter {
            self.named.0 = self.named.0.max(key + 1);
            self.named.1 = self.named.1.max(request + 1);
        }
        let granted = match (&outcome.result, command) {
            (Ok(Answer::Acquired(it)), Command::Claim(claim)) => {
                Some((&claim.record, it.epoch, claim.attempt_id.clone()))
            }
            (Ok(Answer::Resolved(it)), Command::Resolve(resolve)) => {
                Some((&resolve.record, it.epoch, resolve.attempt_id.clone()))
            }
            _ => None,
        };
        if let Some((of, epoch, attempt)) = granted {
            let at = usize::from(*of != record(0));
            self.granted[at].push((epoch, attempt));
        }
    }

    fn granted(&self, key: u8, back: usize) -> Option<(Epoch, AttemptId)> {
        let granted = &self.granted[usize::from(key)];
        Some(granted[granted.len().checked_sub(1 + back)?].clone())
    }

    fn holder(&self, key: u8, back: usize) -> Option<Holder> {
        let (epoch, attempt_id) = self.granted(key, back)?;
        Some(Holder { record: record(key), epoch, attempt_id })
    }

    fn command(&self, letter: Letter) -> Option<Command> {
        let (principal, reason) = (names::principal(), "asked to".to_owned());
        Some(match letter {
            Letter::Claim { key, request, recovers } => self.claim(key, request, recovers),
            Letter::Complete { key, back, failed } => Command::Complete(Complete {
                holder: self.holder(key, back)?,
                disposition: disposition(failed),
                // Another holder, another result.
                result: names::result(u8::try_from(back).unwrap_or_default()),
                settlements: Vec::new(),
            }),
            Letter::Renew => Command::Renew(Renew { holder: self.holder(0, 0)?, lease: None }),
            Letter::Retry => Command::Release(Release {
                holder: self.holder(0, 0)?,
                kind: ReleaseKind::Retry { retry_after: Millis(0) },
            }),
            Letter::Unknown => Command::Release(Release {
                holder: self.holder(0, 0)?,
                kind: ReleaseKind::Unknown { note: String::new() },
            }),
            Letter::Record(effect) => self.record_effect(effect)?,
            Letter::Settle(committed) => self.settle(committed)?,
            Letter::Resolve(completed) => self.resolve(completed)?,
            Letter::Revoke => {
                let epoch = self.granted(0, 0)?.0;
                Command::Revoke(Revoke { record: record(0), epoch, reason, principal })
            }
            Letter::Purge => {
                let expected_epoch = self.granted(0, 0)?.0;
                Command::Purge(Purge { record: record(0), expected_epoch, reason, principal })
            }
            Letter::Sweep => Command::Sweep(Sweep { limit: 8 }),
            Letter::Policy => policy(OnLapse::Takeover, PutMode::Update { expected: None }),
            Letter::Pass(_) | Letter::Elect => return None,
        })
    }

    fn claim(&self, key: u8, request: u8, recovers: bool) -> Command {
        Command::Claim(Claim {
            record: record(key),
            attempt_id: names::attempt(&format!("a{}", self.index)),
            owner: names::owner(0),
            fingerprints: names::fingerprints(&[("a", request, request)]),
            lease: None,
            intent_time: None,
            labels: Labels::default(),
            accept_recovery: recovers,
            region: Region::unknown(),
            effects: Vec::new(),
            complete_with: None,
            allow_duplicate_intent: false,
        })
    }

    fn record_effect(&self, which: u8) -> Option<Command> {
        let holder = self.holder(0, 0)?;
        let id = name!(EffectId, "e{which}");
        let effects = self.judge.record(&record(0)).map(|record| &record.effects);
        let effect = effects.and_then(|all| all.iter().find(|effect| effect.id == id));
        let last = effect.and_then(|effect| effect.permits.last());
        let number = last.map_or(0, |permit| permit.number) + 1;
        let dispatch = Dispatch {
            provider_key: Some(name!(ProviderKey, "pk{which}")),
            id,
            number,
            slot: names::slot(0),
            provider: names::provider(0),
            dedup_window: Some(Retention::For(Millis(3 * LEASE))),
            request: names::content(which),
            within: None,
        };
        Some(Command::RecordEffect(RecordEffect { holder, dispatch }))
    }

    /// What is open at the next stamp.
    fn open(&self) -> Vec<EffectUid> {
        let mut clock = self.judge.store.cluster.clock.clone();
        clock.advance(self.stamp());
        let open = self.judge.record(&record(0)).map(|it| it.open(&clock).uids(it.life));
        open.unwrap_or_default()
    }

    fn settle(&self, committed: bool) -> Option<Command> {
        let uid = self.open().pop()?;
        let effect = matches!(uid.name, EffectName::Effect(_));
        let id = uid.to_string().rsplit('e').next().map(ToOwned::to_owned);
        let key = id.filter(|_| effect).map(|id| name!(ProviderKey, "pk{id}"));
        let as_of = Timestamp(self.now);
        let verdict = if committed { Verdict::Committed } else { Verdict::NotFound { as_of } };
        Some(Command::SettleEffect(SettleEffect {
            record: record(0),
            settle: Settle {
                uid,
                provider: effect.then(|| names::provider(0)),
                provider_key: key,
                verdict,
                evidence: names::content(7),
            },
            principal: names::principal(),
        }))
    }

    fn resolve(&self, completed: bool) -> Option<Command> {
        let verdicts = self.open().into_iter().map(|uid| (uid, Verdict::Overridden)).collect();
        let state = if completed {
            Resolved::Completed(CompleteWith {
                disposition: Disposition::Succeeded,
                result: names::result(2),
            })
        } else {
            Resolved::Retryable { retry_after: Millis(0) }
        };
        Some(Command::Resolve(Resolve {
            record: record(0),
            expected_epoch: self.granted(0, 0)?.0,
            attempt_id: names::attempt(&format!("r{}", self.index)),
            verdicts,
            evidence: names::content(7),
            reason: "looked it up".to_owned(),
            principal: names::principal(),
            state,
        }))
    }
}

fn record(key: u8) -> RecordRef {
    names::record(&names::tenant("small"), 0, &format!("k{key}"))
}

fn disposition(failed: bool) -> Disposition {
    if failed { Disposition::Failed } else { Disposition::Succeeded }
}

fn policy(on_lapse: OnLapse, mode: PutMode) -> Command {
    let policy = PolicyPatch {
        lease_default: Some(Millis(LEASE)),
        on_lapse: Some(on_lapse),
        result_retention: Some(Millis(LEASE)),
        identity_retention: Some(Retention::For(Millis(RETENTION))),
        settle_horizon: Some(Millis(LEASE / 2)),
        ..PolicyPatch::default()
    };
    Command::PutNamespace(PutNamespace {
        tenant: names::tenant("small"),
        namespace: names::namespace(0),
        policy,
        mode,
        validate_only: false,
    })
}
