//! V16: a term has one leader at most, and no node goes back to an earlier term, whatever its disk lost.

use std::collections::BTreeMap;

use crate::reach::{Mark, Reached};
use crate::run::{Evidence, Report};
use crate::world::Cluster;

pub(super) fn check(evidence: &Evidence, report: &mut Report, reached: &Reached) -> Vec<String> {
    let mut faults = Vec::new();
    let mut leaders: BTreeMap<u64, u64> = BTreeMap::new();
    let mut terms: BTreeMap<u64, u64> = BTreeMap::new();
    for seen in &evidence.told.seen {
        let (node, term) = (seen.node, seen.status.term);
        let known = terms.entry(node).or_default();
        if term < *known {
            faults
                .push(format!("election (V16): node {node} went back from term {known} to {term}"));
        }
        *known = term;
        if Cluster::leads(&seen.status) {
            let leader = leaders.entry(term).or_insert(node);
            if *leader != node {
                faults.push(format!("election (V16): {leader} and {node} lead in term {term}"));
            }
        }
    }
    let led: Vec<u64> = leaders.into_values().collect();
    report.leader_changes = led.windows(2).filter(|pair| pair[0] != pair[1]).count() as u64;
    if report.leader_changes > 0 {
        reached.mark(Mark::LeaderChange);
    }
    faults.truncate(5);
    faults
}
