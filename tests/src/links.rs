//! Links between nodes that can be slowed down and cut, in one direction or in both.
//!
//! They are carried by `relays` on loopback, which hold streams back, or as `packets` between hosts in
//! network namespaces, where what is cut is lost and TCP has to find out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_tun::Tun;

use crate::Outcome;

mod packets;
mod relays;

/// One direction between two nodes.
#[derive(Debug)]
struct Way {
    delay_ms: AtomicU64,
    cut: watch::Sender<bool>,
    /// Packets in a thousand that are lost.
    loss: AtomicU64,
}

impl Default for Way {
    fn default() -> Self {
        Self {
            delay_ms: AtomicU64::new(0),
            cut: watch::Sender::new(false),
            loss: AtomicU64::new(0),
        }
    }
}

impl Way {
    fn due(&self) -> Instant {
        Instant::now() + Duration::from_millis(self.delay_ms.load(Ordering::Relaxed))
    }

    async fn passable(&self) {
        // The sender lives as long as the way.
        drop(self.cut.subscribe().wait_for(|cut| !cut).await);
    }

    fn loses(&self) -> bool {
        let loss = self.loss.load(Ordering::Relaxed);
        *self.cut.borrow() || (loss > 0 && rand::random_range(0..1000) < loss)
    }
}

type Ways = BTreeMap<(u64, u64), Arc<Way>>;

/// A way from each to each other.
fn ways<T>(nodes: &BTreeMap<u64, T>) -> Ways {
    let pairs = nodes.keys().flat_map(|from| nodes.keys().map(move |to| (*from, *to)));
    pairs.filter(|(from, to)| from != to).map(|pair| (pair, Arc::default())).collect()
}

/// All links of a cluster. Dropping it ends what carries them.
#[derive(Debug)]
pub struct Links {
    /// By (from, to).
    ways: Ways,
    /// The port of the relay at which a node finds another: by (who looks, whom).
    ports: BTreeMap<(u64, u64), u16>,
    loses_packets: bool,
    _carriers: JoinSet<()>,
}

impl Links {
    /// Starts a relay from each node to each other; `peers` says where the nodes listen, by id.
    ///
    /// # Errors
    ///
    /// When a relay cannot listen.
    pub fn relayed(peers: &BTreeMap<u64, u16>) -> Outcome<Self> {
        let ways = ways(peers);
        let mut carriers = JoinSet::new();
        let ports = relays::start(peers, &ways, &mut carriers)?;
        Ok(Self { ways, ports, loses_packets: false, _carriers: carriers })
    }

    /// Carries packets between devices, by id. Their addresses are those of [`crate::hosts::address`].
    #[must_use]
    pub fn wired(devices: BTreeMap<u64, Tun>) -> Self {
        let ways = ways(&devices);
        let mut carriers = JoinSet::new();
        packets::start(devices, &ways, &mut carriers);
        Self { ways, ports: BTreeMap::new(), loses_packets: true, _carriers: carriers }
    }

    /// The port at which node `from` finds node `to`, if there is a relay.
    #[must_use]
    pub fn port(&self, from: u64, to: u64) -> Option<u16> {
        self.ports.get(&(from, to)).copied()
    }

    /// Whether what is cut is lost, and [`Links::lose`] does anything. Relays hold back what is cut.
    #[must_use]
    pub fn loses_packets(&self) -> bool {
        self.loses_packets
    }

    /// Cuts what goes from one node to another, or lets it pass.
    pub fn cut(&self, from: u64, to: u64, cut: bool) {
        if let Some(way) = self.ways.get(&(from, to)) {
            way.cut.send_replace(cut);
        }
    }

    /// Delays what goes from one node to another.
    pub fn delay(&self, from: u64, to: u64, delay: Duration) {
        if let Some(way) = self.ways.get(&(from, to)) {
            let ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
            way.delay_ms.store(ms, Ordering::Relaxed);
        }
    }

    /// Loses so many of a thousand packets that go from one node to another.
    pub fn lose(&self, from: u64, to: u64, of_thousand: u64) {
        if let Some(way) = self.ways.get(&(from, to)) {
            way.loss.store(of_thousand, Ordering::Relaxed);
        }
    }

    /// Every direction: (from, to).
    pub fn all(&self) -> impl Iterator<Item = (u64, u64)> {
        self.ways.keys().copied()
    }

    /// Every direction from a node or to it.
    pub fn around(&self, id: u64) -> impl Iterator<Item = (u64, u64)> {
        self.all().filter(move |(from, to)| *from == id || *to == id)
    }

    /// Lets everything pass at once.
    pub fn heal(&self) {
        for (from, to) in self.all() {
            self.delay(from, to, Duration::ZERO);
            self.lose(from, to, 0);
            self.cut(from, to, false);
        }
    }
}
