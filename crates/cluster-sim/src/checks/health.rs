//! V15: no node stops, refuses to open or contradicts itself, but where its disk was told to fail.

use crate::run::Evidence;

pub(super) fn check(evidence: &Evidence) -> Vec<String> {
    evidence.told.complaints.iter().map(|what| format!("health (V15): {what}")).collect()
}
