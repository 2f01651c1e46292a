//! Which key an operation takes: the distribution, and the repeats that stand for redeliveries.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::config::{BenchConfig, Distribution};

/// How many of its latest keys a worker chooses repeats from.
const RECENT_KEYS: usize = 64;

/// What all workers share: the table of the distribution and the count of keys handed out.
#[derive(Debug)]
pub(crate) struct KeySpace {
    distribution: Distribution,
    keys: u64,
    /// For `zipf`: the share of all draws that fall on a key or an earlier one.
    cumulative: Vec<f64>,
    next: AtomicU64,
    prefix: String,
}

impl KeySpace {
    pub(crate) fn new(config: &BenchConfig) -> Self {
        let cumulative = match config.distribution {
            Distribution::Zipf => zipf_table(config.keys),
            Distribution::Sequential | Distribution::Uniform => Vec::new(),
        };
        Self {
            distribution: config.distribution,
            keys: config.keys,
            cumulative,
            next: AtomicU64::new(0),
            prefix: format!("bench-{:016x}", config.seed),
        }
    }

    fn draw(&self, random: &mut StdRng) -> u64 {
        match self.distribution {
            Distribution::Sequential => self.next.fetch_add(1, Ordering::Relaxed),
            Distribution::Uniform => random.random_range(0..self.keys),
            Distribution::Zipf => {
                let share: f64 = random.random();
                let at = self.cumulative.partition_point(|up_to| *up_to <= share);
                (at as u64).min(self.keys - 1)
            }
        }
    }

    /// The text of the key with this number.
    pub(crate) fn name(&self, number: u64) -> String {
        format!("{}-{number}", self.prefix)
    }
}

/// The keys of one worker. Two workers with one seed and different numbers draw differently.
#[derive(Debug)]
pub(crate) struct Keys {
    space: Arc<KeySpace>,
    random: StdRng,
    duplicate_ratio: f64,
    recent: VecDeque<u64>,
}

impl Keys {
    pub(crate) fn new(space: Arc<KeySpace>, config: &BenchConfig, worker: u64) -> Self {
        let seed = config.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(worker);
        Self {
            space,
            random: StdRng::seed_from_u64(seed),
            duplicate_ratio: config.duplicate_ratio,
            recent: VecDeque::with_capacity(RECENT_KEYS),
        }
    }

    /// The key of the next operation.
    pub(crate) fn next(&mut self) -> String {
        let repeat = !self.recent.is_empty() && self.random.random_bool(self.duplicate_ratio);
        if repeat {
            let at = self.random.random_range(0..self.recent.len());
            return self.space.name(self.recent[at]);
        }
        let number = self.space.draw(&mut self.random);
        if self.recent.len() == RECENT_KEYS {
            self.recent.pop_front();
        }
        self.recent.push_back(number);
        self.space.name(number)
    }
}

/// Cumulative shares of `keys` keys where the n-th weighs 1/n.
fn zipf_table(keys: u64) -> Vec<f64> {
    let mut table = Vec::new();
    let mut sum = 0.0;
    for rank in 1..=u32::try_from(keys).unwrap_or(u32::MAX) {
        sum += 1.0 / f64::from(rank);
        table.push(sum);
    }
    for share in &mut table {
        *share /= sum;
    }
    table
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::sync::Arc;

    use super::{BenchConfig, Distribution, KeySpace, Keys, zipf_table};

    fn drawn(config: &BenchConfig, workers: u64, each: usize) -> Vec<String> {
        let space = Arc::new(KeySpace::new(config));
        let mut keys = Vec::new();
        for worker in 0..workers {
            let mut own = Keys::new(Arc::clone(&space), config, worker);
            keys.extend((0..each).map(|_| own.next()));
        }
        keys
    }

    #[test]
    fn sequential_keys_are_never_handed_out_twice() {
        let keys = drawn(&BenchConfig::default(), 4, 1000);
        assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), 4000);
    }

    #[test]
    fn one_seed_gives_one_run_and_another_seed_other_keys() {
        let config = BenchConfig {
            distribution: Distribution::Uniform,
            duplicate_ratio: 0.3,
            ..BenchConfig::default()
        };
        let other = BenchConfig { seed: 2, ..config.clone() };
        assert_eq!(drawn(&config, 2, 100), drawn(&config, 2, 100));
        let first = drawn(&config, 2, 100).into_iter().collect::<BTreeSet<_>>();
        assert!(first.is_disjoint(&drawn(&other, 2, 100).into_iter().collect()));
    }

    #[test]
    fn workers_of_one_run_draw_differently() {
        let config = BenchConfig { distribution: Distribution::Uniform, ..BenchConfig::default() };
        let keys = drawn(&config, 2, 50);
        assert_ne!(keys[..50], keys[50..]);
    }

    #[test]
    fn repeats_come_at_the_asked_ratio() {
        let config = BenchConfig { duplicate_ratio: 0.25, ..BenchConfig::default() };
        let keys = drawn(&config, 1, 20_000);
        let fresh = keys.iter().collect::<BTreeSet<_>>().len();
        assert!((14_500..15_500).contains(&fresh), "{fresh} of 20000 keys were fresh");
    }

    #[test]
    fn uniform_keys_cover_the_space_evenly() {
        let config =
            BenchConfig { distribution: Distribution::Uniform, keys: 10, ..BenchConfig::default() };
        let mut counts = BTreeMap::new();
        for key in drawn(&config, 1, 10_000) {
            *counts.entry(key).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 10);
        assert!(counts.values().all(|count| (850..1150).contains(count)), "{counts:?}");
    }

    #[test]
    fn zipf_prefers_the_first_keys_by_their_rank() {
        let config =
            BenchConfig { distribution: Distribution::Zipf, keys: 1000, ..BenchConfig::default() };
        let space = KeySpace::new(&config);
        let (first, second) = (space.name(0), space.name(1));
        let keys = drawn(&config, 1, 50_000);
        let count = |name: &str| keys.iter().filter(|key| *key == name).count();
        // The harmonic number of 1000 is 7.485: the first key gets 13.4 % of all draws.
        assert!((6_300..7_100).contains(&count(&first)), "{}", count(&first));
        assert!((3_100..3_600).contains(&count(&second)), "{}", count(&second));
    }

    #[test]
    fn the_zipf_table_ends_at_one() {
        let table = zipf_table(1000);
        assert_eq!(table.len(), 1000);
        assert!((table[999] - 1.0).abs() < 1e-9);
        assert!(table.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
