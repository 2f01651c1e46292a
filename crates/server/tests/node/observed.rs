//! What is counted of a live node is what the catalogue says, and limits hold only what they should.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::three::{
    Three, acquired, claim, committed, complete, dispatch, http_get, info, settlement,
};
use firstclaim_proto::v1;
use firstclaim_proto::v1::claim_response::Outcome;
use firstclaim_server::metric_catalogue;
use tokio::time::Instant;
use tonic::Code;

/// Reported elsewhere: case 11, case 59.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_live_cluster_shows_every_metric_of_the_catalogue_and_no_other() {
    let three = Three::start().await;
    let (leader, follower) = (three.leader().await, three.follower().await);
    three.seed(leader).await;
    let policy = v1::Policy { max_attempts: Some(1), ..v1::Policy::default() };
    three.namespace(leader, "capped", policy).await;
    traffic(&three, follower).await;

    // What is sampled and what is told in batches comes a little later.
    let give_up = Instant::now() + Duration::from_secs(40);
    loop {
        let (seen, text) = scraped(&three).await;
        let known: BTreeSet<String> =
            metric_catalogue::ALL.iter().map(metric_catalogue::Entry::scraped).collect();
        let missing: Vec<_> = known.difference(&seen).collect();
        let unknown: Vec<_> = seen.difference(&known).collect();
        assert!(unknown.is_empty(), "not in the catalogue: {unknown:?}");
        let gauge = |name: &str, namespace: &str| {
            let scope = format!("{{tenant=\"acme\",namespace=\"{namespace}\"}}");
            text.contains(&format!("firstclaim_{name}{scope} 1\n"))
        };
        let told = gauge("unresolved_records", "payouts") && gauge("parked_records", "capped");
        if missing.is_empty() && told {
            figures(&text);
            break;
        }
        assert!(Instant::now() < give_up, "never seen: {missing:?} (sampled: {told})");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    three.stop().await;
}

/// The names that any node shows, and all texts.
async fn scraped(three: &Three) -> (BTreeSet<String>, String) {
    let (mut names, mut text) = (BTreeSet::new(), String::new());
    for node in three.nodes.values() {
        let (head, body) = http_get(node, "/metrics").await;
        assert_eq!(head, "HTTP/1.1 200 OK");
        for line in body.lines().filter(|line| line.starts_with("firstclaim_")) {
            let name = line.split(['{', ' ']).next().expect("a name");
            let histogram =
                ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
            names.insert(histogram.unwrap_or(name).to_owned());
        }
        text.push_str(&body);
    }
    (names, text)
}

/// A little of everything that is counted.
async fn traffic(three: &Three, node: u64) {
    let mut claims = three.claims(node);
    let mut first = claim("pay", "one");
    first.effects = vec![dispatch("payment")];
    first.intent_time = Some(now());
    let granted = acquired(claims.claim(first.clone()).await.expect("an answer").into_inner());
    let mut moved = first.clone();
    moved.intent_time = Some(prost_types::Timestamp { seconds: now().seconds - 5, nanos: 0 });
    acquired(claims.claim(moved).await.expect("held").into_inner());
    let uid = format!("{}/payment", granted.life);
    let settle = |verdict| v1::SettleEffectRequest {
        tenant: "acme".to_owned(),
        namespace: "payouts".to_owned(),
        key: "pay".to_owned(),
        settlement: Some(v1::EffectSettlement {
            evidence: None,
            ..settlement(&uid, Some(verdict))
        }),
        principal: "ann".to_owned(),
    };
    let refused = v1::verdict::Kind::Refused(v1::Refused { status: Some(400) });
    let happened = committed().expect("a verdict");
    claims.settle_effect(settle(happened)).await.expect("settled");
    let denied = settle(v1::Verdict { kind: Some(refused) });
    let error = claims.settle_effect(denied).await.expect_err("a contradiction");
    assert_eq!(info(&error).reason, "EVIDENCE_CONFLICT");
    let mut stale = complete("pay", "one", granted.epoch, b"x");
    stale.epoch += 1000;
    claims.complete(stale).await.expect_err("stale");
    claims.complete(complete("pay", "one", granted.epoch, b"x")).await.expect("completed");
    for node in 1..=3 {
        let again = three.claims(node).claim(claim("pay", "two")).await.expect("an answer");
        assert!(matches!(again.into_inner().outcome, Some(Outcome::Replay(_))));
    }
    let mut other = claim("pay", "two");
    other.fingerprints[0].digest = vec![9; 32];
    claims.claim(other).await.expect_err("another request");
    // The same request under another key.
    let minted = acquired(claims.claim(claim("minted", "one")).await.expect("ok").into_inner());
    assert_eq!(minted.similar_keys, ["pay"]);
    let release = v1::ReleaseRequest {
        tenant: "acme".to_owned(),
        namespace: "payouts".to_owned(),
        key: "minted".to_owned(),
        attempt_id: "one".to_owned(),
        epoch: minted.epoch,
        intent: Some(v1::release_request::Intent::Unknown(v1::ReleaseUnknown::default())),
    };
    claims.release(release.clone()).await.expect("released");
    // One that was given back, and had all the grants that its policy allows.
    let mut last = claim("parked", "one");
    last.namespace = "capped".to_owned();
    let granted = acquired(claims.claim(last).await.expect("an answer").into_inner());
    let release = v1::ReleaseRequest {
        namespace: "capped".to_owned(),
        key: "parked".to_owned(),
        epoch: granted.epoch,
        intent: Some(v1::release_request::Intent::Retry(v1::ReleaseRetry::default())),
        ..release
    };
    claims.release(release).await.expect("released");
}

fn now() -> prost_types::Timestamp {
    std::time::UNIX_EPOCH.elapsed().map_or_else(
        |_| prost_types::Timestamp::default(),
        |since| prost_types::Timestamp {
            seconds: i64::try_from(since.as_secs()).unwrap_or(0),
            nanos: 0,
        },
    )
}

/// What the traffic must have been counted as.
fn figures(text: &str) {
    let sum = |name: &str| -> f64 {
        text.lines()
            .filter_map(|line| line.strip_prefix(name))
            .filter_map(|rest| rest.trim().parse::<f64>().ok())
            .sum()
    };
    let place = "tenant=\"acme\",namespace=\"payouts\"";
    let expected = [
        (format!("firstclaim_effects_recorded_total{{{place}}}"), 1.0),
        (format!("firstclaim_dispatches_permitted_total{{{place}}}"), 1.0),
        (format!("firstclaim_effects_settled_total{{{place},verdict=\"committed\"}}"), 1.0),
        (format!("firstclaim_effects_contradicted_total{{{place}}}"), 1.0),
        (format!("firstclaim_fenced_writes_total{{{place},reason=\"STALE_EPOCH\"}}"), 1.0),
        (format!("firstclaim_duplicate_intents_total{{{place},outcome=\"warned\"}}"), 1.0),
        (format!("firstclaim_intent_times_moved_total{{{place}}}"), 1.0),
        (
            format!("firstclaim_claim_refusals_total{{{place},reason=\"FINGERPRINT_MISMATCH\"}}"),
            1.0,
        ),
        (format!("firstclaim_claims_total{{{place},outcome=\"first\"}}"), 2.0),
        (format!("firstclaim_claims_total{{{place},outcome=\"replay\"}}"), 3.0),
        (format!("firstclaim_replay_age_seconds_count{{{place}}}"), 3.0),
        (
            format!(
                "firstclaim_completions_total{{{place},disposition=\"succeeded\",late=\"false\"}}"
            ),
            1.0,
        ),
    ];
    for (name, value) in expected {
        let counted = sum(&name);
        assert!((counted - value).abs() < 0.5, "{name} is {counted}, not {value}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::too_many_lines, reason = "one story: what is held up, and all that is not")]
async fn a_namespace_is_held_to_its_claims_a_second_and_nothing_else_is() {
    let three = Three::start().await;
    let (leader, follower) = (three.leader().await, three.follower().await);
    three.seed(leader).await;
    let policy = v1::Policy { claims_per_second: Some(2), ..v1::Policy::default() };
    three.namespace(leader, "slow", policy).await;
    let slow = |key: &str, attempt: &str| v1::ClaimRequest {
        namespace: "slow".to_owned(),
        ..claim(key, attempt)
    };
    let mut claims = three.claims(follower);
    let (mut granted, mut limited) = (Vec::new(), None);
    for at in 0..12 {
        match claims.claim(slow(&format!("k{at}"), "one")).await {
            Ok(answer) => granted.push((format!("k{at}"), acquired(answer.into_inner()))),
            Err(error) => {
                limited = Some(error);
                break;
            }
        }
    }
    let error = limited.expect("twelve claims at once are too many");
    let told = info(&error);
    assert_eq!((error.code(), told.reason.as_str()), (Code::ResourceExhausted, "RATE_LIMITED"));
    assert_eq!(
        (told.metadata["applied"].as_str(), told.metadata["claims_per_second"].as_str()),
        ("no", "2")
    );
    let retry =
        tonic_types::StatusExt::get_details_retry_info(&error).expect("a time to come back");
    assert!(retry.retry_delay.is_some_and(|delay| delay <= Duration::from_millis(500)));
    let reserve = v1::ReserveRequest {
        tenant: "acme".to_owned(),
        namespace: "slow".to_owned(),
        key: "reserved".to_owned(),
        fingerprints: slow("reserved", "one").fingerprints,
        ..v1::ReserveRequest::default()
    };
    let mut refused = false;
    for _ in 0..12 {
        refused |= claims.reserve(reserve.clone()).await.is_err();
    }
    assert!(refused, "reservations are not held to the rate");

    // Holders are not held up, and neither are duplicates that any node replays.
    let (key, held) = granted.first().expect("one was granted").clone();
    for _ in 0..12 {
        let renew = v1::RenewRequest {
            tenant: "acme".to_owned(),
            namespace: "slow".to_owned(),
            key: key.clone(),
            attempt_id: "one".to_owned(),
            epoch: held.epoch,
            lease: None,
        };
        claims.renew(renew).await.expect("a holder is never held up");
    }
    let mut done = complete(&key, "one", held.epoch, b"x");
    done.namespace = "slow".to_owned();
    claims.complete(done).await.expect("a holder is never held up");
    let give_up = Instant::now() + Duration::from_secs(10);
    while claims.claim(slow(&key, "seen")).await.is_err() {
        assert!(Instant::now() < give_up, "no replay");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    for at in 0..12 {
        let answer = claims.claim(slow(&key, &format!("again-{at}"))).await;
        let answer = answer.expect("a replay is never held up").into_inner();
        assert!(matches!(answer.outcome, Some(Outcome::Replay(_))), "{answer:?}");
    }

    // In a batch, an item that comes too soon is refused alone.
    let items = (0..12).map(|at| slow(&format!("b{at}"), "one")).collect();
    let batch = v1::ClaimBatchRequest { tenant: "acme".to_owned(), items };
    let answers = claims.claim_batch(batch).await.expect("answers").into_inner().items;
    let limited = answers.iter().filter(|item| {
        matches!(&item.outcome, Some(v1::claim_batch_item::Outcome::Failure(failure))
            if failure.reason == "RATE_LIMITED" && failure.retry_after.is_some())
    });
    assert!(limited.count() >= 8, "{answers:?}");
    quota(&three, leader).await;
    three.stop().await;
}

/// A full namespace takes no new key, and lets everybody finish.
async fn quota(three: &Three, node: u64) {
    let policy = v1::Policy { records_max: Some(1), ..v1::Policy::default() };
    three.namespace(node, "small", policy).await;
    let mut claims = three.claims(node);
    let small = |key: &str| v1::ClaimRequest { namespace: "small".to_owned(), ..claim(key, "one") };
    let held = acquired(claims.claim(small("only")).await.expect("an answer").into_inner());
    let error = claims.claim(small("more")).await.expect_err("full");
    let told = info(&error);
    assert_eq!(
        (error.code(), told.reason.as_str()),
        (Code::ResourceExhausted, "RECORDS_EXHAUSTED")
    );
    assert_eq!(told.metadata["records_max"], "1");
    let mut done = complete("only", "one", held.epoch, b"x");
    done.namespace = "small".to_owned();
    claims.complete(done).await.expect("a holder is never held up");
}
