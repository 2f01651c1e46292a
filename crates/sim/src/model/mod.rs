//! The contract, answered from history.
//!
//! Nothing is worked out ahead of time. Every stamp, grace window, policy, grant, permit and settlement
//! that ever was is kept, and each answer is looked up in them: there is no sweeping, no index, and
//! nothing to forget. Comments name the paragraphs of `docs/semantics.md`.

mod book;
mod claim;
mod clock;
mod complete;
mod delete;
mod findings;
mod first;
mod keep;
mod life;
mod open;
mod permit;
mod put;
mod release;
mod renew;
mod reserve;
mod resolve;
mod settle;

use firstclaim_core::{Command, RecordRef, Stamp, Timestamp};

use crate::observation::{Observation, Refused};
use crate::rows::Row;
use book::{NamespaceLife, TenantLife};
use clock::Clock;
use life::Life;

/// What a command comes to.
type Answered = Result<Observation, Refused>;

/// All that ever happened.
#[derive(Clone, Debug, Default)]
pub struct Model {
    clock: Clock,
    /// Index of the latest entry of the log.
    index: u64,
    /// Every tenant that ever was.
    tenants: Vec<TenantLife>,
    /// Every namespace that ever was.
    namespaces: Vec<NamespaceLife>,
    /// Every life of every key that ever was, oldest first.
    lives: Vec<Life>,
    /// How many epochs were given: one a grant, one a Resolve.
    epochs: u64,
    /// What the next life is called.
    next_life: u64,
    rows: Vec<Row>,
}

impl Model {
    /// Says what a life that begins with the next command is called. The contract does not say how
    /// lives are numbered, only that no number is given twice.
    pub fn name_next_life(&mut self, name: u64) {
        self.next_life = name;
    }

    /// Answers a command.
    pub fn apply(&mut self, stamp: Stamp, command: &Command) -> Observation {
        self.clock.take(stamp);
        self.index = stamp.index;
        self.note_deadlines();
        self.rows.clear();
        let answered = match command {
            Command::Claim(it) => self.claim(it),
            Command::Renew(it) => self.renew(it),
            Command::Complete(it) => self.complete(it),
            Command::Release(it) => self.release(it),
            Command::PutTenant(it) => self.put_tenant(it),
            Command::PutNamespace(it) => self.put_namespace(it),
            Command::DeleteTenant(it) => self.delete_tenant(it),
            Command::DeleteNamespace(it) => self.delete_namespace(it),
            Command::Sweep(_) => Ok(Observation::Swept),
            Command::Tick => Ok(Observation::Ticked),
            Command::RecordEffect(it) => self.record_effect(it),
            Command::SettleEffect(it) => self.settle_effect(it),
            Command::Reserve(it) => self.reserve(it),
            Command::Resolve(it) => self.resolve(it),
            Command::Revoke(it) => self.revoke(it),
            Command::Purge(it) => self.purge(it),
            Command::ExtendExisting(it) => self.extend_existing(it),
            Command::Report(_) => Ok(Observation::Reported),
        };
        answered.unwrap_or_else(Observation::Refused)
    }

    /// Store time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The rows of the contract that the latest command ran into.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn row(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// The namespace of a record, and its present life, if it has one that is not forgotten.
    fn find(&self, record: &RecordRef) -> Result<(usize, Option<usize>), Refused> {
        let namespace = self.find_namespace(&record.tenant, &record.namespace)?;
        let latest = self
            .lives
            .iter()
            .rposition(|life| life.namespace == namespace && life.key == record.key);
        Ok((namespace, latest.filter(|life| self.standing(*life).is_some())))
    }

    /// What the latest deadline ever given to each epoch is: looked at whenever time moves.
    fn note_deadlines(&mut self) {
        for life in &mut self.lives {
            if let Some(deadline) = life.deadline(&self.clock)
                && let Some(grant) = life.grants.last_mut()
            {
                grant.latest_deadline = grant.latest_deadline.max(deadline);
            }
        }
    }
}
