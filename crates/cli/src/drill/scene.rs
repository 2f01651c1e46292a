//! One scenario being played: its messages, and what all of its workers share.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use firstclaim_client::{ClaimRequest, Client, fingerprint, v1};

use super::fault::Fault;
use super::ledger::Ledger;
use super::provider::Provider;
use super::queue::{Delivery, Queue, VISIBILITY};
use super::scenario::{Producer, Scenario};
use super::seen::Seen;
use super::stage::Stage;

/// Names how the canonical request of a payout is written.
const SCHEME: &str = "drill-payout/1";
/// The shortest lease that leaves time for a permit.
const LEASE_SHORT: Duration = Duration::from_secs(2);
/// The lease of attempts that nothing is to happen to.
const LEASE_LONG: Duration = Duration::from_secs(15);
/// How old the intents of a redrive are.
const REDRIVEN_AFTER: Duration = Duration::from_secs(14 * 3600);

/// What somebody wants once.
#[derive(Clone, Debug)]
pub(crate) struct Intent {
    /// The business reference, by which a provider can be asked.
    pub(crate) reference: String,
    pub(crate) cents: u64,
    /// The key that the message carries.
    pub(crate) key: String,
    pub(crate) namespace: String,
    /// When it was born.
    pub(crate) born: SystemTime,
    /// Whether its key belongs to another request, so that it has to be refused.
    pub(crate) impostor: bool,
}

impl Intent {
    /// The canonical request, which every delivery carries in the same bytes.
    pub(crate) fn canonical(&self) -> String {
        format!("pay {} cents for {}", self.cents, self.reference)
    }
}

/// A message with what happens to it.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) intent: Intent,
    pub(crate) stage: Stage,
    /// The fault that has not struck yet.
    armed: Mutex<Fault>,
    /// The keys under which its claim was granted, in order.
    keys: Mutex<Vec<String>>,
}

/// A scenario being played.
#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) scenario: &'static Scenario,
    pub(crate) tenant: String,
    /// One client per endpoint; each goes on to the others when its own is gone.
    pub(crate) clients: Vec<Client>,
    pub(crate) messages: Vec<Message>,
    pub(crate) queue: Queue,
    pub(crate) provider: Provider,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) seen: Seen,
}

impl Scene {
    /// The scenario with so many intents, born at `now` unless the scenario says otherwise.
    pub(crate) fn new(
        scenario: &'static Scenario,
        (tenant, clients): (&str, &[Client]),
        intents: usize,
        now: SystemTime,
    ) -> Self {
        let old = matches!(scenario.producer, Producer::RedrivesKept | Producer::RedrivesForgotten);
        let born = if old { now.checked_sub(REDRIVEN_AFTER).unwrap_or(now) } else { now };
        let mut messages = Vec::new();
        for number in 1..=intents {
            let intent = intent(scenario, number, born);
            if scenario.producer == Producer::ReusesKey {
                let impostor = Intent {
                    reference: format!("{}-other", intent.reference),
                    cents: intent.cents + 15_000,
                    impostor: true,
                    ..intent.clone()
                };
                messages.push(Message::new(intent, scenario.fault));
                messages.push(Message::new(impostor, Fault::Nothing));
            } else {
                messages.push(Message::new(intent, scenario.fault));
            }
        }
        let ledger = Arc::new(Ledger::default());
        Self {
            scenario,
            tenant: tenant.to_owned(),
            clients: clients.to_vec(),
            queue: Queue::new(messages.len(), VISIBILITY),
            messages,
            provider: Provider::new(scenario.provider, Arc::clone(&ledger)),
            ledger,
            seen: Seen::default(),
        }
    }

    /// The namespaces that the scenario needs, with their policy.
    pub(crate) fn namespaces(&self) -> BTreeMap<String, v1::Policy> {
        let names = self.messages.iter().map(|message| message.intent.namespace.clone());
        names.map(|name| (name, self.scenario.policy())).collect()
    }

    /// The client of a worker: workers are spread over the endpoints.
    pub(crate) fn client(&self, worker: usize) -> &Client {
        &self.clients[worker % self.clients.len()]
    }

    /// The claim of one delivery, by a new attempt.
    pub(crate) fn request(&self, delivery: Delivery, key: &str) -> ClaimRequest {
        let message = &self.messages[delivery.message];
        let intent = &message.intent;
        let short = message.armed().waits_for_lapse();
        let request = ClaimRequest::new(&self.tenant, &intent.namespace, key)
            .owner(owner(self.scenario, delivery))
            .fingerprint(fingerprint::sha256(SCHEME, intent.canonical().as_bytes()))
            .lease(if short { LEASE_SHORT } else { LEASE_LONG })
            .intent_time(intent.born)
            .label("message_id", format!("{}-m{}", self.scenario.name, delivery.message + 1))
            .label("delivery", delivery.number.to_string());
        if self.scenario.ends_unresolved() { request } else { request.accept_recovery() }
    }
}

/// One label per process incarnation: here, per delivery.
pub(crate) fn owner(scenario: &Scenario, delivery: Delivery) -> String {
    format!("{}/w{}.{}", scenario.name, delivery.message + 1, delivery.number)
}

fn intent(scenario: &Scenario, number: usize, born: SystemTime) -> Intent {
    let name = scenario.name;
    // Where a policy is changed for one intent, it is not shared with the others.
    let namespace = match scenario.producer {
        Producer::RedrivesForgotten => format!("{name}.{number}"),
        Producer::Plain
        | Producer::RedrivesKept
        | Producer::MintsKeysWarned
        | Producer::MintsKeysBlocked
        | Producer::ReusesKey => name.to_owned(),
    };
    let cents = 10_000 + u64::try_from(number).unwrap_or(0);
    let key = format!("payout:{number}");
    Intent { reference: format!("{name}:{number}"), cents, key, namespace, born, impostor: false }
}

impl Message {
    fn new(intent: Intent, fault: Fault) -> Self {
        Self { intent, stage: Stage::default(), armed: Mutex::new(fault), keys: Mutex::default() }
    }

    /// The fault that has not struck yet.
    pub(crate) fn armed(&self) -> Fault {
        *lock(&self.armed)
    }

    /// Whether `fault` strikes now. It does so once.
    pub(crate) fn strikes(&self, fault: Fault) -> bool {
        let mut armed = lock(&self.armed);
        let strikes = *armed == fault && fault != Fault::Nothing;
        if strikes {
            *armed = Fault::Nothing;
        }
        strikes
    }

    /// Notes that its claim was granted under a key.
    pub(crate) fn granted(&self, key: &str) {
        let mut keys = lock(&self.keys);
        if !keys.iter().any(|known| known == key) {
            keys.push(key.to_owned());
        }
    }

    /// The key under which its claim was granted first; the one of the message before that.
    pub(crate) fn key(&self) -> String {
        lock(&self.keys).first().cloned().unwrap_or_else(|| self.intent.key.clone())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while it holds one of these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
