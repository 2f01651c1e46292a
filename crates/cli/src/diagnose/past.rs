//! What is known about keys: who asked when, in which delivery of which message, and what came of it.

use std::collections::BTreeMap;

use firstclaim_client::{prost_types::Timestamp, v1};

use crate::failure::short;

/// Labels that name the message, the delivery of it, and the instance, in order of preference.
const MESSAGE: [&str; 5] = ["message_id", "message-id", "messageId", "message", "msg_id"];
const DELIVERY: [&str; 6] = [
    "delivery",
    "delivery_number",
    "delivery-number",
    "receive_count",
    "approximate_receive_count",
    "ApproximateReceiveCount",
];
const INSTANCE: [&str; 4] = ["instance", "pod", "hostname", "host"];

/// The past of one key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Past {
    pub(crate) key: String,
    /// Scheme and digest of the request that the key is bound to, the preferred scheme first.
    pub(crate) fingerprint: Option<(String, Vec<u8>)>,
    /// By time.
    pub(crate) events: Vec<Event>,
    /// Claims that were turned away or replayed, by outcome; more than the events that are kept.
    pub(crate) counts: BTreeMap<String, u64>,
}

/// A claim by one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// In milliseconds since 1970, by the store's clock.
    pub(crate) time: u64,
    pub(crate) attempt: String,
    /// Which process: its label, or the owner.
    pub(crate) instance: String,
    pub(crate) region: String,
    pub(crate) message: Option<String>,
    pub(crate) delivery: Option<String>,
    pub(crate) what: What,
}

/// What a claim came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// It was granted: `FIRST`, `TAKEOVER`, …
    Granted { kind: String, ended: Option<(Ended, u64)> },
    /// It was not: `REPLAY`, `PENDING`, `UNRESOLVED`, or the reason of a refusal.
    TurnedAway(String),
}

/// How a grant ended, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The record was completed.
    Completed,
    /// The holder gave it back: nothing happened, try again.
    GivenBack,
    /// The holder died, lost its claim, or did not know.
    Lost,
}

impl Past {
    /// Reads what a node tells about a key.
    pub(crate) fn from_wire(told: &v1::GetHistoryResponse) -> Self {
        let record = told.record.clone().unwrap_or_default();
        let mut events: Vec<Event> = told.attempts.iter().map(granted).collect();
        events.extend(told.sightings.iter().map(turned_away));
        events.sort_by_key(|event| event.time);
        Self {
            fingerprint: fingerprint(&record),
            key: record.key,
            events,
            counts: told.counts.clone().into_iter().collect(),
        }
    }
}

/// The fingerprint that a record is compared by across keys.
pub(crate) fn fingerprint(record: &v1::Record) -> Option<(String, Vec<u8>)> {
    record.fingerprints.first().map(|print| (print.scheme.clone(), print.digest.clone()))
}

fn granted(attempt: &v1::Attempt) -> Event {
    let ended = match attempt.ending() {
        v1::Ending::Unspecified => None,
        v1::Ending::Succeeded | v1::Ending::Failed => Some(Ended::Completed),
        v1::Ending::ReleasedRetry | v1::Ending::ReleasedUnbind => Some(Ended::GivenBack),
        v1::Ending::ReleasedUnknown | v1::Ending::Lapsed | v1::Ending::Overtaken => {
            Some(Ended::Lost)
        }
    };
    let known = attempt.end_time.as_ref().map_or(0, millis);
    Event {
        time: attempt.grant_time.as_ref().map_or(0, millis),
        attempt: attempt.attempt_id.clone(),
        instance: label(&attempt.labels, &INSTANCE).unwrap_or_else(|| attempt.owner.clone()),
        region: attempt.region.clone(),
        message: label(&attempt.labels, &MESSAGE),
        delivery: label(&attempt.labels, &DELIVERY),
        what: What::Granted {
            kind: short(attempt.kind().as_str_name(), "ACQUIRED_KIND_"),
            ended: ended.map(|ended| (ended, known)),
        },
    }
}

fn turned_away(sighting: &v1::Sighting) -> Event {
    Event {
        time: sighting.time.as_ref().map_or(0, millis),
        attempt: sighting.attempt_id.clone(),
        instance: label(&sighting.labels, &INSTANCE).unwrap_or_else(|| sighting.owner.clone()),
        region: sighting.region.clone(),
        message: label(&sighting.labels, &MESSAGE),
        delivery: label(&sighting.labels, &DELIVERY),
        what: What::TurnedAway(sighting.outcome.clone()),
    }
}

fn label(labels: &BTreeMap<String, String>, names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| labels.get(*name)).cloned()
}

pub(crate) fn millis(time: &Timestamp) -> u64 {
    let seconds = u64::try_from(time.seconds).unwrap_or(0);
    seconds.saturating_mul(1000).saturating_add(u64::from(time.nanos.unsigned_abs() / 1_000_000))
}

impl Event {
    /// Whether it is a grant.
    pub(crate) fn granted(&self) -> bool {
        matches!(self.what, What::Granted { .. })
    }

    /// Whether it was neither granted nor told that all is done: it will ask again.
    pub(crate) fn told_to_wait(&self) -> bool {
        matches!(&self.what, What::TurnedAway(outcome) if outcome != "REPLAY")
    }

    /// How its grant ended, and when that was known.
    pub(crate) fn ended(&self) -> Option<(Ended, u64)> {
        match &self.what {
            What::Granted { ended, .. } => *ended,
            What::TurnedAway(_) => None,
        }
    }

    /// Whether its holder had asked for another try by `time`.
    pub(crate) fn given_back_by(&self, time: u64) -> bool {
        self.ended().is_some_and(|(ended, at)| ended == Ended::GivenBack && at <= time)
    }

    /// Whether both are of one process in one delivery, as far as the labels tell.
    pub(crate) fn same_delivery(&self, other: &Self) -> bool {
        let agree = |one: &Option<String>, two: &Option<String>| match (one, two) {
            (Some(one), Some(two)) => one == two,
            (None, _) | (_, None) => true,
        };
        self.instance == other.instance
            && agree(&self.message, &other.message)
            && agree(&self.delivery, &other.delivery)
    }

    /// What it came to, in words.
    pub(crate) fn outcome(&self) -> String {
        match &self.what {
            What::Granted { kind, ended } => {
                let end = match ended {
                    None => "not ended yet".to_owned(),
                    Some((ended, at)) => {
                        let after = std::time::Duration::from_millis(at.saturating_sub(self.time));
                        let word = match ended {
                            Ended::Completed => "completed",
                            Ended::GivenBack => "given back",
                            Ended::Lost => "lost its claim",
                        };
                        format!("{word} after {}", crate::duration::about(after))
                    }
                };
                format!("ACQUIRED {kind}, {end}")
            }
            What::TurnedAway(outcome) => outcome.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i32) -> Option<Timestamp> {
        Some(Timestamp { seconds: 1_700_000_000, nanos: millis * 1_000_000 })
    }

    #[test]
    fn attempts_and_sightings_are_one_line_of_time() {
        let labels = |message: &str| {
            BTreeMap::from([("message_id".to_owned(), message.to_owned())]).into_iter().collect()
        };
        let told = v1::GetHistoryResponse {
            record: Some(v1::Record { key: "k".to_owned(), ..v1::Record::default() }),
            attempts: vec![v1::Attempt {
                owner: "w1".to_owned(),
                kind: v1::AcquiredKind::First.into(),
                grant_time: at(5),
                ending: v1::Ending::Succeeded.into(),
                end_time: at(105),
                labels: labels("m1"),
                ..v1::Attempt::default()
            }],
            sightings: vec![v1::Sighting {
                time: at(2),
                outcome: "PENDING".to_owned(),
                owner: "w2".to_owned(),
                ..v1::Sighting::default()
            }],
            ..v1::GetHistoryResponse::default()
        };
        let past = Past::from_wire(&told);
        let shown: Vec<(String, String)> =
            past.events.iter().map(|event| (event.instance.clone(), event.outcome())).collect();
        assert_eq!(
            shown,
            [
                ("w2".to_owned(), "PENDING".to_owned()),
                ("w1".to_owned(), "ACQUIRED FIRST, completed after 100ms".to_owned()),
            ]
        );
        assert_eq!(past.events[1].message.as_deref(), Some("m1"));
    }
}
