//! Counts what calls of holders and settlers come to. Claims are counted where they are answered.

use firstclaim_core::command::Settle;
use firstclaim_core::{Answer, Command, Outcome, RecordRef, Refusal};

use crate::metrics::RecordMetrics;

/// What of a command is needed to count what it comes to.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    record: RecordRef,
    /// Whether each settlement that it carries says that something happened.
    verdicts: Vec<bool>,
    /// Whether it may bind a key.
    binds: bool,
}

impl Tally {
    /// What to count of a command, if anything.
    pub(crate) fn of(command: &Command) -> Option<Self> {
        let committed = |settle: &Settle| settle.verdict.committed();
        let (record, verdicts) = match command {
            Command::Renew(it) => (&it.holder.record, Vec::new()),
            Command::Complete(it) => {
                (&it.holder.record, it.settlements.iter().map(committed).collect())
            }
            Command::Release(it) => (&it.holder.record, Vec::new()),
            Command::RecordEffect(it) => (&it.holder.record, Vec::new()),
            Command::SettleEffect(it) => (&it.record, vec![committed(&it.settle)]),
            Command::Reserve(it) => (&it.record, Vec::new()),
            Command::Resolve(it) => {
                let verdicts = it.verdicts.iter().map(|(_, verdict)| verdict.committed());
                (&it.record, verdicts.collect())
            }
            Command::Claim(_)
            | Command::PutTenant(_)
            | Command::PutNamespace(_)
            | Command::DeleteTenant(_)
            | Command::DeleteNamespace(_)
            | Command::Sweep(_)
            | Command::Tick
            | Command::Revoke(_)
            | Command::Purge(_)
            | Command::ExtendExisting(_)
            | Command::Report(_) => return None,
        };
        let binds = matches!(command, Command::Reserve(_));
        Some(Self { record: record.clone(), verdicts, binds })
    }

    /// Counts what it came to.
    pub(crate) fn count(&self, metrics: &RecordMetrics, outcome: &Outcome) {
        match &outcome.result {
            Ok(answer) => self.answer(metrics, answer),
            Err(refusal) => self.refusal(metrics, refusal),
        }
    }

    fn answer(&self, metrics: &RecordMetrics, answer: &Answer) {
        let scope = metrics.scope(&self.record.tenant, &self.record.namespace);
        let mut repeated = true;
        if let Answer::Permitted(permitted) = answer
            && !permitted.repeated
        {
            metrics.permit(&scope, permitted.permit.number == 1);
        } else if let Answer::Settled(settled) = answer {
            repeated = settled.repeated;
            if settled.findings.conflict && !repeated {
                metrics.contradicted(&scope);
            }
        } else if let Answer::Completed(completed) = answer {
            repeated = completed.repeated;
            if !repeated {
                let completion = &completed.completion;
                metrics.completion(&scope, completion.disposition, completion.late);
            }
        } else if let Answer::Resolved(resolved) = answer {
            repeated = resolved.repeated;
        } else if let Answer::Reserved(reserved) = answer
            && !reserved.similar_keys.is_empty()
        {
            metrics.duplicate_intent(&scope, false);
        }
        if !repeated {
            self.verdicts.iter().for_each(|committed| metrics.settled(&scope, *committed));
        }
    }

    fn refusal(&self, metrics: &RecordMetrics, refusal: &Refusal) {
        if matches!(refusal, Refusal::TenantNotFound | Refusal::NamespaceNotFound) {
            return;
        }
        let scope = metrics.scope(&self.record.tenant, &self.record.namespace);
        let fenced = matches!(
            refusal,
            Refusal::StaleEpoch { .. } | Refusal::LeaseExpired { .. } | Refusal::Revoked
        );
        if fenced {
            metrics.fenced_write(&scope, refusal.reason());
        }
        if matches!(refusal, Refusal::EvidenceConflict { .. }) {
            metrics.contradicted(&scope);
        }
        if self.binds {
            metrics.claim_refusal(&scope, refusal.reason());
            if matches!(refusal, Refusal::DuplicateIntent { .. }) {
                metrics.duplicate_intent(&scope, true);
            }
        }
    }
}
