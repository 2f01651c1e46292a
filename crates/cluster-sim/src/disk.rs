//! The disks of the machines: how slow they are, what a power cut takes, and when they refuse.

use std::io;
use std::time::Duration;

use firstclaim_replica::MemoryDisk;

use crate::chance::Chance;
use crate::reach::{Mark, Reached};

/// How disks are in one run.
#[derive(Clone, Copy, Debug)]
pub struct Habits {
    /// The longest that a synced write takes, in microseconds.
    pub write_max: u64,
    /// Writes in a thousand that take a hundred times as long.
    pub stalls: u64,
}

impl Habits {
    /// How long a write takes until it is on disk, and until it is told of.
    pub fn write_takes(&self, chance: &Chance) -> (Duration, Duration) {
        let often = if chance.in_thousand(self.stalls) { 100 } else { 1 };
        let micros = often * chance.between(50, self.write_max.max(50));
        let before = chance.between(0, micros);
        (Duration::from_micros(before), Duration::from_micros(micros - before))
    }
}

/// What the end of a process leaves of a disk: all of the log, and of the state what was synced and as much
/// of the rest as chance lets. If its power goes as well, the log is left like the state.
pub fn after_end(disk: &MemoryDisk, dark: bool, chance: &Chance, reached: &Reached) -> MemoryDisk {
    let keep = |unsynced| {
        let unsynced = u64::try_from(unsynced).unwrap_or(u64::MAX);
        let kept = match chance.below(4) {
            0 => unsynced,
            1 => 0,
            _ => chance.between(0, unsynced),
        };
        if kept < unsynced {
            reached.mark(if kept > 0 { Mark::UnsyncedKept } else { Mark::UnsyncedLost });
        }
        usize::try_from(kept).unwrap_or(usize::MAX)
    };
    if dark { disk.after_power_cut_keeping(keep) } else { disk.after_kill_keeping(keep) }
}

/// Lets a disk fail, or be full, after a few more writes.
pub fn trouble(disk: &MemoryDisk, chance: &Chance, reached: &Reached) {
    let full = chance.percent(50);
    let kind = if full { io::ErrorKind::StorageFull } else { io::ErrorKind::Other };
    reached.mark(if full { Mark::DiskFull } else { Mark::DiskError });
    disk.refuse(chance.percent(70), chance.below(20), kind);
}
