//! The canonical request behind a key: scheme, digest, parts.

use firstclaim_core::{Fingerprint, FingerprintSet, Scheme, limits};

use super::Faults;
use crate::v1;

/// Fingerprints on the wire.
#[must_use]
pub fn fingerprints(set: &FingerprintSet) -> Vec<v1::Fingerprint> {
    set.all()
        .iter()
        .map(|one| v1::Fingerprint {
            scheme: one.scheme().as_str().to_owned(),
            digest: one.digest().to_vec(),
            parts: one.parts().clone(),
        })
        .collect()
}

/// Reads fingerprints.
///
/// # Errors
///
/// The first fault of each fingerprint, and of the set.
pub fn read_fingerprints(wire: Vec<v1::Fingerprint>) -> Result<FingerprintSet, Faults> {
    let mut faults = Faults::default();
    if wire.len() > limits::FINGERPRINTS_MAX {
        // As the set would say, without reading an unbounded number of them.
        let fix = format!("use at most {}", limits::FINGERPRINTS_MAX);
        faults.note("fingerprints", format!("has {} schemes", wire.len()), fix);
        return Err(faults);
    }
    let mut read = Vec::new();
    for (at, one) in wire.into_iter().enumerate() {
        let parent = format!("fingerprints[{at}]");
        let scheme = faults.take_in(&parent, Scheme::parse(one.scheme));
        // Digest faults are told even where the scheme is wrong, too.
        let named = scheme.clone().map_or_else(|| Scheme::parse("unnamed"), Ok);
        let fingerprint = named.and_then(|scheme| Fingerprint::new(scheme, one.digest, one.parts));
        read.extend(faults.take_in(&parent, fingerprint).filter(|_| scheme.is_some()));
    }
    let set = faults.take(FingerprintSet::new(read));
    faults.finish(set)
}
