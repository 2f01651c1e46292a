//! Gathers the claims that were not granted, and has the history of their records know them.
//!
//! Told in small entries, one each few seconds, which no call waits for. What is dropped is counted;
//! nothing but the history depends on it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use firstclaim_core::command::{Claim, RecordReport, Report};
use firstclaim_core::limits::{REPORT_RECORDS_MAX, SIGHTING_OUTCOMES_KEPT, SIGHTINGS_KEPT};
use firstclaim_core::{Command, RecordRef, Sighting, Timestamp};
use firstclaim_proto::convert::reads;
use firstclaim_proto::v1;
use tokio::time::Instant;
use tonic::metadata::MetadataMap;

use crate::call::Call;
use crate::node::{Fail, Method, Node};

/// How often a node tells what it saw.
const REPORT_EVERY: Duration = Duration::from_secs(3);
/// Records that are gathered at most; claims of more are dropped and counted.
const RECORDS_MAX: usize = 4096;
/// Bytes of one report: an entry of the log that nobody notices.
const REPORT_BYTES_MAX: usize = 128 * 1024;
/// About the bytes of a sighting besides its texts.
const SIGHTING_BYTES: usize = 64;

/// The method by which a node tells the leader.
pub(crate) const REPORT: Method =
    Method { name: "ReportSightings", path: "/firstclaim.v1.RecordService/ReportSightings" };

/// What was seen of one record.
#[derive(Debug, Default)]
struct Seen {
    sightings: Vec<Sighting>,
    counts: BTreeMap<String, u64>,
}

/// What a node saw since it last told.
#[derive(Debug, Default)]
pub(crate) struct Sightings(Mutex<BTreeMap<RecordRef, Seen>>);

impl Sightings {
    /// Notes a claim that was not granted. Returns how many sightings of it, or of others, are lost
    /// by that.
    #[must_use]
    pub(crate) fn note(&self, claim: &Claim, outcome: &str, time: Timestamp) -> u64 {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let full = all.len() >= RECORDS_MAX;
        let seen = match all.entry(claim.record.clone()) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(_) if full => return 1,
            Entry::Vacant(entry) => entry.insert(Seen::default()),
        };
        seen.add(Sighting {
            time,
            outcome: outcome.to_owned(),
            attempt_id: claim.attempt_id.clone(),
            owner: claim.owner.clone(),
            region: claim.region.clone(),
            labels: claim.labels.clone(),
        });
        0
    }

    /// Takes a small report out, if there is anything to tell.
    fn take(&self) -> Option<Report> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut records, mut bytes) = (Vec::new(), 0);
        while records.len() < REPORT_RECORDS_MAX && bytes < REPORT_BYTES_MAX {
            let Some((record, Seen { sightings, counts })) = all.pop_first() else { break };
            bytes += record.key.as_str().len() + sightings.iter().map(size).sum::<usize>();
            records.push(RecordReport { record, sightings, counts });
        }
        (!records.is_empty()).then_some(Report { records })
    }
}

impl Seen {
    fn add(&mut self, sighting: Sighting) {
        // A claim that waits is decided again and again: it was seen once.
        let again = self.sightings.iter().position(|known| {
            (&known.attempt_id, &known.outcome) == (&sighting.attempt_id, &sighting.outcome)
        });
        if let Some(again) = again {
            self.sightings.remove(again);
            self.sightings.push(sighting);
            return;
        }
        if self.counts.len() < SIGHTING_OUTCOMES_KEPT || self.counts.contains_key(&sighting.outcome)
        {
            *self.counts.entry(sighting.outcome.clone()).or_default() += 1;
        }
        if self.sightings.len() >= SIGHTINGS_KEPT {
            // It is counted all the same.
            self.sightings.remove(0);
        }
        self.sightings.push(sighting);
    }
}

fn size(sighting: &Sighting) -> usize {
    let labels = sighting.labels.pairs().iter();
    let labels: usize = labels.map(|(name, value)| name.len() + value.len()).sum();
    SIGHTING_BYTES + labels + sighting.owner.as_str().len()
}

/// Tells what was seen for as long as it is polled.
pub(crate) async fn run(node: Arc<Node>) {
    loop {
        tokio::time::sleep(REPORT_EVERY).await;
        let Some(report) = node.sightings.take() else { continue };
        let told: u64 = report.records.iter().map(|one| one.counts.values().sum::<u64>()).sum();
        match tell(&node, report).await {
            Ok(()) => node.metrics.sightings_reported.inc_by(told),
            Err(_) => {
                tracing::debug!(told, "claims that were not granted are missing in the history");
                node.metrics.sightings_dropped.inc_by(told)
            }
        };
    }
}

async fn tell(node: &Node, report: Report) -> Result<(), Fail> {
    let call = Call::new(&MetadataMap::new());
    if node.replica.is_leader() {
        return note(node, &call, report).await;
    }
    let request = reads::report_request(report);
    let answer: tonic::Response<v1::ReportSightingsResponse> =
        node.forward(REPORT, &call, request).await?;
    let v1::ReportSightingsResponse {} = answer.into_inner();
    Ok(())
}

/// Puts a report into the log.
pub(crate) async fn note(node: &Node, call: &Call, report: Report) -> Result<(), Fail> {
    let bytes = report.records.iter().flat_map(|one| &one.sightings).map(size).sum();
    let begun = Instant::now();
    node.submit(call, Command::Report(report), bytes).await?;
    tracing::trace!(took_ms = begun.elapsed().as_millis(), "the history was told");
    Ok(())
}

#[cfg(test)]
mod tests {
    use firstclaim_core::name::Region;
    use firstclaim_core::{FingerprintSet, Labels};

    use super::*;

    fn claim(key: &str, attempt: &str) -> Claim {
        Claim {
            record: RecordRef {
                tenant: "acme".to_owned().try_into().expect("a name"),
                namespace: "payouts".to_owned().try_into().expect("a name"),
                key: key.to_owned().try_into().expect("a key"),
            },
            attempt_id: attempt.to_owned().try_into().expect("an attempt"),
            owner: "w".to_owned().try_into().expect("an owner"),
            fingerprints: FingerprintSet::default(),
            lease: None,
            intent_time: None,
            labels: Labels::default(),
            accept_recovery: false,
            region: Region::unknown(),
            effects: Vec::new(),
            complete_with: None,
            allow_duplicate_intent: false,
        }
    }

    #[test]
    fn an_attempt_that_waits_is_seen_once_and_the_latest_are_kept() {
        let sightings = Sightings::default();
        for at in 0..20_u64 {
            assert_eq!(sightings.note(&claim("k", "waits"), "PENDING", Timestamp(at)), 0);
            assert_eq!(sightings.note(&claim("k", &format!("a{at}")), "REPLAY", Timestamp(at)), 0);
        }
        let report = sightings.take().expect("a report");
        let one = &report.records[0];
        assert_eq!(one.counts, BTreeMap::from([("PENDING".into(), 1), ("REPLAY".into(), 20)]));
        assert_eq!(one.sightings.len(), SIGHTINGS_KEPT);
        let latest = one.sightings.last().map(|last| last.attempt_id.as_str());
        assert_eq!(latest, Some("a19"));
        assert_eq!(one.sightings[SIGHTINGS_KEPT - 2].outcome, "PENDING");
        assert!(sightings.take().is_none());
    }

    #[test]
    fn what_does_not_fit_is_dropped_and_a_report_is_small() {
        let sightings = Sightings::default();
        let note =
            |at: usize| sightings.note(&claim(&format!("k{at}"), "a"), "REPLAY", Timestamp(1));
        let lost: u64 = (0..RECORDS_MAX + 7).map(note).sum();
        assert_eq!(lost, 7);
        let report = sightings.take().expect("a report");
        assert_eq!(report.records.len(), REPORT_RECORDS_MAX);
    }
}
