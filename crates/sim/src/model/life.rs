//! One life of a key: everything that was ever granted, permitted and told in it. Semantics §3.

use firstclaim_core::command::Dispatch;
use firstclaim_core::policy::OnLapse;
use firstclaim_core::record::{Epoch, Logical, Mode};
use firstclaim_core::{
    AttemptId, EffectUid, Expiry, FingerprintSet, IdempotencyKey, Millis, OwnerLabel, Policy,
    Timestamp,
};

use super::Model;
use super::clock::{Clock, Lease};
use super::findings::Findings;
use crate::observation::Completion;

/// How many attempts are known.
const ATTEMPTS_KNOWN: usize = 8;

/// A grant.
#[derive(Clone, Debug)]
pub(super) struct Grant {
    pub(super) epoch: Epoch,
    pub(super) attempt_id: AttemptId,
    pub(super) owner: OwnerLabel,
    /// What it allows now: RESUME and RECONCILE may rise.
    pub(super) mode: Mode,
    /// The length that it asked for.
    pub(super) length: Millis,
    /// The policy at that time. Retentions may be extended since.
    pub(super) frozen: Policy,
    /// Its lease, every time it was written.
    pub(super) leases: Vec<Lease>,
    /// The latest effective deadline that it ever had.
    pub(super) latest_deadline: Timestamp,
    pub(super) revoked: bool,
    /// Since when its work is open for another reason than that its lease has ended just now.
    pub(super) opened: Option<Timestamp>,
    /// What was told about its work.
    pub(super) findings: Findings,
}

impl Grant {
    /// The lease as it was written last.
    pub(super) fn lease(&self) -> Lease {
        let never = Lease { written: Timestamp(0), expire: Timestamp(0) };
        self.leases.last().copied().unwrap_or(never)
    }
}

/// A permit, with the settle horizon of the grant that it was given under.
#[derive(Clone, Copy, Debug)]
pub(super) struct Permit {
    pub(super) number: u32,
    pub(super) epoch: Epoch,
    pub(super) permitted: Timestamp,
    pub(super) not_after: Timestamp,
    pub(super) settle_horizon: Millis,
}

/// A recorded effect.
#[derive(Clone, Debug)]
pub(super) struct Effect {
    /// As it was recorded first.
    pub(super) content: Dispatch,
    /// Every permit, by number.
    pub(super) permits: Vec<Permit>,
    pub(super) findings: Findings,
}

impl Effect {
    pub(super) fn last_not_after(&self) -> Timestamp {
        self.permits.iter().map(|permit| permit.not_after).max().unwrap_or_default()
    }

    /// The longest of all grants that permitted it.
    pub(super) fn settle_horizon(&self) -> Millis {
        self.permits.iter().map(|permit| permit.settle_horizon).max().unwrap_or_default()
    }
}

/// The request that the key stands for, from a time on.
#[derive(Clone, Debug)]
pub(super) struct Binding {
    pub(super) time: Timestamp,
    pub(super) fingerprints: FingerprintSet,
    pub(super) intent_time: Option<Timestamp>,
}

/// A Resolve that was carried out.
#[derive(Clone, Debug)]
pub(super) struct Resolution {
    pub(super) expected: Epoch,
    pub(super) epoch: Epoch,
    pub(super) attempt_id: AttemptId,
}

/// What a fenced-out holder reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) epoch: Epoch,
    pub(super) succeeded: bool,
    pub(super) digest: Vec<u8>,
}

/// A completion, with what time and operators do to its bytes.
#[derive(Clone, Debug)]
pub(super) struct Done {
    pub(super) completion: Completion,
    pub(super) bytes: Option<Vec<u8>>,
    pub(super) purged: bool,
}

/// What was last decided about the record. What time makes of it is [`Model::standing`].
#[derive(Clone, Debug)]
pub(super) enum Phase {
    Reserved { identity_expire_time: Expiry },
    Claimed,
    Unresolved { since: Timestamp },
    Retryable { not_before: Timestamp, identity_expire_time: Expiry },
    Unbound { identity_expire_time: Expiry },
    Completed(Box<Done>),
}

/// One life of a key.
#[derive(Clone, Debug)]
pub(super) struct Life {
    /// The first half of the uids of its effects.
    pub(super) name: u64,
    pub(super) namespace: usize,
    pub(super) key: IdempotencyKey,
    pub(super) born: Timestamp,
    pub(super) reserved: bool,
    /// Whether somebody answers for it that its intent never ran.
    pub(super) admitted: bool,
    /// Every request that it stood for, oldest first.
    pub(super) bindings: Vec<Binding>,
    /// Every grant, oldest first.
    pub(super) grants: Vec<Grant>,
    pub(super) execute_grants: u32,
    /// Every effect, oldest first.
    pub(super) effects: Vec<Effect>,
    pub(super) resolutions: Vec<Resolution>,
    pub(super) reports: Vec<Report>,
    /// The last epoch that served another request, before the key was bound to this one.
    pub(super) rebound_after: Epoch,
    pub(super) last_write: Timestamp,
    pub(super) phase: Phase,
}

impl Life {
    /// The present epoch: the latest that a grant or a Resolve was given.
    pub(super) fn epoch(&self) -> Epoch {
        let granted = self.grants.iter().map(|grant| grant.epoch);
        granted.chain(self.resolutions.iter().map(|one| one.epoch)).max().unwrap_or(Epoch::NONE)
    }

    /// The request that it stands for.
    pub(super) fn binding(&self) -> Option<&Binding> {
        self.bindings.last()
    }

    pub(super) fn intent_time(&self) -> Option<Timestamp> {
        self.binding().and_then(|binding| binding.intent_time)
    }

    /// The completion of the record, if it is by that epoch.
    pub(super) fn completed_by(&self, epoch: Epoch) -> Option<&Completion> {
        match &self.phase {
            Phase::Completed(done) if done.completion.epoch == epoch => Some(&done.completion),
            Phase::Completed(_)
            | Phase::Reserved { .. }
            | Phase::Claimed
            | Phase::Unresolved { .. }
            | Phase::Retryable { .. }
            | Phase::Unbound { .. } => None,
        }
    }

    /// The effective deadline of a record that is CLAIMED.
    pub(super) fn deadline(&self, clock: &Clock) -> Option<Timestamp> {
        let claimed = matches!(self.phase, Phase::Claimed);
        let grant = self.grants.last().filter(|_| claimed)?;
        Some(clock.deadline(grant.lease()))
    }

    /// Whether a grant has the implicit effect `work`: an EXECUTE epoch that recorded nothing.
    pub(super) fn has_work(&self, grant: &Grant) -> bool {
        let permits = self.effects.iter().flat_map(|effect| &effect.permits);
        grant.mode == Mode::Execute && permits.clone().all(|permit| permit.epoch != grant.epoch)
    }

    /// The grant of an attempt, if that is among those known.
    pub(super) fn known_attempt(&self, attempt_id: &AttemptId) -> Option<&Grant> {
        let known = self.grants.iter().rev().take(ATTEMPTS_KNOWN);
        known.clone().find(|grant| grant.attempt_id == *attempt_id)
    }

    /// Whether a grant is among the last that are known, or its work is written down.
    pub(super) fn remembers(&self, at: usize) -> bool {
        let grant = &self.grants[at];
        let recent = at + ATTEMPTS_KNOWN >= self.grants.len();
        recent || grant.opened.is_some() || grant.findings.settled()
    }

    pub(super) fn uid(&self, name: firstclaim_core::EffectName) -> EffectUid {
        EffectUid { life: self.name, name }
    }

    pub(super) fn work_uid(&self, grant: &Grant) -> EffectUid {
        self.uid(firstclaim_core::EffectName::Work(grant.epoch))
    }

    pub(super) fn effect_uid(&self, effect: &Effect) -> EffectUid {
        self.uid(firstclaim_core::EffectName::Effect(effect.content.id.clone()))
    }
}

impl Model {
    /// What a record is at store time; none if it is forgotten. Semantics §3.
    pub(super) fn standing(&self, at: usize) -> Option<Logical> {
        let life = &self.lives[at];
        let now = self.now();
        let (standing, forgotten) = match &life.phase {
            Phase::Reserved { identity_expire_time } => (Logical::Reserved, *identity_expire_time),
            Phase::Claimed if self.live(at) => (Logical::Live, Expiry::Never),
            Phase::Claimed => (Logical::Lapsed, self.lapsed_expiry(at)),
            Phase::Unresolved { .. } => (Logical::Unresolved, Expiry::Never),
            Phase::Retryable { identity_expire_time, .. } => {
                (Logical::Retryable, *identity_expire_time)
            }
            Phase::Unbound { identity_expire_time, .. } => {
                (Logical::Unbound, *identity_expire_time)
            }
            Phase::Completed(done) => (Logical::Completed, done.completion.identity_expire_time),
        };
        match forgotten {
            Expiry::At(time) if time <= now => None,
            Expiry::At(_) | Expiry::Never => Some(standing),
        }
    }

    /// Live: CLAIMED and `T < D`.
    pub(super) fn live(&self, at: usize) -> bool {
        let deadline = self.lives[at].deadline(&self.clock);
        deadline.is_some_and(|deadline| self.now() < deadline)
    }

    /// A lapsed claim with something open is never forgotten; another one ages like RETRYABLE, from
    /// the later of its effective deadline and its last accepted write.
    fn lapsed_expiry(&self, at: usize) -> Expiry {
        let life = &self.lives[at];
        let Some(grant) = life.grants.last().filter(|_| self.open(at).is_empty()) else {
            return Expiry::Never;
        };
        let deadline = life.deadline(&self.clock).unwrap_or_default();
        grant.frozen.identity_retention.from(deadline.max(life.last_write))
    }

    /// Ends the present grant's time as the holder of a CLAIMED record: what its lapse left open is
    /// written down.
    pub(super) fn leave_claimed(&mut self, at: usize) {
        let lapsed =
            self.lives[at].deadline(&self.clock).filter(|deadline| *deadline <= self.now());
        let life = &self.lives[at];
        let Some(grant) = life.grants.last() else { return };
        let opens = grant.frozen.on_lapse == OnLapse::Recover && life.has_work(grant);
        if let (Some(deadline), true) = (lapsed, opens)
            && let Some(grant) = self.lives[at].grants.last_mut()
        {
            grant.opened = grant.opened.or(Some(deadline));
        }
    }
}
