//! Faults that people reported in public trackers, where the SDK meets them: fingerprints and keys.
//!
//! The numbers are those of the table in `docs/testing.md`.

use firstclaim_client::fingerprint::{self, Selector};
use firstclaim_client::key;

#[test]
fn case_43_spelling_counts_for_raw_bytes_only_and_the_schemes_say_which() {
    let (one, other) =
        (r#"{"amount":"120.00","seller":847}"#, r#"{ "seller": 847, "amount": "120.00" }"#);
    let json = |request: &str| fingerprint::json(request.as_bytes()).expect("a fingerprint");
    assert_eq!(json(one), json(other));
    let raw = |request: &str| fingerprint::raw(request.as_bytes());
    assert_ne!(raw(one).digest, raw(other).digest);
    // A digest of the one is never compared with one of the other: their schemes differ.
    assert_eq!(raw(one).scheme, "fc-raw-1");
    assert_eq!(json(one).scheme, "fc-json-1");
    assert_ne!(raw(one).digest, json(one).digest);
}

#[test]
fn case_47_null_is_not_a_missing_field_and_nesting_has_one_order() {
    let json = |request: &str| fingerprint::json(request.as_bytes()).expect("a fingerprint").digest;
    assert_ne!(json(r#"{"a":null}"#), json("{}"));
    assert_ne!(json(r#"{"a":{"b":null}}"#), json(r#"{"a":{}}"#));
    assert_ne!(json("[null]"), json("[]"));
    assert_ne!(json(r#"{"a":[1,2]}"#), json(r#"{"a":[2,1]}"#), "the order of a list counts");
    assert_eq!(
        json(r#"{"a":{"x":1,"y":{"p":1,"q":2}}}"#),
        json(r#"{"a":{"y":{"q":2,"p":1},"x":1}}"#)
    );
    let selector = Selector::include("pay", 1, ["/a"]).expect("a selector");
    let of = |request: &str| selector.fingerprint(request.as_bytes()).expect("a fingerprint");
    assert_ne!(of(r#"{"a":null}"#).digest, of("{}").digest);
}

#[test]
fn case_49_secrets_that_rotate_are_left_out_and_the_scheme_says_by_what() {
    let fields = ["/auth/token", "/signature"];
    let selector = Selector::exclude("charge", 3, fields).expect("a selector");
    let of = |request: &str| selector.fingerprint(request.as_bytes()).expect("a fingerprint");
    let first = of(r#"{"amount":5,"auth":{"token":"old","user":"u"},"signature":"s1"}"#);
    let later = of(r#"{"amount":5,"auth":{"token":"new","user":"u"},"signature":"s2"}"#);
    assert_eq!(first, later, "in no part, either");
    assert_eq!(first, of(r#"{"auth":{"user":"u"},"amount":5}"#), "nor by being there");
    assert_ne!(first.digest, of(r#"{"amount":6,"auth":{"user":"u"}}"#).digest);
    assert_ne!(first.digest, of(r#"{"amount":5,"auth":{"user":"v"}}"#).digest);

    assert_eq!(first.scheme, "fc-json-1/charge/3");
    let other = Selector::exclude("charge", 4, ["/signature"]).expect("a selector");
    let other = other.fingerprint(br#"{"amount":5}"#).expect("a fingerprint");
    assert_ne!(first.scheme, other.scheme, "another selection is never compared with this one");
}

#[test]
fn case_50_the_part_that_differs_has_a_name() {
    let selector = Selector::whole("charge", 1).expect("a selector");
    let of = |request: &str| selector.fingerprint(request.as_bytes()).expect("a fingerprint");
    let first = of(r#"{"amount":5,"payee":"p","metadata":{"attempt":1}}"#);
    let again = of(r#"{"amount":5,"payee":"p","metadata":{"attempt":2}}"#);
    assert_ne!(first.digest, again.digest);
    let differ: Vec<_> = first
        .parts
        .iter()
        .filter(|(name, digest)| again.parts.get(*name) != Some(digest))
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(differ, ["/metadata"]);
}

#[test]
fn case_53_another_operation_is_another_request() {
    let of = |operation: &str| {
        fingerprint::of_parts("api-v1", &[("operation", operation.as_bytes()), ("body", b"{}")])
    };
    let (create, cancel) = (of("create"), of("cancel"));
    assert_ne!(create.digest, cancel.digest);
    assert_eq!(create.scheme, cancel.scheme, "so that the store compares them");
    assert_ne!(create.parts["operation"], cancel.parts["operation"]);
    assert_eq!(create.parts["body"], cancel.parts["body"]);
}

#[test]
fn case_55_a_value_that_is_missing_makes_no_key() {
    for blank in ["", " ", "\t\u{3000}", "\u{a0}"] {
        assert!(key::join([blank]).is_err(), "{blank:?}");
        assert!(key::join(["payout", blank]).is_err(), "{blank:?}");
        assert!(key::uuid(blank).is_err(), "{blank:?}");
    }
    assert!(key::join(Vec::<String>::new()).is_err());
    assert!(key::uuid("00000000-0000-0000-0000-000000000000").is_err(), "none is not an id");
}

#[test]
fn case_59_a_uuid_has_one_spelling_and_other_keys_keep_theirs() {
    let lower = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6";
    assert_eq!(key::uuid(&lower.to_uppercase()).expect("a key"), lower);
    assert_eq!(key::uuid(lower).expect("a key"), lower);
    assert_ne!(key::join(["Order-A"]).expect("a key"), key::join(["order-a"]).expect("a key"));
}

#[test]
fn case_97_a_structured_identity_is_one_key_and_no_other() {
    let key = |parts: &[&str]| key::join(parts).expect("a key");
    assert_eq!(key(&["payout", "2024-05", "seller-7"]), "payout:2024-05:seller-7");
    // Parts that hold what joins them do not run into each other.
    let all = [
        key(&["payout", "a:b"]),
        key(&["payout", "a", "b"]),
        key(&["payout:a", "b"]),
        key(&["payout", "a~1b"]),
        key(&["payout", "a~b"]),
    ];
    let different: std::collections::BTreeSet<_> = all.iter().collect();
    assert_eq!(different.len(), all.len(), "{all:?}");
}
