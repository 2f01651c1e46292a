//! Fingerprints: the digest of the canonical request that a key stands for.
//!
//! Two claims of one key are the same intent only if their digests agree. So the bytes that go in
//! must be those of the *intent*, written the same way every time: no timestamps of sending, no
//! delivery counters, no map in random order.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use crate::v1;

/// The scheme of [`raw()`]: SHA-256 over the exact bytes of the request.
pub const RAW_SHA256: &str = "raw-sha256/1";

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
        assert_eq!(print.scheme, "raw-sha256/1");
        assert_eq!(print.digest[..4], [0xba, 0x78, 0x16, 0xbf]);
        assert_eq!(print.digest.len(), 32);
    }

    #[test]
    fn parts_that_run_into_each_other_differ() {
        let one = of_parts("s", &[("a", b"bc"), ("d", b"")]);
        let two = of_parts("s", &[("a", b"b"), ("d", b"c")]);
        assert_ne!(one.digest, two.digest);
        assert_eq!(one.parts.len(), 2);
    }
}
