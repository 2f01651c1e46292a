//! V17: once nothing goes wrong any more, the cluster serves, and all nodes come to one state.

use crate::run::Evidence;

pub(super) fn check(evidence: &Evidence) -> Vec<String> {
    let mut faults = Vec::new();
    if evidence.alive_after.is_none() {
        faults.push("liveness (V17): nothing was claimed after the faults had ended".to_owned());
    }
    if !evidence.agreed {
        faults.push("liveness (V17): the nodes did not come to one state".to_owned());
    }
    faults
}
