//! What goes wrong in a run. Each seed switches each family on or off, so that rare companies meet.

use crate::chance::Chance;
use crate::disk::Habits;
use crate::network::Weather;

/// A family of faults that strike now and then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// A process is killed. What it wrote stays.
    Kill,
    /// A machine loses its power.
    Power,
    /// All machines lose their power at once.
    PowerAll,
    /// A process stands still for a while.
    Pause,
    /// The network is cut in two, or a node is cut off, or one direction is, or a bridge stays.
    Cut,
    /// A machine is slow.
    Slow,
    /// Leadership is handed over.
    Transfer,
    /// A snapshot is made and the log purged.
    Purge,
    /// A wall clock jumps by more than clocks may be apart.
    Clock,
    /// A disk refuses writes.
    Disk,
}

const FAMILIES: [(Family, u64); 10] = [
    (Family::Kill, 10),
    (Family::Power, 10),
    (Family::PowerAll, 4),
    (Family::Pause, 8),
    (Family::Cut, 14),
    (Family::Slow, 4),
    (Family::Transfer, 6),
    (Family::Purge, 8),
    (Family::Clock, 4),
    (Family::Disk, 3),
];

/// What may go wrong in a run.
#[derive(Clone, Debug)]
pub struct Swarm {
    /// How many voters there are.
    pub voters: u64,
    /// The round trip that the replicas are told to expect, in milliseconds.
    pub expected_rtt: u64,
    /// The network.
    pub weather: Weather,
    /// The disks.
    pub habits: Habits,
    /// The families that strike, with their weights.
    pub families: Vec<(u64, Family)>,
    /// The time between two of them, on average, in milliseconds.
    pub every: u64,
    /// How far the clocks are apart at the start, in milliseconds.
    pub offset_max: u64,
    /// Entries between two snapshots.
    pub snapshot_every: u64,
    /// Entries that stay before one.
    pub entries_kept: u64,
}

impl Swarm {
    /// The faults of a seed.
    pub fn new(chance: &Chance) -> Self {
        let far = chance.percent(25);
        let (expected_rtt, delay_max) = if far { (80, 40_000) } else { (30, 15_000) };
        let often = |percent, most| if chance.percent(percent) { chance.below(most) } else { 0 };
        let weather = Weather {
            delay_min: chance.between(100, delay_max / 4),
            delay_max: chance.between(delay_max / 4, delay_max),
            loss: often(50, 80),
            twice: often(50, 100),
            reset: often(50, 30),
        };
        let habits = Habits { write_max: chance.between(200, 8_000), stalls: often(40, 20) };
        let mut families = Vec::new();
        for (family, weight) in FAMILIES {
            let rare = matches!(family, Family::Clock | Family::Disk | Family::PowerAll);
            if chance.percent(if rare { 30 } else { 60 }) {
                families.push((weight, family));
            }
        }
        if families.is_empty() {
            families.push((1, Family::Kill));
        }
        Self {
            voters: if chance.percent(30) { 5 } else { 3 },
            expected_rtt,
            weather,
            habits,
            families,
            every: chance.between(400, 3_000),
            offset_max: chance.pick(&[0, 100, 240]),
            snapshot_every: chance.pick(&[20, 20, 60, 200]),
            entries_kept: chance.pick(&[0, 0, 10, 100]),
        }
    }

    /// Whether the clocks stay as close as the contract asks for.
    pub fn clocks_hold(&self) -> bool {
        !self.families.iter().any(|(_, family)| *family == Family::Clock)
    }

    /// The network as it is once nothing goes wrong any more.
    pub fn calm(&self) -> Weather {
        Weather { loss: 0, twice: 0, reset: 0, ..self.weather }
    }
}
