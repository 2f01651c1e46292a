//! Whether this node can serve calls now, and if not, why not.

use std::time::Duration;

use crate::node::Node;

/// A node that has had no word from a majority for this long is on its own.
const CONTACT_MAX: Duration = Duration::from_secs(5);
/// Entries that may be committed and not applied yet.
const APPLY_LAG_MAX: u64 = 10_000;

/// Why the node should not be sent calls; none if it is ready.
pub(crate) fn not_ready(node: &Node) -> Option<String> {
    if node.gate.is_draining() {
        return Some("the node is going down".to_owned());
    }
    let status = node.replica.status();
    if let Some(failure) = status.failure {
        return Some(format!("the replica has failed: {failure}"));
    }
    if node.replica.leader().is_none() {
        return Some("no leader is known".to_owned());
    }
    // Both a leader and its followers have this confirmed by a majority, about every second.
    match node.replica.confirmed_store_time().map(|(_, at)| at.elapsed()) {
        None => return Some("no majority has been heard of since the start".to_owned()),
        Some(age) if age > CONTACT_MAX => {
            let seconds = age.as_secs();
            return Some(format!("a majority was last heard of {seconds} s ago"));
        }
        Some(_) => {}
    }
    let (committed, applied) = (status.committed_index, status.applied_index);
    let lag = committed.unwrap_or(0).saturating_sub(applied.unwrap_or(0));
    (lag > APPLY_LAG_MAX).then(|| format!("{lag} entries are committed and not applied yet"))
}
