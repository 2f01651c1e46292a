//! Links between nodes that can be slowed down and cut, in one direction or in both.
//!
//! Each node reaches each other node through a relay of its own on loopback. What goes from A to B
//! goes over two relays: A's calls, and A's answers to B's calls. Bytes that are held are delivered
//! later, in order, as TCP does after a cut that was shorter than its patience; a cut that is longer is
//! noticed by the nodes themselves, by silence.

use std::collections::BTreeMap;
use std::net::TcpListener as StdListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::Outcome;

const CHUNK_BYTES: usize = 64 * 1024;
/// Chunks on their way in one direction of one connection; then the sender has to wait.
const CHUNKS_MAX: usize = 256;

/// One direction between two nodes.
#[derive(Debug)]
struct Way {
    delay_ms: AtomicU64,
    cut: watch::Sender<bool>,
}

impl Default for Way {
    fn default() -> Self {
        Self { delay_ms: AtomicU64::new(0), cut: watch::Sender::new(false) }
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
}

/// All links of a cluster. Dropping it ends the relays.
#[derive(Debug)]
pub struct Links {
    /// By (from, to).
    ways: BTreeMap<(u64, u64), Arc<Way>>,
    /// The port at which a node finds another: by (who looks, whom).
    ports: BTreeMap<(u64, u64), u16>,
    _relays: JoinSet<()>,
}

impl Links {
    /// Starts a relay from each node to each other; `peers` says where the nodes listen, by id.
    ///
    /// # Errors
    ///
    /// When a relay cannot listen.
    pub fn start(peers: &BTreeMap<u64, u16>) -> Outcome<Self> {
        let mut links =
            Self { ways: BTreeMap::new(), ports: BTreeMap::new(), _relays: JoinSet::new() };
        for from in peers.keys() {
            for to in peers.keys().filter(|to| *to != from) {
                links.ways.insert((*from, *to), Arc::new(Way::default()));
            }
        }
        for (from, to) in links.ways.keys() {
            let listener = StdListener::bind(("127.0.0.1", crate::cluster::free_port()?))?;
            listener.set_nonblocking(true)?;
            links.ports.insert((*from, *to), listener.local_addr()?.port());
            let relay = Relay {
                to: peers[to],
                there: Arc::clone(&links.ways[&(*from, *to)]),
                back: Arc::clone(&links.ways[&(*to, *from)]),
            };
            links._relays.spawn(relay.run(TcpListener::from_std(listener)?));
        }
        Ok(links)
    }

    /// The port at which node `from` finds node `to`.
    #[must_use]
    pub fn port(&self, from: u64, to: u64) -> Option<u16> {
        self.ports.get(&(from, to)).copied()
    }

    /// Holds back, or lets pass, what goes from one node to another.
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

    /// Every direction: (from, to).
    pub fn all(&self) -> impl Iterator<Item = (u64, u64)> {
        self.ways.keys().copied()
    }

    /// Lets everything pass at once.
    pub fn heal(&self) {
        for (from, to) in self.all() {
            self.delay(from, to, Duration::ZERO);
            self.cut(from, to, false);
        }
    }
}

/// What one node sends to another, and what that answers.
struct Relay {
    to: u16,
    there: Arc<Way>,
    back: Arc<Way>,
}

impl Relay {
    async fn run(self, listener: TcpListener) {
        // Dropped with the relay: no connection outlives it.
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            let Ok((near, _)) = listener.accept().await else { return };
            let (there, back, to) = (Arc::clone(&self.there), Arc::clone(&self.back), self.to);
            connections.spawn(async move {
                // A node that is down refuses: so does the relay, by closing.
                let Ok(far) = TcpStream::connect(("127.0.0.1", to)).await else { return };
                if near.set_nodelay(true).is_err() || far.set_nodelay(true).is_err() {
                    return;
                }
                let (near_in, near_out) = near.into_split();
                let (far_in, far_out) = far.into_split();
                // Either direction that ends, ends both: a half-open connection helps nobody here.
                tokio::select! {
                    () = pass(near_in, far_out, there) => {}
                    () = pass(far_in, near_out, back) => {}
                }
            });
        }
    }
}

/// Passes bytes on until one end closes.
async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, way: Arc<Way>) {
    let (queue, mut chunks) = mpsc::channel::<(Instant, Vec<u8>)>(CHUNKS_MAX);
    let read = async {
        let mut buffer = vec![0; CHUNK_BYTES];
        while let Ok(length) = from.read(&mut buffer).await {
            let chunk = (way.due(), buffer[..length].to_vec());
            if length == 0 || queue.send(chunk).await.is_err() {
                return;
            }
        }
    };
    let write = async {
        while let Some((due, chunk)) = chunks.recv().await {
            sleep_until(due).await;
            way.passable().await;
            if to.write_all(&chunk).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = read => {}
        () = write => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::timeout;

    const SOON: Duration = Duration::from_millis(200);

    #[tokio::test]
    async fn a_direction_is_held_back_and_delivered_later_and_the_other_is_not() {
        let server = TcpListener::bind("127.0.0.1:0").await.expect("listen");
        let own = server.local_addr().expect("an address").port();
        let links = Links::start(&BTreeMap::from([(1, 9), (2, own)])).expect("links");
        let port = links.port(1, 2).expect("a port");
        let mut one = TcpStream::connect(("127.0.0.1", port)).await.expect("connect");
        let (mut two, _) = server.accept().await.expect("accept");
        let mut byte = [0];

        links.cut(1, 2, true);
        one.write_all(b"a").await.expect("written");
        assert!(timeout(SOON, two.read_exact(&mut byte)).await.is_err(), "it was not held back");
        two.write_all(b"b").await.expect("written");
        timeout(SOON * 10, one.read_exact(&mut byte)).await.expect("in time").expect("read");
        assert_eq!(&byte, b"b");

        links.delay(2, 1, SOON);
        let begun = Instant::now();
        links.heal();
        timeout(SOON * 10, two.read_exact(&mut byte)).await.expect("in time").expect("read");
        assert_eq!(&byte, b"a");

        links.delay(2, 1, SOON);
        two.write_all(b"c").await.expect("written");
        timeout(SOON * 10, one.read_exact(&mut byte)).await.expect("in time").expect("read");
        assert!(begun.elapsed() >= SOON, "it was not delayed");
    }
}
