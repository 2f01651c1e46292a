//! The disks of a cluster's nodes: each node's data is on one that can forget, fill up and fail.

use rand::rngs::StdRng;

use crate::Outcome;
use crate::cluster::Cluster;
use crate::forgetful::{Counts, Disk, Mood, Mounted};

/// One disk for each node.
#[derive(Debug, Default)]
pub struct Disks {
    disks: Vec<Disk>,
    mounted: Vec<Option<Mounted>>,
}

impl Disks {
    /// Gives every node of a cluster that was not started yet a new disk.
    ///
    /// # Errors
    ///
    /// When this machine does not let it.
    pub fn give(cluster: &Cluster) -> Outcome<Self> {
        let mut disks = Self::default();
        for node in cluster.nodes() {
            let disk = Disk::default();
            disks.mounted.push(Some(Mounted::new(&disk, &node.data)?));
            disks.disks.push(disk);
        }
        Ok(disks)
    }

    /// Changes how a node's disk behaves.
    pub fn set_mood(&self, at: usize, mood: Mood) {
        self.disks[at].set_mood(mood);
    }

    /// Ends the processes of nodes and cuts the power of their disks, all before the first is on again. What
    /// was not synced is kept by chance, or not at all without.
    ///
    /// # Errors
    ///
    /// When a disk cannot be taken away or shown again.
    pub fn cut_power(
        &mut self,
        cluster: &mut Cluster,
        nodes: &[usize],
        mut chance: Option<&mut StdRng>,
    ) -> Outcome<()> {
        for at in nodes {
            if let Some(process) = cluster.node_mut(*at).process() {
                process.send_kill();
            }
        }
        for at in nodes {
            cluster.node_mut(*at).kill();
            if let Some(mounted) = self.mounted[*at].take() {
                mounted.take_away()?;
            }
            match &mut chance {
                Some(chance) => self.disks[*at].cut_power(chance),
                None => self.disks[*at].forget_all(),
            }
            self.mounted[*at] = Some(Mounted::new(&self.disks[*at], &cluster.node(*at).data)?);
        }
        Ok(())
    }

    /// What was done to all of them.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        for Counts { writes, syncs, forgotten, refused } in self.disks.iter().map(Disk::counts) {
            sum.writes += writes;
            sum.syncs += syncs;
            sum.forgotten += forgotten;
            sum.refused += refused;
        }
        sum
    }
}
