//! Explain: decides a claim on a copy of the state, and says by which rule and by what.

use std::collections::BTreeMap;

use firstclaim_core::command::Claim;
use firstclaim_core::fingerprint::Comparison;
use firstclaim_core::name::Region;
use firstclaim_core::policy::Retention;
use firstclaim_core::record::{Logical, State as Stored};
use firstclaim_core::{
    Answer, Command, Outcome, Policy, Record, RecordId, Refusal, Slot, Stamp, Store as _,
    StoreClock, apply, decide,
};
use firstclaim_proto::convert::{Faults, claim, enums, record, time};
use firstclaim_proto::v1;
use firstclaim_replica::{State, StoreError};

use crate::node::{Fail, Node};
use crate::refusal;
use crate::status::{Applied, Failure};

/// Reads the claim that would be made.
pub(super) fn read(request: v1::ExplainRequest, region: Region) -> Result<Claim, Fail> {
    let Some(claim) = request.claim else {
        let fault = firstclaim_core::Invalid::new("claim", "is missing", "send the claim");
        return Err(Failure::invalid(&[fault], Applied::No).into());
    };
    let read = claim::read(claim, region);
    let inside = |faults: Faults| {
        let faults: Vec<_> =
            faults.into_vec().into_iter().map(|fault| fault.in_field("claim")).collect();
        Failure::invalid(&faults, Applied::No)
    };
    Ok(read.map_err(inside)?.claim)
}

/// What the claim would be decided by.
struct Seen {
    clock: StoreClock,
    policy: Option<Policy>,
    record: Option<Record>,
    records: u64,
    outcome: Option<Outcome>,
}

/// Says which rule would decide the claim now. The node's state must not be stale.
pub(super) fn explain(node: &Node, asked: &Claim) -> Result<v1::ExplainResponse, Fail> {
    let applied = node.replica.status();
    let now = node.replica.confirmed_store_time().map(|(time, _)| time).unwrap_or_default();
    let stamp = Stamp {
        term: applied.term,
        index: applied.applied_index.unwrap_or(0).saturating_add(1),
        time: now,
    };
    // What is decided here is written nowhere.
    let (_, seen) = node.read(|state| look(state, stamp, asked))?;
    let Some(outcome) = &seen.outcome else { return Err(wrong().into()) };
    let clock = &seen.clock;
    let logical = seen.record.as_ref().and_then(|record| record.logical(clock));
    let open = seen.record.as_ref().is_some_and(|record| !record.open(clock).is_empty());
    let rule = decide::explain(logical, open, outcome.result.as_ref());
    let Some(rule) = rule else { return Err(wrong().into()) };
    Ok(v1::ExplainResponse {
        row: rule.row,
        rule: rule.text.to_owned(),
        inputs: inputs(asked, &seen, outcome, logical),
        outcome: came_to(&outcome.result),
        record: seen.record.as_ref().and_then(|it| record::record(&asked.record, it, clock)),
        store_time: Some(time::timestamp(outcome.store_time)),
    })
}

fn wrong() -> Failure {
    Failure::internal("explain the claim")
}

fn look(state: &mut State<'_>, stamp: Stamp, asked: &Claim) -> Result<Seen, StoreError> {
    let names = &asked.record;
    let tenant = state.tenant(&names.tenant)?.and_then(Slot::live);
    let namespace = state.namespace(&names.tenant, &names.namespace)?.and_then(Slot::live);
    let mut seen = Seen {
        clock: StoreClock::default(),
        policy: None,
        record: None,
        records: 0,
        outcome: None,
    };
    if let (Some(tenant), Some(namespace)) = (tenant, namespace) {
        let id = RecordId { namespace: namespace.id, key: names.key.clone() };
        seen.policy = Some(namespace.effective(&tenant));
        seen.record = state.record(&id)?;
        seen.records = state.usage(namespace.id)?.records;
    }
    seen.outcome = apply(state, stamp, &[Command::Claim(asked.clone())])?.pop();
    seen.clock = state.cluster()?.clock;
    Ok(seen)
}

fn came_to(result: &Result<Answer, Refusal>) -> String {
    match result {
        Err(refusal) => refusal.reason().as_str().to_owned(),
        Ok(answer) => {
            if let Answer::Acquired(acquired) = answer {
                let kind = enums::kind(acquired.kind).as_str_name();
                let mode = enums::mode(acquired.mode).as_str_name();
                let (kind, mode) = (without(kind, "ACQUIRED_KIND_"), without(mode, "MODE_"));
                format!("ACQUIRED {kind} {mode}")
            } else if matches!(answer, Answer::Replay(_)) {
                "REPLAY".to_owned()
            } else if matches!(answer, Answer::Pending(_)) {
                "PENDING".to_owned()
            } else {
                "UNRESOLVED".to_owned()
            }
        }
    }
}

fn without<'a>(text: &'a str, prefix: &str) -> &'a str {
    text.strip_prefix(prefix).unwrap_or(text)
}

/// Named values, as people read them.
#[derive(Default)]
struct Inputs(BTreeMap<String, String>);

impl Inputs {
    #[expect(clippy::needless_pass_by_value, reason = "numbers are given by value")]
    fn put(&mut self, name: &str, value: impl ToString) {
        self.0.insert(name.to_owned(), value.to_string());
    }
}

/// Everything that the decision was made of, each with its name.
fn inputs(
    asked: &Claim,
    seen: &Seen,
    outcome: &Outcome,
    logical: Option<Logical>,
) -> BTreeMap<String, String> {
    let mut inputs = Inputs::default();
    inputs.put("store_time", refusal::time(outcome.store_time));
    inputs.put("accept_recovery", asked.accept_recovery);
    if let Some(born) = asked.intent_time {
        inputs.put("intent_time", refusal::time(born));
    }
    let open = seen.record.as_ref().is_some_and(|it| !it.open(&seen.clock).is_empty());
    let state = logical.map_or("ABSENT", |logical| enums::state(logical, open).as_str_name());
    inputs.put("state", without(state, "RECORD_STATE_"));
    if let Some(policy) = &seen.policy {
        policy_inputs(&mut inputs, policy, seen.records);
    }
    if let Some(record) = seen.record.as_ref().filter(|_| logical.is_some()) {
        record_inputs(&mut inputs, asked, record, &seen.clock);
    } else if seen.record.is_some() {
        inputs.put("forgotten", "the record is past its identity retention");
    }
    if let Ok(Answer::Acquired(acquired)) = &outcome.result {
        inputs.put("horizon_checked", acquired.horizon_checked);
        if !acquired.similar_keys.is_empty() {
            inputs.put("similar_keys", acquired.similar_keys.len());
        }
    }
    if let Err(Refusal::DuplicateIntent { similar_keys }) = &outcome.result {
        inputs.put("similar_keys", similar_keys.len());
    }
    if let Err(Refusal::Invalid(faults)) = &outcome.result {
        for fault in faults {
            inputs.put(&format!("fault.{}", fault.field), &fault.problem);
        }
    }
    inputs.0
}

fn policy_inputs(inputs: &mut Inputs, policy: &Policy, records: u64) {
    let identity = match policy.identity_retention {
        Retention::For(length) => length.to_string(),
        Retention::Forever => "FOREVER".to_owned(),
    };
    inputs.put("policy.identity_retention", identity);
    inputs.put("policy.intent_time_skew", policy.intent_time_skew);
    inputs.put("policy.takeover_delay", policy.takeover_delay);
    inputs.put("policy.lease_max", policy.lease_max);
    inputs.put("policy.duplicate_intent_window", policy.duplicate_intent_window);
    inputs.put("policy.max_attempts", policy.max_attempts);
    inputs.put("policy.on_lapse", format!("{:?}", policy.on_lapse).to_uppercase());
    inputs.put("policy.intent_time", format!("{:?}", policy.intent_time).to_uppercase());
    inputs.put("policy.fingerprint", format!("{:?}", policy.fingerprint).to_uppercase());
    inputs.put("policy.reserve", format!("{:?}", policy.reserve).to_uppercase());
    inputs.put("policy.duplicate_intent", format!("{:?}", policy.duplicate_intent).to_uppercase());
    if policy.records_max > 0 {
        inputs.put("policy.records_max", policy.records_max);
        inputs.put("records", records);
    }
}

fn record_inputs(inputs: &mut Inputs, asked: &Claim, record: &Record, clock: &StoreClock) {
    inputs.put("epoch", record.epoch.0);
    inputs.put("first_seen_time", refusal::time(record.first_seen_time));
    inputs.put("execute_grants", record.execute_grants);
    inputs.put("frozen.on_lapse", format!("{:?}", record.frozen.on_lapse).to_uppercase());
    inputs.put("frozen.takeover_delay", record.frozen.takeover_delay);
    inputs.put("fingerprint", compared(asked, record));
    inputs.put("attempt", known_attempt(asked, record));
    if let Some(born) = record.intent_time {
        inputs.put("bound_intent_time", refusal::time(born));
    }
    if let Some(grant) = &record.grant {
        inputs.put("owner", &grant.owner);
        inputs.put("lease_expire_time", refusal::time(grant.lease_expire_time));
        if let Some(deadline) = record.deadline(clock) {
            inputs.put("effective_deadline", refusal::time(deadline));
        }
    }
    if let Stored::Retryable { not_before, .. } | Stored::Unbound { not_before, .. } = &record.state
    {
        inputs.put("not_before", refusal::time(*not_before));
    }
    let open = record.open(clock).uids(record.life);
    if !open.is_empty() {
        let uids: Vec<String> = open.iter().map(ToString::to_string).collect();
        inputs.put("open", uids.join(","));
    }
}

fn compared(asked: &Claim, record: &Record) -> String {
    match record.fingerprints.compare(&asked.fingerprints) {
        Comparison::Same => "same".to_owned(),
        Comparison::Differs { scheme, parts } if parts.is_empty() => format!("differs by {scheme}"),
        Comparison::Differs { scheme, parts } => {
            format!("differs by {scheme} in {}", parts.join(","))
        }
        Comparison::Incomparable => "incomparable".to_owned(),
    }
}

fn known_attempt(asked: &Claim, record: &Record) -> String {
    let known = record.attempts.iter().rev().find(|known| known.attempt_id == asked.attempt_id);
    match known {
        None => "new".to_owned(),
        Some(known) if known.owner != asked.owner => format!("of owner {}", known.owner),
        Some(known) => format!("was granted epoch {}", known.epoch.0),
    }
}
