//! The catalogue is what is scraped.

use std::collections::BTreeMap;

use firstclaim_core::record::Disposition;
use firstclaim_core::{Millis, NamespaceName, Reason, TenantName};

use super::catalogue::{ALL, Kind};
use super::*;

/// A server's metrics with something of everything in it.
fn full() -> String {
    let metrics = Metrics::new();
    let (tenant, namespace) = (TenantName::parse("acme"), NamespaceName::parse("payouts"));
    let (tenant, namespace) = (tenant.expect("a name"), namespace.expect("a name"));
    let records = &metrics.records;
    let scope = records.scope(&tenant, &namespace);
    records.claim(&scope, "first");
    records.claim_refusal(&scope, Reason::FingerprintMismatch);
    records.replay(&scope, ReplayPath::Local, Millis(1500));
    records.duplicate_intent(&scope, true);
    records.intent_time_moved(&scope);
    records.completion(&scope, Disposition::Succeeded, false);
    records.fenced_write(&scope, Reason::StaleEpoch);
    records.permit(&scope, true);
    records.settled(&scope, true);
    records.contradicted(&scope);
    let sample = NamespaceSample {
        tenant,
        namespace,
        records: 3,
        unresolved: 1,
        oldest_age: Millis(2500),
        parked: Some(0),
    };
    records.sample(&[sample], Millis(0));
    metrics.refusal(Reason::Overloaded);
    metrics.forward(ForwardEnd::Answered);
    metrics.rpc("Claim", 0.01);
    let sample = ReplicaSample { peer_lags: vec![(2, 3)], ..ReplicaSample::default() };
    metrics.scrape(&sample).expect("encode")
}

#[test]
fn every_metric_of_the_catalogue_is_scraped_with_its_labels_and_no_other() {
    let text = full();
    let mut seen: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, rest) = line.split_once(['{', ' ']).expect("a name");
        let histogram = ["_bucket", "_sum", "_count"].iter().find_map(|it| name.strip_suffix(it));
        let labels = match rest.split_once('}') {
            Some((labels, _)) => labels
                .split(',')
                .filter_map(|label| label.split_once('=').map(|(name, _)| name))
                .filter(|label| *label != "le")
                .collect(),
            None => Vec::new(),
        };
        seen.insert(histogram.unwrap_or(name), labels);
    }
    for entry in ALL {
        let labels = seen.remove(entry.scraped().as_str());
        let labels = labels.unwrap_or_else(|| panic!("{} is not scraped", entry.scraped()));
        assert_eq!(labels, entry.labels, "{}", entry.scraped());
        let kind = format!("# TYPE firstclaim_{} {}", entry.name, entry.kind.as_str());
        assert!(text.contains(&kind), "{kind}");
        assert!(text.contains(entry.help), "{}", entry.name);
        assert!(entry.kind != Kind::Info || labels == ["version"]);
    }
    assert!(seen.is_empty(), "not in the catalogue: {seen:?}");
}
