//! Text that callers send: names, versions, tokens, and JSON requests to be told apart.

use std::fmt::{Debug, Display};

use firstclaim_client::fingerprint::{self, Selector};
use firstclaim_client::key;
use firstclaim_core::name::{
    EffectId, Principal, ProviderKey, ProviderName, Region, Scheme, SlotName,
};
use firstclaim_core::{
    AttemptId, EffectUid, Etag, IdempotencyKey, Invalid, NamespaceName, OwnerLabel, Reason,
    TenantName,
};
use serde::de::IgnoredAny;

use crate::duration;

/// A byte that chooses the kind of the text, the text.
pub(crate) fn text(bytes: &[u8]) -> bool {
    let Some((kind, text)) = bytes.split_first() else { return false };
    let Ok(text) = std::str::from_utf8(text) else { return false };
    match kind {
        0 => shown(text, Etag::parse),
        1 => shown(text, EffectUid::parse),
        2 => exact(text, |text| TenantName::parse(text)),
        3 => exact(text, |text| NamespaceName::parse(text)),
        4 => exact(text, |text| IdempotencyKey::parse(text)),
        5 => exact(text, |text| AttemptId::parse(text)),
        6 => exact(text, |text| OwnerLabel::parse(text)),
        7 => exact(text, |text| Scheme::parse(text)),
        8 => exact(text, |text| EffectId::parse(text)),
        9 => exact(text, |text| SlotName::parse(text)),
        10 => exact(text, |text| ProviderName::parse(text)),
        11 => exact(text, |text| ProviderKey::parse(text)),
        12 => exact(text, |text| Principal::parse(text)),
        13 => exact(text, |text| Region::parse(text)),
        14 => Reason::parse(text).is_some(),
        15 => kept_for(text),
        16 => uuid(text),
        17 => pointers(text),
        18 => joined(text),
        _ => false,
    }
}

/// What is shown is read as what it was, whatever other spellings are accepted.
fn shown<T: Display + Debug + PartialEq>(
    text: &str,
    parse: impl Fn(&str) -> Result<T, Invalid>,
) -> bool {
    let Ok(read) = parse(text) else { return false };
    assert_eq!(parse(&read.to_string()).as_ref(), Ok(&read));
    true
}

/// What is accepted is kept as it was sent.
fn exact<T: Display + Debug + PartialEq>(
    text: &str,
    parse: impl Fn(&str) -> Result<T, Invalid>,
) -> bool {
    let accepted = shown(text, &parse);
    if let Ok(read) = parse(text) {
        assert_eq!(read.to_string(), text);
    }
    accepted
}

fn kept_for(text: &str) -> bool {
    duration::parse_retention(text).is_ok()
}

fn uuid(text: &str) -> bool {
    let Ok(key) = key::uuid(text) else { return false };
    assert_eq!(key::uuid(&key).as_ref(), Ok(&key), "a key has one spelling");
    true
}

/// A key joined of lines is a key, and no other lines make the same one.
fn joined(text: &str) -> bool {
    let lines: Vec<&str> = text.split('\n').collect();
    let Ok(key) = key::join(&lines) else { return false };
    assert!(IdempotencyKey::parse(key.as_str()).is_ok());
    if let Some((last, [.., before])) = lines.split_last().map(|(last, rest)| (*last, rest)) {
        let mut other = lines[..lines.len() - 2].to_vec();
        let glued = [*before, last].concat();
        other.push(&glued);
        assert_ne!(key::join(&other).ok(), Some(key), "two lists of parts have one key");
    }
    true
}

/// Lines of JSON pointers make a selector, which takes any request.
fn pointers(text: &str) -> bool {
    const REQUEST: &[u8] = br#"{"a": {"b": [1, {"c": null}]}, "": "x", "~": 1.0, "/": true}"#;
    let only = Selector::include("fuzz", 1, text.split('\n'));
    let all_but = Selector::exclude("fuzz", 1, text.split('\n'));
    for selector in only.iter().chain(&all_but) {
        let read = selector.fingerprint(REQUEST).expect("the request is JSON");
        assert!(read.parts.len() <= firstclaim_core::limits::FINGERPRINT_PARTS_MAX);
    }
    only.is_ok()
}

/// A JSON request has one fingerprint, however much space is around it, and what we read is JSON to
/// others too.
pub(crate) fn json(bytes: &[u8]) -> bool {
    let read = fingerprint::json(bytes);
    let whole = Selector::whole("fuzz", 1).expect("a selector");
    assert_eq!(whole.fingerprint(bytes).is_ok(), read.is_ok());
    let Ok(read) = read else { return false };
    let spaced = [b" \n", bytes, b"\r\t"].concat();
    // The space may be what makes it too long.
    if spaced.len() <= fingerprint::JSON_BYTES_MAX {
        assert_eq!(fingerprint::json(&spaced).as_ref(), Ok(&read));
    }
    let listed = [b"[", bytes, b"]"].concat();
    if let Ok(listed) = fingerprint::json(&listed) {
        assert_ne!(listed.digest, read.digest);
    }
    assert!(serde_json::from_slice::<IgnoredAny>(bytes).is_ok(), "only we take it for JSON");
    true
}
