//! Whether a history can be told as one thing after another, each where its caller waited for it.
//!
//! The search is that of Wing and Gong, with the memory that Lowe gave it: where the same calls were
//! placed and the same states came out, it need not look twice. A call of unknown outcome stays open
//! for ever: it may be placed anywhere after its beginning, or nowhere. A search that runs out of its
//! budget has found nothing, and says so.

pub mod key;

use std::collections::BTreeSet;

/// What calls mean, without regard to other calls.
pub trait Spec {
    /// All that later calls can depend on.
    type State: Clone + Ord;
    /// A call, with what it was told.
    type Call;

    /// The states that the call can leave, if it was told the truth; none if it was not.
    fn steps(&self, state: &Self::State, call: &Self::Call) -> Vec<Self::State>;
}

/// A call with the time that its caller waited.
#[derive(Clone, Debug)]
pub struct Timed<C> {
    /// When it began.
    pub invoked: u64,
    /// When it ended; none if its outcome is unknown.
    pub returned: Option<u64>,
    /// The call.
    pub call: C,
}

/// What a search came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is an order.
    Linear {
        /// Steps that it took to find.
        steps: u64,
    },
    /// There is none.
    Broken {
        /// As many calls as could be placed, in that order, by position.
        placed: Vec<usize>,
        /// A call that none of the orders tried could place next.
        stuck: usize,
    },
    /// The budget was spent before anything was found.
    OutOfBudget,
}

/// A place in the search: what was placed, and what can be next.
struct Level<S> {
    /// The states that this level began with.
    states: BTreeSet<S>,
    candidates: Vec<usize>,
    /// The next candidate to try.
    next: usize,
    /// Whether the candidate before was placed here, and has to be taken back first.
    placed: Option<usize>,
}

struct Search<'a, P: Spec> {
    spec: &'a P,
    calls: &'a [Timed<P::Call>],
    /// Which calls are placed.
    done: Vec<bool>,
    order: Vec<usize>,
    steps: u64,
    budget: u64,
}

/// Looks for an order.
pub fn check<P: Spec>(
    spec: &P,
    initial: P::State,
    calls: &[Timed<P::Call>],
    budget: u64,
) -> Verdict {
    let mut search =
        Search { spec, calls, done: vec![false; calls.len()], order: Vec::new(), steps: 0, budget };
    search.run(initial)
}

impl<P: Spec> Search<'_, P> {
    fn run(&mut self, initial: P::State) -> Verdict {
        let mut seen: BTreeSet<(Vec<u64>, BTreeSet<P::State>)> = BTreeSet::new();
        let (mut best, mut stuck) = (Vec::new(), 0);
        let first = BTreeSet::from([initial]);
        let mut levels = vec![self.level(first)];
        while let Some(level) = levels.last_mut() {
            if let Some(placed) = level.placed.take() {
                self.done[placed] = false;
                self.order.pop();
            }
            if level.candidates.is_empty() {
                return Verdict::Linear { steps: self.steps };
            }
            let Some(call) = level.candidates.get(level.next).copied() else {
                levels.pop();
                continue;
            };
            level.next += 1;
            if self.steps > self.budget {
                return Verdict::OutOfBudget;
            }
            let before = level.states.clone();
            let Some((after, idle)) = self.step(&before, call) else {
                if self.order.len() >= best.len() && self.calls[call].returned.is_some() {
                    (best, stuck) = (self.order.clone(), call);
                }
                continue;
            };
            let open = self.calls[call].returned.is_none();
            if idle {
                if open {
                    // To place it here is the same as not to place it.
                    continue;
                }
                // It changes nothing wherever it is, so here is as good as anywhere.
                level.next = level.candidates.len();
            }
            self.done[call] = true;
            if !seen.insert((bits(&self.done), after.clone())) {
                self.done[call] = false;
                continue;
            }
            level.placed = Some(call);
            self.order.push(call);
            let next = self.level(after);
            levels.push(next);
        }
        Verdict::Broken { placed: best, stuck }
    }

    /// What a call leaves of some states, and whether it leaves each as it is.
    fn step(
        &mut self,
        states: &BTreeSet<P::State>,
        call: usize,
    ) -> Option<(BTreeSet<P::State>, bool)> {
        let (mut after, mut idle) = (BTreeSet::new(), true);
        for state in states {
            self.steps += 1;
            let steps = self.spec.steps(state, &self.calls[call].call);
            idle &= steps.len() == 1 && steps[0] == *state;
            after.extend(steps);
        }
        (!after.is_empty()).then_some((after, idle))
    }

    /// The calls that may be next: those that began before any other had to be over. First those that
    /// ended, the earliest first, then those of unknown outcome. None once all that ended are placed.
    fn level(&self, states: BTreeSet<P::State>) -> Level<P::State> {
        let waiting = || self.calls.iter().enumerate().filter(|(at, _)| !self.done[*at]);
        let end = waiting().filter_map(|(_, call)| call.returned).min();
        let mut candidates = Vec::new();
        if let Some(end) = end {
            // One that took no time ends where it began.
            let open = |it: &Timed<P::Call>| it.invoked < end || it.returned == Some(end);
            candidates.extend(waiting().filter(|(_, it)| open(it)).map(|(at, _)| at));
            candidates.sort_by_key(|at| {
                (self.calls[*at].returned.unwrap_or(u64::MAX), self.calls[*at].invoked)
            });
        }
        Level { states, candidates, next: 0, placed: None }
    }
}

fn bits(done: &[bool]) -> Vec<u64> {
    let word = |bits: &[bool]| {
        bits.iter().enumerate().fold(0, |word, (at, done)| word | (u64::from(*done) << at))
    };
    done.chunks(64).map(word).collect()
}
