//! One pure decision per command.
//!
//! Nothing here can fail: a command that may not proceed is answered by a
//! [`Refusal`], because a refusal is as much a replicated result as a success, and every replica
//! must reach the same one. Rules of all record commands, in the order in which they are checked:
//!
//! 1. A record past its retention counts as absent, whether or not it has been swept yet.
//! 2. A claim compares the fingerprint before anything else about a record.
//! 3. Only the newest epoch may change a record; an older one is only heard as evidence.

mod claim;
mod complete;
mod delete;
mod put;
mod release;
mod renew;
mod stale;
mod sweep;

pub use claim::{claim, local_replay};
pub use complete::complete;
pub use delete::{delete_namespace, delete_tenant};
pub use put::{put_namespace, put_tenant};
pub use release::release;
pub use renew::renew;
pub use sweep::sweep;

use crate::outcome::{Answer, Refusal};
use crate::policy::Policy;
use crate::record::Record;
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
}
