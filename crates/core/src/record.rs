//! All that is known about one (tenant, namespace, key).

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::effect::{Content, Effect, Findings, Journal, OpenCause, Work};
use crate::fingerprint::{FingerprintSet, Intent};
use crate::limits;
use crate::name::{AttemptId, Labels, OwnerLabel, Principal, Region};
use crate::outcome::AcquiredKind;
use crate::planted::{self, Planted};
pub use crate::policy::Frozen;
use crate::policy::OnLapse;
use crate::time::{Expiry, Millis, StoreClock, Timestamp};

/// The fencing token: one per grant, strictly increasing over the whole cluster.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Epoch(pub u64);

impl Epoch {
    /// Bits below the generation.
    pub const COUNTER_BITS: u32 = 48;
    /// Stands for "no grant yet": below every epoch that was ever given.
    pub const NONE: Self = Self(0);
}

/// What a grant allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// Do the work; record new effects.
    Execute,
    /// Send the same open effects again with the same provider keys; nothing else.
    Resume,
    /// Look up and settle only.
    Reconcile,
}

/// The latest grant of a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Its epoch.
    pub epoch: Epoch,
    /// The attempt that got it.
    pub attempt_id: AttemptId,
    /// Who that is, for people.
    pub owner: OwnerLabel,
    /// What it allows.
    pub mode: Mode,
    /// When it was given.
    pub granted_time: Timestamp,
    /// The length that was asked for; a renewal without a length of its own takes it again.
    pub lease: Millis,
    /// When the lease was last written.
    pub lease_written_time: Timestamp,
    /// When the lease ends, grace aside.
    pub lease_expire_time: Timestamp,
    /// Whether the holder recorded effects in this epoch: then they are all that can have happened.
    pub journaled: bool,
    /// Whether an operator took the right to renew away.
    pub revoked: bool,
    /// The latest deadline that it had before it was revoked; the beginning of time if it was not.
    pub revoked_deadline: Timestamp,
}

/// How a grant ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// Its holder completed the record as succeeded.
    Succeeded,
    /// Its holder completed the record as failed.
    Failed,
    /// Its holder gave it back: nothing happened.
    ReleasedRetry,
    /// Its holder gave it back and unbound the key.
    ReleasedUnbind,
    /// Its holder gave it back: nobody knows.
    ReleasedUnknown,
    /// Its lease ran out, and somebody else was granted the claim, or settled what it left.
    Lapsed,
    /// Evidence from elsewhere ended it.
    Overtaken,
}

/// An attempt that is remembered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownAttempt {
    /// Which.
    pub attempt_id: AttemptId,
    /// Whose.
    pub owner: OwnerLabel,
    /// The epoch that it was granted.
    pub epoch: Epoch,
    /// How the claim was acquired.
    pub kind: AcquiredKind,
    /// What it was granted.
    pub mode: Mode,
    /// Whether it recorded effects.
    pub journaled: bool,
    /// The region that the claim came in at.
    pub region: Region,
    /// When it was granted.
    pub granted_time: Timestamp,
    /// What the caller said about the attempt.
    pub labels: Labels,
    /// How the grant ended, and when it was known; none while it is out.
    pub ended: Option<(Ending, Timestamp)>,
    /// The latest effective deadline ever given to the grant, once it ended.
    pub deadline: Timestamp,
    /// The settle horizon that was frozen at the grant.
    pub settle_horizon: Millis,
}

impl KnownAttempt {
    /// Whether the grant has the implicit effect `work`.
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.mode == Mode::Execute && !self.journaled
    }
}

/// How a person or a reconciler ended what nobody else could.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolution {
    /// The epoch that was expected.
    pub expected_epoch: Epoch,
    /// The epoch that it was given.
    pub epoch: Epoch,
    /// The try, by which a repeat is recognised.
    pub attempt_id: AttemptId,
    /// Who did it.
    pub principal: Principal,
    /// Why.
    pub reason: String,
    /// What shows it.
    pub evidence: Content,
    /// When.
    pub time: Timestamp,
}

/// What a fenced-out owner reported; kept for people, changes nothing by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// The epoch that it speaks of.
    pub epoch: Epoch,
    /// How that epoch says it ended.
    pub disposition: Disposition,
    /// Digest of the result that it reported.
    pub digest: Vec<u8>,
    /// When.
    pub time: Timestamp,
}

/// How the work of a completed record ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Disposition {
    /// It was done.
    Succeeded,
    /// It was refused for good; repeating it is pointless.
    Failed,
}

/// The stored result: bytes, or a reference to where they are, or only their digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultBody {
    /// SHA-256 of the bytes, or the digest that came with the reference.
    pub digest: Vec<u8>,
    /// Length of the bytes.
    pub length: u64,
    /// What they are.
    pub content_type: String,
    /// Where they are kept, if not here.
    pub reference: Option<String>,
    /// The bytes, unless dropped or kept elsewhere.
    pub bytes: Option<Vec<u8>>,
    /// Whether the bytes were over the policy's bound and never stored.
    pub oversize: bool,
}

impl ResultBody {
    /// A result that is stored here.
    #[must_use]
    pub fn inline(bytes: Vec<u8>, content_type: String) -> Self {
        Self {
            digest: Sha256::digest(&bytes).to_vec(),
            length: bytes.len() as u64,
            content_type,
            reference: None,
            bytes: Some(bytes),
            oversize: false,
        }
    }

    /// The same result without its bytes.
    #[must_use]
    pub fn without_bytes(&self) -> Self {
        Self {
            digest: self.digest.clone(),
            length: self.length,
            content_type: self.content_type.clone(),
            reference: self.reference.clone(),
            bytes: None,
            oversize: self.oversize,
        }
    }
}

/// How a record was completed. Never changes, but for the bytes that are dropped in time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completion {
    /// How it ended.
    pub disposition: Disposition,
    /// What came out.
    pub result: ResultBody,
    /// When it was completed.
    pub completed_time: Timestamp,
    /// By which epoch.
    pub epoch: Epoch,
    /// By which attempt.
    pub attempt_id: AttemptId,
    /// Who that was.
    pub owner: OwnerLabel,
    /// Whether the lease had ended by then.
    pub late: bool,
    /// Whether it came from an epoch that was already superseded.
    pub by_evidence: bool,
    /// When the bytes are gone.
    pub result_expire_time: Expiry,
    /// When the key is forgotten.
    pub identity_expire_time: Expiry,
    /// Whether the result was purged.
    pub purged: bool,
}

/// How far a record has come, as it is stored. See [`Record::logical`] for what it means at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// Bound to its request by a producer, never claimed.
    Reserved {
        /// When it is forgotten.
        identity_expire_time: Expiry,
    },
    /// Granted; see the grant for the lease.
    Claimed,
    /// Nobody knows whether something happened.
    Unresolved {
        /// Since when.
        since: Timestamp,
    },
    /// Known not to have happened; may be tried again.
    Retryable {
        /// Not before.
        not_before: Timestamp,
        /// When it is forgotten.
        identity_expire_time: Expiry,
    },
    /// Known not to have happened, and free for another request.
    Unbound {
        /// Not before.
        not_before: Timestamp,
        /// When it is forgotten.
        identity_expire_time: Expiry,
    },
    /// Done.
    Completed(Box<Completion>),
}

/// All that is known about one key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Names this life of the key; never given twice.
    pub life: u64,
    /// The request that the key is bound to.
    pub fingerprints: FingerprintSet,
    /// When this life began.
    pub first_seen_time: Timestamp,
    /// When the key was bound to the present request: later than that only after an unbinding.
    pub bound_time: Timestamp,
    /// When the intent was born, as its first claim said.
    pub intent_time: Option<Timestamp>,
    /// Whether a producer reserved the key.
    pub reserved: bool,
    /// Who admitted a key that was too late to be a first claim by itself, and why.
    pub admitted: Option<(Principal, String)>,
    /// What the producer said when it reserved the key.
    pub reserve_labels: Labels,
    /// When the record last took a write.
    pub last_write_time: Timestamp,
    /// The latest epoch.
    pub epoch: Epoch,
    /// The latest grant; none while reserved.
    pub grant: Option<Grant>,
    /// What was frozen at that grant.
    pub frozen: Frozen,
    /// EXECUTE grants so far.
    pub execute_grants: u32,
    /// The attempts granted last, newest at the end.
    pub attempts: Vec<KnownAttempt>,
    /// Work that is or was open, or was settled, oldest first.
    pub works: Vec<Work>,
    /// Recorded effects, oldest first.
    pub effects: Vec<Effect>,
    /// The latest resolution.
    pub resolution: Option<Resolution>,
    /// The place in the log of the latest change: index of the entry, place in the entry.
    pub revision: u64,
    /// What fenced-out owners reported.
    pub evidence: Vec<Evidence>,
    /// Epochs up to this one served another request, before the key was unbound.
    pub unbound_epoch: Epoch,
    /// How far it has come.
    pub state: State,
}

/// What the stored state means at a given time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Logical {
    /// Reserved.
    Reserved,
    /// Claimed, and the lease holds.
    Live,
    /// Claimed, the lease has ended.
    Lapsed,
    /// Unresolved, explicitly.
    Unresolved,
    /// May be tried again.
    Retryable,
    /// Free for another request.
    Unbound,
    /// Done.
    Completed,
}

impl Record {
    /// The effective deadline of the present lease.
    #[must_use]
    pub fn deadline(&self, clock: &StoreClock) -> Option<Timestamp> {
        let grant = self.grant.as_ref()?;
        Some(clock.effective_deadline(grant.lease_expire_time, grant.lease_written_time))
    }

    /// What the record is at store time; none if it is forgotten, whether or not it was swept.
    #[must_use]
    pub fn logical(&self, clock: &StoreClock) -> Option<Logical> {
        let now = clock.now();
        let (logical, forgotten) = match &self.state {
            State::Reserved { identity_expire_time } => (Logical::Reserved, *identity_expire_time),
            State::Claimed => {
                // Strict: at its deadline a claim has lapsed.
                let inclusive = planted::is(Planted::LeaseInclusive);
                let holds = |deadline| now < deadline || inclusive && now == deadline;
                if self.deadline(clock).is_some_and(holds) {
                    (Logical::Live, Expiry::Never)
                } else {
                    (Logical::Lapsed, self.lapsed_expiry(clock))
                }
            }
            State::Unresolved { .. } => (Logical::Unresolved, Expiry::Never),
            State::Retryable { identity_expire_time, .. } => {
                (Logical::Retryable, *identity_expire_time)
            }
            State::Unbound { identity_expire_time, .. } => {
                (Logical::Unbound, *identity_expire_time)
            }
            State::Completed(completion) => (Logical::Completed, completion.identity_expire_time),
        };
        (!forgotten.has_come(now)).then_some(logical)
    }

    /// A lapsed claim with nothing open ages from the later of its deadline and its last write; one
    /// with something open is never forgotten by time.
    fn lapsed_expiry(&self, clock: &StoreClock) -> Expiry {
        if self.lapse_leaves_open() {
            return Expiry::Never;
        }
        let deadline = self.deadline(clock).unwrap_or_default();
        let aged = planted::is(Planted::AgesFromDeadline);
        let start = if aged { deadline } else { deadline.max(self.last_write_time) };
        self.frozen.identity_retention.from(start)
    }

    /// Whether a lapse of the present grant leaves anything open.
    fn lapse_leaves_open(&self) -> bool {
        self.noted_open() || self.own_work_opens()
    }

    /// Whether anything is open that is written down.
    #[must_use]
    pub fn noted_open(&self) -> bool {
        self.works.iter().any(|work| work.findings.open())
            || self.effects.iter().any(|effect| effect.findings.open())
    }

    /// Whether the present grant has the implicit effect `work`, and nobody has settled it.
    #[must_use]
    pub fn has_own_work(&self) -> bool {
        self.grant.as_ref().is_some_and(|grant| {
            grant.mode == Mode::Execute
                && !grant.journaled
                && !self.works.iter().any(|work| work.epoch == grant.epoch)
        })
    }

    /// Whether a lapse of the present grant leaves its work open.
    fn own_work_opens(&self) -> bool {
        let forgets = planted::is(Planted::LapseForgetsWork);
        self.frozen.on_lapse == OnLapse::Recover && self.has_own_work() && !forgets
    }

    /// What happened and may have happened at store time, the work of a lapsed claim included.
    #[must_use]
    pub fn journal(&self, clock: &StoreClock) -> Journal {
        let mut works = self.works.clone();
        if self.logical(clock) == Some(Logical::Lapsed) && self.own_work_opens() {
            works.extend(self.own_work(clock, OpenCause::Lapsed, String::new()));
        }
        Journal { works, effects: self.effects.clone() }
    }

    /// What of it is open.
    #[must_use]
    pub fn open(&self, clock: &StoreClock) -> Journal {
        self.journal(clock).open()
    }

    /// The work of the present grant, as open.
    #[must_use]
    pub fn own_work(&self, clock: &StoreClock, cause: OpenCause, note: String) -> Option<Work> {
        let grant = self.grant.as_ref()?;
        let since = match cause {
            OpenCause::Lapsed => self.deadline(clock)?,
            OpenCause::ReleasedUnknown | OpenCause::Interrupted => clock.now(),
        };
        Some(Work {
            epoch: grant.epoch,
            attempt_id: grant.attempt_id.clone(),
            owner: grant.owner.clone(),
            cause: Some(cause),
            since,
            deadline: self.latest_deadline(clock)?,
            settle_horizon: self.frozen.settle_horizon,
            note,
            findings: Findings::default(),
        })
    }

    /// Writes the work of the present grant down as open, unless it has none.
    pub(crate) fn note_own_work(&mut self, clock: &StoreClock, cause: OpenCause, note: &str) {
        if self.has_own_work() {
            let work = self.own_work(clock, cause, note.to_owned());
            self.works.extend(work);
        }
    }

    /// Writes down what a lapse of the present grant left open, so that it stays open through later
    /// grants.
    pub(crate) fn note_lapse(&mut self, clock: &StoreClock) {
        if self.logical(clock) == Some(Logical::Lapsed) && self.own_work_opens() {
            self.note_own_work(clock, OpenCause::Lapsed, "");
        }
    }

    /// The latest attempt that was granted the epoch.
    #[must_use]
    pub fn attempt(&self, epoch: Epoch) -> Option<&KnownAttempt> {
        self.attempts.iter().rev().find(|known| known.epoch == epoch)
    }

    /// Writes down how the present grant ended, unless that is known.
    pub(crate) fn end(&mut self, clock: &StoreClock, ending: Ending) {
        let Some((epoch, deadline)) =
            self.grant.as_ref().map(|it| it.epoch).zip(self.latest_deadline(clock))
        else {
            return;
        };
        let known = self.attempts.iter_mut().rev().find(|known| known.epoch == epoch);
        if let Some(known) = known.filter(|known| known.ended.is_none()) {
            known.ended = Some((ending, clock.now()));
            known.deadline = deadline;
        }
    }

    /// The latest effective deadline ever given to the present grant.
    #[must_use]
    pub fn latest_deadline(&self, clock: &StoreClock) -> Option<Timestamp> {
        let grant = self.grant.as_ref()?;
        if planted::is(Planted::WorkForgetsGrace) {
            return Some(grant.lease_expire_time.max(grant.revoked_deadline));
        }
        let latest = clock.latest_deadline(grant.lease_expire_time, grant.lease_written_time);
        Some(latest.max(grant.revoked_deadline))
    }

    /// Forgets the oldest settled work beyond [`limits::SETTLED_WORKS_KEPT`].
    pub(crate) fn trim_works(&mut self) {
        let settled = |work: &&Work| !work.findings.open();
        while self.works.iter().filter(settled).count() > limits::SETTLED_WORKS_KEPT {
            let Some(oldest) = self.works.iter().position(|work| !work.findings.open()) else {
                return;
            };
            self.works.remove(oldest);
        }
    }

    /// Whether nothing but time or a decision can end it: the index of unfinished records holds it.
    #[must_use]
    pub fn is_unfinished(&self) -> bool {
        matches!(self.state, State::Claimed | State::Unresolved { .. })
    }

    /// Under what the index of similar requests lists the record, and since when: nothing while the
    /// key is unbound.
    #[must_use]
    pub fn intents(&self) -> Vec<(Intent, Timestamp)> {
        if matches!(self.state, State::Unbound { .. }) {
            return Vec::new();
        }
        self.fingerprints
            .all()
            .iter()
            .map(|one| Intent { scheme: one.scheme().clone(), digest: one.digest().to_vec() })
            .map(|intent| (intent, self.bound_time))
            .collect()
    }

    /// The first time at which the sweeper has something to do here, if ever.
    #[must_use]
    pub fn sweep_time(&self) -> Option<Timestamp> {
        let expiry = match &self.state {
            State::Reserved { identity_expire_time }
            | State::Retryable { identity_expire_time, .. }
            | State::Unbound { identity_expire_time, .. } => *identity_expire_time,
            State::Unresolved { .. } => Expiry::Never,
            State::Claimed => {
                if planted::is(Planted::SweepTakesLive) {
                    self.frozen.identity_retention.from(self.last_write_time)
                } else if self.lapse_leaves_open() {
                    Expiry::Never
                } else {
                    let lease = self.grant.as_ref().map(|grant| grant.lease_expire_time);
                    let start = lease.unwrap_or_default().max(self.last_write_time);
                    self.frozen.identity_retention.from(start)
                }
            }
            State::Completed(completion) if completion.result.bytes.is_some() => {
                completion.result_expire_time.min(completion.identity_expire_time)
            }
            State::Completed(completion) => completion.identity_expire_time,
        };
        match expiry {
            Expiry::At(time) => Some(time),
            Expiry::Never => None,
        }
    }

    /// Remembers an attempt, and forgets the oldest beyond [`limits::ATTEMPTS_KEPT`].
    pub fn remember(&mut self, attempt: KnownAttempt) {
        if self.attempts.len() >= limits::ATTEMPTS_KEPT {
            self.attempts.remove(0);
        }
        self.attempts.push(attempt);
    }

    /// Keeps what a fenced-out owner reported; a repeat changes nothing. Returns whether it is kept.
    pub fn keep_evidence(&mut self, evidence: Evidence) -> bool {
        let known = self.evidence.iter().any(|kept| {
            (kept.epoch, kept.disposition, &kept.digest)
                == (evidence.epoch, evidence.disposition, &evidence.digest)
        });
        if known {
            return true;
        }
        if self.evidence.len() >= limits::EVIDENCE_KEPT {
            return false;
        }
        self.evidence.push(evidence);
        true
    }
}
