//! Fingerprints: the digest of the canonical request that a key stands for.
//!
//! Two claims of one key are the same intent only if their digests agree. So the bytes that go in
//! must be those of the *intent*, written the same way every time: no timestamps of sending, no
//! delivery counters, no map in random order.
//!
//! | the request is | take | scheme |
//! |---|---|---|
//! | JSON, and some of its fields matter | a [`Selector`] | `fc-json-1/<name>/<version>` |
//! | JSON, and all of it matters | [`json()`] | `fc-json-1` |
//! | bytes that are always the same | [`raw()`] | `fc-raw-1` |
//! | what the caller writes for this purpose | [`sha256()`], [`of_parts()`] | the caller's own |
//!
//! # JSON
//!
//! Two documents have one fingerprint if they differ in nothing but the order of keys, white space
//! between tokens, and the escapes in strings. All else counts: `null` is not a missing field, `1`
//! is not `1.0`, and `é` is not `e` with an accent that follows it. What has more than one reading is
//! refused: a key twice in one object, half of a surrogate pair.
//!
//! Numbers are compared as they are written, so they are exact, however long; but a program that
//! keeps them as floats may write one number in two ways. Money belongs in strings or integers.
//! That is also why this takes JSON text and not a `Serialize` value: `serde_json` writes a float as
//! its version of the day likes it, and NaN as `null`. For a type without floats,
//! `json(&serde_json::to_vec(&request)?)` is exact.
//!
//! The digest of `fc-json-1` is SHA-256 over this encoding of the document, in which every length
//! and count is 8 bytes, big-endian:
//!
//! | value | bytes |
//! |---|---|
//! | `null`, `false`, `true` | `n`, `f`, `t` |
//! | number | `#`, length, the characters as they were written |
//! | string | `s`, length, the decoded text as UTF-8 |
//! | array | `[`, count, the items |
//! | object | `{`, count, the members in the order of their keys' bytes: length of the key, key, value |
//!
//! A selector that includes fields encodes an object that has their pointers as keys; one that
//! excludes fields, or none, encodes the document without them. A part's digest is that of its value
//! alone; the part `*` is encoded as the object of its fields.

mod canonical;
mod selector;

use std::collections::BTreeMap;

use firstclaim_core::Invalid;
use sha2::{Digest, Sha256};

use self::canonical::Value;
pub use self::canonical::{JSON_BYTES_MAX, JSON_DEPTH_MAX};
pub use self::selector::Selector;
use crate::v1;

/// The scheme of [`raw()`]: SHA-256 over the exact bytes of the request.
pub const RAW_SHA256: &str = "fc-raw-1";
/// The scheme of [`json()`]: SHA-256 over a JSON document, however it is spelled.
pub const JSON_SHA256: &str = "fc-json-1";

/// The fingerprint of a canonical request by a scheme of the caller's naming.
///
/// The scheme names how `canonical` was made. Whoever changes that changes the scheme's name, or
/// every repeat of an old intent is refused as another request.
#[must_use]
pub fn sha256(scheme: impl Into<String>, canonical: &[u8]) -> v1::Fingerprint {
    v1::Fingerprint { scheme: scheme.into(), digest: digest(canonical), parts: BTreeMap::new() }
}

/// The fingerprint of a request that is always sent in exactly these bytes.
#[must_use]
pub fn raw(request: &[u8]) -> v1::Fingerprint {
    sha256(RAW_SHA256, request)
}

/// The fingerprint of a JSON request in which every field matters, however it is spelled.
///
/// It has no parts; [`Selector::whole`] adds them.
///
/// ```
/// use firstclaim_client::fingerprint;
///
/// let first = fingerprint::json(br#"{"amount": "120.00", "seller": 847}"#)?;
/// assert_eq!(first, fingerprint::json(br#"{"seller":847,"amount":"120\u002e00"}"#)?);
/// assert_ne!(first, fingerprint::json(br#"{"seller":847,"amount":"120.0"}"#)?);
/// assert_eq!(first.scheme, "fc-json-1");
/// # Ok::<(), firstclaim_client::Invalid>(())
/// ```
///
/// # Errors
///
/// [`Invalid`] for more than [`JSON_BYTES_MAX`] bytes or [`JSON_DEPTH_MAX`] levels, and for what is
/// not JSON as RFC 8259 describes it, in UTF-8, with each key once in an object and no lone
/// surrogate.
pub fn json(request: &[u8]) -> Result<v1::Fingerprint, Invalid> {
    let digest = Value::read(request)?.digest();
    Ok(v1::Fingerprint { scheme: JSON_SHA256.to_owned(), digest, parts: BTreeMap::new() })
}

/// The fingerprint of named parts, in their order, so that a mismatch can say which one differs.
#[must_use]
pub fn of_parts(scheme: impl Into<String>, parts: &[(&str, &[u8])]) -> v1::Fingerprint {
    let mut whole = Sha256::new();
    let mut digests = BTreeMap::new();
    for (name, bytes) in parts {
        // Lengths keep two different lists from having the same bytes in a row.
        whole.update((name.len() as u64).to_be_bytes());
        whole.update(name.as_bytes());
        whole.update((bytes.len() as u64).to_be_bytes());
        whole.update(bytes);
        digests.insert((*name).to_owned(), digest(bytes));
    }
    v1::Fingerprint { scheme: scheme.into(), digest: whole.finalize().to_vec(), parts: digests }
}

fn digest(bytes: &[u8]) -> Vec<u8> {
    Sha256::digest(bytes).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_raw_scheme_is_sha256_of_the_bytes() {
        let print = raw(b"abc");
        assert_eq!(print.scheme, "fc-raw-1");
        assert_eq!(print.digest[..4], [0xba, 0x78, 0x16, 0xbf]);
        assert_eq!(print.digest.len(), 32);
    }

    #[test]
    fn json_is_compared_whole_and_without_its_spelling() {
        let json = |request: &str| json(request.as_bytes());
        let print = json(r#"{"a":1,"b":2}"#).expect("a fingerprint");
        assert_eq!((print.scheme.as_str(), print.digest.len()), ("fc-json-1", 32));
        assert_eq!(json(r#"{ "b":2, "\u0061":1 }"#).as_ref(), Ok(&print));
        assert_ne!(json(r#"{"a":1,"b":3}"#).as_ref(), Ok(&print));
        assert!(json(r#"{"a":1,"a":1}"#).is_err());
        let whole = Selector::whole("pay", 1).expect("a selector");
        let whole = whole.fingerprint(br#"{"b":2,"a":1}"#).expect("a fingerprint");
        assert_eq!(whole.digest, print.digest);
        assert_ne!(whole.scheme, print.scheme);
    }

    #[test]
    fn parts_that_run_into_each_other_differ() {
        let one = of_parts("s", &[("a", b"bc"), ("d", b"")]);
        let two = of_parts("s", &[("a", b"b"), ("d", b"c")]);
        assert_ne!(one.digest, two.digest);
        assert_eq!(one.parts.len(), 2);
    }
}
