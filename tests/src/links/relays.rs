//! Links as relays: each node reaches each other node through a port of its own on loopback.
//!
//! What goes from A to B goes over two relays: A's calls, and A's answers to B's calls. Bytes that are
//! held are delivered later, in order, as TCP does after a cut that was shorter than its patience; a cut
//! that is longer is noticed by the nodes themselves, by silence.

use std::collections::BTreeMap;
use std::net::TcpListener as StdListener;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::{Way, Ways};
use crate::Outcome;

const CHUNK_BYTES: usize = 64 * 1024;
/// Chunks on their way in one direction of one connection; then the sender has to wait.
const CHUNKS_MAX: usize = 256;

/// Starts a relay for each way. Returns the port of each.
pub(super) fn start(
    peers: &BTreeMap<u64, u16>,
    ways: &Ways,
    carriers: &mut JoinSet<()>,
) -> Outcome<BTreeMap<(u64, u64), u16>> {
    let mut ports = BTreeMap::new();
    for ((from, to), there) in ways {
        let listener = StdListener::bind(("127.0.0.1", crate::cluster::free_port()?))?;
        listener.set_nonblocking(true)?;
        ports.insert((*from, *to), listener.local_addr()?.port());
        let back = Arc::clone(&ways[&(*to, *from)]);
        let relay = Relay { to: peers[to], there: Arc::clone(there), back };
        carriers.spawn(relay.run(TcpListener::from_std(listener)?));
    }
    Ok(ports)
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
    use std::time::Duration;

    use super::*;
    use crate::links::Links;
    use tokio::time::timeout;

    const SOON: Duration = Duration::from_millis(200);

    #[tokio::test]
    async fn a_direction_is_held_back_and_delivered_later_and_the_other_is_not() {
        let server = TcpListener::bind("127.0.0.1:0").await.expect("listen");
        let own = server.local_addr().expect("an address").port();
        let links = Links::relayed(&BTreeMap::from([(1, 9), (2, own)])).expect("links");
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
