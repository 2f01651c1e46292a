//! Resolve: ends what nobody else could. Semantics §6.

use firstclaim_core::Expiry;
use firstclaim_core::OwnerLabel;
use firstclaim_core::command::{Resolve, Resolved};
use firstclaim_core::effect::Verdict;
use firstclaim_core::record::{Disposition, Epoch, Logical};

use super::complete::By;
use super::findings::Told;
use super::first::invalid;
use super::life::{Phase, Resolution};
use super::open::Item;
use super::{Answered, Model};
use crate::observation::{Known, Observation, Refused};

impl Model {
    pub(super) fn resolve(&mut self, resolve: &Resolve) -> Answered {
        let (_, life) = self.find(&resolve.record)?;
        let Some(life) = life else { return Err(Refused::RecordNotFound) };
        if let Some(latest) = self.lives[life].resolutions.last()
            && (&latest.attempt_id, latest.expected)
                == (&resolve.attempt_id, resolve.expected_epoch)
        {
            let epoch = latest.epoch;
            self.row("6 Resolve: again");
            let state = self.standing(life).unwrap_or(Logical::Completed);
            return Ok(Observation::Resolved { epoch, state, repeated: true });
        }
        self.refuse_if_completed(life)?;
        if resolve.expected_epoch != self.lives[life].epoch() {
            return Err(self.stale(Some(life)));
        }
        self.check_resolvable(life)?;
        let open = self.open(life);
        self.check_complete_verdicts(life, resolve, &open)?;
        for (uid, verdict) in &resolve.verdicts {
            let item = self.find_item(life, uid)?;
            self.check_resolving_verdict(life, item, *verdict)?;
        }
        self.check_new_state(life, resolve)?;
        Ok(self.carry_out(life, resolve, &open))
    }

    fn check_resolvable(&mut self, life: usize) -> Result<(), Refused> {
        let it = &self.lives[life];
        match it.phase {
            Phase::Unresolved { .. } => return Ok(()),
            Phase::Claimed => {}
            Phase::Reserved { .. }
            | Phase::Retryable { .. }
            | Phase::Unbound { .. }
            | Phase::Completed(_) => return Err(Refused::EffectNotAllowed),
        }
        let deadline = it.deadline(&self.clock).unwrap_or_default();
        let delayed = it
            .grants
            .last()
            .map_or(deadline, |grant| grant.lease().expire.after(grant.frozen.takeover_delay));
        if self.now() < deadline || self.now() < delayed {
            self.row("6 Resolve: STILL_LIVE");
            let until = if self.now() < deadline { deadline } else { delayed };
            return Err(Refused::StillLive { until });
        }
        Ok(())
    }

    /// Exactly one verdict for everything open.
    fn check_complete_verdicts(
        &mut self,
        life: usize,
        resolve: &Resolve,
        open: &[Item],
    ) -> Result<(), Refused> {
        let needed = self.uids(life, open);
        let given: Vec<_> = resolve.verdicts.iter().map(|(uid, _)| uid.clone()).collect();
        let twice = given.iter().enumerate().any(|(at, uid)| given[..at].contains(uid));
        if twice || given.iter().any(|uid| !needed.contains(uid)) {
            return invalid("uid");
        }
        let missing: Vec<_> = needed.into_iter().filter(|uid| !given.contains(uid)).collect();
        if !missing.is_empty() {
            self.row("6 Resolve: UNSETTLED_EFFECTS");
            return Err(Refused::UnsettledEffects { open: missing });
        }
        Ok(())
    }

    fn check_resolving_verdict(
        &mut self,
        life: usize,
        item: Item,
        verdict: Verdict,
    ) -> Result<(), Refused> {
        match verdict {
            Verdict::Committed => return Ok(()),
            Verdict::Refused { status } => {
                let repeats =
                    status.is_some_and(|it| it == 409 || it == 429 || (500..600).contains(&it));
                if repeats || matches!(item, Item::Work(_)) {
                    return invalid("verdict");
                }
            }
            Verdict::NotFound { as_of } if as_of > self.now() => return invalid("as_of"),
            Verdict::NotFound { .. } | Verdict::Overridden => {}
        }
        self.check_provable(life, item, verdict)?;
        let seen = self.seen(life, [item]);
        match seen.first().filter(|seen| seen.known == Known::Conflict) {
            None => Ok(()),
            Some(seen) => {
                self.row("6 Resolve: of a conflict");
                let uid = seen.uid.clone();
                Err(Refused::EvidenceConflict { uid, evidence_kept: false })
            }
        }
    }

    /// RETRYABLE is refused beside anything COMMITTED, COMPLETED(FAILED) beside COMMITTED work.
    fn check_new_state(&mut self, life: usize, resolve: &Resolve) -> Result<(), Refused> {
        let it = &self.lives[life];
        let told = |uid: &firstclaim_core::EffectUid| {
            let verdicts = &resolve.verdicts;
            verdicts.iter().any(|(of, verdict)| of == uid && *verdict == Verdict::Committed)
        };
        let works = it.grants.iter().filter(|grant| grant.epoch > it.rebound_after);
        let work = works
            .map(|grant| (it.work_uid(grant), grant.findings.committed()))
            .find(|(uid, committed)| *committed || told(uid));
        let effects = it.effects.iter();
        let effect = effects
            .map(|effect| (it.effect_uid(effect), effect.findings.committed()))
            .find(|(uid, committed)| *committed || told(uid));
        let against = match &resolve.state {
            Resolved::Completed(with) if with.disposition == Disposition::Succeeded => None,
            Resolved::Completed(_) => work,
            Resolved::Retryable { .. } => work.or(effect),
        };
        let Some((uid, _)) = against else { return Ok(()) };
        self.row("6 Resolve: beside COMMITTED evidence");
        Err(Refused::EvidenceConflict { uid, evidence_kept: false })
    }

    fn carry_out(&mut self, life: usize, resolve: &Resolve, open: &[Item]) -> Observation {
        let now = self.now();
        let policy = self.policy(self.lives[life].namespace);
        if resolve.verdicts.iter().any(|(_, verdict)| *verdict == Verdict::Overridden) {
            self.row("6 Resolve: override");
        }
        let named: Vec<_> = open.iter().map(|item| (self.uids(life, &[*item]), *item)).collect();
        self.leave_claimed(life);
        for (uids, item) in named {
            let told = resolve.verdicts.iter().find(|(uid, _)| uids.contains(uid));
            let Some((_, verdict)) = told else { continue };
            let committed = *verdict == Verdict::Committed;
            let told = Told { committed, digest: resolve.evidence.digest.clone() };
            let findings = match item {
                Item::Work(at) => &mut self.lives[life].grants[at].findings,
                Item::Effect(at) => &mut self.lives[life].effects[at].findings,
            };
            findings.tell(told);
            findings.end_conflict();
        }
        self.epochs += 1;
        let epoch = Epoch(self.epochs);
        let attempt_id = resolve.attempt_id.clone();
        let resolution =
            Resolution { expected: resolve.expected_epoch, epoch, attempt_id: attempt_id.clone() };
        self.lives[life].resolutions.push(resolution);
        self.lives[life].last_write = now;
        match &resolve.state {
            Resolved::Completed(with) => {
                self.row("6 Resolve: COMPLETED");
                let owner = OwnerLabel::from(&resolve.principal);
                let by = By { epoch, attempt_id, owner, late: true, by_evidence: true };
                self.store_completion(life, by, with.disposition, &with.result);
            }
            Resolved::Retryable { retry_after } => {
                self.row("6 Resolve: RETRYABLE");
                let not_before = now.after(*retry_after);
                let forgotten = policy.identity_retention.from(now);
                let identity_expire_time = forgotten.max(Expiry::At(not_before));
                self.lives[life].phase = Phase::Retryable { not_before, identity_expire_time };
            }
        }
        let state = self.standing(life).unwrap_or(Logical::Completed);
        Observation::Resolved { epoch, state, repeated: false }
    }
}
