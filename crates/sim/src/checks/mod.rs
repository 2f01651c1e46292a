//! What must hold, one property a file: the invariants of `docs/semantics.md` §10.
//!
//! Each file looks at the commands of the log with their answers, or at what arrives at providers, and
//! knows nothing of how answers are worked out. I12 (an acknowledged write survives crashes) and what I2
//! and I10 say of restores are about replicas and disks: there are none here.

mod agreement;
mod digest_stays;
mod epochs_grow;
mod horizon;
mod kept;
mod not_applied;
mod one_effect;
mod one_first;
mod one_grant;
mod raced;
mod same_answers;
mod slots;
mod superseded;

use std::fmt;

use firstclaim_core::{AttemptId, Command, Outcome, Record, RecordRef, Stamp};

use crate::figures::Figures;
use crate::memory::MemoryStore;
pub(crate) use one_effect::Arrival;

/// A property of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "they are the names of semantics §10")]
pub enum Property {
    Agreement,
    I1,
    I2,
    I3,
    I4,
    I5,
    I6,
    I7,
    I8,
    I9,
    I10,
    I11,
    I13,
}

/// A property that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Which.
    pub property: Property,
    /// What shows it.
    pub says: String,
}

impl Broken {
    fn new(property: Property, says: impl Into<String>) -> Self {
        Self { property, says: says.into() }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.property, self.says)
    }
}

/// What a check says.
pub(crate) type Checked = Result<(), Broken>;

/// A command of the log with its answer, and its record before and after.
pub(crate) struct Seen<'a> {
    pub(crate) stamp: Stamp,
    pub(crate) command: &'a Command,
    pub(crate) outcome: &'a Outcome,
    pub(crate) about: Option<&'a RecordRef>,
    pub(crate) before: Option<&'a Record>,
    pub(crate) after: Option<&'a Record>,
    pub(crate) store: &'a MemoryStore,
}

/// Which checks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oracles {
    /// Whether every answer is compared with the model's.
    pub model: bool,
    /// Whether a replica without a sweeper is compared.
    pub replica: bool,
}

impl Default for Oracles {
    fn default() -> Self {
        Self { model: true, replica: true }
    }
}

/// All checks of one history.
pub(crate) struct Checks {
    agreement: Option<agreement::Agreement>,
    same_answers: Option<same_answers::SameAnswers>,
    one_first: one_first::OneFirst,
    epochs_grow: epochs_grow::EpochsGrow,
    one_grant: one_grant::OneGrant,
    horizon: horizon::Horizon,
    digest_stays: digest_stays::DigestStays,
    not_applied: not_applied::NotApplied,
    raced: raced::Raced,
    kept: kept::Kept,
    one_effect: one_effect::OneEffect,
}

impl Checks {
    pub(crate) fn new(oracles: Oracles) -> Self {
        Self {
            agreement: oracles.model.then(agreement::Agreement::default),
            same_answers: oracles.replica.then(same_answers::SameAnswers::default),
            one_first: one_first::OneFirst::default(),
            epochs_grow: epochs_grow::EpochsGrow::default(),
            one_grant: one_grant::OneGrant::default(),
            horizon: horizon::Horizon::default(),
            digest_stays: digest_stays::DigestStays::default(),
            not_applied: not_applied::NotApplied::default(),
            raced: raced::Raced::default(),
            kept: kept::Kept::default(),
            one_effect: one_effect::OneEffect::default(),
        }
    }

    /// Takes a command with its answer in.
    pub(crate) fn see(&mut self, seen: &Seen<'_>, figures: &mut Figures) -> Checked {
        self.one_first.check(seen)?;
        self.epochs_grow.check(seen)?;
        superseded::check(seen)?;
        slots::check(seen)?;
        self.one_grant.check(seen)?;
        self.horizon.check(seen)?;
        self.digest_stays.check(seen)?;
        self.not_applied.check(seen)?;
        self.raced.check(seen)?;
        self.kept.check(seen)?;
        if let Some(same_answers) = &mut self.same_answers {
            same_answers.check(seen, figures)?;
        }
        if let Some(agreement) = &mut self.agreement {
            agreement.check(seen, figures)?;
        }
        Ok(())
    }

    /// Takes in what arrived at a provider, and what came of it.
    pub(crate) fn arrive(&mut self, arrival: &Arrival) -> Checked {
        self.one_effect.check(arrival)
    }

    /// A call of that attempt was answered "not applied", and will not be sent again.
    pub(crate) fn not_applied(&mut self, record: RecordRef, attempt_id: AttemptId) {
        self.not_applied.note(record, attempt_id);
    }

    /// Looks at the end.
    pub(crate) fn end(&self) -> Checked {
        self.raced.end()
    }
}
