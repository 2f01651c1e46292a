//! The digest of the canonical request that is bound to a key, and its comparison.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::invalid::Invalid;
use crate::limits;
use crate::name::Scheme;

/// One scheme's digest of the canonical request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    scheme: Scheme,
    digest: Vec<u8>,
    parts: BTreeMap<String, Vec<u8>>,
}

impl Fingerprint {
    /// Checks a digest and its named parts.
    ///
    /// # Errors
    ///
    /// [`Invalid`] if a digest is not 16–64 bytes long, or for too many or unnamed parts.
    pub fn new(
        scheme: Scheme,
        digest: Vec<u8>,
        parts: BTreeMap<String, Vec<u8>>,
    ) -> Result<Self, Invalid> {
        check_digest("digest", &digest)?;
        if parts.len() > limits::FINGERPRINT_PARTS_MAX {
            let problem = format!("has {} parts", parts.len());
            let fix = format!("use at most {}", limits::FINGERPRINT_PARTS_MAX);
            return Err(Invalid::new("parts", problem, fix));
        }
        for (name, digest) in &parts {
            if name.is_empty() || name.len() > limits::SCHEME_BYTES_MAX {
                let problem = format!("has a name of {} bytes", name.len());
                let fix = format!("name parts with 1 to {} bytes", limits::SCHEME_BYTES_MAX);
                return Err(Invalid::new("parts", problem, fix));
            }
            check_digest(&format!("parts[{name}]"), digest)?;
        }
        Ok(Self { scheme, digest, parts })
    }

    /// How the digest was computed.
    #[must_use]
    pub fn scheme(&self) -> &Scheme {
        &self.scheme
    }

    /// The digest, 16–64 bytes.
    #[must_use]
    pub fn digest(&self) -> &[u8] {
        &self.digest
    }

    /// Digests of named parts of the request, which say *what* differs.
    #[must_use]
    pub fn parts(&self) -> &BTreeMap<String, Vec<u8>> {
        &self.parts
    }
}

fn check_digest(field: &str, digest: &[u8]) -> Result<(), Invalid> {
    let (min, max) = (limits::DIGEST_BYTES_MIN, limits::DIGEST_BYTES_MAX);
    if (min..=max).contains(&digest.len()) {
        return Ok(());
    }
    let problem = format!("is {} bytes long", digest.len());
    Err(Invalid::new(field, problem, format!("send {min} to {max} bytes, such as a SHA-256")))
}

/// The fingerprints of one request, in the caller's order of preference; empty if it sent none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FingerprintSet(Vec<Fingerprint>);

/// What the index of similar requests looks up: a scheme with a digest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Intent {
    /// How the digest was computed.
    pub scheme: Scheme,
    /// The digest.
    pub digest: Vec<u8>,
}

/// How a request's fingerprints relate to those bound to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The same request, or neither side has a fingerprint.
    Same,
    /// Another request; with the names of the parts known to differ.
    Differs {
        /// The scheme that was compared.
        scheme: Scheme,
        /// Parts that differ or that only one side has; empty if no parts were sent.
        parts: Vec<String>,
    },
    /// No scheme in common, or only one side has a fingerprint.
    Incomparable,
}

impl FingerprintSet {
    /// Checks the set.
    ///
    /// # Errors
    ///
    /// [`Invalid`] for more than four schemes, or a scheme given twice.
    pub fn new(fingerprints: Vec<Fingerprint>) -> Result<Self, Invalid> {
        if fingerprints.len() > limits::FINGERPRINTS_MAX {
            let problem = format!("has {} schemes", fingerprints.len());
            let fix = format!("use at most {}", limits::FINGERPRINTS_MAX);
            return Err(Invalid::new("fingerprints", problem, fix));
        }
        for (at, one) in fingerprints.iter().enumerate() {
            if fingerprints[..at].iter().any(|other| other.scheme == one.scheme) {
                let field = format!("fingerprints[{at}].scheme");
                let problem = format!("repeats {:?}", one.scheme.as_str());
                return Err(Invalid::new(field, problem, "send one digest a scheme"));
            }
        }
        Ok(Self(fingerprints))
    }

    /// The fingerprints in order.
    #[must_use]
    pub fn all(&self) -> &[Fingerprint] {
        &self.0
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Compares the set bound to a record (`self`) with a request's, on the first scheme, in the
    /// record's order, that both have.
    #[must_use]
    pub fn compare(&self, request: &Self) -> Comparison {
        if self.0.is_empty() && request.0.is_empty() {
            return Comparison::Same;
        }
        for bound in &self.0 {
            let Some(asked) = request.0.iter().find(|asked| asked.scheme == bound.scheme) else {
                continue;
            };
            if asked.digest == bound.digest {
                return Comparison::Same;
            }
            return Comparison::Differs {
                scheme: bound.scheme.clone(),
                parts: differing_parts(bound, asked),
            };
        }
        Comparison::Incomparable
    }
}

fn differing_parts(bound: &Fingerprint, asked: &Fingerprint) -> Vec<String> {
    let mut names: Vec<String> = bound
        .parts
        .iter()
        .filter(|(name, digest)| asked.parts.get(*name) != Some(*digest))
        .map(|(name, _)| name.clone())
        .collect();
    names.extend(asked.parts.keys().filter(|name| !bound.parts.contains_key(*name)).cloned());
    names.sort();
    names
}
