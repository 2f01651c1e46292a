//! One log: every command goes to what serves, and its answer to all checks.

use firstclaim_core::{
    AttemptId, Command, Outcome, Record, RecordId, RecordRef, Slot, Stamp, apply,
};

use crate::checks::{Arrival, Checked, Checks, Oracles, Seen};
use crate::figures::Figures;
use crate::memory::MemoryStore;

/// What serves, and what watches it.
pub(crate) struct Judge {
    pub(crate) store: MemoryStore,
    pub(crate) figures: Figures,
    checks: Checks,
}

impl Judge {
    pub(crate) fn new(oracles: Oracles) -> Self {
        Self {
            store: MemoryStore::default(),
            figures: Figures::default(),
            checks: Checks::new(oracles),
        }
    }

    /// Applies a command and looks at the answer.
    pub(crate) fn call(&mut self, stamp: Stamp, command: &Command) -> (Outcome, Checked) {
        let about = record_of(command);
        let before = about.and_then(|record| self.record(record)).cloned();
        let Ok(outcomes) = apply(&mut self.store, stamp, std::slice::from_ref(command));
        let outcome = outcomes.into_iter().next().expect("one outcome for one command");
        self.figures.operations += 1;
        if let Err(refusal) = &outcome.result {
            *self.figures.reasons.entry(refusal.reason().as_str()).or_default() += 1;
        }
        let seen = Seen {
            stamp,
            command,
            outcome: &outcome,
            about,
            before: before.as_ref(),
            after: about.and_then(|record| stored(&self.store, record)),
            store: &self.store,
        };
        let checked = self.checks.see(&seen, &mut self.figures);
        (outcome, checked)
    }

    /// An effect came about at a provider.
    pub(crate) fn arrive(&mut self, arrival: &Arrival) -> Checked {
        self.checks.arrive(arrival)
    }

    /// See [`Checks::not_applied`].
    pub(crate) fn not_applied(&mut self, record: RecordRef, attempt_id: AttemptId) {
        self.checks.not_applied(record, attempt_id);
    }

    pub(crate) fn end(&self) -> Checked {
        self.checks.end()
    }

    /// What is stored of a key, forgotten or not.
    pub(crate) fn record(&self, record: &RecordRef) -> Option<&Record> {
        stored(&self.store, record)
    }
}

fn stored<'a>(store: &'a MemoryStore, record: &RecordRef) -> Option<&'a Record> {
    let Some(Slot::Live(_)) = store.tenants.get(&record.tenant) else { return None };
    let of = (record.tenant.clone(), record.namespace.clone());
    let Some(Slot::Live(namespace)) = store.namespaces.get(&of) else { return None };
    store.records.get(&RecordId { namespace: namespace.id, key: record.key.clone() })
}

/// The record that a command is about.
pub(crate) fn record_of(command: &Command) -> Option<&RecordRef> {
    match command {
        Command::Claim(it) => Some(&it.record),
        Command::Renew(it) => Some(&it.holder.record),
        Command::Complete(it) => Some(&it.holder.record),
        Command::Release(it) => Some(&it.holder.record),
        Command::RecordEffect(it) => Some(&it.holder.record),
        Command::SettleEffect(it) => Some(&it.record),
        Command::Reserve(it) => Some(&it.record),
        Command::Resolve(it) => Some(&it.record),
        Command::Revoke(it) => Some(&it.record),
        Command::Purge(it) => Some(&it.record),
        Command::PutTenant(_)
        | Command::PutNamespace(_)
        | Command::DeleteTenant(_)
        | Command::DeleteNamespace(_)
        | Command::Sweep(_)
        | Command::Tick
        | Command::ExtendExisting(_)
        | Command::Report(_) => None,
    }
}
