//! What became of each intent, by the provider's ledger, the queue, the record and the list of what is
//! unresolved.

use std::collections::BTreeSet;

use firstclaim_client::{Client, Error, Reason, v1};

use super::ledger::Entry;
use super::queue::End;
use super::scenario::Producer;
use super::scene::{Message, Scene};
use super::worker::REFUSED_IMPOSTOR;

/// Records that one page of the list asks for.
const PAGE: u32 = 500;

/// What became of an intent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// One effect; the record is completed with its receipt.
    Done,
    /// One effect; the record is forgotten, and its late repeat was refused.
    Forgotten,
    /// No effect: it was refused in words.
    Refused,
    /// At most one effect; nobody knows, and the record is listed as unresolved.
    Listed,
    /// It went wrong.
    Fault(String),
}

/// What is listed as unresolved in a tenant: namespace and key.
pub(crate) async fn unresolved(
    client: &Client,
    tenant: &str,
) -> Result<BTreeSet<(String, String)>, Error> {
    let mut listed = BTreeSet::new();
    let mut page_token = String::new();
    loop {
        let request = v1::ListUnresolvedRequest {
            tenant: tenant.to_owned(),
            page_size: PAGE,
            page_token,
            ..v1::ListUnresolvedRequest::default()
        };
        let page = client.list_unresolved(request).await?;
        let records = page.records.into_iter();
        listed.extend(records.map(|record| (record.namespace, record.key)));
        if page.next_page_token.is_empty() {
            return Ok(listed);
        }
        page_token = page.next_page_token;
    }
}

/// Judges every intent of a scenario that has been played.
pub(crate) async fn judge(
    scene: &Scene,
    client: &Client,
    listed: &BTreeSet<(String, String)>,
) -> Result<Vec<Verdict>, Error> {
    let mut verdicts = Vec::new();
    for (at, message) in scene.messages.iter().enumerate() {
        let intent = &message.intent;
        let key = message.key();
        let named = (scene.tenant.as_str(), intent.namespace.as_str(), key.as_str());
        let record = match client.get(named, v1::Consistency::Linearizable).await {
            Ok(read) => read.record,
            Err(error) if error.reason() == Reason::RecordNotFound => None,
            Err(error) => return Err(error),
        };
        let facts = Facts {
            entries: scene.ledger.entries(&intent.reference),
            ended: scene.queue.ended(at),
            record,
            listed: listed.contains(&(intent.namespace.clone(), key)),
            may_be_forgotten: scene.scenario.producer == Producer::RedrivesForgotten,
        };
        verdicts.push(facts.judge(message));
    }
    Ok(verdicts)
}

/// All that is known about one intent.
struct Facts {
    /// What the provider did.
    entries: Vec<Entry>,
    /// How its message left the queue.
    ended: Option<End>,
    record: Option<v1::Record>,
    listed: bool,
    may_be_forgotten: bool,
}

impl Facts {
    fn judge(&self, message: &Message) -> Verdict {
        let reference = &message.intent.reference;
        let fault = |what: String| Verdict::Fault(format!("{reference} {what}"));
        if self.entries.len() > 1 {
            let by: Vec<String> = self
                .entries
                .iter()
                .map(|entry| format!("{} by {}", entry.receipt, entry.sender))
                .collect();
            return fault(format!("was paid {} times: {}", by.len(), by.join(", ")));
        }
        let paid = self.entries.first();
        if let Some(entry) = paid.filter(|entry| entry.cents != message.intent.cents) {
            return fault(format!("was paid {} cents, not what was asked for", entry.cents));
        }
        if message.intent.impostor {
            return self.judge_impostor(&fault);
        }
        let Some(record) = &self.record else {
            return match (paid, self.may_be_forgotten) {
                (Some(_), true) => Verdict::Forgotten,
                (Some(_), false) => fault("was paid, and its record is gone".to_owned()),
                (None, _) => fault("was lost: no payment and no record".to_owned()),
            };
        };
        if record.state() == v1::RecordState::Completed {
            return self.judge_completed(record, &fault);
        }
        if self.listed {
            return Verdict::Listed;
        }
        let state = record.state().as_str_name().trim_start_matches("RECORD_STATE_");
        let payments = if paid.is_some() { "paid" } else { "not paid" };
        fault(format!(
            "is stuck: {payments}, {state}, not listed as unresolved, {}",
            self.message()
        ))
    }

    fn judge_impostor(&self, fault: &dyn Fn(String) -> Verdict) -> Verdict {
        if let Some(entry) = self.entries.first() {
            return fault(format!("was paid ({}) under the key of another request", entry.receipt));
        }
        match &self.ended {
            Some(End::Parked(why)) if why == REFUSED_IMPOSTOR => Verdict::Refused,
            Some(End::Acknowledged) => fault(
                "was lost: not paid, and acknowledged with the result of another request"
                    .to_owned(),
            ),
            Some(End::Parked(_)) | None => {
                fault(format!("is stuck: neither paid nor refused, {}", self.message()))
            }
        }
    }

    fn judge_completed(&self, record: &v1::Record, fault: &dyn Fn(String) -> Verdict) -> Verdict {
        let Some(entry) = self.entries.first() else {
            return fault("was lost: completed, and never paid".to_owned());
        };
        let result = record.completion.as_ref().and_then(|done| done.result.as_ref());
        match result.and_then(|result| result.body.as_ref()) {
            Some(v1::result::Body::Inline(bytes)) if *bytes == entry.receipt.as_bytes() => {}
            _ => {
                return fault(format!(
                    "was paid with {}, and another result is stored",
                    entry.receipt
                ));
            }
        }
        match &self.ended {
            Some(_) => Verdict::Done,
            None => fault("is done, and its message never left the queue".to_owned()),
        }
    }

    fn message(&self) -> String {
        match &self.ended {
            Some(End::Acknowledged) => "message acknowledged".to_owned(),
            Some(End::Parked(why)) => format!("message parked ({why})"),
            None => "message still in the queue".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::scenario::TABLE;
    use super::*;

    fn message(impostor: bool) -> Message {
        let scenario = TABLE.iter().find(|row| row.producer == Producer::ReusesKey).unwrap();
        let now = std::time::UNIX_EPOCH;
        let mut scene = Scene::new(scenario, ("t", &[]), 1, now);
        scene.messages.remove(usize::from(impostor))
    }

    fn entry(receipt: &str, cents: u64) -> Entry {
        Entry {
            reference: "r".to_owned(),
            cents,
            receipt: receipt.to_owned(),
            sender: "w".to_owned(),
        }
    }

    fn completed(result: &str) -> v1::Record {
        let body = v1::result::Body::Inline(result.as_bytes().to_vec());
        let result = v1::Result { body: Some(body), ..v1::Result::default() };
        v1::Record {
            state: v1::RecordState::Completed.into(),
            completion: Some(v1::Completion { result: Some(result), ..v1::Completion::default() }),
            ..v1::Record::default()
        }
    }

    fn facts() -> Facts {
        Facts {
            entries: vec![entry("tx_1", 10_001)],
            ended: Some(End::Acknowledged),
            record: Some(completed("tx_1")),
            listed: false,
            may_be_forgotten: false,
        }
    }

    fn fault(facts: &Facts) -> String {
        let verdict = facts.judge(&message(false));
        let Verdict::Fault(fault) = verdict else { panic!("{verdict:?}") };
        fault
    }

    #[test]
    fn one_payment_with_its_receipt_is_done() {
        assert_eq!(facts().judge(&message(false)), Verdict::Done);
    }

    #[test]
    fn two_payments_wrong_ones_and_wrong_results_are_faults() {
        let twice = vec![entry("tx_1", 10_001), entry("tx_2", 10_001)];
        assert!(fault(&Facts { entries: twice, ..facts() }).contains("paid 2 times: tx_1 by w"));
        let wrong = vec![entry("tx_1", 9)];
        assert!(fault(&Facts { entries: wrong, ..facts() }).contains("9 cents"));
        let other = Some(completed("tx_9"));
        assert!(fault(&Facts { record: other, ..facts() }).contains("another result"));
        assert!(fault(&Facts { ended: None, ..facts() }).contains("never left"));
    }

    #[test]
    fn what_is_lost_or_stuck_is_a_fault_unless_it_is_listed() {
        let unpaid = || Facts { entries: Vec::new(), ..facts() };
        assert!(fault(&unpaid()).contains("completed, and never paid"));
        assert!(fault(&Facts { record: None, ..unpaid() }).contains("lost"));
        assert!(fault(&Facts { record: None, ..facts() }).contains("its record is gone"));
        let forgotten = Facts { record: None, may_be_forgotten: true, ..facts() };
        assert_eq!(forgotten.judge(&message(false)), Verdict::Forgotten);
        let open =
            || v1::Record { state: v1::RecordState::Unresolved.into(), ..v1::Record::default() };
        let stuck = Facts { record: Some(open()), ..unpaid() };
        assert!(fault(&stuck).contains("not listed"));
        let listed = Facts { record: Some(open()), listed: true, ..unpaid() };
        assert_eq!(listed.judge(&message(false)), Verdict::Listed);
    }

    #[test]
    fn the_second_request_of_a_key_has_to_be_refused_by_name() {
        let parked = |why: &str| Some(End::Parked(why.to_owned()));
        let unpaid = || Facts { entries: Vec::new(), ..facts() };
        let refused = Facts { ended: parked(REFUSED_IMPOSTOR), ..unpaid() };
        assert_eq!(refused.judge(&message(true)), Verdict::Refused);
        for wrong in [
            unpaid(),
            Facts { ended: parked("too often"), ..unpaid() },
            Facts { entries: vec![entry("tx_1", 25_001)], ..facts() },
        ] {
            assert!(matches!(wrong.judge(&message(true)), Verdict::Fault(_)));
        }
    }
}
