//! Complete, in time, late, again, and from holders that were superseded. Semantics §6.

use firstclaim_core::command::{Complete, Settle};
use firstclaim_core::effect::Verdict;
use firstclaim_core::record::{Disposition, Epoch, ResultBody};
use firstclaim_core::{AttemptId, EffectName, EffectUid, OwnerLabel};

use super::findings::{Findings, Told};
use super::life::{Done, Phase, Report};
use super::open::Item;
use super::settle::Channel;
use super::{Answered, Model};
use crate::observation::{Completion, Known, Observation, Refused};

/// What fenced-out holders reported, kept per record.
const REPORTS_KEPT: usize = 8;

/// Who completed a record, and how that came about.
#[derive(Clone, Debug)]
pub(super) struct By {
    pub(super) epoch: Epoch,
    pub(super) attempt_id: AttemptId,
    pub(super) owner: OwnerLabel,
    pub(super) late: bool,
    pub(super) by_evidence: bool,
}

impl Model {
    pub(super) fn complete(&mut self, complete: &Complete) -> Answered {
        let (_, life) = self.find(&complete.holder.record)?;
        let Some(life) = life else { return Err(self.stale(None)) };
        if !self.holds(life, &complete.holder) {
            return Err(self.complete_stale(life, complete));
        }
        match &self.lives[life].phase {
            Phase::Completed(done) => {
                let done = done.completion.clone();
                self.complete_again(life, complete, done)
            }
            Phase::Claimed | Phase::Unresolved { .. } => self.complete_held(life, complete),
            // Released: "Complete afterwards: STALE_EPOCH".
            Phase::Reserved { .. } | Phase::Retryable { .. } | Phase::Unbound { .. } => {
                self.row("6 Complete: after a release");
                Err(self.complete_stale(life, complete))
            }
        }
    }

    fn complete_held(&mut self, life: usize, complete: &Complete) -> Answered {
        let row = if matches!(self.lives[life].phase, Phase::Unresolved { .. }) {
            "6 Complete: released UNKNOWN"
        } else if self.live(life) {
            "6 Complete: live"
        } else {
            "6 Complete: lapsed"
        };
        let late = !self.live(life);
        if complete.disposition == Disposition::Failed {
            self.check_failure(life, complete)?;
        }
        let completed = self.carry_and_finish(life, complete, late);
        match completed {
            Ok(completion) => {
                self.row(row);
                Ok(Observation::Completed { completion, repeated: false })
            }
            Err(refused) => {
                self.complete_by_carried_work(life, complete);
                Err(refused)
            }
        }
    }

    fn carry_and_finish(
        &mut self,
        life: usize,
        complete: &Complete,
        late: bool,
    ) -> Result<Completion, Refused> {
        for settle in &complete.settlements {
            self.settle(life, settle, Channel::Carried)?;
        }
        self.finish(life, complete.disposition, &complete.result, late)
    }

    /// COMMITTED of work completes the record, also where it was carried by a Complete that did not:
    /// the oldest work of it, and only where nobody said otherwise before.
    fn complete_by_carried_work(&mut self, life: usize, complete: &Complete) -> bool {
        if matches!(self.lives[life].phase, Phase::Completed(_)) {
            return false;
        }
        let done = |at: &usize| {
            let findings = &self.lives[life].grants[*at].findings;
            findings.known() == Known::Committed
        };
        let Some(at) = (0..self.lives[life].grants.len()).find(done) else { return false };
        let grant = &self.lives[life].grants[at];
        let uid = self.lives[life].work_uid(grant);
        // One that was not heard, because it named a provider, is no evidence.
        let of_it = |settle: &&Settle| {
            let named = settle.provider.is_some() || settle.provider_key.is_some();
            settle.uid == uid && !named && grant.findings.counts(&settle.evidence.digest)
        };
        let Some(settle) = complete.settlements.iter().find(of_it).cloned() else { return false };
        self.row("6 Complete: refused, its COMMITTED work completes");
        self.complete_by_work(life, at, &settle);
        true
    }

    /// Completes a record for its present holder.
    pub(super) fn finish(
        &mut self,
        life: usize,
        disposition: Disposition,
        result: &ResultBody,
        late: bool,
    ) -> Result<Completion, Refused> {
        let succeeded = disposition == Disposition::Succeeded;
        let own = self.lives[life].grants.len().saturating_sub(1);
        let open = self.open(life);
        let hinders = |item: &Item| match item {
            Item::Work(at) => !succeeded && *at != own,
            Item::Effect(at) => {
                !succeeded || self.lives[life].effects[*at].findings.known() == Known::Open
            }
        };
        let hindering: Vec<Item> = open.iter().copied().filter(hinders).collect();
        if !hindering.is_empty() {
            self.row("6 Complete: UNSETTLED_EFFECTS");
            return Err(Refused::UnsettledEffects { open: self.uids(life, &hindering) });
        }
        if !succeeded && let Some(uid) = self.committed_work(life) {
            return Err(Refused::EvidenceConflict { uid, evidence_kept: false });
        }
        self.close(life, &open, succeeded, &result.digest);
        // From now on the completion speaks for the work of its own epoch.
        self.lives[life].grants[own].findings = Findings::default();
        let it = &self.lives[life];
        let Some(grant) = it.grants.last() else { return Err(self.stale(Some(life))) };
        let by = By {
            epoch: grant.epoch,
            attempt_id: grant.attempt_id.clone(),
            owner: grant.owner.clone(),
            late,
            by_evidence: false,
        };
        Ok(self.store_completion(life, by, disposition, result))
    }

    /// "The intent was carried out": no FAILED that carries or stands beside COMMITTED work. Looked at
    /// before anything is taken in.
    fn check_failure(&mut self, life: usize, complete: &Complete) -> Result<(), Refused> {
        let carried = complete.settlements.iter().find(|settle| {
            settle.verdict == Verdict::Committed && matches!(settle.uid.name, EffectName::Work(_))
        });
        let carried = carried.map(|settle| settle.uid.clone());
        let Some(uid) = self.committed_work(life).or(carried) else { return Ok(()) };
        self.row("6 Complete: FAILED beside COMMITTED work");
        Err(Refused::EvidenceConflict { uid, evidence_kept: false })
    }

    fn committed_work(&self, life: usize) -> Option<EffectUid> {
        let it = &self.lives[life];
        let of_this_request = it.grants.iter().filter(|grant| grant.epoch > it.rebound_after);
        let mut committed = of_this_request.filter(|grant| grant.findings.committed());
        committed.next().map(|grant| it.work_uid(grant))
    }

    /// A success settles open work, the result being the evidence, and ends a conflict.
    fn close(&mut self, life: usize, open: &[Item], committed: bool, digest: &[u8]) {
        let own = self.lives[life].grants.len().saturating_sub(1);
        for item in open {
            let told = Told { committed, digest: digest.to_vec() };
            match *item {
                Item::Work(at) => {
                    let findings = &mut self.lives[life].grants[at].findings;
                    if !findings.settled() && at != own {
                        findings.tell(told);
                    }
                    findings.end_conflict();
                    if committed && at != own {
                        self.row("6 Complete: settles work of earlier epochs");
                    }
                }
                Item::Effect(at) => {
                    self.lives[life].effects[at].findings.end_conflict();
                    self.row("6 Complete: ends a conflict");
                }
            }
        }
    }

    /// Stores a completion. Retentions are those of the policy now.
    pub(super) fn store_completion(
        &mut self,
        life: usize,
        by: By,
        disposition: Disposition,
        result: &ResultBody,
    ) -> Completion {
        let now = self.now();
        let policy = self.policy(self.lives[life].namespace);
        let inline = result.bytes.is_some();
        let oversize = inline && result.length > u64::from(policy.result_bytes_max);
        let completion = Completion {
            disposition,
            digest: result.digest.clone(),
            length: result.length,
            oversize,
            completed_time: now,
            epoch: by.epoch,
            attempt_id: by.attempt_id,
            owner: by.owner,
            late: by.late,
            by_evidence: by.by_evidence,
            result_expire_time: firstclaim_core::Expiry::At(now.after(policy.result_retention)),
            identity_expire_time: policy.identity_retention.from(now),
        };
        let bytes = result.bytes.clone().filter(|_| !oversize);
        let done = Done { completion: completion.clone(), bytes, purged: false };
        self.lives[life].phase = Phase::Completed(Box::new(done));
        self.lives[life].last_write = now;
        completion
    }

    fn complete_again(&mut self, life: usize, complete: &Complete, done: Completion) -> Answered {
        for settle in &complete.settlements {
            // Whatever they come to, the answer is the same as before.
            if self.settle(life, settle, Channel::Carried).is_ok() {
                self.row("6 Complete again: carried settlements");
            }
        }
        if complete.holder.epoch != done.epoch {
            self.row("6 Complete again: ALREADY_COMPLETED");
            let evidence_kept = self.keep_report(life, complete);
            return Err(Refused::AlreadyCompleted {
                epoch: done.epoch,
                completed_time: done.completed_time,
                evidence_kept,
            });
        }
        if (complete.disposition, &complete.result.digest) == (done.disposition, &done.digest) {
            self.row("6 Complete again: the same");
            return Ok(Observation::Completed { completion: done, repeated: true });
        }
        self.row("6 Complete again: RESULT_CONFLICT");
        Err(Refused::ResultConflict { stored: done.digest, sent: complete.result.digest.clone() })
    }

    /// From a holder that was superseded: what it carries is settled, its success is a settlement of
    /// its own work, its failure is kept for people.
    fn complete_stale(&mut self, life: usize, complete: &Complete) -> Refused {
        let holder = &complete.holder;
        let before = matches!(self.lives[life].phase, Phase::Completed(_));
        let it = &self.lives[life];
        let held = it
            .grants
            .iter()
            .position(|grant| grant.epoch == holder.epoch && grant.attempt_id == holder.attempt_id);
        let mut evidence_kept = false;
        if held.is_some_and(|at| it.remembers(at)) {
            for settle in &complete.settlements {
                if self.settle(life, settle, Channel::Carried).is_ok() {
                    self.row("6 stale Complete: carried settlements");
                }
            }
            if complete.disposition == Disposition::Succeeded {
                self.settle_own_work(life, complete);
            } else {
                self.row("6 stale Complete(FAILED)");
            }
            // A success that completed the record is the completion; what is kept besides is less.
            let by_own_word = complete.disposition == Disposition::Succeeded
                && self.completed_by_evidence_of(life, holder.epoch, &complete.result.digest);
            self.complete_by_carried_work(life, complete);
            evidence_kept = by_own_word || self.keep_report(life, complete);
        } else {
            self.row("6 stale");
        }
        let after = matches!(self.lives[life].phase, Phase::Completed(_));
        // The same report again gets the same answer.
        let succeeded = complete.disposition == Disposition::Succeeded;
        let own =
            succeeded && self.completed_by_evidence_of(life, holder.epoch, &complete.result.digest);
        let carried = complete.settlements.iter().any(|settle| {
            settle.verdict == Verdict::Committed
                && matches!(settle.uid.name, EffectName::Work(epoch)
                    if self.completed_by_evidence_of(life, epoch, &settle.evidence.digest))
        });
        let completed_record = held.is_some() && after && (own || carried);
        if after && !before {
            self.row("6 stale Complete(SUCCEEDED) completes");
        }
        let epoch = Some(self.lives[life].epoch());
        Refused::StaleEpoch { epoch, evidence_kept, completed_record }
    }

    fn completed_by_evidence_of(&self, life: usize, epoch: Epoch, digest: &[u8]) -> bool {
        let completion = self.lives[life].completed_by(epoch);
        completion.is_some_and(|it| it.by_evidence && it.digest == digest)
    }

    fn settle_own_work(&mut self, life: usize, complete: &Complete) {
        let settle = Settle {
            uid: self.lives[life].uid(EffectName::Work(complete.holder.epoch)),
            provider: None,
            provider_key: None,
            verdict: Verdict::Committed,
            evidence: firstclaim_core::Content {
                content_type: complete.result.content_type.clone(),
                digest: complete.result.digest.clone(),
                length: complete.result.length,
                bytes: complete.result.bytes.clone(),
            },
        };
        if self.settle(life, &settle, Channel::Settle).is_ok() {
            self.row("6 stale Complete(SUCCEEDED): heard");
        }
    }

    fn keep_report(&mut self, life: usize, complete: &Complete) -> bool {
        let report = Report {
            epoch: complete.holder.epoch,
            succeeded: complete.disposition == Disposition::Succeeded,
            digest: complete.result.digest.clone(),
        };
        let now = self.now();
        let it = &mut self.lives[life];
        if it.reports.contains(&report) {
            return true;
        }
        let room = it.reports.len() < REPORTS_KEPT;
        if room {
            it.reports.push(report);
            it.last_write = now;
        }
        room
    }
}
