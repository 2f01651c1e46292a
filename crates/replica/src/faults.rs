//! Faults of the network between replicas, for `firstclaim dev` and for tests.
//!
//! A handle is shared by the replicas of one process. Each direction of each pair can be delayed,
//! as by distance, or cut. Without any fault this costs a look at an empty map.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

/// The faults of all directions.
#[derive(Clone, Debug)]
pub struct Faults {
    links: Arc<watch::Sender<Links>>,
}

type Links = BTreeMap<(u64, u64), Link>;

/// A direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Link {
    delay: Duration,
    cut: bool,
}

impl Default for Faults {
    fn default() -> Self {
        Self { links: Arc::new(watch::channel(Links::new()).0) }
    }
}

impl Faults {
    /// No faults.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Delays what the node `from` sends to the node `to`.
    pub fn delay(&self, from: u64, to: u64, delay: Duration) {
        self.change(from, to, |link| link.delay = delay);
    }

    /// Lets nothing through from the node `from` to the node `to`.
    pub fn cut(&self, from: u64, to: u64) {
        self.change(from, to, |link| link.cut = true);
    }

    /// Cuts a node off from the other `members`, in both directions.
    pub fn isolate(&self, node: u64, members: impl IntoIterator<Item = u64>) {
        for other in members.into_iter().filter(|other| *other != node) {
            self.cut(node, other);
            self.cut(other, node);
        }
    }

    /// Takes away all cuts. Delays stay.
    pub fn heal(&self) {
        self.links.send_modify(|links| links.values_mut().for_each(|link| link.cut = false));
    }

    fn change(&self, from: u64, to: u64, change: impl FnOnce(&mut Link)) {
        self.links.send_modify(|links| change(links.entry((from, to)).or_default()));
    }

    pub(crate) fn delay_of(&self, from: u64, to: u64) -> Duration {
        self.links.borrow().get(&(from, to)).map_or(Duration::ZERO, |link| link.delay)
    }

    /// Whether a call between two nodes, or its answer, is lost.
    pub(crate) fn is_cut(&self, one: u64, other: u64) -> bool {
        cut_between(&self.links.borrow(), one, other)
    }

    /// Waits until [`Self::is_cut`].
    pub(crate) async fn until_cut(self, one: u64, other: u64) {
        let mut links = self.links.subscribe();
        let cut = links.wait_for(|links| cut_between(links, one, other)).await;
        // The sender lives as long as `self`, so an error cannot come.
        drop(cut);
    }
}

fn cut_between(links: &Links, one: u64, other: u64) -> bool {
    [(one, other), (other, one)]
        .iter()
        .any(|direction| links.get(direction).is_some_and(|link| link.cut))
}
