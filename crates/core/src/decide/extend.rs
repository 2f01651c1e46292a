//! ExtendExisting: lets existing records profit from a longer retention, page by page.

use crate::command::ExtendExisting;
use crate::limits;
use crate::outcome::{Answer, Extended, Refusal};
use crate::policy::Policy;
use crate::record::{Completion, Record, State};
use crate::store::Store;
use crate::tenant::{Cluster, Slot};
use crate::time::Expiry;

/// Decides an extension. Semantics §4: nothing lengthens a record silently; this does so loudly.
///
/// # Errors
///
/// The store's.
pub fn extend_existing<S: Store>(
    store: &mut S,
    cluster: &Cluster,
    command: &ExtendExisting,
    revision: u64,
) -> Result<Result<Answer, Refusal>, S::Error> {
    let Some(Slot::Live(tenant)) = store.tenant(&command.tenant)? else {
        return Ok(Err(Refusal::TenantNotFound));
    };
    let Some(Slot::Live(namespace)) = store.namespace(&command.tenant, &command.namespace)? else {
        return Ok(Err(Refusal::NamespaceNotFound));
    };
    let policy = namespace.effective(&tenant);
    let limit = command.limit.clamp(1, limits::SWEEP_RECORDS_MAX);
    let mut extended = Extended { seen: 0, extended: 0, next: command.after.clone() };
    for _ in 0..limits::EXTEND_PAGES_MAX {
        let wanted = (limit - extended.seen) as usize;
        let page = store.records(namespace.id, extended.next.as_ref(), wanted)?;
        for id in &page {
            let Some(mut record) = store.record(id)? else { continue };
            if record.logical(&cluster.clock).is_none() {
                // It is forgotten, and takes no place in the page, whether or not the sweeper came by.
                store.put_record(id, None)?;
                continue;
            }
            extended.seen += 1;
            if extend(&mut record, &policy, cluster) {
                record.revision = revision;
                store.put_record(id, Some(record))?;
                extended.extended += 1;
            }
        }
        if page.len() < wanted {
            extended.next = None;
            break;
        }
        extended.next = page.last().map(|id| id.key.clone());
        if extended.seen == limit {
            break;
        }
    }
    Ok(Ok(Answer::Extended(extended)))
}

/// Returns whether the record is kept longer now.
fn extend(record: &mut Record, policy: &Policy, cluster: &Cluster) -> bool {
    let start = record.last_write_time;
    let identity = policy.identity_retention.from(start);
    let expire = match &mut record.state {
        State::Reserved { identity_expire_time }
        | State::Retryable { identity_expire_time, .. }
        | State::Unbound { identity_expire_time, .. } => identity_expire_time,
        State::Completed(completion) => return extend_completion(completion, policy, cluster),
        // A claim that is out freezes the policy at its end; what is open is kept anyway.
        State::Claimed | State::Unresolved { .. } => return false,
    };
    let longer = identity > *expire;
    *expire = identity.max(*expire);
    longer
}

fn extend_completion(completion: &mut Completion, policy: &Policy, cluster: &Cluster) -> bool {
    let start = completion.completed_time;
    let identity = policy.identity_retention.from(start).max(completion.identity_expire_time);
    let kept = !completion.result_expire_time.has_come(cluster.clock.now());
    let wanted = Expiry::At(start.after(policy.result_retention)).min(identity);
    // Bytes that are gone do not come back.
    let result = if kept {
        wanted.max(completion.result_expire_time)
    } else {
        completion.result_expire_time
    };
    let before = (completion.identity_expire_time, completion.result_expire_time);
    (completion.identity_expire_time, completion.result_expire_time) = (identity, result);
    before != (identity, result)
}
