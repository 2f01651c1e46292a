//! A record: all that is known about a key, and the line that it has in a list.

use std::collections::BTreeMap;

use firstclaim_client::prost_types::Timestamp;
use firstclaim_client::{time, v1};
use serde_json::{Value, json};

use super::{Sheet, completion, effect, effects, hex, mode, on_lapse, rfc3339, state};
use crate::duration;
use crate::failure::short;

/// All that is known about a record.
pub(crate) fn record(record: &v1::Record) -> Sheet {
    let mut sheet = Sheet::default();
    sheet.put("state", "state", state(record.state()));
    sheet.put("tenant", "tenant", &record.tenant);
    sheet.put("namespace", "namespace", &record.namespace);
    sheet.put("key", "key", &record.key);
    sheet.put("epoch", "epoch", record.epoch.to_string());
    grant(&mut sheet, record);
    let prints = record
        .fingerprints
        .iter()
        .map(|print| json!({ "scheme": print.scheme, "digest": hex(&print.digest) }));
    sheet.value("fingerprints", prints.collect());
    for print in &record.fingerprints {
        sheet.line("fingerprint", format!("{}={}", print.scheme, hex(&print.digest)));
    }
    sheet.time("firstSeenTime", "first seen", record.first_seen_time.as_ref(), "");
    sheet.time("intentTime", "intent time", record.intent_time.as_ref(), "");
    sheet.value("labels", json!(record.labels));
    for (name, value) in &record.labels {
        sheet.line("label", format!("{name}={value}"));
    }
    reservation(&mut sheet, record);
    effects(&mut sheet, "effects", &record.effects);
    testimony(&mut sheet, record);
    match &record.completion {
        Some(done) => completion(&mut sheet, done, record.result_dropped),
        None => {
            let expire = record.identity_expire_time.as_ref();
            sheet.time("identityExpireTime", "key kept until", expire, "");
        }
    }
    sheet.value("revision", json!(record.revision.to_string()));
    sheet.value("life", json!(record.life.to_string()));
    sheet.value("attempts", record.attempts.iter().map(attempt).collect());
    sheet
}

fn grant(sheet: &mut Sheet, record: &v1::Record) {
    if record.epoch != 0 {
        sheet.put("mode", "mode", mode(record.mode()));
        sheet.put("owner", "owner", &record.owner);
        sheet.value("attempt", json!(record.attempt_id));
        sheet.put("onLapse", "a lapse means", on_lapse(record.on_lapse()));
    }
    sheet.time("leaseExpireTime", "lease until", record.lease_expire_time.as_ref(), "");
    sheet.time("effectiveDeadline", "lease really until", record.effective_deadline.as_ref(), "");
    sheet.time("notBefore", "not before", record.not_before.as_ref(), "");
    sheet.value("revoked", json!(record.revoked));
    if record.revoked {
        sheet.line("revoked", "yes: neither renewed nor permitted any more");
    }
    sheet.number("executeGrants", "grants", u64::from(record.execute_grants));
}

/// Who bound the key before anybody claimed it.
fn reservation(sheet: &mut Sheet, record: &v1::Record) {
    sheet.value("reserved", json!(record.reserved));
    sheet.value("reserveLabels", json!(record.reserve_labels));
    if record.reserved {
        let said = labels(&record.reserve_labels);
        sheet.line("reserved", if said.is_empty() { "yes".to_owned() } else { said });
    }
    let admitted = !record.admitted_by.is_empty();
    sheet.value("admittedBy", json!(admitted.then_some(&record.admitted_by)));
    sheet.value("admitReason", json!(admitted.then_some(&record.admit_reason)));
    if admitted {
        sheet.line("admitted by", format!("{}: {}", record.admitted_by, record.admit_reason));
    }
}

/// What people decided and fenced-out holders said.
fn testimony(sheet: &mut Sheet, record: &v1::Record) {
    let resolution = record.resolution.as_ref();
    sheet.value(
        "resolution",
        json!(resolution.map(|found| json!({
            "epoch": found.epoch.to_string(),
            "principal": found.principal,
            "reason": found.reason,
            "evidence": found.evidence.as_ref().map(effect::content),
            "resolveTime": found.resolve_time.as_ref().map(rfc3339),
        }))),
    );
    if let Some(found) = resolution {
        sheet.line("resolved by", format!("{}: {}", found.principal, found.reason));
    }
    let reports = record.stale_reports.iter().map(|report| {
        json!({
            "epoch": report.epoch.to_string(),
            "disposition": super::disposition(report.disposition()),
            "digest": hex(&report.digest),
            "reportTime": report.report_time.as_ref().map(rfc3339),
        })
    });
    sheet.value("staleReports", reports.collect());
    for report in &record.stale_reports {
        let said = super::disposition(report.disposition());
        sheet.line("late report", format!("epoch {} says {said}", report.epoch));
    }
}

/// An attempt that was granted the claim.
pub(crate) fn attempt(attempt: &v1::Attempt) -> Value {
    json!({
        "attempt": attempt.attempt_id,
        "owner": attempt.owner,
        "epoch": attempt.epoch.to_string(),
        "acquired": acquired(attempt.kind()),
        "mode": mode(attempt.mode()),
        "journaled": attempt.journaled,
        "region": attempt.region,
        "grantTime": attempt.grant_time.as_ref().map(rfc3339),
        "labels": attempt.labels,
        "ending": ending(attempt.ending()),
        "endTime": attempt.end_time.as_ref().map(rfc3339),
    })
}

/// By which way a claim was acquired.
pub(crate) fn acquired(kind: v1::AcquiredKind) -> String {
    short(kind.as_str_name(), "ACQUIRED_KIND_")
}

/// How a grant ended; empty while nobody knows.
pub(crate) fn ending(ending: v1::Ending) -> String {
    match ending {
        v1::Ending::Unspecified => String::new(),
        v1::Ending::Succeeded
        | v1::Ending::Failed
        | v1::Ending::ReleasedRetry
        | v1::Ending::ReleasedUnbind
        | v1::Ending::ReleasedUnknown
        | v1::Ending::Lapsed
        | v1::Ending::Overtaken => short(ending.as_str_name(), "ENDING_"),
    }
}

/// Labels on one line.
pub(crate) fn labels(labels: &BTreeMap<String, String>) -> String {
    labels.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(", ")
}

/// How long ago that was by the store's clock.
pub(crate) fn age(store_time: Option<&Timestamp>, since: Option<&Timestamp>) -> String {
    match (store_time, since) {
        (Some(now), Some(since)) => duration::about(time::between(since, now)),
        (_, _) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_shows_who_decided_about_it() {
        let sheet = record(&v1::Record {
            key: "payout:847".to_owned(),
            epoch: 281_474_976_710_657,
            reserved: true,
            admitted_by: "ada".to_owned(),
            admit_reason: "the bank never saw it".to_owned(),
            resolution: Some(v1::Resolution {
                principal: "bob".to_owned(),
                reason: "statement 12".to_owned(),
                ..v1::Resolution::default()
            }),
            stale_reports: vec![v1::StaleReport { epoch: 3, ..v1::StaleReport::default() }],
            ..v1::Record::default()
        });
        assert_eq!(sheet.data["epoch"], json!("281474976710657"));
        assert_eq!(sheet.data["resolution"]["principal"], "bob");
        let lines: Vec<&str> = sheet.lines.iter().map(|(label, _)| label.as_str()).collect();
        for label in ["reserved", "admitted by", "resolved by", "late report"] {
            assert!(lines.contains(&label), "{label}: {lines:?}");
        }
    }

    #[test]
    fn ages_are_counted_by_the_store() {
        let at = |seconds| Timestamp { seconds, nanos: 0 };
        assert_eq!(age(Some(&at(100)), Some(&at(10))), "1m 30s");
        assert_eq!(age(Some(&at(100)), None), "");
    }
}
