//! What callers asked, when, and what they were told.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use firstclaim_core::command::{RecordReport, Report};
use firstclaim_core::{Command, Outcome, Record, Timestamp};
use firstclaim_replica::simulated::{Logged, LoggedPayload};

use crate::names::{self, Key};

/// What was asked.
#[derive(Clone, Debug)]
pub enum Asked {
    /// That this be put into the log.
    Propose(Box<Command>),
    /// How a claim looks in a node's own state.
    Look(Box<Command>),
    /// For the record as it is.
    Get,
}

/// What a caller was told.
#[derive(Clone, Debug)]
pub enum Told {
    /// Nothing yet, or nothing that says what happened.
    Unknown,
    /// That it was not taken on.
    NotProposed,
    /// What the log decided.
    Decided {
        /// Where.
        index: u64,
        /// What.
        outcome: Box<Outcome>,
    },
    /// What a node saw in its own state.
    Local(Box<Outcome>),
    /// What a linearizable read saw.
    Read {
        /// After which entry.
        index: u64,
        /// At which store time.
        store_time: Timestamp,
        /// What.
        record: Option<Box<Record>>,
    },
}

/// One call.
#[derive(Clone, Debug)]
pub struct Call {
    /// Its number.
    pub id: u64,
    /// Which key, if it concerns one.
    pub key: Option<Key>,
    /// Whom it was sent to.
    pub node: u64,
    /// What was asked.
    pub asked: Asked,
    /// Its place among all that callers did and were told.
    pub invoked: u64,
    /// True time, in microseconds since the run began.
    pub invoked_at: u64,
    /// The place of what it was told.
    pub returned: u64,
    /// When that was.
    pub returned_at: u64,
    /// What it was told.
    pub told: Told,
}

/// All calls of a run.
#[derive(Clone, Debug, Default)]
pub struct History(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    calls: Vec<Call>,
    places: u64,
}

impl History {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a call that is about to be made, and says its number.
    pub fn invoke(&self, key: Option<Key>, node: u64, asked: Asked, now: u64) -> u64 {
        let mut inner = self.inner();
        let id = inner.calls.len() as u64;
        inner.places += 1;
        let invoked = inner.places;
        inner.calls.push(Call {
            id,
            key,
            node,
            asked,
            invoked,
            invoked_at: now,
            returned: u64::MAX,
            returned_at: u64::MAX,
            told: Told::Unknown,
        });
        id
    }

    /// Notes what a call was told.
    pub fn tell(&self, id: u64, told: Told, now: u64) {
        let mut inner = self.inner();
        inner.places += 1;
        let returned = inner.places;
        let Ok(at) = usize::try_from(id) else { return };
        if let Some(call) = inner.calls.get_mut(at) {
            call.returned = returned;
            call.returned_at = now;
            call.told = told;
        }
    }

    /// All calls so far.
    pub fn calls(&self) -> Vec<Call> {
        self.inner().calls.clone()
    }

    /// How many there were.
    pub fn len(&self) -> usize {
        self.inner().calls.len()
    }

    /// Whether there were none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A command that changes nothing and tells which call an entry is from.
pub fn marker(id: u64) -> Command {
    Command::Report(Report {
        records: vec![RecordReport {
            record: names::marker_record(),
            sightings: Vec::new(),
            counts: [(format!("call {id}"), 1)].into(),
        }],
    })
}

/// Which call an entry is from.
pub fn call_of(entry: &Logged) -> Option<u64> {
    let LoggedPayload::Commands(_, commands) = &entry.payload else { return None };
    let Some(Command::Report(report)) = commands.last() else { return None };
    let name = report.records.first()?.counts.keys().next()?;
    name.strip_prefix("call ")?.parse().ok()
}
