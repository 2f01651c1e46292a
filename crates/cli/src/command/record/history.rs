//! `firstclaim record history`: who claimed a key, when, and what they were answered.

use firstclaim_client::prost_types::Timestamp;
use firstclaim_client::v1;
use serde_json::{Value, json};

use super::super::naming::RecordArgs;
use crate::context::Context;
use crate::exit;
use crate::failure::Failure;
use crate::output::Shown;
use crate::view::{self, Sheet};

pub(crate) async fn run(context: &Context, key: RecordArgs) -> Result<u8, Failure> {
    let name = key.record(context)?;
    let answer = context.client()?.history(&name).await?;
    let record = answer.record.as_ref().ok_or_else(|| Failure::lacks("the record"))?;
    let mut sheet = Sheet::default();
    sheet.put("key", "key", &record.key);
    sheet.put("state", "state", view::state(record.state()));
    sheet.put("epoch", "epoch", record.epoch.to_string());
    sheet.time("firstSeenTime", "first seen", record.first_seen_time.as_ref(), "");
    sheet.number("executeGrants", "grants", u64::from(record.execute_grants));
    sheet.value("attempts", answer.attempts.iter().map(view::attempt).collect());
    sheet.value("sightings", answer.sightings.iter().map(sighting).collect());
    sheet.value("counts", json!(answer.counts));
    if !answer.counts.is_empty() {
        let counts = answer.counts.iter().map(|(outcome, count)| format!("{outcome} {count}"));
        sheet.line("turned away", counts.collect::<Vec<_>>().join("   "));
    }
    sheet.value("storeTime", json!(answer.store_time.as_ref().map(view::rfc3339)));
    let header = vec!["TIME", "ANSWER", "EPOCH", "MODE", "ATTEMPT", "OWNER", "REGION", "LABELS"];
    let rows = rows(&answer);
    let shown = Shown::Both { fields: sheet.lines, header, rows };
    context.out.data("History", Value::Object(sheet.data), &shown)?;
    Ok(exit::DONE)
}

fn sighting(sighting: &v1::Sighting) -> Value {
    json!({
        "time": sighting.time.as_ref().map(view::rfc3339),
        "outcome": sighting.outcome,
        "attempt": sighting.attempt_id,
        "owner": sighting.owner,
        "region": sighting.region,
        "labels": sighting.labels,
    })
}

/// Grants, their ends, and claims that were turned away, in the order of time.
fn rows(answer: &v1::GetHistoryResponse) -> Vec<Vec<String>> {
    let mut rows: Vec<((i64, i32), Vec<String>)> = Vec::new();
    let shown = |time: Option<&Timestamp>| time.map(view::rfc3339).unwrap_or_default();
    let order = |time: Option<&Timestamp>| time.map(|time| (time.seconds, time.nanos));
    for attempt in &answer.attempts {
        let line = |time: Option<&Timestamp>, word: String| {
            vec![
                shown(time),
                word,
                attempt.epoch.to_string(),
                view::mode(attempt.mode()),
                attempt.attempt_id.clone(),
                attempt.owner.clone(),
                attempt.region.clone(),
                view::labels(&attempt.labels),
            ]
        };
        let granted = attempt.grant_time.as_ref();
        let word = format!("acquired {}", view::acquired(attempt.kind()));
        rows.push((order(granted).unwrap_or_default(), line(granted, word)));
        let ending = view::ending(attempt.ending());
        if !ending.is_empty() {
            let ended = attempt.end_time.as_ref().or(granted);
            let word = format!("ended {ending}");
            rows.push((order(ended).unwrap_or_default(), line(ended, word)));
        }
    }
    for sighting in &answer.sightings {
        let time = sighting.time.as_ref();
        let line = vec![
            shown(time),
            sighting.outcome.clone(),
            String::new(),
            String::new(),
            sighting.attempt_id.clone(),
            sighting.owner.clone(),
            sighting.region.clone(),
            view::labels(&sighting.labels),
        ];
        rows.push((order(time).unwrap_or_default(), line));
    }
    // Stable: what happened at one time stays in the order of the answer.
    rows.sort_by_key(|(time, _)| *time);
    rows.into_iter().map(|(_, row)| row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_and_refusals_are_told_in_the_order_of_time() {
        let at = |seconds| Some(Timestamp { seconds, nanos: 0 });
        let first = v1::Attempt {
            attempt_id: "a1".to_owned(),
            kind: v1::AcquiredKind::First.into(),
            grant_time: at(10),
            ending: v1::Ending::Lapsed.into(),
            end_time: at(40),
            ..v1::Attempt::default()
        };
        let second = v1::Attempt {
            attempt_id: "a2".to_owned(),
            kind: v1::AcquiredKind::Recovery.into(),
            grant_time: at(50),
            ..v1::Attempt::default()
        };
        let pending =
            v1::Sighting { outcome: "PENDING".to_owned(), time: at(20), ..v1::Sighting::default() };
        let answer = v1::GetHistoryResponse {
            attempts: vec![first, second],
            sightings: vec![pending],
            ..v1::GetHistoryResponse::default()
        };
        let told: Vec<String> = rows(&answer).into_iter().map(|row| row[1].clone()).collect();
        assert_eq!(told, ["acquired FIRST", "PENDING", "ended LAPSED", "acquired RECOVERY"]);
    }
}
