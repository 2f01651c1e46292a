//! How a diagnosis is told: the cause, how often, when, on what evidence, and what to do.

use std::collections::BTreeSet;

use super::past::{Event, What};

/// Lines of evidence that one finding keeps.
pub(crate) const EVIDENCE_MAX: usize = 200;

/// Where idempotency was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cause {
    /// One process began the intent again within one delivery of one message.
    RetryInHandler,
    /// One message came to more than one process, or more than once.
    Redelivery,
    /// Different messages carry one key.
    PublishedTwice,
    /// One request came under several keys.
    KeyPerAttempt,
    /// Repeated deliveries never asked the store.
    CheckSkipped,
    /// Several requests came under one key.
    KeyReused,
    /// Repeats that carry no label of a message.
    Unlabelled,
}

impl Cause {
    /// Its name in JSON and in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::RetryInHandler => "RETRY_IN_HANDLER",
            Self::Redelivery => "REDELIVERY",
            Self::PublishedTwice => "PUBLISHED_TWICE",
            Self::KeyPerAttempt => "KEY_PER_ATTEMPT",
            Self::CheckSkipped => "CHECK_SKIPPED",
            Self::KeyReused => "KEY_REUSED",
            Self::Unlabelled => "UNLABELLED",
        }
    }

    /// What it means.
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Self::RetryInHandler => {
                "the same instance began the intent again within one delivery: a retry inside the handler"
            }
            Self::Redelivery => {
                "one message was delivered again: a redelivery, or a visibility window that is shorter than the work"
            }
            Self::PublishedTwice => {
                "different messages carry one key: the producer published the intent twice"
            }
            Self::KeyPerAttempt => {
                "one request came under several keys: the key is minted per attempt, so it protects nothing"
            }
            Self::CheckSkipped => {
                "messages were delivered again, and the store was never asked about a repeat: the check is skipped"
            }
            Self::KeyReused => {
                "several requests came under one key: the key does not name the intent"
            }
            Self::Unlabelled => {
                "claims were repeated by other instances; without a message label nobody can say why"
            }
        }
    }

    /// What to do about it.
    pub(crate) fn advice(self) -> &'static str {
        match self {
            Self::RetryInHandler => {
                "Retry the provider's call under the claim that is held (same effect, next dispatch number), not the whole handler; keep the attempt id over repeats of one call."
            }
            Self::Redelivery => {
                "Make the visibility window longer than the longest work, or extend it while the claim is renewed; acknowledge after the completion, and repeat a failed acknowledgement."
            }
            Self::PublishedTwice => {
                "Look at the producer's retries: mint message and key once, in the transaction that decides the intent (outbox), and reserve the key there."
            }
            Self::KeyPerAttempt => {
                "Derive the key from the business intent, or mint it once and store it before the first try; set duplicate_intent to BLOCK, or reserve to REQUIRED, until that is so."
            }
            Self::CheckSkipped => {
                "Find the path that acts without a claim: compare the deliveries below with the worker's log."
            }
            Self::KeyReused => {
                "Put what tells the requests apart into the key; see the parts that FINGERPRINT_MISMATCH names."
            }
            Self::Unlabelled => {
                "Send the labels message_id and delivery with every claim, and one owner label per process."
            }
        }
    }
}

/// One cause, with all that speaks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) cause: Cause,
    /// How often it was seen.
    pub(crate) count: u64,
    pub(crate) keys: BTreeSet<String>,
    /// Time of the first and the last of it, in milliseconds since 1970.
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// How it falls apart, in words.
    pub(crate) details: Vec<String>,
    pub(crate) evidence: Vec<Evidence>,
}

/// One line that speaks for a cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Evidence {
    pub(crate) time: u64,
    pub(crate) key: String,
    pub(crate) text: String,
}

/// What was looked at, and what follows from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Diagnosis {
    pub(crate) keys: usize,
    /// Grants, the first of each key included.
    pub(crate) grants: u64,
    /// Claims that were recognised as repeats: replays, pending ones, refusals, and grants after the
    /// first one of a key.
    pub(crate) hits: u64,
    /// By cause.
    pub(crate) findings: Vec<Finding>,
}

impl Finding {
    pub(crate) fn new(cause: Cause) -> Self {
        Self {
            cause,
            count: 0,
            keys: BTreeSet::new(),
            first: u64::MAX,
            last: 0,
            details: Vec::new(),
            evidence: Vec::new(),
        }
    }

    /// Counts one incident of a key at a time.
    pub(crate) fn count(&mut self, key: &str, time: u64) {
        self.count += 1;
        self.keys.insert(key.to_owned());
        self.first = self.first.min(time);
        self.last = self.last.max(time);
    }

    /// Adds a claim as evidence, once.
    pub(crate) fn show(&mut self, key: &str, event: &Event, remark: &str) {
        let mut text = format!("{} {}", event.instance, event.outcome());
        if let Some(message) = &event.message {
            text += &format!("; message {message}");
        }
        if let Some(delivery) = &event.delivery {
            text += &format!(", delivery {delivery}");
        }
        if !event.region.is_empty() {
            text += &format!("; in {}", event.region);
        }
        if !remark.is_empty() {
            text += &format!("; {remark}");
        }
        let line = Evidence { time: event.time, key: key.to_owned(), text };
        let place = |known: &Evidence| (known.time, known.key.clone());
        let known = self.evidence.iter().any(|known| {
            place(known) == place(&line) && known.text.starts_with(first_words(&line.text))
        });
        if !known && self.evidence.len() < EVIDENCE_MAX {
            self.evidence.push(line);
        }
    }
}

fn first_words(text: &str) -> &str {
    text.split_once("; in ").map_or(text, |(words, _)| words)
}

impl Event {
    /// Whether it was refused because the key is bound to another request.
    pub(crate) fn of_another_request(&self) -> bool {
        let What::TurnedAway(outcome) = &self.what else { return false };
        outcome == "FINGERPRINT_MISMATCH"
    }
}
