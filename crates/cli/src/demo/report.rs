//! The end of the demo: what was counted, and what the bank's ledger says about it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::bank::Audit;
use super::tally::Counts;

/// How the demo went.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) seed: u64,
    pub(crate) workers: usize,
    pub(crate) intents: usize,
    /// Messages handed to workers, redeliveries included.
    pub(crate) deliveries: u64,
    pub(crate) counts: Counts,
    /// The ledger's verdict.
    pub(crate) audit: Audit,
    pub(crate) failover: Option<Failover>,
    /// Whether all nodes ended up with the same state; none if they were not seen at one index.
    pub(crate) agreement: Option<Agreement>,
    pub(crate) elapsed: Duration,
}

/// The killed leader and its successor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failover {
    pub(crate) killed: String,
    pub(crate) claims_held: u64,
    pub(crate) new_leader: String,
    /// From the kill until another node led.
    pub(crate) took: Duration,
}

/// A comparison of all nodes' states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Agreement {
    pub(crate) index: u64,
    pub(crate) equal: bool,
}

impl Report {
    /// Replays whose result is not the receipt in the ledger.
    pub(crate) fn wrong_replays(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (intent, results) in &self.counts.replayed {
            let receipt = self.audit.receipts.get(intent);
            for result in results.iter().filter(|result| Some(*result) != receipt) {
                let paid = receipt.map_or("no single payment", String::as_str);
                wrong.push(format!("{intent} was replayed as {result:?}; the ledger has {paid}"));
            }
        }
        wrong
    }

    /// Everything that should not be, one line each; empty if the demo succeeded.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = self.audit.faults();
        faults.extend(self.wrong_replays());
        if let Some(Agreement { index, equal: false }) = self.agreement {
            faults.push(format!("the nodes disagree about the state at log index {index}"));
        }
        faults
    }

    /// Whether the ledger shows exactly one payment per intent, and all answers agree with it.
    pub(crate) fn succeeded(&self) -> bool {
        self.audit.is_clean() && self.faults().is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = &self.counts;
        let mut row = |name: &str, value: String| writeln!(out, "  {name:<20}{value}");
        row(
            "deliveries",
            format!("{} to {} workers in three regions", self.deliveries, self.workers),
        )?;
        row("first claims", format!("{} of {} intents", counts.first_claims, self.intents))?;
        row("replays", counts.replays.to_string())?;
        row("pending", counts.pending.to_string())?;
        row("other outcomes", listed(&counts.other))?;
        row(
            "lost answers",
            format!(
                "{} thrown away on purpose, {} unknown outcomes, {} calls without effect; all \
                 repeated with the same attempt, {} found their claim still held",
                counts.lost_on_purpose, counts.unknown, counts.failed, counts.already_held
            ),
        )?;
        match &self.failover {
            Some(failover) => row(
                "killed leader",
                format!(
                    "{} with {} claims held; {} led {:.2} s later",
                    failover.killed,
                    failover.claims_held,
                    failover.new_leader,
                    failover.took.as_secs_f64()
                ),
            )?,
            None => row("killed leader", "none".to_owned())?,
        }
        match self.agreement {
            Some(Agreement { index, equal: true }) => {
                row("state", format!("the same on all three nodes at log index {index}"))?;
            }
            Some(Agreement { index, equal: false }) => {
                row("state", format!("DIFFERENT at log index {index}"))?;
            }
            None => row("state", "not compared: the nodes were never at one index".to_owned())?,
        }
        row("intents paid", format!("{} of {}", self.audit.receipts.len(), self.intents))?;
        row("duplicate payments", self.audit.duplicates().to_string())?;
        row("elapsed", format!("{:.1} s, seed {}", self.elapsed.as_secs_f64(), self.seed))
    }
}

fn listed(counts: &BTreeMap<String, u64>) -> String {
    if counts.is_empty() {
        return "none".to_owned();
    }
    let words: Vec<String> = counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::bank::Payment;
    use super::{Agreement, Audit, BTreeMap, Counts, Duration, Report};

    fn report() -> Report {
        let receipts = BTreeMap::from([("a".to_owned(), "tx_1".to_owned())]);
        let mut counts = Counts { first_claims: 1, replays: 1, ..Counts::default() };
        counts.replayed.insert("a".to_owned(), vec!["tx_1".to_owned()]);
        Report {
            seed: 5,
            workers: 2,
            intents: 1,
            deliveries: 3,
            counts,
            audit: Audit { receipts, ..Audit::default() },
            failover: None,
            agreement: Some(Agreement { index: 9, equal: true }),
            elapsed: Duration::from_millis(1500),
        }
    }

    fn payment(receipt: &str) -> Payment {
        Payment {
            intent: "a".to_owned(),
            cents: 1,
            receipt: receipt.to_owned(),
            payer: "w".to_owned(),
        }
    }

    #[test]
    fn one_payment_and_its_own_receipt_is_success() {
        let report = report();
        assert!(report.succeeded(), "{:?}", report.faults());
        let text = report.to_string();
        assert!(text.contains("duplicate payments  0"), "{text}");
        assert!(text.contains("intents paid        1 of 1"), "{text}");
    }

    #[test]
    fn a_second_payment_is_failure() {
        let mut report = report();
        report.audit.receipts.clear();
        report.audit.repeated.push(vec![payment("tx_1"), payment("tx_2")]);
        assert!(!report.succeeded());
        assert_eq!(report.audit.duplicates(), 1);
        assert!(report.faults()[0].starts_with("a was paid 2 times"), "{:?}", report.faults());
    }

    #[test]
    fn a_missing_payment_is_failure() {
        let mut report = report();
        report.audit.unpaid.push("b".to_owned());
        assert!(!report.succeeded());
    }

    #[test]
    fn a_replay_with_another_receipt_is_failure() {
        let mut report = report();
        report.counts.replayed.insert("a".to_owned(), vec!["tx_1".to_owned(), "tx_9".to_owned()]);
        assert_eq!(report.wrong_replays().len(), 1);
        assert!(!report.succeeded());
    }

    #[test]
    fn different_states_are_failure() {
        let report = Report { agreement: Some(Agreement { index: 9, equal: false }), ..report() };
        assert!(!report.succeeded());
    }
}
