//! What the workers of a race saw: every call that they sent, and what they know about its fate.
//!
//! One entry is one request on the wire to one node; nothing repeats it behind the history's back.
//! Times are numbers from one counter: a call that returned before another was sent has the lower
//! ones. A call without an answer has no return time: it may take effect at any later moment.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// A claim.
    Claim,
    /// A completion by that epoch with a result of that digest.
    Complete {
        /// The epoch.
        epoch: u64,
        /// SHA-256 of the result.
        digest: Vec<u8>,
    },
}

/// How a claim was acquired, as far as the checks care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// Nobody ever claimed it.
    First,
    /// This attempt holds it already.
    Held,
    /// An earlier claim had ended.
    Later,
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The attempt holds the claim.
    Granted {
        /// By which way.
        grant: Grant,
        /// The epoch.
        epoch: u64,
    },
    /// The intent is completed.
    Replayed {
        /// By that epoch.
        epoch: u64,
        /// With a result of that digest.
        digest: Vec<u8>,
    },
    /// Somebody else holds it, under that epoch.
    Waiting {
        /// The epoch.
        epoch: u64,
    },
    /// The completion is stored.
    Stored {
        /// By that epoch.
        epoch: u64,
        /// With a result of that digest.
        digest: Vec<u8>,
    },
    /// The log refused it, for that reason.
    Refused(String),
    /// It did not take effect and never will.
    NotApplied,
    /// Nobody knows.
    Unknown,
}

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The key.
    pub key: String,
    /// The attempt in whose name it was sent.
    pub attempt: String,
    /// The node that it was sent to.
    pub node: u64,
    /// What was asked for.
    pub ask: Ask,
    /// When it was sent.
    pub sent: u64,
    /// When the answer was there; none if there was no answer that counts.
    pub returned: Option<u64>,
    /// What came back.
    pub answer: Answer,
}

/// The calls of all workers.
#[derive(Debug, Default)]
pub struct History {
    clock: AtomicU64,
    calls: Mutex<Vec<Call>>,
}

impl History {
    /// The next moment.
    pub fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// Writes down a call that has ended.
    pub fn note(&self, call: Call) {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call);
    }

    /// The calls so far, by the time of their sending.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone();
        calls.sort_by_key(|call| call.sent);
        calls
    }
}
