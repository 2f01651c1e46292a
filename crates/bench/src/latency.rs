//! How long calls took: a histogram of bounded size with three significant digits.

use std::time::Duration;

use hdrhistogram::Histogram;

/// The longest latency that is told apart; longer ones count as this one.
const MICROS_MAX: u64 = 10 * 60 * 1_000_000;

/// Latencies of one kind of call.
#[derive(Clone, Debug)]
pub struct Latencies {
    micros: Histogram<u64>,
}

impl Default for Latencies {
    fn default() -> Self {
        Self::new()
    }
}

impl Latencies {
    /// No latencies yet.
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "the bounds are constants that are accepted")]
    pub fn new() -> Self {
        let micros = Histogram::new_with_bounds(1, MICROS_MAX, 3).expect("constant bounds");
        Self { micros }
    }

    /// Takes in one call.
    pub fn record(&mut self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(MICROS_MAX);
        self.micros.saturating_record(micros.max(1));
    }

    /// Takes in all calls of another worker.
    pub fn merge(&mut self, other: &Self) {
        // Both have the same bounds, so that adding cannot fail and drops nothing.
        let added = self.micros.add(&other.micros);
        debug_assert!(added.is_ok(), "{added:?}");
    }

    /// How many calls there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.micros.len()
    }

    /// The latency that `percent` of all calls did not exceed; zero without any call.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> Duration {
        if self.micros.is_empty() {
            return Duration::ZERO;
        }
        Duration::from_micros(self.micros.value_at_quantile(percent / 100.0))
    }

    /// The longest latency, to three digits.
    #[must_use]
    pub fn max(&self) -> Duration {
        Duration::from_micros(self.micros.max())
    }

    /// The mean.
    #[must_use]
    pub fn mean(&self) -> Duration {
        if self.micros.is_empty() {
            return Duration::ZERO;
        }
        Duration::from_secs_f64(self.micros.mean() / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, Latencies};

    fn of(millis: impl IntoIterator<Item = u64>) -> Latencies {
        let mut latencies = Latencies::new();
        for value in millis {
            latencies.record(Duration::from_millis(value));
        }
        latencies
    }

    fn near(value: Duration, millis: f64) {
        let off = (value.as_secs_f64() * 1e3 - millis).abs() / millis;
        assert!(off < 0.002, "{value:?} is not {millis} ms");
    }

    #[test]
    fn percentiles_are_those_of_the_sorted_values() {
        let latencies = of(1..=1000);
        assert_eq!(latencies.count(), 1000);
        near(latencies.percentile(50.0), 500.0);
        near(latencies.percentile(95.0), 950.0);
        near(latencies.percentile(99.0), 990.0);
        near(latencies.max(), 1000.0);
        near(latencies.mean(), 500.5);
    }

    #[test]
    fn merging_is_the_same_as_recording_everything_in_one_place() {
        let mut merged = of(1..=400);
        merged.merge(&of(401..=1000));
        let whole = of(1..=1000);
        for percent in [1.0, 50.0, 95.0, 99.9] {
            assert_eq!(merged.percentile(percent), whole.percentile(percent));
        }
        assert_eq!((merged.count(), merged.max()), (whole.count(), whole.max()));
    }

    #[test]
    fn no_call_is_no_figure_and_no_panic() {
        let latencies = Latencies::new();
        assert_eq!(latencies.percentile(99.0), Duration::ZERO);
        assert_eq!(latencies.max(), Duration::ZERO);
        assert_eq!(latencies.mean(), Duration::ZERO);
    }

    #[test]
    fn out_of_bounds_is_counted_at_the_bound() {
        let mut latencies = Latencies::new();
        latencies.record(Duration::ZERO);
        latencies.record(Duration::from_secs(100_000));
        assert_eq!(latencies.count(), 2);
        assert!(latencies.max() >= Duration::from_secs(600));
    }
}
