//! I8: the digest of a completed record never changes.
//!
//! Clauses: semantics §5 (row 3), §6 (Complete again), §10 I8.

use std::collections::BTreeMap;

use firstclaim_core::record::State;

use super::{Broken, Checked, Property, Seen};

/// The digest that each life was completed with.
#[derive(Debug, Default)]
pub(super) struct DigestStays {
    digests: BTreeMap<u64, Vec<u8>>,
}

impl DigestStays {
    pub(super) fn check(&mut self, seen: &Seen<'_>) -> Checked {
        let Some(record) = seen.after else { return Ok(()) };
        let known = self.digests.get(&record.life);
        let State::Completed(completion) = &record.state else {
            let says = format!("life {} was completed and is not any more", record.life);
            return known.map_or(Ok(()), |_| Err(Broken::new(Property::I8, says)));
        };
        match known {
            None => {
                self.digests.insert(record.life, completion.result.digest.clone());
                Ok(())
            }
            Some(digest) if *digest == completion.result.digest => Ok(()),
            Some(_) => {
                let says = format!("life {} has another digest", record.life);
                Err(Broken::new(Property::I8, says))
            }
        }
    }
}
