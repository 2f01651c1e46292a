//! Claim: the 18 rows of semantics §5, in their order.

use firstclaim_core::command::Claim;
use firstclaim_core::outcome::{AcquiredKind, PendingReason};
use firstclaim_core::record::{Epoch, Logical, Mode};
use firstclaim_core::{Expiry, Millis, OwnerLabel, Policy, Timestamp};

use super::clock::Lease;
use super::findings::Findings;
use super::first::{Checked, Intent, check_fingerprint, invalid};
use super::life::{Binding, Grant, Phase};
use super::open::Item;
use super::{Answered, Model};
use crate::observation::{Acquired, Observation, Refused, Replay};

/// The shortest lease.
const LEASE_MIN: Millis = Millis::from_secs(1);

/// How a claim is acquired.
#[derive(Clone, Debug)]
struct Way {
    kind: AcquiredKind,
    mode: Mode,
    checked: Checked,
}

impl Way {
    fn new(kind: AcquiredKind, mode: Mode) -> Self {
        Self { kind, mode, checked: Checked::default() }
    }
}

impl Model {
    pub(super) fn claim(&mut self, claim: &Claim) -> Answered {
        let (namespace, life) = self.find(&claim.record)?;
        let policy = self.policy(namespace);
        check_fields(claim, &policy)?;
        let Some(life) = life else { return self.claim_absent(namespace, claim) };
        let unbound = self.standing(life) == Some(Logical::Unbound);
        if !unbound {
            self.check_same_request(life, &claim.fingerprints)?;
        }
        if let Phase::Completed(_) = self.lives[life].phase {
            return Ok(self.replay(life, claim));
        }
        if let Some(answered) = self.claim_by_known_attempt(life, claim) {
            return answered;
        }
        if let Some(pending) = self.claim_of_held(life) {
            return Ok(pending);
        }
        self.claim_free(namespace, life, claim)
    }

    /// Row 18.
    fn claim_absent(&mut self, namespace: usize, claim: &Claim) -> Answered {
        let checked = self.check_absent(namespace, intent(claim), false, false)?;
        self.row("5.18");
        let life = self.begin_life(namespace, intent(claim), Phase::Claimed);
        let way = Way { checked, ..Way::new(AcquiredKind::First, Mode::Execute) };
        Ok(self.grant(life, claim, way))
    }

    /// Row 3.
    fn replay(&mut self, life: usize, claim: &Claim) -> Observation {
        self.row("5.3");
        let now = self.now();
        let it = &self.lives[life];
        let Phase::Completed(done) = &it.phase else { return Observation::Ticked };
        let completion = done.completion.clone();
        let dropped =
            completion.oversize || done.purged || expired(completion.result_expire_time, now);
        Observation::Replay(Box::new(Replay {
            first_seen_time: it.born,
            by_this_attempt: completion.attempt_id == claim.attempt_id,
            result_dropped: dropped,
            bytes: done.bytes.clone().filter(|_| !dropped),
            age: now.since(completion.completed_time),
            completion,
        }))
    }

    /// Rows 4, 5 and 6.
    fn claim_by_known_attempt(&mut self, life: usize, claim: &Claim) -> Option<Answered> {
        let known = self.lives[life].known_attempt(&claim.attempt_id)?.clone();
        if known.owner != claim.owner {
            self.row("5.4");
            return Some(Err(Refused::AttemptIdReused { owner: known.owner }));
        }
        let holder = self.lives[life].grants.last()?.clone();
        if self.live(life) && holder.attempt_id == claim.attempt_id {
            self.row("5.5");
            let way = Way::new(AcquiredKind::AlreadyHeld, holder.mode);
            return Some(Ok(self.acquired(life, claim, way)));
        }
        self.row("5.6");
        Some(Err(Refused::AttemptSpent { epoch: known.epoch }))
    }

    /// Rows 7 and 8.
    fn claim_of_held(&mut self, life: usize) -> Option<Observation> {
        let it = &self.lives[life];
        let deadline = it.deadline(&self.clock)?;
        let grant = it.grants.last()?;
        let holder = Some(grant.owner.clone());
        if self.now() < deadline {
            self.row("5.7");
            return Some(self.pending(life, PendingReason::Held, holder, deadline));
        }
        let until = grant.lease().expire.after(grant.frozen.takeover_delay);
        if self.now() < until {
            self.row("5.8");
            return Some(self.pending(life, PendingReason::TakeoverDelayed, holder, until));
        }
        None
    }

    fn pending(
        &self,
        life: usize,
        reason: PendingReason,
        holder: Option<OwnerLabel>,
        until: Timestamp,
    ) -> Observation {
        let epoch = self.lives[life].epoch();
        Observation::Pending { reason, holder, until, sane_hint: true, epoch }
    }

    /// Rows 9 to 17.
    fn claim_free(&mut self, namespace: usize, life: usize, claim: &Claim) -> Answered {
        let standing = self.standing(life);
        let ended = matches!(standing, Some(Logical::Lapsed | Logical::Unresolved));
        let open = self.open(life);
        if ended && !open.is_empty() {
            if !claim.accept_recovery {
                self.row("5.10");
                return Ok(self.unresolved(life, &open));
            }
            self.row("5.9");
            let mode = self.recovery_mode(namespace, life, claim, &open);
            return Ok(self.grant(life, claim, Way::new(AcquiredKind::Recovery, mode)));
        }
        if let Phase::Retryable { not_before, .. } = self.lives[life].phase
            && self.now() < not_before
        {
            self.row("5.11");
            return Ok(self.pending(life, PendingReason::Backoff, None, not_before));
        }
        let max_attempts = self.policy(namespace).max_attempts;
        let execute_grants = self.lives[life].execute_grants;
        if max_attempts > 0 && execute_grants >= max_attempts {
            if ended && claim.accept_recovery {
                self.row("5.12");
                let way = Way::new(AcquiredKind::Recovery, Mode::Reconcile);
                return Ok(self.grant(life, claim, way));
            }
            self.row("5.13");
            return Err(Refused::AttemptsExhausted { execute_grants, max_attempts });
        }
        self.claim_to_execute(namespace, life, claim)
    }

    /// Rows 14 to 17.
    fn claim_to_execute(&mut self, namespace: usize, life: usize, claim: &Claim) -> Answered {
        let mut checked = Checked::default();
        let kind = match self.lives[life].phase {
            Phase::Claimed | Phase::Unresolved { .. } => {
                self.row("5.14");
                AcquiredKind::Takeover
            }
            Phase::Retryable { .. } => {
                self.row("5.15");
                AcquiredKind::Retry
            }
            Phase::Unbound { .. } => {
                checked.similar_keys = self.check_duplicates(namespace, intent(claim))?;
                self.row("5.16");
                let binding = Binding {
                    time: self.now(),
                    fingerprints: claim.fingerprints.clone(),
                    intent_time: claim.intent_time,
                };
                let it = &mut self.lives[life];
                // The key stands for another request from now on.
                it.rebound_after = it.epoch();
                it.bindings.push(binding);
                AcquiredKind::Rebound
            }
            Phase::Reserved { .. } | Phase::Completed(_) => {
                self.row("5.17");
                let it = &self.lives[life];
                checked.horizon_checked = it.intent_time().is_some() && !it.admitted;
                AcquiredKind::First
            }
        };
        Ok(self.grant(life, claim, Way { kind, mode: Mode::Execute, checked }))
    }

    fn unresolved(&self, life: usize, open: &[Item]) -> Observation {
        let it = &self.lives[life];
        // The oldest of what is open, each since it may have happened.
        let since = open.iter().filter_map(|item| self.since(life, *item)).min();
        Observation::Unresolved {
            open: self.seen(life, open.iter().copied()),
            since: since.unwrap_or_default(),
            epoch: it.epoch(),
            first_seen_time: it.born,
        }
    }

    /// RESUME if everything open is a recorded effect without conflict that could be permitted once
    /// more until the new deadline; else RECONCILE.
    fn recovery_mode(&self, namespace: usize, life: usize, claim: &Claim, open: &[Item]) -> Mode {
        let policy = self.policy(namespace);
        let expire = self.now().after(claim.lease.unwrap_or(policy.lease_default));
        let resumable = |item: &Item| match item {
            Item::Work(_) => false,
            Item::Effect(at) => {
                let effect = &self.lives[life].effects[*at];
                !effect.findings.conflict() && effect.window_open(expire, policy.settle_horizon)
            }
        };
        if open.iter().all(resumable) { Mode::Resume } else { Mode::Reconcile }
    }

    /// Gives the claim of a record to an attempt.
    fn grant(&mut self, life: usize, claim: &Claim, way: Way) -> Observation {
        let now = self.now();
        let policy = self.policy(self.lives[life].namespace);
        let length = claim.lease.unwrap_or(policy.lease_default);
        self.leave_claimed(life);
        self.epochs += 1;
        let expire = now.after(length);
        let it = &mut self.lives[life];
        it.grants.push(Grant {
            epoch: Epoch(self.epochs),
            attempt_id: claim.attempt_id.clone(),
            owner: claim.owner.clone(),
            mode: way.mode,
            length,
            frozen: policy,
            leases: vec![Lease { written: now, expire }],
            latest_deadline: expire,
            revoked: false,
            opened: None,
            findings: Findings::default(),
        });
        it.execute_grants += u32::from(way.mode == Mode::Execute);
        it.phase = Phase::Claimed;
        it.last_write = now;
        self.acquired(life, claim, way)
    }

    /// Carries out what a claim carries, if its grant is EXECUTE, and answers it.
    fn acquired(&mut self, life: usize, claim: &Claim, way: Way) -> Observation {
        let Some(grant) = self.lives[life].grants.last().cloned() else {
            return Observation::Ticked;
        };
        let execute = grant.mode == Mode::Execute;
        let dispatches = claim.effects.iter().filter(|_| execute);
        let permits = dispatches.map(|dispatch| self.permit(life, dispatch)).collect();
        let held = way.kind == AcquiredKind::AlreadyHeld;
        let carried = claim.complete_with.as_ref().filter(|_| execute && !held);
        let completion =
            carried.and_then(|with| self.finish(life, with.disposition, &with.result, false).ok());
        let it = &self.lives[life];
        let asked = claim.intent_time;
        Observation::Acquired(Box::new(Acquired {
            kind: way.kind,
            epoch: grant.epoch,
            mode: grant.mode,
            on_lapse: grant.frozen.on_lapse,
            result_retention: grant.frozen.result_retention,
            identity_retention: grant.frozen.identity_retention,
            lease_expire_time: grant.lease().expire,
            first_seen_time: it.born,
            intent_time: it.intent_time(),
            intent_time_differs: asked.is_some() && asked != it.intent_time(),
            horizon_checked: way.checked.horizon_checked,
            execute_grants: it.execute_grants,
            life: it.name,
            journal: self.journal(life),
            permits,
            completion,
            similar_keys: way.checked.similar_keys,
        }))
    }
}

fn check_fields(claim: &Claim, policy: &Policy) -> Result<(), Refused> {
    check_fingerprint(&claim.fingerprints, policy)?;
    if claim.lease.is_some_and(|lease| lease < LEASE_MIN || lease > policy.lease_max) {
        return invalid("lease");
    }
    Ok(())
}

fn intent(claim: &Claim) -> Intent<'_> {
    Intent {
        record: &claim.record,
        fingerprints: &claim.fingerprints,
        intent_time: claim.intent_time,
        allow_duplicate: claim.allow_duplicate_intent,
    }
}

fn expired(expiry: Expiry, now: Timestamp) -> bool {
    match expiry {
        Expiry::At(time) => time <= now,
        Expiry::Never => false,
    }
}
