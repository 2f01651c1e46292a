//! A fake bank: it pays each time it is called, and its ledger is the witness of the demo.
//!
//! It has no idempotency of its own. Whatever keeps a payout from being paid twice happens before
//! the bank is called.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::schedule::Intent;

/// A line of the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Payment {
    pub(crate) intent: String,
    pub(crate) cents: u64,
    /// What the bank answered.
    pub(crate) receipt: String,
    /// The worker that called.
    pub(crate) payer: String,
}

/// The bank.
#[derive(Debug, Default)]
pub(crate) struct Bank {
    ledger: Mutex<Vec<Payment>>,
}

impl Bank {
    /// Pays. The money moves half way through the call, as with any bank: a caller that gives up
    /// does not know whether it moved.
    pub(crate) async fn pay(&self, intent: &Intent, payer: &str, takes: Duration) -> String {
        tokio::time::sleep(takes / 2).await;
        let receipt = self.enter(intent, payer);
        tokio::time::sleep(takes / 2).await;
        receipt
    }

    fn enter(&self, intent: &Intent, payer: &str) -> String {
        let mut ledger = self.ledger();
        let receipt = format!("tx_{:05}", ledger.len() + 1);
        ledger.push(Payment {
            intent: intent.key.clone(),
            cents: intent.cents,
            receipt: receipt.clone(),
            payer: payer.to_owned(),
        });
        receipt
    }

    /// How many payments were made, duplicates included.
    pub(crate) fn payments(&self) -> usize {
        self.ledger().len()
    }

    /// Compares the ledger with what should have been paid.
    pub(crate) fn audit(&self, intents: &[Intent]) -> Audit {
        let mut by_intent: BTreeMap<String, Vec<Payment>> = BTreeMap::new();
        for payment in self.ledger().iter() {
            by_intent.entry(payment.intent.clone()).or_default().push(payment.clone());
        }
        let mut audit = Audit::default();
        for intent in intents {
            let payments = by_intent.remove(&intent.key).unwrap_or_default();
            match payments.as_slice() {
                [] => audit.unpaid.push(intent.key.clone()),
                [only] if only.cents == intent.cents => {
                    audit.receipts.insert(intent.key.clone(), only.receipt.clone());
                }
                [_] => audit.wrong.extend(payments),
                [_, ..] => audit.repeated.push(payments),
            }
        }
        audit.wrong.extend(by_intent.into_values().flatten());
        audit
    }

    fn ledger(&self) -> MutexGuard<'_, Vec<Payment>> {
        // A ledger is only appended to: it is whole even if a worker panicked.
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the ledger shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Audit {
    /// The receipt of every intent that was paid exactly once and right.
    pub(crate) receipts: BTreeMap<String, String>,
    /// Intents that were never paid.
    pub(crate) unpaid: Vec<String>,
    /// All payments of each intent that was paid more than once.
    pub(crate) repeated: Vec<Vec<Payment>>,
    /// Payments of the wrong amount, or of nothing that was asked for.
    pub(crate) wrong: Vec<Payment>,
}

impl Audit {
    /// Payments beyond the first of their intent.
    pub(crate) fn duplicates(&self) -> usize {
        self.repeated.iter().map(|payments| payments.len() - 1).sum()
    }

    /// Whether there is exactly one payment per intent, and nothing else.
    pub(crate) fn is_clean(&self) -> bool {
        self.unpaid.is_empty() && self.repeated.is_empty() && self.wrong.is_empty()
    }

    /// One line per thing that is wrong.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for payments in &self.repeated {
            let all: Vec<String> = payments
                .iter()
                .map(|payment| format!("{} by {}", payment.receipt, payment.payer))
                .collect();
            let intent = payments.first().map_or("", |payment| payment.intent.as_str());
            faults.push(format!("{intent} was paid {} times: {}", payments.len(), all.join(", ")));
        }
        faults.extend(self.unpaid.iter().map(|intent| format!("{intent} was never paid")));
        faults.extend(self.wrong.iter().map(|payment| {
            format!(
                "{} of {} cents for {} by {} is not what was asked for",
                payment.receipt, payment.cents, payment.intent, payment.payer
            )
        }));
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::{Bank, Duration, Intent};

    fn intents() -> Vec<Intent> {
        ["a", "b", "c"].map(|key| Intent { key: key.to_owned(), cents: 100 }).to_vec()
    }

    #[tokio::test]
    async fn the_bank_pays_each_time_it_is_called() {
        let (bank, intents) = (Bank::default(), intents());
        let first = bank.pay(&intents[0], "w1", Duration::ZERO).await;
        let second = bank.pay(&intents[0], "w2", Duration::ZERO).await;
        assert_ne!(first, second);
        assert_eq!(bank.payments(), 2);
    }

    #[tokio::test]
    async fn one_payment_per_intent_is_clean() {
        let (bank, intents) = (Bank::default(), intents());
        for intent in &intents {
            bank.pay(intent, "w1", Duration::ZERO).await;
        }
        let audit = bank.audit(&intents);
        assert!(audit.is_clean() && audit.faults().is_empty());
        assert_eq!(audit.receipts["b"], "tx_00002");
    }

    #[tokio::test]
    async fn every_deviation_is_found_and_named() {
        let (bank, intents) = (Bank::default(), intents());
        for payer in ["w1", "w2", "w3"] {
            bank.pay(&intents[0], payer, Duration::ZERO).await;
        }
        let other = Intent { key: "x".to_owned(), cents: 7 };
        bank.pay(&other, "w4", Duration::ZERO).await;
        let less = Intent { cents: 99, ..intents[2].clone() };
        bank.pay(&less, "w5", Duration::ZERO).await;
        let audit = bank.audit(&intents);
        assert_eq!(audit.duplicates(), 2);
        assert_eq!(audit.unpaid, ["b"]);
        assert_eq!(audit.wrong.len(), 2);
        assert!(!audit.is_clean());
        let faults = audit.faults();
        assert_eq!(faults.len(), 4);
        assert_eq!(faults[0], "a was paid 3 times: tx_00001 by w1, tx_00002 by w2, tx_00003 by w3");
    }
}
