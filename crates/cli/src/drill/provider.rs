//! A fake provider: it acts each time it is asked, unless it can tell a repeat by its key.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::fault::Wire;
use super::ledger::Ledger;

/// How long the provider takes.
const TAKES: Duration = Duration::from_millis(40);
/// How long it takes when it is late: longer than a caller waits, shorter than a settle horizon.
pub(crate) const TAKES_LATE: Duration = Duration::from_millis(600);
/// How long a caller waits for its answer.
const PATIENCE: Duration = Duration::from_millis(400);
/// How often a request under a key that is being handled looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// What a provider offers to those who are not sure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// It tells repeats by a key, and can be asked.
    Keys,
    /// It can be asked by the business reference; it takes no keys.
    LookUps,
    /// Neither.
    Nothing,
}

/// A request to the provider.
#[derive(Clone, Debug)]
pub(crate) struct Payment {
    pub(crate) reference: String,
    pub(crate) cents: u64,
    pub(crate) key: Option<String>,
    pub(crate) sender: String,
}

/// No answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoAnswer;

/// The provider. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Provider {
    pub(crate) offer: Offer,
    ledger: Arc<Ledger>,
    /// The receipt of every key; none while its first request is being handled.
    keys: Arc<Mutex<BTreeMap<String, Option<String>>>>,
}

impl Provider {
    pub(crate) fn new(offer: Offer, ledger: Arc<Ledger>) -> Self {
        Self { offer, ledger, keys: Arc::default() }
    }

    /// Sends a payment, and waits for the answer as long as anybody would.
    ///
    /// Once it was sent the provider acts whether or not the caller still waits, as with any
    /// provider.
    pub(crate) async fn pay(&self, payment: Payment, wire: Wire) -> Result<String, NoAnswer> {
        self.ledger.dispatched(&payment.reference);
        let provider = self.clone();
        let handled = match wire {
            Wire::RequestLost => {
                sleep(PATIENCE).await;
                return Err(NoAnswer);
            }
            Wire::Whole | Wire::AnswerLost => tokio::spawn(provider.handle(payment, TAKES)),
            Wire::Late => tokio::spawn(provider.handle(payment, TAKES_LATE)),
        };
        let answer = timeout(PATIENCE, handled).await;
        match (wire, answer) {
            (Wire::AnswerLost | Wire::RequestLost, _) | (_, Err(_) | Ok(Err(_))) => Err(NoAnswer),
            (Wire::Whole | Wire::Late, Ok(Ok(receipt))) => Ok(receipt),
        }
    }

    /// Asks whether something was done under a business reference.
    pub(crate) async fn look_up(&self, reference: &str) -> Option<String> {
        sleep(TAKES).await;
        if self.offer == Offer::Nothing {
            return None;
        }
        self.ledger.entries(reference).first().map(|entry| entry.receipt.clone())
    }

    async fn handle(self, payment: Payment, takes: Duration) -> String {
        let key = payment.key.clone().filter(|_| self.offer == Offer::Keys);
        if let Some(key) = &key {
            loop {
                match self.begin(key) {
                    Begun::First => break,
                    Begun::Done(receipt) => return receipt,
                    Begun::UnderWay => sleep(LOOK_AGAIN).await,
                }
            }
        }
        sleep(takes).await;
        let receipt = self.ledger.enter(&payment.reference, payment.cents, &payment.sender);
        if let Some(key) = key {
            self.keys().insert(key, Some(receipt.clone()));
        }
        receipt
    }

    fn begin(&self, key: &str) -> Begun {
        let mut keys = self.keys();
        match keys.get(key) {
            Some(Some(receipt)) => Begun::Done(receipt.clone()),
            Some(None) => Begun::UnderWay,
            None => {
                keys.insert(key.to_owned(), None);
                Begun::First
            }
        }
    }

    fn keys(&self) -> MutexGuard<'_, BTreeMap<String, Option<String>>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a request under a key comes to.
enum Begun {
    First,
    UnderWay,
    Done(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provider(offer: Offer) -> (Provider, Arc<Ledger>) {
        let ledger = Arc::new(Ledger::default());
        (Provider::new(offer, Arc::clone(&ledger)), ledger)
    }

    fn payment(key: Option<&str>) -> Payment {
        Payment {
            reference: "r".to_owned(),
            cents: 5,
            key: key.map(str::to_owned),
            sender: "w".to_owned(),
        }
    }

    #[tokio::test]
    async fn a_provider_with_keys_acts_once_per_key_even_when_it_is_slow() {
        let (provider, ledger) = provider(Offer::Keys);
        let late = provider.pay(payment(Some("k")), Wire::Late).await;
        assert_eq!(late, Err(NoAnswer));
        assert_eq!(ledger.entries("r").len(), 0, "it has not acted yet");
        let again = provider.pay(payment(Some("k")), Wire::Whole).await;
        assert_eq!(again.as_deref(), Ok("tx_00001"));
        assert_eq!((ledger.entries("r").len(), ledger.dispatches("r")), (1, 2));
        provider.pay(payment(Some("another")), Wire::Whole).await.unwrap();
        assert_eq!(ledger.entries("r").len(), 2);
    }

    #[tokio::test]
    async fn a_provider_without_keys_acts_each_time_and_can_be_asked() {
        let (provider, ledger) = provider(Offer::LookUps);
        assert_eq!(provider.look_up("r").await, None);
        assert_eq!(provider.pay(payment(Some("k")), Wire::AnswerLost).await, Err(NoAnswer));
        assert_eq!(provider.look_up("r").await.as_deref(), Some("tx_00001"));
        provider.pay(payment(Some("k")), Wire::Whole).await.unwrap();
        assert_eq!((ledger.entries("r").len(), ledger.dispatches("r")), (2, 2));
    }

    #[tokio::test]
    async fn what_never_arrives_is_sent_and_not_done() {
        let (provider, ledger) = provider(Offer::Nothing);
        assert_eq!(provider.pay(payment(None), Wire::RequestLost).await, Err(NoAnswer));
        assert_eq!((ledger.entries("r").len(), ledger.dispatches("r")), (0, 1));
        provider.pay(payment(None), Wire::Whole).await.unwrap();
        assert_eq!(provider.look_up("r").await, None, "this one cannot be asked");
    }
}
