//! What happened in a run, as one number: two runs of a seed must come to the same.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

/// The trace of a run.
#[derive(Clone, Debug)]
pub struct Trace(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    start: Instant,
    told: AtomicBool,
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug)]
struct State {
    hash: u64,
    events: u64,
}

impl Trace {
    /// A trace that begins now. If it is `told`, each event is printed as it happens.
    pub fn new(told: bool) -> Self {
        let state = Mutex::new(State { hash: 0xcbf2_9ce4_8422_2325, events: 0 });
        Self(Arc::new(Shared { start: Instant::now(), told: AtomicBool::new(told), state }))
    }

    /// Time since the run began, in microseconds.
    pub fn now(&self) -> u64 {
        u64::try_from(self.0.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Notes an event.
    #[expect(clippy::print_stderr, reason = "asked for, to see what a seed does")]
    pub fn note(&self, what: &str, one: u64, other: u64) {
        let now = self.now();
        if self.0.told.load(Ordering::Relaxed) {
            eprintln!("{:>4}.{:06} {what} {one} {other}", now / 1_000_000, now % 1_000_000);
        }
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.events += 1;
        for byte in what.bytes() {
            state.hash = (state.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        for number in [now, one, other] {
            state.hash = (state.hash ^ number).wrapping_mul(0x0100_0000_01b3);
            state.hash ^= state.hash >> 29;
        }
    }

    /// Notes an event that is worth telling.
    #[expect(clippy::print_stderr, reason = "asked for, to see what a seed does")]
    pub fn tell(&self, what: impl FnOnce() -> String) {
        let what = what();
        self.note(&what, 0, 0);
        if self.0.told.load(Ordering::Relaxed) {
            let now = self.now();
            eprintln!("{:>4}.{:06} {what}", now / 1_000_000, now % 1_000_000);
        }
    }

    /// All that happened so far, as one number.
    pub fn hash(&self) -> u64 {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner).hash
    }

    /// How many events there were.
    pub fn events(&self) -> u64 {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner).events
    }
}
