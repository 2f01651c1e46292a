//! What must hold of every run: one property a file.

mod election;
mod guided;
mod health;
mod keys;
mod liveness;
mod local;
mod order;
mod state;
mod time;

use crate::reach::Reached;
use crate::run::{Evidence, Report};

/// All that is wrong with a run.
pub fn judge(evidence: &Evidence, report: &mut Report, reached: &Reached) -> Vec<String> {
    let mut faults = health::check(evidence);
    faults.extend(election::check(evidence, report, reached));
    faults.extend(state::check(evidence));
    faults.extend(order::check(evidence));
    faults.extend(guided::check(evidence, report, reached));
    faults.extend(time::check(evidence));
    faults.extend(local::check(evidence));
    faults.extend(keys::check(evidence, report, reached));
    faults.extend(liveness::check(evidence));
    faults
}
