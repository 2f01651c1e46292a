//! What the calls of one key may be told, blind to store time, indexes and terms.
//!
//! The contract as a caller can hold it against us who sees nothing but answers: time may end a lease
//! at any moment, so nothing is concluded from a lapse; epochs, results and the order of things are
//! held to the letter.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "an answer that no rule speaks of is not true, whatever it is"
)]

use std::collections::BTreeMap;

use super::Spec;

/// A number that stands for bytes: an attempt, a request, a result.
pub type Token = u64;

/// How far a key has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Nobody has heard of it.
    Absent,
    /// A producer bound it to a request.
    Reserved,
    /// Claimed; the lease may hold or not.
    Held,
    /// Something may have happened.
    Unresolved,
    /// May be tried again.
    Retryable,
    /// Done.
    Completed,
}

/// What was asked about a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A claim.
    Claim {
        /// By which attempt.
        attempt: Token,
        /// For which request.
        request: Token,
    },
    /// That it be bound to a request.
    Reserve {
        /// Which.
        request: Token,
    },
    /// More time.
    Renew {
        /// For which epoch.
        epoch: u64,
        /// Of which attempt.
        attempt: Token,
    },
    /// That a result be stored.
    Complete {
        /// By which epoch.
        epoch: u64,
        /// Of which attempt.
        attempt: Token,
        /// The result.
        result: Token,
    },
    /// That a claim be given back.
    Release {
        /// Which epoch.
        epoch: u64,
        /// Of which attempt.
        attempt: Token,
        /// Whether nothing happened; else nobody knows.
        retry: bool,
    },
    /// What became of the work of an epoch.
    Settle {
        /// The evidence.
        evidence: Token,
        /// Whether it happened.
        committed: bool,
    },
    /// For the record as it is.
    Get,
}

/// What a caller was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// Nothing.
    Unknown,
    /// A claim was the first.
    First(u64),
    /// The same attempt holds it.
    AlreadyHeld(u64),
    /// It was taken over, or is to be recovered.
    Takeover(u64),
    /// A released claim was tried again.
    Retry(u64),
    /// It is done.
    Replay(Token),
    /// Not now.
    Pending(u64),
    /// Something may have happened.
    Unresolved(u64),
    /// The key stands for another request.
    Mismatch,
    /// The attempt had its grant.
    Spent(u64),
    /// It is reserved, now or before.
    Reserved {
        /// Whether this call did it.
        created: bool,
    },
    /// There is more time.
    Renewed(u64),
    /// There is no more time.
    LeaseExpired,
    /// It is stored.
    Completed(u64),
    /// Another result is stored.
    ResultConflict,
    /// Another epoch completed it.
    AlreadyCompleted,
    /// Something has to be settled first.
    Unsettled,
    /// It is given back.
    Released(Phase),
    /// The epoch is superseded.
    Stale {
        /// The present epoch; none if the key is forgotten.
        epoch: Option<u64>,
        /// Whether the record is completed by what the caller knew.
        completed: bool,
    },
    /// It is known now, and the record is that.
    Settled {
        /// How far the key is now.
        phase: Phase,
        /// Whether that completed it.
        completed: bool,
    },
    /// It changed nothing, whatever the reason was.
    Refused,
    /// What is known of the work says otherwise.
    Contradicted,
    /// What a read saw.
    Record(Option<View>),
}

/// What a read saw of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// How far it is.
    pub phase: Phase,
    /// Its epoch; 0 before the first.
    pub epoch: u64,
    /// Its request.
    pub request: Token,
    /// Its result.
    pub result: Option<Token>,
}

/// A call with what it was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// What was asked.
    pub asked: Asked,
    /// What was told.
    pub told: Told,
}

/// All that the answers of a key depend on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct State {
    phase: Phase,
    request: Token,
    /// The latest epoch, if it is `known`; else one that is below it.
    epoch: u64,
    known: bool,
    /// Who was granted it.
    attempt: Token,
    /// Every attempt that was ever granted in this life, with its epoch where that is known.
    granted: BTreeMap<Token, Option<u64>>,
    result: Option<Token>,
    /// By which epoch it was completed, where that is known.
    completed_by: Option<u64>,
}

impl State {
    /// A key that nobody has heard of.
    #[must_use]
    pub fn absent() -> Self {
        Self {
            phase: Phase::Absent,
            request: 0,
            epoch: 0,
            known: true,
            attempt: 0,
            granted: BTreeMap::new(),
            result: None,
            completed_by: None,
        }
    }

    fn is(&self, phases: &[Phase]) -> bool {
        phases.contains(&self.phase)
    }

    /// This state, if its present epoch can be that.
    fn at(&self, epoch: u64) -> Option<Self> {
        if self.known {
            return (self.epoch == epoch).then(|| self.clone());
        }
        if epoch <= self.epoch {
            return None;
        }
        let mut state = self.clone();
        state.epoch = epoch;
        state.known = true;
        state.granted.insert(state.attempt, Some(epoch));
        Some(state)
    }

    /// This state, if its present holder can be that.
    fn held_by(&self, epoch: u64, attempt: Token) -> Option<Self> {
        self.at(epoch).filter(|state| state.attempt == attempt)
    }

    fn with(mut self, phase: Phase) -> Self {
        self.phase = phase;
        self
    }

    fn completed(mut self, result: Token, by: Option<u64>) -> Self {
        self.phase = Phase::Completed;
        self.result = Some(result);
        self.completed_by = by;
        self
    }

    /// A grant with an epoch above all before it, or with an unknown one.
    fn grant(&self, attempt: Token, epoch: Option<u64>) -> Option<Self> {
        if epoch.is_some_and(|epoch| epoch <= self.epoch) || self.granted.contains_key(&attempt) {
            return None;
        }
        let mut state = self.clone();
        state.phase = Phase::Held;
        state.attempt = attempt;
        // Of an unknown epoch only what was before it is known.
        state.epoch = epoch.unwrap_or(self.epoch);
        state.known = epoch.is_some();
        state.granted.insert(attempt, epoch);
        Some(state)
    }

    /// The first grant of a new life.
    fn first(&self, request: Token, attempt: Token, epoch: Option<u64>) -> Option<Self> {
        let mut state = Self::absent();
        state.request = request;
        state.epoch = self.epoch;
        state.grant(attempt, epoch)
    }
}

/// The rules of one key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Whether its record may be forgotten while the history runs.
    pub forgets: bool,
}

const OPEN: &[Phase] = &[Phase::Held, Phase::Unresolved];

impl Spec for Key {
    type State = State;
    type Call = Call;

    fn steps(&self, state: &State, call: &Call) -> Vec<State> {
        let mut after = self.steps_of(state, call);
        // A record that is not claimed may be forgotten at any time; so may one that lapsed.
        if self.forgets && state.phase != Phase::Absent {
            let mut gone = State::absent();
            gone.epoch = state.epoch;
            gone.known = state.known;
            after.extend(self.steps_of(&gone, call));
        }
        after.sort();
        after.dedup();
        after
    }
}

impl Key {
    fn steps_of(self, state: &State, call: &Call) -> Vec<State> {
        let told = &call.told;
        if *told == Told::Unknown {
            return unknown(state, &call.asked);
        }
        match &call.asked {
            Asked::Claim { attempt, request } => claim(state, *attempt, *request, told),
            Asked::Reserve { request } => reserve(state, *request, told),
            Asked::Renew { epoch, attempt } => renew(state, *epoch, *attempt, told),
            Asked::Complete { epoch, attempt, result } => {
                complete(state, (*epoch, *attempt), *result, told)
            }
            Asked::Release { epoch, attempt, .. } => release(state, *epoch, *attempt, told),
            Asked::Settle { evidence, .. } => settle(state, *evidence, told),
            Asked::Get => get(state, told),
        }
    }
}

fn some(state: Option<State>) -> Vec<State> {
    state.into_iter().collect()
}

fn unchanged(state: &State, fits: bool) -> Vec<State> {
    if fits { vec![state.clone()] } else { Vec::new() }
}

fn claim(state: &State, attempt: Token, request: Token, told: &Told) -> Vec<State> {
    let same = state.request == request;
    let fresh = match state.phase {
        Phase::Absent => true,
        Phase::Reserved => same,
        Phase::Held | Phase::Unresolved | Phase::Retryable | Phase::Completed => false,
    };
    match told {
        Told::First(epoch) if fresh => some(state.first(request, attempt, Some(*epoch))),
        Told::AlreadyHeld(epoch) if same && state.is(&[Phase::Held]) => {
            some(state.held_by(*epoch, attempt))
        }
        Told::Takeover(epoch) if same && state.is(OPEN) => some(state.grant(attempt, Some(*epoch))),
        Told::Retry(epoch) if same && state.is(&[Phase::Retryable]) => {
            some(state.grant(attempt, Some(*epoch)))
        }
        Told::Replay(result) => unchanged(
            state,
            same && state.phase == Phase::Completed && state.result == Some(*result),
        ),
        Told::Pending(epoch) if same && state.is(&[Phase::Held, Phase::Retryable]) => {
            some(state.at(*epoch))
        }
        Told::Unresolved(epoch) if same && state.is(OPEN) => some(state.at(*epoch)),
        Told::Mismatch => unchanged(state, !same && state.phase != Phase::Absent),
        Told::Spent(epoch) if same => match state.granted.get(&attempt) {
            None => Vec::new(),
            Some(Some(known)) => unchanged(state, known == epoch),
            Some(None) if state.attempt == attempt => some(state.at(*epoch)),
            Some(None) => unchanged(state, *epoch <= state.epoch),
        },
        _ => Vec::new(),
    }
}

fn reserve(state: &State, request: Token, told: &Told) -> Vec<State> {
    match told {
        Told::Reserved { created: true } if state.phase == Phase::Absent => {
            let mut reserved = State::absent().with(Phase::Reserved);
            reserved.request = request;
            (reserved.epoch, reserved.known) = (state.epoch, state.known);
            vec![reserved]
        }
        Told::Reserved { created: false } => {
            unchanged(state, state.phase != Phase::Absent && state.request == request)
        }
        Told::Mismatch => {
            unchanged(state, state.phase != Phase::Absent && state.request != request)
        }
        _ => Vec::new(),
    }
}

/// An epoch that is not the present one, or one that was given back.
fn stale(state: &State, (epoch, attempt): (u64, Token), now: Option<u64>) -> Vec<State> {
    let Some(now) = now else { return unchanged(state, state.phase == Phase::Absent) };
    let given_back = state.is(&[Phase::Retryable, Phase::Reserved]);
    some(state.at(now).filter(|it| given_back || it.epoch > epoch || it.attempt != attempt))
}

fn renew(state: &State, epoch: u64, attempt: Token, told: &Told) -> Vec<State> {
    match told {
        Told::Renewed(it) if *it == epoch && state.is(&[Phase::Held]) => {
            some(state.held_by(epoch, attempt))
        }
        Told::LeaseExpired if state.is(OPEN) => some(state.held_by(epoch, attempt)),
        Told::AlreadyCompleted => unchanged(state, state.phase == Phase::Completed),
        Told::Stale { epoch: now, .. } => stale(state, (epoch, attempt), *now),
        _ => Vec::new(),
    }
}

fn complete(
    state: &State,
    (epoch, attempt): (u64, Token),
    result: Token,
    told: &Told,
) -> Vec<State> {
    let mine = state.completed_by.is_none_or(|by| by == epoch);
    match told {
        Told::Completed(by) if *by == epoch => match state.phase {
            Phase::Held | Phase::Unresolved => some(
                state.held_by(epoch, attempt).map(|state| state.completed(result, Some(epoch))),
            ),
            Phase::Completed => unchanged(state, mine && state.result == Some(result)),
            Phase::Absent | Phase::Reserved | Phase::Retryable => Vec::new(),
        },
        Told::ResultConflict => unchanged(
            state,
            state.phase == Phase::Completed && mine && state.result != Some(result),
        ),
        Told::AlreadyCompleted => unchanged(state, state.phase == Phase::Completed),
        Told::Unsettled | Told::Contradicted if state.is(OPEN) => {
            some(state.held_by(epoch, attempt))
        }
        Told::Stale { completed: true, .. } => {
            let given_back = state.phase == Phase::Retryable;
            let superseded = !state.known || state.epoch != epoch || given_back;
            let open = state.is(&[Phase::Held, Phase::Unresolved, Phase::Retryable]);
            if superseded && open {
                return vec![state.clone().completed(result, None)];
            }
            // It said so before, without an answer, and that completed the record.
            let said = state.completed_by != Some(epoch) && state.result == Some(result);
            unchanged(state, superseded && state.phase == Phase::Completed && said)
        }
        Told::Stale { epoch: now, completed: false } => {
            let mut after = stale(state, (epoch, attempt), *now);
            after.extend(conflicts(&after));
            after
        }
        _ => Vec::new(),
    }
}

/// What these states become if something is known to have happened that was known not to have.
fn conflicts(states: &[State]) -> Vec<State> {
    let open = states.iter().filter(|state| state.is(&[Phase::Held, Phase::Retryable]));
    open.map(|state| state.clone().with(Phase::Unresolved)).collect()
}

fn release(state: &State, epoch: u64, attempt: Token, told: &Told) -> Vec<State> {
    match told {
        Told::Released(Phase::Retryable) => {
            let held = state.is(OPEN) || state.phase == Phase::Retryable;
            let held = state.held_by(epoch, attempt).filter(|_| held);
            some(held.map(|state| state.with(Phase::Retryable)))
        }
        Told::Released(Phase::Unresolved) if state.is(OPEN) => {
            some(state.held_by(epoch, attempt).map(|state| state.with(Phase::Unresolved)))
        }
        Told::Unsettled if state.is(OPEN) => some(state.held_by(epoch, attempt)),
        Told::LeaseExpired if state.is(OPEN) => some(state.held_by(epoch, attempt)),
        Told::AlreadyCompleted => unchanged(state, state.phase == Phase::Completed),
        Told::Stale { epoch: now, .. } => stale(state, (epoch, attempt), *now),
        _ => Vec::new(),
    }
}

fn settle(state: &State, evidence: Token, told: &Told) -> Vec<State> {
    match told {
        Told::Settled { phase: Phase::Completed, completed: true } => {
            if state.is(&[Phase::Held, Phase::Unresolved, Phase::Retryable]) {
                vec![state.clone().completed(evidence, None)]
            } else {
                Vec::new()
            }
        }
        Told::Settled { phase: Phase::Completed, completed: false } => {
            unchanged(state, state.phase == Phase::Completed)
        }
        Told::Settled { phase, completed: false } => match state.phase {
            Phase::Absent | Phase::Completed => Vec::new(),
            Phase::Reserved => unchanged(state, *phase == Phase::Reserved),
            Phase::Held | Phase::Unresolved => vec![state.clone().with(*phase)],
            Phase::Retryable => {
                let may = matches!(phase, Phase::Retryable | Phase::Unresolved);
                unchanged(&state.clone().with(*phase), may)
            }
        },
        Told::Refused | Told::Contradicted => unchanged(state, true),
        Told::Stale { epoch: None, .. } => unchanged(state, state.phase == Phase::Absent),
        _ => Vec::new(),
    }
}

fn get(state: &State, told: &Told) -> Vec<State> {
    let Told::Record(seen) = told else { return Vec::new() };
    let Some(view) = seen else { return unchanged(state, state.phase == Phase::Absent) };
    // A lapse may be written down or not.
    let phase = state.phase == view.phase || state.is(OPEN) && OPEN.contains(&view.phase);
    let same = phase
        && state.phase != Phase::Absent
        && state.request == view.request
        && state.result == view.result;
    if !same {
        return Vec::new();
    }
    if view.epoch == 0 && state.phase == Phase::Reserved {
        return vec![state.clone()];
    }
    some(state.at(view.epoch))
}

/// What a call can have left of which nobody knows whether it was carried out. That it was not is one
/// of them, so it is left out.
fn unknown(state: &State, asked: &Asked) -> Vec<State> {
    let open = state.is(&[Phase::Held, Phase::Unresolved, Phase::Retryable]);
    match asked {
        Asked::Claim { attempt, request } => match state.phase {
            Phase::Absent => some(state.first(*request, *attempt, None)),
            Phase::Completed => Vec::new(),
            _ if state.request != *request => Vec::new(),
            Phase::Reserved => some(state.first(*request, *attempt, None)),
            Phase::Held | Phase::Unresolved | Phase::Retryable => some(state.grant(*attempt, None)),
        },
        Asked::Reserve { request } => reserve(state, *request, &Told::Reserved { created: true }),
        Asked::Renew { .. } | Asked::Get => Vec::new(),
        Asked::Complete { epoch, attempt, result } => {
            let mut after = complete(state, (*epoch, *attempt), *result, &Told::Completed(*epoch));
            // A grant of an epoch that nobody was told is above all that were.
            let superseded = !state.known || state.epoch > *epoch;
            if open && (superseded || state.phase == Phase::Retryable) {
                after.push(state.clone().completed(*result, None));
                after.extend(conflicts(std::slice::from_ref(state)));
            }
            after
        }
        Asked::Release { epoch, attempt, retry } => {
            let phase = if *retry { Phase::Retryable } else { Phase::Unresolved };
            release(state, *epoch, *attempt, &Told::Released(phase))
        }
        Asked::Settle { evidence, committed } => {
            if !open {
                return Vec::new();
            }
            if *committed {
                let mut after = vec![state.clone().completed(*evidence, None)];
                after.extend(conflicts(std::slice::from_ref(state)));
                return after;
            }
            vec![state.clone().with(Phase::Retryable), state.clone().with(Phase::Unresolved)]
        }
    }
}
