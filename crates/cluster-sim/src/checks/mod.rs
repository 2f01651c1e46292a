//! What must hold of every run: one property a file.

use crate::reach::Reached;
use crate::run::{Evidence, Report};

/// All that is wrong with a run.
pub fn judge(evidence: &Evidence, _report: &mut Report, _reached: &Reached) -> Vec<String> {
    let mut faults = evidence.told.complaints.clone();
    if evidence.alive_after.is_none() {
        faults.push("liveness: nothing was claimed after the faults had ended".to_owned());
    }
    if !evidence.agreed {
        faults.push("liveness: the nodes did not come to one state".to_owned());
    }
    faults
}
