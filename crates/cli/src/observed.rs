//! What a namespace was seen to do: the facts that a policy and a review are measured by.
//!
//! Pure. It sees what records and histories still hold: the last grants and the last claims that were
//! not granted, of records that are not forgotten.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use firstclaim_client::{time, v1};

use crate::diagnose::millis;

/// The facts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Observed {
    pub(crate) records: u64,
    /// Whether there are records that were not looked at.
    pub(crate) more: bool,
    pub(crate) states: BTreeMap<&'static str, u64>,
    pub(crate) reserved: u64,
    pub(crate) without_fingerprint: u64,
    pub(crate) without_intent_time: u64,
    pub(crate) schemes: BTreeSet<String>,
    pub(crate) regions: BTreeSet<String>,
    /// EXECUTE grants whose effects are in the journal, and those that recorded none.
    pub(crate) journaled: u64,
    pub(crate) unjournaled: u64,
    /// Recorded effects with and without a provider key.
    pub(crate) keyed_effects: u64,
    pub(crate) keyless_effects: u64,
    /// Claims that were not granted, by outcome.
    pub(crate) turned_away: BTreeMap<String, u64>,
    /// Completed records whose result is not there any more.
    pub(crate) results_dropped: u64,
    /// The longest time from a grant to its end by its own holder.
    pub(crate) longest_hold: Option<Seen>,
    /// The oldest claim of an intent after its birth (its first claim, if nobody said when that was).
    pub(crate) oldest_repeat: Option<Seen>,
    /// What has been unresolved for the longest.
    pub(crate) oldest_unresolved: Option<Seen>,
}

/// The extreme of something, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) length: Duration,
    pub(crate) key: String,
}

/// Gathers the facts, as of `now` (the store's time, in milliseconds since 1970).
pub(crate) fn observe(told: &[v1::GetHistoryResponse], more: bool, now: u64) -> Observed {
    let mut facts = Observed { more, ..Observed::default() };
    for one in told {
        let record = one.record.clone().unwrap_or_default();
        facts.record(&record, now);
        for attempt in &one.attempts {
            facts.attempt(&record.key, attempt);
        }
        for (outcome, count) in &one.counts {
            *facts.turned_away.entry(outcome.clone()).or_default() += count;
        }
        facts.repeats(&record, one);
    }
    facts
}

/// The longer of what was known and what is seen.
fn raise(known: &mut Option<Seen>, length: Duration, key: &str) {
    if known.as_ref().is_none_or(|known| known.length < length) {
        *known = Some(Seen { length, key: key.to_owned() });
    }
}

impl Observed {
    fn record(&mut self, record: &v1::Record, now: u64) {
        self.records += 1;
        *self.states.entry(record.state().as_str_name()).or_default() += 1;
        self.reserved += u64::from(record.reserved);
        self.without_fingerprint +=
            u64::from(record.fingerprints.is_empty() && record.state() != v1::RecordState::Unbound);
        self.without_intent_time += u64::from(record.intent_time.is_none());
        self.schemes.extend(record.fingerprints.iter().map(|print| print.scheme.clone()));
        self.results_dropped += u64::from(record.result_dropped);
        for effect in &record.effects {
            if effect.kind() == v1::EffectKind::Recorded {
                let count = if effect.provider_key.is_empty() {
                    &mut self.keyless_effects
                } else {
                    &mut self.keyed_effects
                };
                *count += 1;
            }
        }
        if record.state() == v1::RecordState::Unresolved {
            let since = record.effects.iter().filter_map(|effect| effect.open_since.as_ref());
            let since = since.map(millis).min().unwrap_or(now);
            let age = Duration::from_millis(now.saturating_sub(since));
            raise(&mut self.oldest_unresolved, age, &record.key);
        }
    }

    fn attempt(&mut self, key: &str, attempt: &v1::Attempt) {
        if !attempt.region.is_empty() {
            self.regions.insert(attempt.region.clone());
        }
        let own_end = matches!(
            attempt.ending(),
            v1::Ending::Succeeded
                | v1::Ending::Failed
                | v1::Ending::ReleasedRetry
                | v1::Ending::ReleasedUnbind
                | v1::Ending::ReleasedUnknown
        );
        if let (true, Some(granted), Some(ended)) =
            (own_end, &attempt.grant_time, &attempt.end_time)
        {
            raise(&mut self.longest_hold, time::between(granted, ended), key);
        }
        if attempt.mode() == v1::Mode::Execute {
            let count = if attempt.journaled { &mut self.journaled } else { &mut self.unjournaled };
            *count += 1;
        }
    }

    fn repeats(&mut self, record: &v1::Record, told: &v1::GetHistoryResponse) {
        let born = record.intent_time.as_ref().or(record.first_seen_time.as_ref());
        let Some(born) = born else { return };
        let sighted = told.sightings.iter().filter_map(|sighting| sighting.time.as_ref());
        let granted = told.attempts.iter().skip(1).filter_map(|it| it.grant_time.as_ref());
        for seen in sighted.chain(granted) {
            raise(&mut self.oldest_repeat, time::between(born, seen), &record.key);
        }
    }

    /// How many records are in a state.
    pub(crate) fn in_state(&self, state: v1::RecordState) -> u64 {
        self.states.get(state.as_str_name()).copied().unwrap_or(0)
    }

    /// How many claims came to an outcome without a grant.
    pub(crate) fn outcomes(&self, outcome: &str) -> u64 {
        self.turned_away.get(outcome).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use firstclaim_client::prost_types::Timestamp;

    use super::*;

    fn at(seconds: i64) -> Option<Timestamp> {
        Some(Timestamp { seconds, nanos: 0 })
    }

    fn told() -> v1::GetHistoryResponse {
        let record = v1::Record {
            key: "k".to_owned(),
            state: v1::RecordState::Unresolved.into(),
            first_seen_time: at(100),
            intent_time: at(40),
            effects: vec![v1::Effect {
                kind: v1::EffectKind::Recorded.into(),
                open_since: at(150),
                ..v1::Effect::default()
            }],
            ..v1::Record::default()
        };
        let attempt = |seconds: i64, ending: v1::Ending, end: i64| v1::Attempt {
            grant_time: at(seconds),
            ending: ending.into(),
            end_time: at(end),
            mode: v1::Mode::Execute.into(),
            journaled: true,
            region: "eu-west".to_owned(),
            ..v1::Attempt::default()
        };
        v1::GetHistoryResponse {
            record: Some(record),
            attempts: vec![
                attempt(100, v1::Ending::Lapsed, 150),
                attempt(150, v1::Ending::ReleasedUnknown, 157),
            ],
            sightings: vec![v1::Sighting { time: at(130), ..v1::Sighting::default() }],
            counts: [("PENDING".to_owned(), 3)].into(),
            ..v1::GetHistoryResponse::default()
        }
    }

    #[test]
    fn the_facts_are_those_of_the_histories() {
        let facts = observe(&[told()], true, 200_000);
        let seen =
            |length: u64| Some(Seen { length: Duration::from_secs(length), key: "k".to_owned() });
        assert_eq!(facts.oldest_repeat, seen(110), "the takeover, counted from the intent's birth");
        assert_eq!(facts.longest_hold, seen(7), "a lapse is no end by the holder");
        assert_eq!(facts.oldest_unresolved, seen(50));
        assert_eq!((facts.journaled, facts.unjournaled), (2, 0));
        assert_eq!((facts.keyed_effects, facts.keyless_effects), (0, 1));
        assert_eq!((facts.outcomes("PENDING"), facts.outcomes("REPLAY")), (3, 0));
        assert_eq!((facts.records, facts.in_state(v1::RecordState::Unresolved)), (1, 1));
        assert!(facts.more && facts.regions.contains("eu-west"));
        assert_eq!(observe(&[], false, 0), Observed::default());
    }
}
