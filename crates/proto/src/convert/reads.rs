//! What is asked of records without changing them: lists, histories, explanations, watches.

use std::collections::BTreeMap;

use firstclaim_core::command::{RecordReport, Report};
use firstclaim_core::name::Region;
use firstclaim_core::{
    AttemptId, History, IdempotencyKey, Labels, Millis, NamespaceName, OwnerLabel, RecordRef,
    Sighting, TenantName, limits,
};

use super::Faults;
use super::enums::unknown;
use super::time::timestamp;
use crate::v1;

/// Records of a page that asks for no size.
const PAGE_DEFAULT: u32 = 100;
/// Most records of a page.
const PAGE_MAX: u32 = 500;

/// Which records of a namespace are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListRecords {
    /// The tenant.
    pub tenant: TenantName,
    /// The namespace.
    pub namespace: NamespaceName,
    /// Only these states; all if there is none.
    pub states: Vec<v1::RecordState>,
    /// Only records first seen at least this long ago.
    pub older_than: Millis,
    /// Only records whose latest grant has this label.
    pub owner: Option<OwnerLabel>,
    /// Only records with an attempt that has all of these.
    pub labels: Labels,
    /// Only keys that start with this.
    pub key_prefix: String,
    /// Most records.
    pub size: usize,
    /// Keys above this one.
    pub after: Option<IdempotencyKey>,
}

/// Which unresolved or parked records are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListUnresolved {
    /// The tenant.
    pub tenant: TenantName,
    /// The namespace; none for all of the tenant.
    pub namespace: Option<NamespaceName>,
    /// Most records.
    pub size: usize,
    /// The namespace and the key that the page before ended with.
    pub after: Option<(NamespaceName, IdempotencyKey)>,
    /// Whether to list records whose EXECUTE grants are used up instead.
    pub parked: bool,
}

fn page_size(wire: u32) -> usize {
    let size = if wire == 0 { PAGE_DEFAULT } else { wire.min(PAGE_MAX) };
    usize::try_from(size).unwrap_or(usize::MAX)
}

/// Reads which records to list.
///
/// # Errors
///
/// Every fault of the request.
pub fn read_list_records(request: v1::ListRecordsRequest) -> Result<ListRecords, Faults> {
    let mut faults = Faults::default();
    let tenant = faults.take(TenantName::parse(request.tenant));
    let namespace = faults.take(NamespaceName::parse(request.namespace));
    let mut states = Vec::new();
    for (at, wire) in request.states.into_iter().enumerate() {
        match v1::RecordState::try_from(wire) {
            Ok(v1::RecordState::Unspecified) | Err(_) => {
                let fix = "use the states of RecordState";
                let fault: Result<(), _> = Err(unknown(&format!("states[{at}]"), wire, fix));
                faults.take(fault);
            }
            Ok(state) if states.contains(&state) => {}
            Ok(state) => states.push(state),
        }
    }
    let older_than = faults.duration("older_than", request.older_than).unwrap_or_default();
    let owner = faults.optional(request.owner, OwnerLabel::parse);
    let labels = faults.take(Labels::parse(request.labels));
    if request.key_prefix.len() > limits::KEY_BYTES_MAX {
        let fix = format!("use at most {} bytes", limits::KEY_BYTES_MAX);
        let problem = format!("is {} bytes long", request.key_prefix.len());
        faults.note("key_prefix", problem, fix);
    }
    let after = page_token(&mut faults, request.page_token);
    let build = || {
        Some(ListRecords {
            tenant: tenant?,
            namespace: namespace?,
            states,
            older_than,
            owner: owner?,
            labels: labels?,
            key_prefix: request.key_prefix,
            size: page_size(request.page_size),
            after: after?,
        })
    };
    let built = build();
    faults.finish(built)
}

fn page_token(faults: &mut Faults, token: String) -> Option<Option<IdempotencyKey>> {
    if token.is_empty() {
        return Some(None);
    }
    faults.take_as("page_token", IdempotencyKey::parse(token)).map(Some)
}

/// Reads which unresolved records to list.
///
/// # Errors
///
/// Every fault of the request.
pub fn read_list_unresolved(request: v1::ListUnresolvedRequest) -> Result<ListUnresolved, Faults> {
    let mut faults = Faults::default();
    let tenant = faults.take(TenantName::parse(request.tenant));
    let namespace = faults.optional(request.namespace, NamespaceName::parse);
    let after = match request.page_token.split_once('/') {
        None if request.page_token.is_empty() => Some(None),
        None => {
            let fix = "send the next_page_token of the page before";
            faults.note("page_token", "is not one of this list", fix);
            None
        }
        Some((namespace, key)) => {
            let namespace = faults.take_as("page_token", NamespaceName::parse(namespace));
            let key = faults.take_as("page_token", IdempotencyKey::parse(key));
            namespace.zip(key).map(Some)
        }
    };
    let build = || {
        Some(ListUnresolved {
            tenant: tenant?,
            namespace: namespace?,
            size: page_size(request.page_size),
            after: after?,
            parked: request.parked,
        })
    };
    let built = build();
    faults.finish(built)
}

/// Where a list of unresolved records goes on after `record`.
#[must_use]
pub fn unresolved_token(record: &RecordRef) -> String {
    format!("{}/{}", record.namespace, record.key)
}

/// Reads which record is meant.
///
/// # Errors
///
/// Every fault of the names.
pub fn read_record_ref(
    tenant: String,
    namespace: String,
    key: String,
) -> Result<RecordRef, Faults> {
    let mut faults = Faults::default();
    let record = faults.record_ref(tenant, namespace, key);
    faults.finish(record)
}

/// Reads which namespace is meant.
///
/// # Errors
///
/// Every fault of the names.
pub fn read_namespace(
    tenant: String,
    namespace: String,
) -> Result<(TenantName, NamespaceName), Faults> {
    let mut faults = Faults::default();
    let tenant = faults.take(TenantName::parse(tenant));
    let namespace = faults.take(NamespaceName::parse(namespace));
    faults.finish(tenant.zip(namespace))
}

/// Claims that were not granted, as GetHistory shows them.
#[must_use]
pub fn sightings(history: &History) -> Vec<v1::Sighting> {
    history.sightings.iter().map(sighting).collect()
}

fn sighting(one: &Sighting) -> v1::Sighting {
    v1::Sighting {
        time: Some(timestamp(one.time)),
        outcome: one.outcome.clone(),
        attempt_id: one.attempt_id.as_str().to_owned(),
        owner: one.owner.as_str().to_owned(),
        region: one.region.as_str().to_owned(),
        labels: one.labels.pairs().clone(),
    }
}

/// What a node saw, on its way to the leader.
#[must_use]
pub fn report_request(report: Report) -> v1::ReportSightingsRequest {
    let one = |record: RecordReport| v1::RecordSightings {
        tenant: record.record.tenant.into(),
        namespace: record.record.namespace.into(),
        key: record.record.key.into(),
        sightings: record.sightings.iter().map(sighting).collect(),
        counts: record.counts,
    };
    v1::ReportSightingsRequest { records: report.records.into_iter().map(one).collect() }
}

/// Reads what another node saw.
///
/// # Errors
///
/// Every fault of the report.
pub fn read_report(request: v1::ReportSightingsRequest) -> Result<Report, Faults> {
    let mut faults = Faults::default();
    let max = limits::REPORT_RECORDS_MAX;
    if !(1..=max).contains(&request.records.len()) {
        let problem = format!("has {} entries", request.records.len());
        faults.note("records", problem, format!("send 1 to {max}"));
        return Err(faults);
    }
    let mut records = Vec::new();
    for (at, one) in request.records.into_iter().enumerate() {
        records.extend(faults.absorb_in(&format!("records[{at}]"), read_record_report(one)));
    }
    faults.finish(Some(Report { records }))
}

fn read_record_report(wire: v1::RecordSightings) -> Result<RecordReport, Faults> {
    let mut faults = Faults::default();
    let record = faults.record_ref(wire.tenant, wire.namespace, wire.key);
    if wire.sightings.len() > limits::SIGHTINGS_KEPT {
        let fix = format!("send at most {}", limits::SIGHTINGS_KEPT);
        faults.note("sightings", format!("has {} entries", wire.sightings.len()), fix);
        return Err(faults);
    }
    let mut sightings = Vec::new();
    for (at, one) in wire.sightings.into_iter().enumerate() {
        sightings.extend(faults.absorb_in(&format!("sightings[{at}]"), read_sighting(one)));
    }
    let counts = read_counts(&mut faults, wire.counts);
    let build = || Some(RecordReport { record: record?, sightings, counts });
    let built = build();
    faults.finish(built)
}

fn read_counts(faults: &mut Faults, counts: BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    if counts.len() > limits::SIGHTING_OUTCOMES_KEPT {
        let fix = format!("send at most {}", limits::SIGHTING_OUTCOMES_KEPT);
        faults.note("counts", format!("has {} entries", counts.len()), fix);
    }
    if counts.keys().any(|outcome| !is_outcome(outcome)) {
        faults.note("counts", "names no outcome of a claim", "send the outcomes of docs/errors.md");
    }
    counts
}

/// Whether it is a word for what a claim came to.
fn is_outcome(text: &str) -> bool {
    ["REPLAY", "PENDING", "UNRESOLVED"].contains(&text)
        || firstclaim_core::Reason::parse(text).is_some()
}

fn read_sighting(wire: v1::Sighting) -> Result<Sighting, Faults> {
    let mut faults = Faults::default();
    let time = faults.need_timestamp("time", wire.time);
    if !is_outcome(&wire.outcome) {
        let fix = "send the outcomes of docs/errors.md";
        faults.note("outcome", "is no outcome of a claim", fix);
    }
    let attempt_id = faults.take(AttemptId::parse(wire.attempt_id));
    let owner = faults.take(OwnerLabel::parse(wire.owner));
    let region = faults.take(Region::parse(wire.region));
    let labels = faults.take(Labels::parse(wire.labels));
    let build = || {
        Some(Sighting {
            time: time?,
            outcome: wire.outcome,
            attempt_id: attempt_id?,
            owner: owner?,
            region: region?,
            labels: labels?,
        })
    };
    let built = build();
    faults.finish(built)
}
