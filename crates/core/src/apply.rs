//! The one door through which the replicated log reaches the contract.

use crate::command::Command;
use crate::decide::{self, Context, Decision};
use crate::fingerprint::{FingerprintSet, Intent};
use crate::limits;
use crate::name::{IdempotencyKey, RecordRef};
use crate::outcome::{Answer, Outcome, Refusal};
use crate::planted::{self, Planted};
use crate::policy::{DuplicateIntent, Policy};
use crate::record::{Logical, Record};
use crate::store::{RecordId, Store};
use crate::tenant::{Cluster, Namespace, Slot};
use crate::time::Stamp;

type Applied<E> = Result<Result<Answer, Refusal>, E>;

/// Applies the commands of one stamped entry in order; each sees those before it.
///
/// Returns one outcome per command, by position. Deterministic: the same state, stamp and commands
/// give the same state and outcomes on every replica.
///
/// # Errors
///
/// Only the store's: a bad disk. The entry must not be counted as applied then.
pub fn apply<S: Store>(
    store: &mut S,
    stamp: Stamp,
    commands: &[Command],
) -> Result<Vec<Outcome>, S::Error> {
    let mut cluster = store.cluster()?;
    let store_time = cluster.clock.advance(stamp);
    let mut outcomes = Vec::with_capacity(commands.len());
    for (place, command) in commands.iter().enumerate() {
        let revision = stamp.index << REVISION_PLACE_BITS | place as u64;
        let mut step = Step { store, cluster: &mut cluster, stamp, revision };
        outcomes.push(Outcome { store_time, result: step.command(command)? });
    }
    store.put_cluster(cluster)?;
    Ok(outcomes)
}

/// Bits of a revision that hold the place of a command in its entry.
const REVISION_PLACE_BITS: u32 = 9;

const _: () = assert!(limits::ENTRY_COMMANDS_MAX <= 1 << REVISION_PLACE_BITS);

/// Bugs about what a grant freezes: the record takes it from the present policy.
fn thaw(record: &mut Record, policy: &Policy) {
    let frozen = &mut record.frozen;
    if planted::is(Planted::OnLapseOfPolicy) {
        frozen.on_lapse = policy.on_lapse;
    } else if planted::is(Planted::DelayOfPolicy) {
        frozen.takeover_delay = policy.takeover_delay;
    } else if planted::is(Planted::RetentionOfPolicy) {
        frozen.result_retention = policy.result_retention;
        frozen.identity_retention = policy.identity_retention;
    }
}

/// One command on its way to its decision.
struct Step<'a, S> {
    store: &'a mut S,
    cluster: &'a mut Cluster,
    stamp: Stamp,
    /// Place of the command in the log.
    revision: u64,
}

impl<S: Store> Step<'_, S> {
    fn command(&mut self, command: &Command) -> Applied<S::Error> {
        match command {
            Command::Claim(it) => self.binding(&it.record, &it.fingerprints, |context, prior| {
                decide::claim(context, prior, it)
            }),
            Command::Reserve(it) => self.binding(&it.record, &it.fingerprints, |context, prior| {
                decide::reserve(context, prior, it)
            }),
            Command::Renew(it) => {
                self.record(&it.holder.record, |context, prior| decide::renew(context, prior, it))
            }
            Command::RecordEffect(it) => self.record(&it.holder.record, |context, prior| {
                decide::record_effect(context, prior, it)
            }),
            Command::Complete(it) => self
                .record(&it.holder.record, |context, prior| decide::complete(context, prior, it)),
            Command::Release(it) => {
                self.record(&it.holder.record, |context, prior| decide::release(context, prior, it))
            }
            Command::SettleEffect(it) => {
                self.record(&it.record, |context, prior| decide::settle_effect(context, prior, it))
            }
            Command::Resolve(it) => {
                self.record(&it.record, |context, prior| decide::resolve(context, prior, it))
            }
            Command::Revoke(it) => {
                self.record(&it.record, |context, prior| decide::revoke(context, prior, it))
            }
            Command::Purge(it) => {
                let purge = |context: &mut Context<'_>, prior: Option<&Record>| {
                    decide::purge(context, prior, it)
                };
                let decided = self.record(&it.record, purge)?;
                if decided.is_ok() {
                    self.purge_history(&it.record)?;
                }
                Ok(decided)
            }
            Command::ExtendExisting(it) => {
                decide::extend_existing(self.store, self.cluster, it, self.revision)
            }
            Command::PutTenant(it) => decide::put_tenant(self.store, self.cluster, it),
            Command::PutNamespace(it) => decide::put_namespace(self.store, self.cluster, it),
            Command::DeleteTenant(it) => {
                decide::delete_tenant(self.store, self.cluster, self.stamp, it)
            }
            Command::DeleteNamespace(it) => {
                let deleted = decide::delete_namespace(self.store, self.cluster, self.stamp, it)?;
                if planted::is(Planted::EpochRestarts) && deleted.is_ok() {
                    self.cluster.epoch_counter = 0;
                }
                Ok(deleted)
            }
            Command::Sweep(it) => decide::sweep(self.store, self.cluster, *it).map(Ok),
            Command::Tick => Ok(Ok(Answer::Ticked)),
            Command::Report(it) => decide::report(self.store, self.cluster, it),
        }
    }

    /// A command about one record.
    fn record(
        &mut self,
        record: &RecordRef,
        decide: impl FnOnce(&mut Context<'_>, Option<&Record>) -> Decision,
    ) -> Applied<S::Error> {
        self.on_record(record, None, decide)
    }

    /// A command that may bind a key to a request.
    fn binding(
        &mut self,
        record: &RecordRef,
        fingerprints: &FingerprintSet,
        decide: impl FnOnce(&mut Context<'_>, Option<&Record>) -> Decision,
    ) -> Applied<S::Error> {
        self.on_record(record, Some(fingerprints), decide)
    }

    /// Drops what callers said about attempts that were not granted.
    fn purge_history(&mut self, record: &RecordRef) -> Result<(), S::Error> {
        let slot = self.store.namespace(&record.tenant, &record.namespace)?;
        let Some(Slot::Live(namespace)) = slot else { return Ok(()) };
        let id = RecordId { namespace: namespace.id, key: record.key.clone() };
        if let Some(mut history) = self.store.history(&id)? {
            history.purge();
            self.store.put_history(&id, history)?;
        }
        Ok(())
    }

    /// Loads what a record command needs, lets it decide, and writes what it changed.
    fn on_record(
        &mut self,
        record: &RecordRef,
        binds: Option<&FingerprintSet>,
        decide: impl FnOnce(&mut Context<'_>, Option<&Record>) -> Decision,
    ) -> Applied<S::Error> {
        let Some(Slot::Live(tenant)) = self.store.tenant(&record.tenant)? else {
            return Ok(Err(Refusal::TenantNotFound));
        };
        let slot = self.store.namespace(&record.tenant, &record.namespace)?;
        let Some(Slot::Live(namespace)) = slot else {
            return Ok(Err(Refusal::NamespaceNotFound));
        };
        let id = RecordId { namespace: namespace.id, key: record.key.clone() };
        let policy = namespace.effective(&tenant);
        let mut prior = self.store.record(&id)?;
        if let Some(prior) = &mut prior {
            thaw(prior, &policy);
        }
        // A forgotten record counts as absent, whether or not it has been swept.
        let logical = prior.as_ref().and_then(|it| it.logical(&self.cluster.clock));
        let mut similar = Vec::new();
        let mut records = 0;
        if let Some(fingerprints) = binds
            && logical.is_none_or(|logical| logical == Logical::Unbound)
        {
            similar = self.similar(&namespace, &policy, &id, fingerprints)?;
            records = self.records(&id, &policy)?;
        }
        let mut context = Context {
            cluster: self.cluster,
            namespace: &namespace,
            policy: &policy,
            similar: &similar,
            records,
        };
        let decision = decide(&mut context, prior.as_ref().filter(|_| logical.is_some()));
        if let Some(mut record) = decision.record {
            record.revision = self.revision;
            if prior.is_some() && logical.is_none() {
                // A new life: nothing of the forgotten one stays with it, swept or not.
                self.store.put_record(&id, None)?;
            }
            self.store.put_record(&id, Some(*record))?;
        }
        Ok(decision.result)
    }

    /// Other keys with one of the fingerprints that began within the policy's window, latest first.
    fn similar(
        &mut self,
        namespace: &Namespace,
        policy: &Policy,
        asking: &RecordId,
        fingerprints: &FingerprintSet,
    ) -> Result<Vec<IdempotencyKey>, S::Error> {
        let mut found = Vec::new();
        if policy.duplicate_intent == DuplicateIntent::Off {
            return Ok(found);
        }
        let since = self.cluster.clock.now().before(policy.duplicate_intent_window);
        for one in fingerprints.all() {
            let intent = Intent { scheme: one.scheme().clone(), digest: one.digest().to_vec() };
            let limit = limits::SIMILAR_SCAN_MAX;
            for id in self.store.similar(namespace.id, &intent, since, limit)? {
                if found.len() >= limits::SIMILAR_KEYS_MAX {
                    return Ok(found);
                }
                if id == *asking || found.contains(&id.key) {
                    continue;
                }
                let record = self.store.record(&id)?;
                if record.is_some_and(|record| record.logical(&self.cluster.clock).is_some()) {
                    found.push(id.key);
                }
            }
        }
        Ok(found)
    }

    /// How many records exist in the namespace, as far as the policy asks.
    fn records(&mut self, asking: &RecordId, policy: &Policy) -> Result<u64, S::Error> {
        if policy.records_max == 0 {
            return Ok(0);
        }
        if self.store.usage(asking.namespace)?.records >= policy.records_max {
            // What is forgotten takes no room, whether or not the sweeper came by.
            decide::make_room(self.store, self.cluster)?;
        }
        Ok(self.store.usage(asking.namespace)?.records)
    }
}
