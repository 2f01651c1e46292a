//! What scripts see beside answers: the list of what is unfinished, and the history of a record.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use firstclaim_core::command::{RecordReport, Report};
use firstclaim_core::history::Sighting;
use firstclaim_core::name::Region;
use firstclaim_core::{
    AttemptId, Command, Labels, NamespaceName, OwnerLabel, RecordId, Slot, Store, TenantName,
};

use super::show::{secs, show_journal};
use super::support::MemoryStore;
use super::{Args, Failure, record};

/// `NAMESPACE`: each record that only a decision or time can end, by key.
pub(crate) fn unfinished(store: &mut MemoryStore, namespace: &str) -> Result<String, Failure> {
    let name = NamespaceName::parse(namespace)?;
    let slot = store.namespace(&TenantName::parse("t")?, &name)?;
    let id = slot.and_then(Slot::live).ok_or("no namespace")?.id;
    let clock = store.cluster()?.clock;
    let mut list = String::new();
    for id in store.unfinished(id, None, 100)? {
        let Some(record) = store.record(&id)? else { continue };
        let state = record.logical(&clock).map_or("forgotten".into(), |it| format!("{it:?}"));
        let owner = record.grant.as_ref().map_or("-", |grant| grant.owner.as_str());
        let open = show_journal(&record.open(&clock));
        writeln!(list, "unfinished {} {state} owner={owner}{open}", id.key.as_str())?;
    }
    Ok(if list.is_empty() { "nothing is unfinished\n".into() } else { list })
}

/// `KEY`: how often claims were not granted, the latest of them, and what became of the attempts.
pub(crate) fn history(store: &mut MemoryStore, key: &str) -> Result<String, Failure> {
    let target = record(key)?;
    let slot = store.namespace(&target.tenant, &target.namespace)?;
    let namespace = slot.and_then(Slot::live).ok_or("no namespace")?;
    let id = RecordId { namespace: namespace.id, key: target.key };
    let mut told = String::new();
    let history = store.history(&id)?.unwrap_or_default();
    for (outcome, count) in &history.counts {
        writeln!(told, "history {key} {outcome} {count} times")?;
    }
    for seen in &history.sightings {
        let (time, owner) = (secs(seen.time), seen.owner.as_str());
        let labels = seen.labels.pairs().iter().map(|(name, value)| format!(" {name}={value}"));
        let labels: String = labels.collect();
        writeln!(told, "history {key} {} {owner} at={time}{labels}", seen.outcome)?;
    }
    let record = store.record(&id)?;
    for known in record.iter().flat_map(|record| &record.attempts) {
        let ended = known.ended.as_ref().map_or("-".into(), |ended| format!("{:?}", ended.0));
        let (kind, epoch, owner) = (known.kind, known.epoch.0, known.owner.as_str());
        writeln!(told, "history {key} {kind:?} epoch={epoch} {owner} ended={ended}")?;
    }
    Ok(if told.is_empty() { format!("history {key} is empty\n") } else { told })
}

/// `KEY OUTCOME ATTEMPT... seen=TIME [message=ID]`: a node tells of claims that were not granted.
pub(crate) fn report(args: &mut Args<'_>) -> Result<(String, Command), Failure> {
    let key = args.word()?;
    let outcome = args.word()?;
    let time = args.secs("seen")?.unwrap_or_default();
    let message = args.key("message").map(|id| ("message_id".to_owned(), id));
    let labels = Labels::parse(message.into_iter().collect())?;
    let mut sightings = Vec::new();
    for attempt in args.flags() {
        sightings.push(Sighting {
            time: firstclaim_core::Timestamp(time.0),
            outcome: outcome.clone(),
            owner: OwnerLabel::parse(format!("worker-{attempt}"))?,
            attempt_id: AttemptId::parse(attempt)?,
            region: Region::unknown(),
            labels: labels.clone(),
        });
    }
    let counts = BTreeMap::from([(outcome, sightings.len() as u64)]);
    let told = RecordReport { record: record(&key)?, sightings, counts };
    Ok((format!("report {key}"), Command::Report(Report { records: vec![told] })))
}
