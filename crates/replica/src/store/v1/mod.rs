//! The shapes of data format 1, and what they are today.
//!
//! They are only ever read: rows when a folder is migrated or, of tenants and namespaces, when they are
//! met, log entries when they are met. A shape
//! here never changes again. The parts that have not changed since are today's own types; the frozen
//! bytes in `tests/formats/v1` tell when one does, and then its old shape moves here, too.

mod command;
mod record;
mod slot;

use firstclaim_core::tenant::Cluster as PresentCluster;
use firstclaim_core::time::GraceWindow;
use firstclaim_core::{Millis, StoreClock, Tenant, Timestamp};
use serde::{Deserialize, Serialize};

pub(crate) use command::Command;
pub(crate) use record::Record;
pub(crate) use slot::{Namespace, Slot};

use crate::store::codec::Stored;

impl Stored for Cluster {
    const FORMAT: u8 = 1;
}

impl Stored for Record {
    const FORMAT: u8 = 1;
}

impl Stored for Slot<Tenant> {
    const FORMAT: u8 = 1;
}

impl Stored for Slot<Namespace> {
    const FORMAT: u8 = 1;
}

/// What all replicas know about the cluster itself.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cluster {
    clock: Clock,
    generation: u64,
    epoch_counter: u64,
    last_id: u64,
}

/// The cluster's clock. It forgot its closed windows.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Clock {
    now: Timestamp,
    term: Option<u64>,
    windows: Vec<GraceWindow>,
    spent: Millis,
}

impl From<Cluster> for PresentCluster {
    /// What a closed window gave is not known any more, so a lease from before counts as if it had
    /// been given all.
    fn from(cluster: Cluster) -> Self {
        let Clock { now, term, windows, spent } = cluster.clock;
        Self {
            clock: StoreClock::with_unknown_past(now, term, windows, spent),
            generation: cluster.generation,
            epoch_counter: cluster.epoch_counter,
            last_id: cluster.last_id,
        }
    }
}

#[cfg(test)]
mod tests {
    use firstclaim_core::{Stamp, limits};
    use rand::rngs::StdRng;
    use rand::{Rng as _, SeedableRng as _};

    use super::*;

    impl Clock {
        /// How the clock of format 1 took in the stamp of an entry.
        fn advance(&mut self, stamp: Stamp) {
            let previous = self.now;
            self.now = previous.max(stamp.time);
            if !self.windows.iter().any(|window| previous < window.until) {
                self.windows.clear();
                self.spent = Millis(0);
            }
            let gap = self.now.since(previous);
            let interrupted =
                self.term.is_some_and(|term| term != stamp.term || gap > limits::STALL_MIN);
            self.term = Some(stamp.term);
            let given = gap.min(Millis(limits::GRACE_MAX.0.saturating_sub(self.spent.0)));
            if interrupted && given > Millis(0) {
                let until = self.now.after(given);
                self.windows.push(GraceWindow { gap_start: previous, until });
                self.spent = self.spent.plus(given);
            }
        }
    }

    /// So replicas whose states had come to different ticks have the same state again.
    #[test]
    fn a_tick_may_come_before_or_after_the_migration() {
        let mut random = StdRng::seed_from_u64(7);
        let start = Clock { now: Timestamp(0), term: None, windows: Vec::new(), spent: Millis(0) };
        let cluster = |clock| Cluster { clock, generation: 1, epoch_counter: 2, last_id: 3 };
        let mut before = cluster(start);
        let mut windows = 0;
        for index in 0..500 {
            let bytes = crate::store::codec::encode_value(&before).unwrap();
            let twin: Cluster = crate::store::codec::decode_value(&bytes).unwrap();
            let mut migrated = PresentCluster::from(twin);
            let time = Timestamp(before.clock.now.0 + random.random_range(0..9_000));
            let stamp = Stamp { term: 1 + index / 10, index, time };
            before.clock.advance(stamp);
            migrated.clock.advance(stamp);
            migrated.clock.forget_past();
            windows += before.clock.windows.len();
            let bytes = crate::store::codec::encode_value(&before).unwrap();
            let twin: Cluster = crate::store::codec::decode_value(&bytes).unwrap();
            assert_eq!(migrated, PresentCluster::from(twin), "after {stamp:?}");
        }
        assert!(windows > 50, "hardly any window opened");
    }
}
