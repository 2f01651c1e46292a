//! A log as text.

use firstclaim_core::command::{Claim, Command, Dispatch, Holder, ReleaseKind, Resolved, Settle};
use firstclaim_core::effect::Verdict;
use firstclaim_core::name::ProviderKey;
use firstclaim_core::{Outcome, PolicyPatch, RecordRef};

use crate::figures::Figures;
use crate::history::Entry;
use crate::show::{secs, show_answer, show_refusal};
use crate::world::{Settings, run};

/// A seed as text.
#[derive(Debug)]
pub struct Trace {
    /// What happened, a line each.
    pub lines: Vec<String>,
    /// A number of all that was asked and answered, to the last bit.
    pub hash: u64,
    /// What it came to.
    pub figures: Figures,
}

/// Runs a seed and writes everything down.
#[must_use]
pub fn trace(seed: u64, settings: Settings) -> Trace {
    let ended = run(seed, Settings { history: true, ..settings });
    let mut lines: Vec<String> = ended.history.iter().map(tell).collect();
    let mut hash = Hash::default();
    for entry in &ended.history {
        hash.add(&format!("{entry:?}"));
    }
    hash.add(&format!("{:?}", ended.figures));
    lines.extend(ended.broken.map(|broken| broken.to_string()));
    Trace { lines, hash: hash.0, figures: ended.figures }
}

/// FNV-1a.
struct Hash(u64);

impl Default for Hash {
    fn default() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }
}

impl Hash {
    fn add(&mut self, text: &str) {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
    }
}

/// One entry of a log.
pub(crate) fn tell(entry: &Entry) -> String {
    match entry {
        Entry::Call { stamp, command, outcome, .. } => {
            let answer = outcome.as_ref().map_or_else(String::new, |outcome| answered(outcome));
            let (at, term) = (secs(stamp.time), stamp.term);
            format!("{at} (term {term}) {}\n        -> {answer}", asked(command))
        }
        Entry::Arrival { arrival, epoch } => format!(
            "PROVIDER: slot {} of {} was paid by {} under epoch {}",
            arrival.slot,
            arrival.record.key.as_str(),
            arrival.uid,
            epoch.0
        ),
        Entry::NotApplied { record, attempt_id } => {
            format!("not applied: a call of {} about {}", attempt_id.as_str(), key(record))
        }
    }
}

fn answered(outcome: &Outcome) -> String {
    match &outcome.result {
        Ok(answer) => show_answer(answer),
        Err(refusal) => show_refusal(refusal),
    }
}

fn asked(command: &Command) -> String {
    match command {
        Command::Claim(it) => claim(it),
        Command::Renew(it) => format!("Renew {} lease={:?}", holder(&it.holder), it.lease),
        Command::Complete(it) => format!(
            "Complete {} {:?} result={:?}{}",
            holder(&it.holder),
            it.disposition,
            it.result.bytes,
            it.settlements.iter().map(settle).collect::<String>()
        ),
        Command::Release(it) => {
            let kind = match &it.kind {
                ReleaseKind::Retry { retry_after } => format!("RETRY after {retry_after}"),
                ReleaseKind::Unbind => "UNBIND".to_owned(),
                ReleaseKind::Unknown { .. } => "UNKNOWN".to_owned(),
            };
            format!("Release {} {kind}", holder(&it.holder))
        }
        Command::RecordEffect(it) => {
            format!("RecordEffect {}{}", holder(&it.holder), dispatch(&it.dispatch))
        }
        Command::SettleEffect(it) => format!("Settle {}{}", key(&it.record), settle(&it.settle)),
        Command::Reserve(it) => format!(
            "Reserve {} born={} admit={}",
            key(&it.record),
            it.intent_time.map_or("-".to_owned(), secs),
            it.admit.is_some()
        ),
        Command::Resolve(it) => {
            let verdicts = it.verdicts.iter();
            let verdicts: String =
                verdicts.map(|(uid, said)| format!(" {uid} is {}", verdict(*said))).collect();
            let state = match &it.state {
                Resolved::Completed(with) => format!("COMPLETED {:?}", with.disposition),
                Resolved::Retryable { retry_after } => format!("RETRYABLE after {retry_after}"),
            };
            format!("Resolve {} epoch={}{verdicts} {state}", key(&it.record), it.expected_epoch.0)
        }
        Command::Revoke(it) => format!("Revoke {} epoch={}", key(&it.record), it.epoch.0),
        Command::Purge(it) => format!("Purge {} epoch={}", key(&it.record), it.expected_epoch.0),
        Command::ExtendExisting(it) => format!("ExtendExisting {:?}", it.namespace.as_str()),
        Command::PutTenant(it) => {
            format!("PutTenant {} {:?} {}", it.tenant.as_str(), it.mode, policy(&it.policy))
        }
        Command::PutNamespace(it) => format!(
            "PutNamespace {}/{} {:?} {}",
            it.tenant.as_str(),
            it.namespace.as_str(),
            it.mode,
            policy(&it.policy)
        ),
        Command::DeleteTenant(it) => {
            format!("DeleteTenant {} force={}", it.tenant.as_str(), it.force)
        }
        Command::DeleteNamespace(it) => format!(
            "DeleteNamespace {}/{} force={}",
            it.tenant.as_str(),
            it.namespace.as_str(),
            it.force
        ),
        Command::Sweep(it) => format!("Sweep {}", it.limit),
        Command::Tick => "Tick".to_owned(),
        Command::Report(_) => "Report".to_owned(),
    }
}

fn key(record: &RecordRef) -> String {
    format!("{}/{}", record.namespace.as_str(), record.key.as_str())
}

fn holder(it: &Holder) -> String {
    format!("{} epoch={} attempt={}", key(&it.record), it.epoch.0, it.attempt_id.as_str())
}

fn claim(it: &Claim) -> String {
    let schemes = it.fingerprints.all().iter();
    let fingerprints: Vec<String> = schemes
        .map(|one| format!("{}{}", one.scheme().as_str(), one.digest().first().unwrap_or(&0)))
        .collect();
    let complete =
        it.complete_with.as_ref().map(|with| format!(" completes {:?}", with.disposition));
    format!(
        "Claim {} attempt={} fp={} lease={:?} born={}{}{}{}",
        key(&it.record),
        it.attempt_id.as_str(),
        fingerprints.join("+"),
        it.lease,
        it.intent_time.map_or("-".to_owned(), secs),
        if it.accept_recovery { " accepts recovery" } else { "" },
        it.effects.iter().map(dispatch).collect::<String>(),
        complete.unwrap_or_default()
    )
}

fn dispatch(it: &Dispatch) -> String {
    format!(
        " [{} n={} slot={} provider={} key={} window={:?} within={:?}]",
        it.id.as_str(),
        it.number,
        it.slot.as_str(),
        it.provider.as_str(),
        it.provider_key.as_ref().map_or("-", ProviderKey::as_str),
        it.dedup_window,
        it.within
    )
}

fn settle(it: &Settle) -> String {
    let provider = it.provider.as_ref().map_or("-", |provider| provider.as_str());
    let key = it.provider_key.as_ref().map_or("-", ProviderKey::as_str);
    format!(" ({} at {provider} key={key} is {})", it.uid, verdict(it.verdict))
}

fn verdict(verdict: Verdict) -> String {
    match verdict {
        Verdict::Committed => "COMMITTED".to_owned(),
        Verdict::Refused { status } => format!("NOT_COMMITTED, refused {status:?}"),
        Verdict::NotFound { as_of } => format!("NOT_COMMITTED, looked up as of {}", secs(as_of)),
        Verdict::Overridden => "NOT_COMMITTED by override".to_owned(),
    }
}

/// Only the fields that are set.
fn policy(patch: &PolicyPatch) -> String {
    let text = format!("{patch:?}").replace("PolicyPatch ", "");
    let set = text.split(", ").filter(|field| !field.contains(": None"));
    set.map(str::to_owned).collect::<Vec<_>>().join(", ")
}
