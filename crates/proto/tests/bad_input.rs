//! Every bad input that the edge refuses, by the field that its fault names.

use std::collections::BTreeMap;

use firstclaim_core::limits;
use firstclaim_core::name::Region;
use firstclaim_proto::convert::{Faults, claim, holder, policy, record, tenant};
use firstclaim_proto::v1;
use prost_types::{Duration, FieldMask, Timestamp};

fn a_claim() -> v1::ClaimRequest {
    v1::ClaimRequest {
        tenant: "acme".to_owned(),
        namespace: "payouts".to_owned(),
        key: "invoice-1".to_owned(),
        attempt_id: "a-1".to_owned(),
        owner: "worker-1".to_owned(),
        fingerprints: vec![a_fingerprint()],
        ..v1::ClaimRequest::default()
    }
}

fn a_fingerprint() -> v1::Fingerprint {
    v1::Fingerprint { scheme: "payout-v1".to_owned(), digest: vec![7; 32], parts: BTreeMap::new() }
}

fn a_completion() -> v1::CompleteRequest {
    v1::CompleteRequest {
        tenant: "acme".to_owned(),
        namespace: "payouts".to_owned(),
        key: "invoice-1".to_owned(),
        attempt_id: "a-1".to_owned(),
        epoch: 1,
        disposition: v1::Disposition::Succeeded.into(),
        ..v1::CompleteRequest::default()
    }
}

fn a_release(intent: Option<v1::release_request::Intent>) -> v1::ReleaseRequest {
    v1::ReleaseRequest {
        tenant: "acme".to_owned(),
        namespace: "payouts".to_owned(),
        key: "invoice-1".to_owned(),
        attempt_id: "a-1".to_owned(),
        epoch: 1,
        intent,
    }
}

fn secs(seconds: i64) -> Option<Duration> {
    Some(Duration { seconds, nanos: 0 })
}

/// What the faults say, one a line, without the remedy.
#[track_caller]
fn faults<T: std::fmt::Debug>(read: Result<T, Faults>) -> Vec<String> {
    let faults = read.expect_err("a refusal");
    for fault in faults.all() {
        assert!(!fault.fix.is_empty(), "{} has no remedy", fault.field);
    }
    faults.all().iter().map(|fault| format!("{} {}", fault.field, fault.problem)).collect()
}

#[track_caller]
fn claim_faults(change: impl FnOnce(&mut v1::ClaimRequest)) -> Vec<String> {
    let mut request = a_claim();
    change(&mut request);
    faults(claim::read(request, Region::unknown()))
}

#[track_caller]
fn complete_faults(result: v1::Result) -> Vec<String> {
    faults(holder::read_complete(v1::CompleteRequest { result: Some(result), ..a_completion() }))
}

#[test]
fn good_input_is_taken() {
    claim::read(a_claim(), Region::unknown()).expect("a claim");
    holder::read_complete(a_completion()).expect("a completion");
}

#[test]
fn a_missing_empty_or_blank_key_is_never_a_shared_record() {
    assert_eq!(claim_faults(|claim| claim.key.clear()), ["key is empty"]);
    assert_eq!(claim_faults(|claim| claim.key = " \t\u{3000}".to_owned()), ["key is blank"]);
}

#[test]
fn keys_are_bounded_in_bytes() {
    let long = v1::ClaimRequest { key: "é".repeat(256), ..a_claim() };
    assert!(claim::read(long, Region::unknown()).is_ok());
    assert_eq!(claim_faults(|claim| claim.key = "k".repeat(513)), ["key is 513 bytes long"]);
    assert_eq!(claim_faults(|claim| claim.key = "a\0b".to_owned()), ["key holds a NUL byte"]);
}

#[test]
fn text_that_is_not_utf8_fails_to_decode() {
    use prost::Message as _;
    let mut wire = vec![0x1a, 2];
    wire.extend([0xff, 0xfe]);
    assert!(v1::ClaimRequest::decode(wire.as_slice()).is_err());
}

#[test]
fn names_and_labels_are_checked() {
    assert_eq!(claim_faults(|claim| claim.tenant = "Acme".to_owned()), ["tenant holds 'A'"]);
    assert_eq!(claim_faults(|claim| claim.tenant = "t".repeat(64)), ["tenant is 64 bytes long"]);
    assert_eq!(claim_faults(|claim| claim.namespace = "a b".to_owned()), ["namespace holds ' '"]);
    assert_eq!(claim_faults(|claim| claim.attempt_id = "a b".to_owned()), ["attempt_id holds ' '"]);
    assert_eq!(claim_faults(|claim| claim.owner.clear()), ["owner is empty"]);
    assert_eq!(claim_faults(|claim| claim.owner = "w".repeat(129)), ["owner is 129 bytes long"]);
    let many = (0..9).map(|at| (at.to_string(), String::new())).collect();
    assert_eq!(claim_faults(|claim| claim.labels = many), ["labels has 9 pairs"]);
    let long = BTreeMap::from([("a".to_owned(), "b".repeat(1024))]);
    assert_eq!(claim_faults(|claim| claim.labels = long), ["labels is 1025 bytes long"]);
}

#[test]
fn leases_are_at_least_a_second() {
    let lease = |lease| claim_faults(|claim| claim.lease = lease);
    assert_eq!(lease(secs(0)), ["lease is 0ms"]);
    assert_eq!(lease(secs(-1)), ["lease is negative (-1 s, 0 ns)"]);
    assert_eq!(lease(Some(Duration { seconds: 0, nanos: -1 })), ["lease is negative (0 s, -1 ns)"]);
    assert_eq!(lease(Some(Duration { seconds: 0, nanos: 999_999_999 })), ["lease is 999ms"]);
    assert_eq!(
        lease(Some(Duration { seconds: 1, nanos: 1_000_000_000 })),
        ["lease has 1000000000 ns"]
    );
    assert_eq!(lease(secs(24 * 3600 + 1)), ["lease is 1d 1s"]);
    assert_eq!(lease(secs(i64::MAX)), ["lease is 9223372036854775807 s long"]);
    let read = claim::read(a_claim(), Region::unknown());
    assert_eq!(read.map(|asked| asked.claim.lease), Ok(None));
}

#[test]
fn times_lie_between_1970_and_9999() {
    let born = |seconds, nanos| {
        claim_faults(|claim| claim.intent_time = Some(Timestamp { seconds, nanos }))
    };
    assert_eq!(born(-1, 0), ["intent_time is -1 s from the start of 1970"]);
    assert_eq!(born(253_402_300_800, 0), ["intent_time is 253402300800 s from the start of 1970"]);
    assert_eq!(born(1, -1), ["intent_time has -1 ns"]);
}

#[test]
fn fingerprints_are_checked() {
    let of = |fingerprints| claim_faults(|claim| claim.fingerprints = fingerprints);
    let short = v1::Fingerprint { digest: vec![1; 5], ..a_fingerprint() };
    assert_eq!(of(vec![short.clone()]), ["fingerprints[0].digest is 5 bytes long"]);
    let unnamed = v1::Fingerprint { scheme: String::new(), ..short };
    assert_eq!(
        of(vec![a_fingerprint(), unnamed]),
        ["fingerprints[1].scheme is empty", "fingerprints[1].digest is 5 bytes long"]
    );
    assert_eq!(of(vec![a_fingerprint(); 2]), ["fingerprints[1].scheme repeats \"payout-v1\""]);
    assert_eq!(of(vec![a_fingerprint(); 5]), ["fingerprints has 5 schemes"]);
    let parts = BTreeMap::from([("amount".to_owned(), vec![1; 5])]);
    assert_eq!(
        of(vec![v1::Fingerprint { parts, ..a_fingerprint() }]),
        ["fingerprints[0].parts[amount] is 5 bytes long"]
    );
}

#[test]
fn all_faults_are_told_at_once() {
    let told = faults(claim::read(v1::ClaimRequest::default(), Region::unknown()));
    let fields: Vec<_> = told.iter().filter_map(|fault| fault.split(' ').next()).collect();
    assert_eq!(fields, ["tenant", "namespace", "key", "attempt_id", "owner"]);
}

#[test]
fn a_holder_names_its_epoch_and_what_it_knows() {
    let told = faults(holder::read_renew(v1::RenewRequest {
        lease: secs(0),
        tenant: "acme".to_owned(),
        namespace: "payouts".to_owned(),
        key: "k".to_owned(),
        ..v1::RenewRequest::default()
    }));
    assert_eq!(told, ["attempt_id is empty", "epoch is 0", "lease is 0ms"]);
    let told =
        faults(holder::read_complete(v1::CompleteRequest { disposition: 0, ..a_completion() }));
    assert_eq!(told, ["disposition is not set"]);
    let told =
        faults(holder::read_complete(v1::CompleteRequest { disposition: 9, ..a_completion() }));
    assert_eq!(told, ["disposition is 9, which is not known"]);
    assert_eq!(faults(holder::read_release(a_release(None))), ["intent is missing"]);
}

#[test]
fn releases_are_bounded() {
    use v1::release_request::Intent;
    let retry = |retry_after| a_release(Some(Intent::Retry(v1::ReleaseRetry { retry_after })));
    assert!(holder::read_release(retry(None)).is_ok());
    assert!(holder::read_release(retry(secs(0))).is_ok());
    let most = i64::try_from(limits::BACKOFF_MAX.0 / 1000).expect("a number of seconds");
    assert!(holder::read_release(retry(secs(most))).is_ok());
    assert_eq!(
        faults(holder::read_release(retry(secs(most + 1)))),
        ["retry.retry_after is 30d 1s"]
    );
    let note = "n".repeat(limits::NOTE_BYTES_MAX + 1);
    let unknown = a_release(Some(Intent::Unknown(v1::ReleaseUnknown { note })));
    assert_eq!(faults(holder::read_release(unknown)), ["unknown.note is 1025 bytes long"]);
}

#[test]
fn results_are_bounded() {
    let inline = |length| v1::Result {
        body: Some(v1::result::Body::Inline(vec![0; length])),
        ..v1::Result::default()
    };
    let most =
        v1::CompleteRequest { result: Some(inline(limits::RESULT_BYTES_MAX)), ..a_completion() };
    assert!(holder::read_complete(most).is_ok());
    assert_eq!(
        complete_faults(inline(limits::RESULT_BYTES_MAX + 1)),
        ["result.inline is 1048577 bytes long"]
    );
    let reference = v1::ResultReference { uri: String::new(), digest: vec![0; 65], length: 1 };
    let elsewhere = v1::Result {
        body: Some(v1::result::Body::Reference(reference)),
        content_type: "c".repeat(129),
        ..v1::Result::default()
    };
    assert_eq!(
        complete_faults(elsewhere),
        [
            "result.content_type is 129 bytes long",
            "result.reference.uri is empty",
            "result.reference.digest is 65 bytes long"
        ]
    );
}

#[test]
fn reads_name_a_record_and_a_known_consistency() {
    let told = faults(record::read_get(v1::GetRequest { consistency: 7, ..Default::default() }));
    assert_eq!(
        told,
        [
            "consistency is 7, which this server does not know",
            "tenant is empty",
            "namespace is empty",
            "key is empty"
        ]
    );
}

#[test]
fn policies_are_read_field_by_field() {
    let wire = v1::Policy {
        lease_max: secs(-5),
        on_lapse: 9,
        identity_retention: Some(v1::IdentityRetention { kind: None }),
        replay_windows: Some(v1::ReplayWindows {
            windows: vec![v1::ReplayWindow { name: " ".to_owned(), window: None }],
        }),
        ..v1::Policy::default()
    };
    let wanted = v1::Tenant {
        name: "A".to_owned(),
        policy: Some(wire),
        etag: "x".to_owned(),
        ..Default::default()
    };
    assert_eq!(
        faults(tenant::read_tenant_change(Some(wanted))),
        [
            "tenant.name holds 'A'",
            "tenant.policy.lease_max is negative (-5 s, 0 ns)",
            "tenant.policy.on_lapse is 9, which is not known",
            "tenant.policy.identity_retention is empty",
            "tenant.policy.replay_windows.windows[0].name is blank or too long (1 bytes)",
            "tenant.policy.replay_windows.windows[0].window is missing",
            "tenant.etag is \"x\""
        ]
    );
    assert_eq!(faults(tenant::read_tenant_change(None)), ["tenant is missing"]);
    assert_eq!(faults(tenant::read_namespace_change(None)), ["namespace is missing"]);
}

#[test]
fn a_list_takes_only_our_page_tokens() {
    let list = v1::ListTenantsRequest { page_size: 5000, page_token: String::new() };
    assert_eq!(tenant::read_list_tenants(list).map(|page| page.size), Ok(1000));
    let list = v1::ListTenantsRequest { page_size: 0, page_token: "?".to_owned() };
    assert_eq!(faults(tenant::read_list_tenants(list)), ["page_token is not one of ours"]);
}

#[test]
fn an_update_mask_names_fields_of_a_policy() {
    use firstclaim_core::PolicyPatch;
    let none = PolicyPatch::default();
    let set = PolicyPatch { max_attempts: Some(3), ..none.clone() };
    let mask = |path: &str| FieldMask { paths: vec![path.to_owned()] };
    let update = |current: &PolicyPatch, sent: &PolicyPatch, path: &str| {
        policy::update(current, sent, Some(&mask(path)))
    };
    // Without a mask, what is sent is set and what is not sent stays.
    assert_eq!(policy::update(&set, &none, None), Ok(set.clone()));
    assert_eq!(policy::update(&none, &set, None), Ok(set.clone()));
    // With one, what it names is written, absent fields too, and nothing else.
    assert_eq!(update(&set, &none, "policy.max_attempts"), Ok(none.clone()));
    assert_eq!(update(&set, &none, "policy.lease_max"), Ok(set.clone()));
    assert_eq!(update(&set, &none, "policy"), Ok(none.clone()));
    assert_eq!(
        faults(update(&set, &none, "policy.leese_max")),
        ["update_mask names \"policy.leese_max\""]
    );
}
