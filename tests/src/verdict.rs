//! Ends a race and judges it: by the histories of the workers, and by what the nodes say themselves.

use std::time::Duration;

use crate::check::{Evidence, faults};
use crate::cluster::Cluster;
use crate::history::Answer;
use crate::race::Race;
use crate::{Outcome, readback, say};

const FINISH_WITHIN: Duration = Duration::from_secs(40);
const FAULTS_SHOWN: usize = 20;

/// Lets the workers end, reads everything back, and checks it. Returns how many keys at least two
/// workers raced for.
///
/// # Errors
///
/// Everything that is wrong.
pub async fn judge(test: &str, cluster: &Cluster, mut race: Race) -> Outcome<usize> {
    race.finish(FINISH_WITHIN).await?;
    race.claim_again(cluster, FINISH_WITHIN).await?;
    let (index, hash) = readback::same_state(cluster).await?;
    let finish = race.evidence();
    let stored = readback::records(cluster, &finish.keys).await?;
    let count = |answer: &Answer| finish.calls.iter().filter(|call| call.answer == *answer).count();
    let taken_over = stored.values().filter(|record| record.grants > 1).count();
    say(&format!(
        "{test}: {} keys, {} of them raced for, {} calls, {} without an answer, {} not applied, {} \
         keys taken over from a holder that went away; all nodes have state {} at index {index}",
        finish.keys.len(),
        finish.raced,
        finish.calls.len(),
        count(&Answer::Unknown),
        count(&Answer::NotApplied),
        taken_over,
        hex(&hash[..4])
    ));
    let evidence = Evidence { calls: &finish.calls, stored: &stored, abandoned: &finish.abandoned };
    let faults = faults(&evidence);
    if faults.is_empty() {
        return Ok(finish.raced);
    }
    let shown = faults.iter().take(FAULTS_SHOWN).cloned().collect::<Vec<_>>().join("\n");
    Err(format!("{} faults:\n{shown}", faults.len()).into())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
