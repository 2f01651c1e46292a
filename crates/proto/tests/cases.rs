//! Faults that people reported in public trackers, where a call comes in: keys, leases, results.
//!
//! The numbers are those of the table in `docs/testing.md`.

use std::collections::BTreeMap;

use firstclaim_core::name::Region;
use firstclaim_core::{IdempotencyKey, limits};
use firstclaim_proto::convert::{
    Faults, claim, dispatch, holder, operator, reads, record, reserve, resolve, result, settle,
};
use firstclaim_proto::v1;
use proptest::prelude::*;
use prost::Message as _;

/// A call that names a key, and what it is said about a key.
type Call = (&'static str, fn(&str) -> Vec<String>);

/// What is wrong with the key, as each call that names one says it.
const CALLS: [Call; 13] = [
    ("Claim", |key| faults(claim::read(a_claim(key), Region::unknown()))),
    ("Renew", |key| {
        faults(holder::read_renew(v1::RenewRequest { key: key.into(), ..Default::default() }))
    }),
    ("Complete", |key| {
        faults(holder::read_complete(v1::CompleteRequest { key: key.into(), ..Default::default() }))
    }),
    ("Release", |key| {
        faults(holder::read_release(v1::ReleaseRequest { key: key.into(), ..Default::default() }))
    }),
    ("RecordEffect", |key| {
        let request = v1::RecordEffectRequest { key: key.into(), ..Default::default() };
        faults(dispatch::read_record_effect(request))
    }),
    ("SettleEffect", |key| {
        faults(settle::read(v1::SettleEffectRequest { key: key.into(), ..Default::default() }))
    }),
    ("Reserve", |key| faults(reserve::read(a_reservation(key)))),
    ("Admit", |key| {
        let reserve = Some(a_reservation(key));
        faults(reserve::read_admit(v1::AdmitRequest { reserve, ..Default::default() }))
    }),
    ("Resolve", |key| {
        faults(resolve::read(v1::ResolveRequest { key: key.into(), ..Default::default() }))
    }),
    ("Revoke", |key| {
        faults(operator::read_revoke(v1::RevokeRequest { key: key.into(), ..Default::default() }))
    }),
    ("PurgeRecord", |key| {
        let request = v1::PurgeRecordRequest { key: key.into(), ..Default::default() };
        faults(operator::read_purge(request))
    }),
    ("Get", |key| {
        faults(record::read_get(v1::GetRequest { key: key.into(), ..Default::default() }))
    }),
    ("GetHistory and WatchRecord", |key| {
        faults(reads::read_record_ref("acme".into(), "payouts".into(), key.into()))
    }),
];

fn a_claim(key: &str) -> v1::ClaimRequest {
    let fingerprint = v1::Fingerprint {
        scheme: "payout-v1".to_owned(),
        digest: vec![7; 32],
        parts: BTreeMap::new(),
    };
    v1::ClaimRequest {
        tenant: "acme".to_owned(),
        namespace: "payouts".to_owned(),
        key: key.to_owned(),
        attempt_id: "a-1".to_owned(),
        owner: "worker-1".to_owned(),
        fingerprints: vec![fingerprint],
        ..v1::ClaimRequest::default()
    }
}

fn a_reservation(key: &str) -> v1::ReserveRequest {
    v1::ReserveRequest { key: key.to_owned(), ..v1::ReserveRequest::default() }
}

/// What is said about the key, and only that: the other fields are left out on purpose.
fn faults<T>(read: Result<T, Faults>) -> Vec<String> {
    let faults = read.err().map(Faults::into_vec).unwrap_or_default();
    let about_key = faults.into_iter().filter(|it| it.field == "key" || it.field == "reserve.key");
    about_key.map(|fault| format!("{}; {}", fault.problem, fault.fix)).collect()
}

fn seconds(seconds: i64) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds, nanos: 0 })
}

#[test]
fn case_02_a_lease_of_zero_is_a_fault_and_none_is_the_policys() {
    for lease in [seconds(0), seconds(-1), Some(prost_types::Duration::default())] {
        let claimed = claim::read(v1::ClaimRequest { lease, ..a_claim("k") }, Region::unknown());
        let told = claimed.expect_err("a refusal").into_vec();
        assert_eq!(told[0].field, "lease", "{lease:?}");
        let renewed = holder::read_renew(v1::RenewRequest { lease, ..Default::default() });
        let told = renewed.expect_err("a refusal").into_vec();
        assert!(told.iter().any(|fault| fault.field == "lease"), "{lease:?}");
    }
    let absent = claim::read(a_claim("k"), Region::unknown()).expect("a claim");
    assert_eq!(absent.claim.lease, None, "the policy's own, in the log");
}

#[test]
fn case_55_no_call_takes_a_missing_or_blank_key_for_a_shared_record() {
    for (call, about) in CALLS {
        for blank in ["", " ", "\t", "\r\n", "\u{a0}", "\u{3000}", " \u{2003}\t "] {
            let told = about(blank);
            assert_eq!(told.len(), 1, "{call} {blank:?}: {told:?}");
            let problem = if blank.is_empty() { "is empty" } else { "is blank" };
            assert!(told[0].starts_with(problem), "{call} {blank:?}: {told:?}");
        }
        assert_eq!(about("null"), [""; 0], "{call}: a word is a word");
    }
}

#[test]
fn case_56_keys_are_limited_in_bytes_and_the_limit_is_told() {
    // Characters of one to four bytes; 512 of each kind would pass a limit in characters.
    for (one, most) in [("a", 512), ("é", 256), ("漢", 170), ("😀", 128)] {
        let (fits, over) = (one.repeat(most), one.repeat(most + 1));
        for (call, about) in CALLS {
            assert_eq!(about(&fits), [""; 0], "{call}: {} bytes", fits.len());
            let told = about(&over);
            let problem = format!("is {} bytes long", over.len());
            assert!(told.len() == 1 && told[0].starts_with(&problem), "{call}: {told:?}");
            assert!(told[0].contains("512"), "{call} does not say the limit: {told:?}");
        }
    }
}

#[test]
fn case_62_nobody_gets_a_scope_that_was_not_named() {
    let nobody =
        v1::ClaimRequest { tenant: String::new(), namespace: String::new(), ..a_claim("k") };
    let told = claim::read(nobody, Region::unknown()).expect_err("a refusal").into_vec();
    let fields: Vec<_> = told.iter().map(|fault| fault.field.as_str()).collect();
    assert_eq!(fields, ["tenant", "namespace"]);
}

#[test]
fn case_82_what_is_too_long_to_send_is_told_and_may_be_kept_elsewhere() {
    let most = limits::RESULT_BYTES_MAX;
    let of =
        |body| result::read_result(Some(v1::Result { body: Some(body), ..Default::default() }));
    let inline = |length| of(v1::result::Body::Inline(vec![0; length]));
    assert_eq!(inline(most).expect("a result").length, most as u64);
    let told = inline(most + 1).expect_err("a refusal").into_vec();
    assert_eq!(told[0].field, "result.inline");
    assert!(told[0].fix.contains("reference"), "{}", told[0]);

    let reference = v1::ResultReference {
        uri: "s3://results/1".to_owned(),
        digest: vec![1; 32],
        length: u64::MAX,
    };
    let elsewhere = of(v1::result::Body::Reference(reference)).expect("a result");
    assert_eq!((elsewhere.length, elsewhere.bytes), (u64::MAX, None));
    assert_eq!((elsewhere.digest, elsewhere.oversize), (vec![1; 32], false));
}

/// Keys of every sort: any text, and texts near the limits.
fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[ \t\u{a0}]{0,3}",
        "[a-z:/~%\\\\\u{0}-\u{1f}\u{7f}é漢😀]{0,40}",
        (508..516usize).prop_map(|length| "k".repeat(length)),
        (253..259usize).prop_map(|length| "é".repeat(length)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// No call takes a key that another one refuses, and none changes a byte of it.
    #[test]
    fn case_58_every_call_takes_the_same_keys(key in key()) {
        let good = IdempotencyKey::parse(key.clone()).is_ok();
        for (call, about) in CALLS {
            prop_assert_eq!(about(&key).is_empty(), good, "{}", call);
        }
        let sent = v1::ClaimRequest::decode(a_claim(&key).encode_to_vec().as_slice());
        if good {
            let read = claim::read(sent.expect("the same message"), Region::unknown());
            let asked = read.expect("a claim");
            prop_assert_eq!(asked.claim.record.key.as_str(), &key);
            prop_assert_eq!(claim::request(asked).key, key);
        }
    }

    /// A result is bytes: those of a cut text, too, come back whole or not at all.
    #[test]
    fn case_64_bytes_that_are_no_text_stay_as_they_are(
        bytes in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..200),
            "[é漢😀]{1,30}".prop_map(|text| {
                let mut bytes = text.into_bytes();
                bytes.pop();
                bytes
            }),
        ],
    ) {
        let body = Some(v1::result::Body::Inline(bytes.clone()));
        let wire = v1::Result { body, ..v1::Result::default() };
        let sent = v1::Result::decode(wire.encode_to_vec().as_slice()).expect("the same message");
        let read = result::read_result(Some(sent)).expect("a result");
        prop_assert_eq!(read.bytes.as_ref(), Some(&bytes));
        prop_assert_eq!(read.length, bytes.len() as u64);
        prop_assert_eq!(result::result(read).body, Some(v1::result::Body::Inline(bytes)));
    }
}
