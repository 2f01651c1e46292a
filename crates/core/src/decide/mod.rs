//! One pure decision per command.
//!
//! Nothing here can fail: a command that may not proceed is answered by a
//! [`Refusal`], because a refusal is as much a replicated result as a success, and every replica
//! must reach the same one. Rules of all record commands, in the order in which they are checked:
//!
//! 1. A record past its retention counts as absent, whether or not it has been swept yet.
//! 2. A claim compares the fingerprint before anything else about a record.
//! 3. Only the newest epoch may change a record; an older one is only heard as evidence.

mod absent;
mod claim;
mod complete;
mod delete;
mod explain;
mod extend;
mod purge;
mod put;
mod record_effect;
mod release;
mod renew;
mod report;
mod reserve;
mod resolve;
mod revoke;
mod settle;
mod stale;
mod sweep;

pub use claim::{claim, local_replay};
pub use complete::complete;
pub use delete::{delete_namespace, delete_tenant};
pub use explain::{Rule, explain};
pub use extend::extend_existing;
pub use purge::purge;
pub use put::{put_namespace, put_tenant};
pub use record_effect::record_effect;
pub use release::release;
pub use renew::renew;
pub use report::report;
pub use reserve::reserve;
pub use resolve::resolve;
pub use revoke::revoke;
pub use settle::settle_effect;
pub(crate) use sweep::make_room;
pub use sweep::sweep;

use crate::name::IdempotencyKey;
use crate::outcome::{Answer, Inherited, Refusal};
use crate::policy::Policy;
use crate::record::{Logical, Mode, Record};
use crate::tenant::{Cluster, Namespace};
use crate::time::Timestamp;

/// What a record command is decided against, besides the record.
#[derive(Debug)]
pub struct Context<'a> {
    /// Clock and counters.
    pub cluster: &'a mut Cluster,
    /// The namespace.
    pub namespace: &'a Namespace,
    /// The policy that holds there.
    pub policy: &'a Policy,
    /// Other keys with the same fingerprint; looked up only for a key that is to be bound.
    pub similar: &'a [IdempotencyKey],
    /// Records of the namespace.
    pub records: u64,
}

impl Context<'_> {
    /// Store time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.cluster.clock.now()
    }
}

/// What a record command decided.
#[derive(Debug)]
pub struct Decision {
    /// The record as it is from now on; none if it stays as it was.
    pub record: Option<Box<Record>>,
    /// The answer.
    pub result: Result<Answer, Refusal>,
}

impl Decision {
    fn answer(answer: Answer) -> Self {
        Self { record: None, result: Ok(answer) }
    }

    fn refuse(refusal: Refusal) -> Self {
        Self { record: None, result: Err(refusal) }
    }

    fn change(record: Record, answer: Answer) -> Self {
        Self { record: Some(Box::new(record)), result: Ok(answer) }
    }

    /// Keeps `next` if it says anything new.
    fn kept(
        context: &Context<'_>,
        before: &Record,
        mut next: Record,
        result: Result<Answer, Refusal>,
    ) -> Self {
        if next == *before {
            return Self { record: None, result };
        }
        next.last_write_time = context.now();
        Self { record: Some(Box::new(next)), result }
    }
}

/// What the holder of a live EXECUTE claim has to know of the grants before its own, if there were any
/// that left something behind.
fn inherited(context: &Context<'_>, record: &Record) -> Option<Inherited> {
    let clock = &context.cluster.clock;
    let grant = record.grant.as_ref().filter(|grant| grant.mode == Mode::Execute)?;
    let live = record.logical(clock) == Some(Logical::Live);
    let journal = record.journal(clock);
    let earlier = journal.works.iter().any(|work| work.epoch != grant.epoch)
        || journal
            .effects
            .iter()
            .any(|effect| effect.permits.iter().any(|permit| permit.epoch != grant.epoch));
    (live && earlier).then_some(Inherited {
        life: record.life,
        on_lapse: record.frozen.on_lapse,
        journal,
    })
}

/// A live RESUME or RECONCILE claim with nothing open rises to EXECUTE, unless the cap is reached.
fn rise(context: &Context<'_>, record: &mut Record) {
    let max = context.policy.max_attempts;
    let exhausted = max > 0 && record.execute_grants >= max;
    let Some(grant) = record.grant.as_mut().filter(|it| it.mode != Mode::Execute && !exhausted)
    else {
        return;
    };
    grant.mode = Mode::Execute;
    let epoch = grant.epoch;
    record.execute_grants = record.execute_grants.saturating_add(1);
    let known = record.attempts.iter_mut().rev().find(|known| known.epoch == epoch);
    if let Some(known) = known {
        known.mode = Mode::Execute;
    }
}
