//! How each family of faults strikes.

use std::time::Duration;

use tokio::time::sleep;

use super::Cluster;
use crate::disk;
use crate::faults::Family;
use crate::reach::Mark;

impl Cluster {
    /// One fault of a family strikes.
    pub async fn strike(&self, family: Family) {
        *self.told_mut().faults.entry(family).or_default() += 1;
        let chance = &self.shared.chance;
        let node = chance.pick(&self.ids());
        let leader = self.leaders().first().copied();
        // Leaders have the most to lose.
        let node = leader.filter(|_| chance.percent(40)).unwrap_or(node);
        match family {
            Family::Kill => {
                self.shared.reached.mark(Mark::Killed);
                self.stop(node, false).await;
                self.come_back(node);
            }
            Family::Power => {
                self.shared.reached.mark(Mark::PowerCut);
                self.stop(node, true).await;
                self.come_back(node);
            }
            Family::PowerAll => {
                self.shared.reached.mark(Mark::PowerCutOfAll);
                for id in self.ids() {
                    self.stop(id, true).await;
                }
                for id in self.ids() {
                    self.come_back(id);
                }
            }
            Family::Pause if chance.percent(15) => {
                self.shared.reached.mark(Mark::MajorityPaused);
                // Longer than a proposal waits for its outcome, now and then.
                let pause = Duration::from_millis(chance.between(1_000, 14_000));
                let many = self.ids().into_iter().filter(|id| *id != node);
                many.for_each(|id| self.pause(id, pause));
            }
            Family::Pause => {
                let most = chance.weighted(&[(2, 300), (2, 1_500), (1, 6_000)]);
                self.pause(node, Duration::from_millis(chance.between(20, most)));
            }
            Family::Cut => self.cut(node),
            Family::Slow => {
                self.shared.reached.mark(Mark::SlowNode);
                self.shared.network.slow(node, chance.between(1_000, 60_000));
                let cluster = self.clone();
                tokio::spawn(async move {
                    sleep(Duration::from_millis(3_000)).await;
                    cluster.shared.network.slow(node, 0);
                });
            }
            Family::Transfer => self.transfer(leader, node),
            // Who leads next has purged, too: then who is away now needs a snapshot.
            Family::Purge => self.ids().into_iter().for_each(|id| self.purge(id)),
            Family::Clock => {
                let ahead = chance.between(0, 20_000).cast_signed() - 10_000;
                let mark = if ahead < 0 { Mark::ClockSetBack } else { Mark::ClockJumped };
                self.shared.reached.mark(mark);
                if let Some(machine) = self.nodes().get(&node) {
                    machine.clock.set(ahead);
                }
            }
            Family::Disk => {
                if let Some(machine) =
                    self.nodes().get_mut(&node).filter(|machine| machine.running.is_some())
                {
                    machine.troubled = true;
                    disk::trouble(&machine.disk, chance, &self.shared.reached);
                }
            }
        }
    }

    fn pause(&self, node: u64, pause: Duration) {
        let Some((process, _)) = self.running(node) else { return };
        self.shared.trace.tell(|| format!("pause {node}"));
        self.shared.reached.mark(Mark::Paused);
        process.pause();
        tokio::spawn(async move {
            sleep(pause).await;
            process.resume();
        });
    }

    fn cut(&self, node: u64) {
        let chance = &self.shared.chance;
        let ids = self.ids();
        let both = |one: u64, other: u64| [(one, other), (other, one)];
        let others = ids.iter().copied().filter(|id| *id != node);
        let (mark, cuts): (_, Vec<(u64, u64)>) = match chance.below(5) {
            0 => (Mark::Partition, others.flat_map(|id| both(node, id)).collect()),
            1 => (Mark::OneWayCut, others.map(|id| (node, id)).collect()),
            2 => (Mark::OneWayCut, others.map(|id| (id, node)).collect()),
            3 => {
                // The sides of a bridge hear nothing of each other; the bridge hears both.
                let side = |id: &u64| (*id).is_multiple_of(2);
                let (left, right): (Vec<u64>, Vec<u64>) = others.partition(side);
                let across = |one: u64| right.iter().flat_map(move |other| both(one, *other));
                (Mark::Bridge, left.into_iter().flat_map(across).collect())
            }
            _ => {
                let other = chance.pick(&others.collect::<Vec<_>>());
                (Mark::OneWayCut, vec![(node, other)])
            }
        };
        self.shared.reached.mark(mark);
        self.shared.trace.tell(|| format!("cut {cuts:?}"));
        self.shared.network.cut(&cuts);
        let most = chance.weighted(&[(2, 500), (3, 3_000), (2, 10_000), (1, 16_000)]);
        let cluster = self.clone();
        let lasts = Duration::from_millis(chance.between(50, most));
        tokio::spawn(async move {
            sleep(lasts).await;
            cluster.shared.trace.tell(|| format!("mend {cuts:?}"));
            cluster.shared.network.mend(&cuts);
        });
    }

    fn transfer(&self, leader: Option<u64>, to: u64) {
        let Some((process, replica)) = leader.and_then(|leader| self.running(leader)) else {
            return;
        };
        self.shared.reached.mark(Mark::Transfer);
        self.shared.trace.tell(|| format!("transfer to {to}"));
        drop(process.run(async move { replica.transfer_leader(to).await }));
    }

    fn purge(&self, node: u64) {
        let Some((process, replica)) = self.running(node) else { return };
        drop(process.run(async move {
            if replica.snapshot().await.is_ok() {
                let upto = replica.status().snapshot_index.unwrap_or_default();
                drop(replica.purge_log(upto).await);
            }
        }));
    }
}
