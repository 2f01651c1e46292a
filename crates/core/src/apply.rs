//! The one door through which the replicated log reaches the contract.

use crate::command::Command;
use crate::decide::{self, Context, Decision};
use crate::name::RecordRef;
use crate::outcome::{Answer, Outcome, Refusal};
use crate::store::{RecordId, Store};
use crate::tenant::{Cluster, Slot};
use crate::time::Stamp;

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
    for command in commands {
        let result = apply_one(store, &mut cluster, stamp, command)?;
        outcomes.push(Outcome { store_time, result });
    }
    store.put_cluster(cluster)?;
    Ok(outcomes)
}

fn apply_one<S: Store>(
    store: &mut S,
    cluster: &mut Cluster,
    stamp: Stamp,
    command: &Command,
) -> Result<Result<Answer, Refusal>, S::Error> {
    match command {
        Command::Claim(claim) => on_record(store, cluster, &claim.record, |context, prior| {
            decide::claim(context, prior, claim)
        }),
        Command::Renew(renew) => {
            on_record(store, cluster, &renew.holder.record, |context, prior| {
                decide::renew(context, prior, renew)
            })
        }
        Command::Complete(complete) => {
            on_record(store, cluster, &complete.holder.record, |context, prior| {
                decide::complete(context, prior, complete)
            })
        }
        Command::Release(release) => {
            on_record(store, cluster, &release.holder.record, |context, prior| {
                decide::release(context, prior, release)
            })
        }
        Command::PutTenant(put) => decide::put_tenant(store, cluster, put),
        Command::PutNamespace(put) => decide::put_namespace(store, cluster, put),
        Command::DeleteTenant(delete) => decide::delete_tenant(store, cluster, stamp, delete),
        Command::DeleteNamespace(delete) => decide::delete_namespace(store, cluster, stamp, delete),
        Command::Sweep(sweep) => decide::sweep(store, cluster, *sweep).map(Ok),
        Command::Tick => Ok(Ok(Answer::Ticked)),
    }
}

/// Loads what a record command needs, lets it decide, and writes what it changed.
fn on_record<S: Store>(
    store: &mut S,
    cluster: &mut Cluster,
    record: &RecordRef,
    decide: impl FnOnce(&mut Context<'_>, Option<&crate::Record>) -> Decision,
) -> Result<Result<Answer, Refusal>, S::Error> {
    let Some(Slot::Live(tenant)) = store.tenant(&record.tenant)? else {
        return Ok(Err(Refusal::TenantNotFound));
    };
    let Some(Slot::Live(namespace)) = store.namespace(&record.tenant, &record.namespace)? else {
        return Ok(Err(Refusal::NamespaceNotFound));
    };
    let id = RecordId { namespace: namespace.id, key: record.key.clone() };
    let prior = store.record(&id)?;
    let policy = namespace.effective(&tenant);
    let mut context = Context { cluster, namespace: &namespace, policy: &policy };
    // A forgotten record counts as absent, whether or not it has been swept.
    let known = prior.as_ref().filter(|record| record.logical(&context.cluster.clock).is_some());
    let decision = decide(&mut context, known);
    if let Some(record) = decision.record {
        store.put_record(&id, Some(*record))?;
    }
    Ok(decision.result)
}
