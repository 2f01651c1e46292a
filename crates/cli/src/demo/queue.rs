//! An at-least-once queue: what is not acknowledged comes again.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::schedule::{Delivery, Schedule};

/// How long a waiting worker sleeps at most before it looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// The queue. Empty and closed until it is opened.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    inner: Mutex<Inner>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    /// By the time from which they may be delivered, then by order of arrival.
    waiting: BTreeMap<(Instant, u64), Delivery>,
    arrivals: u64,
    /// Messages that nobody has acknowledged.
    open: usize,
    handed_out: u64,
}

impl Queue {
    /// Lets the deliveries of the schedule arrive from now on.
    pub(crate) fn open(&self, schedule: &Schedule) {
        let start = Instant::now();
        let mut inner = self.lock();
        for delivery in &schedule.deliveries {
            inner.push(start + delivery.at, *delivery);
            inner.open += 1;
        }
    }

    /// The next message that is due; none once all are acknowledged.
    pub(crate) async fn next(&self) -> Option<Delivery> {
        loop {
            let changed = self.changed.notified();
            let now = Instant::now();
            let wake = {
                let mut inner = self.lock();
                if inner.open == 0 {
                    return None;
                }
                match inner.waiting.first_key_value().map(|((due, _), _)| *due) {
                    Some(due) if due <= now => {
                        inner.handed_out += 1;
                        return inner.waiting.pop_first().map(|(_, delivery)| delivery);
                    }
                    Some(due) => due.min(now + LOOK_AGAIN),
                    None => now + LOOK_AGAIN,
                }
            };
            tokio::select! {
                () = changed => {}
                () = sleep_until(wake) => {}
            }
        }
    }

    /// Done with this message.
    pub(crate) fn acknowledge(&self) {
        let mut inner = self.lock();
        inner.open = inner.open.saturating_sub(1);
        if inner.open == 0 {
            self.changed.notify_waiters();
        }
    }

    /// Not done: deliver it again after that time.
    pub(crate) fn put_back(&self, delivery: Delivery, after: Duration) {
        self.lock().push(Instant::now() + after, delivery);
        self.changed.notify_one();
    }

    /// How often a message was handed to a worker.
    pub(crate) fn handed_out(&self) -> u64 {
        self.lock().handed_out
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Every change is a single step: the queue is whole even if a worker panicked.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn push(&mut self, due: Instant, delivery: Delivery) {
        self.waiting.insert((due, self.arrivals), delivery);
        self.arrivals += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, Queue, Schedule};

    #[tokio::test]
    async fn every_message_comes_until_it_is_acknowledged() {
        let schedule = Schedule::new(3, 5, Duration::from_millis(1));
        let queue = Queue::default();
        queue.open(&schedule);
        let first = queue.next().await.unwrap();
        queue.put_back(first, Duration::ZERO);
        let mut seen = Vec::new();
        while let Some(delivery) = queue.next().await {
            seen.push(delivery);
            queue.acknowledge();
        }
        seen.sort_by_key(|delivery| delivery.at);
        assert_eq!(seen, schedule.deliveries);
        assert_eq!(queue.handed_out(), seen.len() as u64 + 1);
    }

    #[tokio::test]
    async fn a_message_that_was_put_back_waits_its_time() {
        let schedule = Schedule::new(3, 1, Duration::ZERO);
        let queue = Queue::default();
        queue.open(&schedule);
        let delivery = queue.next().await.unwrap();
        for _ in 1..schedule.deliveries.len() {
            queue.next().await.unwrap();
            queue.acknowledge();
        }
        queue.put_back(delivery, Duration::from_millis(80));
        let before = tokio::time::Instant::now();
        assert_eq!(queue.next().await, Some(delivery));
        assert!(before.elapsed() >= Duration::from_millis(80));
    }
}
