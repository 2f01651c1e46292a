//! A fake queue that delivers at least once: a message that is not acknowledged in its visibility
//! window is delivered again, whether or not somebody is still at work on it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How long a delivery keeps a message from the others. Shorter than some of the work, on purpose.
pub(crate) const VISIBILITY: Duration = Duration::from_millis(1_200);
/// Deliveries after which a message goes to the dead letters.
const DELIVERIES_MAX: u32 = 60;

/// One delivery of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delivery {
    /// Which message, by its place in the scenario.
    pub(crate) message: usize,
    /// Which delivery of it, from 1.
    pub(crate) number: u32,
}

/// How a message left the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// A worker said that it is done.
    Acknowledged,
    /// A worker, or the number of deliveries, put it aside for people.
    Parked(String),
}

#[derive(Debug, Default)]
struct Message {
    visible: Option<Instant>,
    deliveries: u32,
    end: Option<End>,
}

/// The queue.
#[derive(Debug)]
pub(crate) struct Queue {
    messages: Mutex<Vec<Message>>,
    visibility: Duration,
}

impl Queue {
    /// A queue with so many messages, all of them visible.
    pub(crate) fn new(messages: usize, visibility: Duration) -> Self {
        let messages = (0..messages).map(|_| Message::default()).collect();
        Self { messages: Mutex::new(messages), visibility }
    }

    /// A message that may be delivered now, if there is one.
    pub(crate) fn next(&self) -> Option<Delivery> {
        let now = Instant::now();
        let mut messages = self.lock();
        for (at, message) in messages.iter_mut().enumerate() {
            if message.end.is_some() || message.visible.is_some_and(|visible| visible > now) {
                continue;
            }
            if message.deliveries >= DELIVERIES_MAX {
                let why = format!("not acknowledged in {DELIVERIES_MAX} deliveries");
                message.end = Some(End::Parked(why));
                continue;
            }
            message.deliveries += 1;
            message.visible = Some(now + self.visibility);
            return Some(Delivery { message: at, number: message.deliveries });
        }
        None
    }

    /// A worker is done with a message. Late and repeated acknowledgements are heard as well.
    pub(crate) fn end(&self, delivery: Delivery, end: End) {
        if let Some(message) = self.lock().get_mut(delivery.message)
            && message.end.is_none()
        {
            message.end = Some(end);
        }
    }

    /// A worker is not done: the message comes again after that time, also if the delivery is over.
    pub(crate) fn put_back(&self, delivery: Delivery, after: Duration) {
        if let Some(message) = self.lock().get_mut(delivery.message) {
            message.visible = Some(Instant::now() + after);
        }
    }

    /// A worker needs longer, if the message is still its own.
    pub(crate) fn extend(&self, delivery: Delivery, by: Duration) {
        if let Some(message) = self.lock().get_mut(delivery.message)
            && message.deliveries == delivery.number
        {
            message.visible = Some(Instant::now() + by);
        }
    }

    /// Delivers a message once more that had been done with long ago.
    pub(crate) fn redrive(&self, message: usize) {
        if let Some(message) = self.lock().get_mut(message) {
            message.end = None;
            message.visible = None;
        }
    }

    /// How a message left the queue, if it has.
    pub(crate) fn ended(&self, message: usize) -> Option<End> {
        self.lock().get(message).and_then(|message| message.end.clone())
    }

    /// Whether every message has left it.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().iter().all(|message| message.end.is_some())
    }

    /// How often messages were delivered.
    pub(crate) fn deliveries(&self) -> u64 {
        self.lock().iter().map(|message| u64::from(message.deliveries)).sum()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Message>> {
        // Every change is a single step: the queue is whole even if a worker panicked.
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    const SHORT: Duration = Duration::from_millis(40);

    #[tokio::test]
    async fn a_message_comes_again_until_it_is_acknowledged() {
        let queue = Queue::new(1, SHORT);
        let first = queue.next().unwrap();
        assert_eq!((first.number, queue.next()), (1, None));
        sleep(SHORT).await;
        let second = queue.next().unwrap();
        assert_eq!(second.number, 2);
        queue.extend(first, Duration::from_secs(60));
        sleep(SHORT).await;
        assert_eq!(queue.next().unwrap().number, 3, "the first delivery is over");
        queue.end(second, End::Acknowledged);
        sleep(SHORT).await;
        assert_eq!((queue.next(), queue.is_empty(), queue.deliveries()), (None, true, 3));
        queue.redrive(0);
        assert_eq!(queue.next().unwrap().number, 4);
    }

    #[test]
    fn a_message_that_nobody_can_handle_is_parked() {
        let queue = Queue::new(1, SHORT);
        let mut deliveries = 0;
        while let Some(delivery) = queue.next() {
            queue.put_back(delivery, Duration::ZERO);
            deliveries += 1;
        }
        assert_eq!(deliveries, DELIVERIES_MAX);
        assert!(matches!(queue.ended(0), Some(End::Parked(_))));
    }
}
