//! Holds a namespace to its claims a second: at the leader, before the log.
//!
//! One token bucket a namespace, which holds one second's worth. It is the leader's own: a new leader
//! begins with full buckets, so a change of leaders lets at most one more second's worth in. Nothing
//! depends on it but the load.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Namespaces whose buckets are kept. A bucket that is full says nothing and is dropped first.
const BUCKETS_MAX: usize = 10_000;

/// How many claims a namespace may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    /// The namespace's life.
    pub(crate) namespace: u64,
    /// Claims a second; 0 is no limit.
    pub(crate) per_second: u32,
}

/// The buckets.
#[derive(Debug, Default)]
pub(crate) struct RateLimiter(Mutex<BTreeMap<u64, Bucket>>);

#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: f64,
    at: Instant,
    per_second: f64,
}

impl Bucket {
    fn filled(self, now: Instant) -> f64 {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        (self.tokens + passed * self.per_second).min(self.per_second)
    }
}

impl RateLimiter {
    /// Takes a token, or says how long it takes until there is one.
    pub(crate) fn take(&self, limit: Limit, now: Instant) -> Result<(), Duration> {
        if limit.per_second == 0 {
            return Ok(());
        }
        let per_second = f64::from(limit.per_second);
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= BUCKETS_MAX && !buckets.contains_key(&limit.namespace) {
            buckets.retain(|_, bucket| bucket.filled(now) < bucket.per_second);
            if buckets.len() >= BUCKETS_MAX {
                // All of them are in use: the first one starts afresh.
                buckets.pop_first();
            }
        }
        let full = Bucket { tokens: per_second, at: now, per_second };
        let bucket = buckets.entry(limit.namespace).or_insert(full);
        // What has come in so far came in at the rate that held so far.
        let tokens = bucket.filled(now).min(per_second);
        *bucket = Bucket { tokens, at: now, per_second };
        if tokens < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - tokens) / per_second));
        }
        bucket.tokens -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(limiter: &RateLimiter, namespace: u64, per_second: u32, now: Instant) -> usize {
        let limit = Limit { namespace, per_second };
        (0..1000).take_while(|_| limiter.take(limit, now).is_ok()).count()
    }

    #[test]
    fn a_second_of_claims_may_come_at_once_and_then_the_rate_holds() {
        let (limiter, now) = (RateLimiter::default(), Instant::now());
        assert_eq!(taken(&limiter, 1, 10, now), 10);
        let wait = limiter.take(Limit { namespace: 1, per_second: 10 }, now).expect_err("empty");
        assert!(wait > Duration::from_millis(99) && wait <= Duration::from_millis(100), "{wait:?}");
        assert_eq!(taken(&limiter, 1, 10, now + Duration::from_millis(350)), 3);
        // An hour of silence is worth no more than a second.
        assert_eq!(taken(&limiter, 1, 10, now + Duration::from_secs(3600)), 10);
        // Namespaces do not share.
        assert_eq!(taken(&limiter, 2, 5, now), 5);
    }

    #[test]
    fn no_limit_is_no_limit_and_a_new_one_holds_at_once() {
        let (limiter, now) = (RateLimiter::default(), Instant::now());
        assert_eq!(taken(&limiter, 1, 0, now), 1000);
        assert_eq!(taken(&limiter, 1, 100, now), 100);
        let later = now + Duration::from_secs(1);
        assert_eq!(taken(&limiter, 1, 2, later), 2);
    }

    #[test]
    fn buckets_are_bounded() {
        let (limiter, now) = (RateLimiter::default(), Instant::now());
        for namespace in 0..(BUCKETS_MAX as u64 + 50) {
            assert_eq!(limiter.take(Limit { namespace, per_second: 2 }, now), Ok(()));
        }
        let buckets = limiter.0.lock().expect("not poisoned").len();
        assert_eq!(buckets, BUCKETS_MAX);
    }
}
