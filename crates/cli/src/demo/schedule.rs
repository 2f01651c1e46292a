//! What the demo will deliver, and when: drawn from the seed before anything runs.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Fewest and most deliveries of one intent.
const COPIES: std::ops::RangeInclusive<u32> = 2..=4;
/// How far apart the deliveries of one intent may be: near enough to race each other.
const SPREAD: Duration = Duration::from_millis(400);

/// A payout that somebody wants once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Intent {
    /// Its name, the same in every delivery.
    pub(crate) key: String,
    /// How much.
    pub(crate) cents: u64,
}

impl Intent {
    /// The canonical request, which every delivery carries in the same bytes.
    pub(crate) fn canonical(&self) -> String {
        format!("pay {} cents for {}", self.cents, self.key)
    }
}

/// A message in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delivery {
    /// Which intent, by its place in [`Schedule::intents`].
    pub(crate) intent: usize,
    /// Which delivery of it, from 1.
    pub(crate) number: u32,
    /// When it arrives, from the start.
    pub(crate) at: Duration,
}

/// All intents and all their first deliveries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    pub(crate) intents: Vec<Intent>,
    /// By time.
    pub(crate) deliveries: Vec<Delivery>,
}

impl Schedule {
    /// Draws the schedule; one seed gives one schedule.
    pub(crate) fn new(seed: u64, intents: usize, pace: Duration) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let mut schedule = Self { intents: Vec::new(), deliveries: Vec::new() };
        let mut born = Duration::ZERO;
        for intent in 0..intents {
            schedule.intents.push(Intent {
                key: format!("payout-{:04}", intent + 1),
                cents: random.random_range(100..=50_000),
            });
            for number in 1..=random.random_range(COPIES) {
                let late = SPREAD.mul_f64(random.random());
                schedule.deliveries.push(Delivery { intent, number, at: born + late });
            }
            born += pace;
        }
        schedule.deliveries.sort_by_key(|delivery| delivery.at);
        schedule
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::{COPIES, Duration, Schedule};

    const PACE: Duration = Duration::from_millis(10);

    #[test]
    fn one_seed_is_one_schedule() {
        assert_eq!(Schedule::new(7, 50, PACE), Schedule::new(7, 50, PACE));
        assert_ne!(Schedule::new(7, 50, PACE), Schedule::new(8, 50, PACE));
    }

    #[test]
    fn every_intent_is_delivered_two_to_four_times() {
        let schedule = Schedule::new(1, 200, PACE);
        let mut copies: BTreeMap<usize, u32> = BTreeMap::new();
        for delivery in &schedule.deliveries {
            *copies.entry(delivery.intent).or_default() += 1;
        }
        assert_eq!(copies.len(), 200);
        assert!(copies.values().all(|count| COPIES.contains(count)));
        assert_eq!(copies.values().copied().collect::<BTreeSet<_>>().len(), 3);
    }

    #[test]
    fn deliveries_come_in_time_order_and_intents_differ() {
        let schedule = Schedule::new(1, 100, PACE);
        assert!(schedule.deliveries.is_sorted_by_key(|delivery| delivery.at));
        let keys: BTreeSet<&str> = schedule.intents.iter().map(|intent| &*intent.key).collect();
        assert_eq!(keys.len(), 100);
    }
}
