//! The queue: publishes intents, and delivers each of them again and again, late and twice.

use firstclaim_core::{FingerprintSet, RecordRef};

use super::worker::Worker;
use crate::faults::Fault;
use crate::names;
use crate::world::{Event, HONEST, SKEW, World};

/// One business intent.
#[derive(Clone, Debug)]
pub(crate) struct Intent {
    pub(crate) record: RecordRef,
    pub(crate) fingerprints: FingerprintSet,
    /// Whether its producer says when it was born.
    pub(crate) timed: bool,
    /// When it was born, by the clock of its producer; none until it is delivered first.
    pub(crate) born: Option<u64>,
}

impl World {
    /// Publishes an intent, and the next one later.
    pub(crate) fn publish(&mut self) {
        let gap = 500 + self.random.below(2 * self.pace);
        self.later(gap, Event::Publish);
        let at = self.intents.len();
        let namespace = u8::from(self.random.chance(35) || self.closing);
        let digest = u8::try_from(at % 251).unwrap_or_default();
        self.intents.push(Intent {
            record: names::record(&names::tenant(HONEST), namespace, &format!("i{at}")),
            fingerprints: names::fingerprints(&[("a", digest, digest)]),
            timed: self.random.chance(60),
            born: None,
        });
        self.judge.figures.intents += 1;
        let mut after = 0;
        for _ in 0..3 + self.random.below(7) {
            after += self.random.pick(&[200, 2_000, 8_000, 20_000]);
            if self.strikes(Fault::DeliveredLate) {
                after += 40_000 + self.random.below(120_000);
            }
            self.later(after, Event::Deliver { intent: at });
            if self.strikes(Fault::DeliveredTwice) {
                self.later(after, Event::Deliver { intent: at });
            }
        }
        self.call_operators(at);
    }

    /// A new attempt of the intent.
    pub(crate) fn deliver(&mut self, intent: usize) {
        let jitter = self.random.below(2 * SKEW);
        let it = &mut self.intents[intent];
        if it.born.is_none() && it.timed {
            it.born = Some(self.now + jitter - SKEW);
        }
        let attempt = u32::try_from(self.workers.len()).unwrap_or(u32::MAX);
        self.workers.push(Worker::new(intent, attempt));
        self.later(0, Event::Step { worker: self.workers.len() - 1 });
    }
}
