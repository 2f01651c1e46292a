//! Links as packets: what a host sends through its device is lost, held for a while, or delivered to the
//! device of another.
//!
//! Nobody tells the ends what became of a packet: connections, their repeats and their patience are the
//! kernel's own, as between regions.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_tun::Tun;

use super::{Way, Ways};
use crate::hosts;

/// Packets on their way in one direction; more are lost, as at any router.
const PACKETS_MAX: usize = 1024;

type Packet = (Instant, Vec<u8>);

/// Carries packets between devices.
pub(super) fn start(devices: BTreeMap<u64, Tun>, ways: &Ways, carriers: &mut JoinSet<()>) {
    let devices: BTreeMap<u64, Arc<Tun>> =
        devices.into_iter().map(|(id, device)| (id, Arc::new(device))).collect();
    for (from, device) in &devices {
        let mut outs = BTreeMap::new();
        for (to, far) in devices.iter().filter(|(to, _)| *to != from) {
            let (queue, packets) = mpsc::channel(PACKETS_MAX);
            carriers.spawn(deliver(packets, Arc::clone(far)));
            outs.insert(*to, (Arc::clone(&ways[&(*from, *to)]), queue));
        }
        carriers.spawn(collect(Arc::clone(device), outs));
    }
}

/// Takes what a host sends.
async fn collect(device: Arc<Tun>, outs: BTreeMap<u64, (Arc<Way>, mpsc::Sender<Packet>)>) {
    let mut buffer = vec![0; usize::from(u16::MAX)];
    while let Ok(length) = device.recv(&mut buffer).await {
        let packet = &buffer[..length];
        let Some((way, queue)) = hosts::destination(packet).and_then(|to| outs.get(&to)) else {
            continue;
        };
        if !way.loses() {
            // One too many is lost.
            drop(queue.try_send((way.due(), packet.to_vec())));
        }
    }
}

/// Hands out what was sent to a host.
async fn deliver(mut packets: mpsc::Receiver<Packet>, device: Arc<Tun>) {
    while let Some((due, packet)) = packets.recv().await {
        sleep_until(due).await;
        if device.send_all(&packet).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::Duration;

    use super::*;
    use crate::hosts::{Ground, Hosts, address};
    use crate::say;

    const SOON: Duration = Duration::from_millis(200);
    const PORT: u16 = 9;

    /// Whether a datagram arrives, sent by one and waited for by the other.
    fn arrives(from: &UdpSocket, to: &UdpSocket, id: u64) -> bool {
        from.send_to(b"a", (address(id), PORT)).expect("sent");
        to.recv(&mut [0; 8]).is_ok()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn packets_are_lost_in_one_direction_and_delayed_and_come_through_again() {
        let test = "links::packets::tests::\
                    packets_are_lost_in_one_direction_and_delayed_and_come_through_again";
        match hosts::enter(test, Duration::from_secs(60)).await.expect("a network of its own") {
            Ground::Own => {}
            Ground::Passed => return,
            Ground::Impossible(why) => {
                return say(&format!("packets: SKIPPED, nothing was checked: {why}"));
            }
        }
        let hosts = Hosts::new([1, 2].into_iter()).expect("two hosts");
        let links = hosts.wire().expect("devices");
        let [one, two] = [1, 2].map(|id| {
            let bound = hosts.within(id, move || UdpSocket::bind((address(id), PORT)));
            let socket = bound.expect("a host").expect("bound");
            socket.set_read_timeout(Some(SOON)).expect("set");
            socket
        });
        assert!(arrives(&one, &two, 2) && arrives(&two, &one, 1));

        links.cut(1, 2, true);
        assert!(!arrives(&one, &two, 2) && arrives(&two, &one, 1));
        links.heal();
        assert!(arrives(&one, &two, 2), "what was lost hinders nothing");

        links.lose(1, 2, 1000);
        assert!(!arrives(&one, &two, 2));
        links.heal();

        links.delay(1, 2, SOON / 2);
        let sent = Instant::now();
        assert!(arrives(&one, &two, 2) && sent.elapsed() >= SOON / 2, "it was not delayed");
    }
}
