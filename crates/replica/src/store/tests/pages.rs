//! Lists and watches: pages of records, whether their rows are written or still to be.

use std::collections::BTreeMap;
use std::path::Path;

use firstclaim_core::command::{
    Claim, Complete, ExtendExisting, Holder, PutMode, PutNamespace, PutTenant,
};
use firstclaim_core::name::{Principal, Region};
use firstclaim_core::policy::Retention;
use firstclaim_core::record::{Disposition, ResultBody};
use firstclaim_core::{
    Answer, AttemptId, Command, Epoch, Fingerprint, FingerprintSet, IdempotencyKey, Labels, Millis,
    NamespaceName, OwnerLabel, PolicyPatch, RecordId, RecordRef, Scheme, Slot, Stamp, Store as _,
    TenantName, Timestamp,
};

use crate::store::engine::{Durability, Engine as _};
use crate::store::memory::Memory;
use crate::store::state::{Page, State};

const KEYS: [&str; 6] = ["b-1", "a-2", "b-3", "a-1", "b-2", "c"];

fn reference(key: &str) -> RecordRef {
    RecordRef {
        tenant: TenantName::parse("t").unwrap(),
        namespace: NamespaceName::parse("n").unwrap(),
        key: IdempotencyKey::parse(key).unwrap(),
    }
}

fn claim(key: &str) -> Command {
    let scheme = Scheme::parse("test/1").unwrap();
    let print = Fingerprint::new(scheme, vec![1; 32], BTreeMap::new()).unwrap();
    Command::Claim(Claim {
        record: reference(key),
        attempt_id: AttemptId::parse("attempt-1").unwrap(),
        owner: OwnerLabel::parse("worker").unwrap(),
        fingerprints: FingerprintSet::new(vec![print]).unwrap(),
        lease: None,
        intent_time: None,
        labels: Labels::default(),
        accept_recovery: false,
        region: Region::unknown(),
        effects: Vec::new(),
        complete_with: None,
        allow_duplicate_intent: false,
    })
}

fn complete(key: &str, epoch: Epoch) -> Command {
    let attempt_id = AttemptId::parse("attempt-1").unwrap();
    Command::Complete(Complete {
        holder: Holder { record: reference(key), epoch, attempt_id },
        disposition: Disposition::Succeeded,
        result: ResultBody::inline(b"done".to_vec(), "text/plain".into()),
        settlements: Vec::new(),
    })
}

fn put_namespace(retention: u64, mode: PutMode) -> Command {
    let RecordRef { tenant, namespace, .. } = reference("any");
    let identity_retention = Some(Retention::For(Millis::from_hours(retention)));
    let policy = PolicyPatch { identity_retention, ..PolicyPatch::default() };
    Command::PutNamespace(PutNamespace { tenant, namespace, policy, mode, validate_only: false })
}

fn put_tenant() -> Command {
    let (tenant, policy) = (reference("any").tenant, PolicyPatch::default());
    let mode = PutMode::Create { members_applied: 0 };
    Command::PutTenant(PutTenant { tenant, policy, mode, validate_only: false })
}

fn extend() -> Command {
    let RecordRef { tenant, namespace, .. } = reference("any");
    let principal = Principal::parse("operator").unwrap();
    Command::ExtendExisting(ExtendExisting {
        tenant,
        namespace,
        after: None,
        limit: 100,
        principal,
    })
}

/// Applies a command as the entry at `index`, and says what it was answered.
fn apply(state: &mut State<'_>, index: u64, command: Command) -> Answer {
    let stamp = Stamp { term: 1, index, time: Timestamp(1_000_000 + index) };
    let mut outcomes = firstclaim_core::apply(state, stamp, &[command]).unwrap();
    outcomes.remove(0).result.unwrap()
}

/// Claims all keys, and completes all that start with `b` but the last; then makes retentions longer.
fn fill(state: &mut State<'_>) -> u64 {
    let create = PutMode::Create { members_applied: 0 };
    apply(state, 1, put_tenant());
    apply(state, 2, put_namespace(24 * 30, create));
    let mut index = 3;
    for key in KEYS {
        let Answer::Acquired(grant) = apply(state, index, claim(key)) else { panic!("{key}") };
        index += 1;
        if key.starts_with('b') && key != "b-3" {
            apply(state, index, complete(key, grant.epoch));
            index += 1;
        }
    }
    apply(state, index, put_namespace(24 * 60, PutMode::Update { expected: None }));
    let Answer::Extended(extended) = apply(state, index + 1, extend()) else { panic!() };
    assert_eq!(extended.extended, 2);
    let record = reference("any");
    let slot = state.namespace(&record.tenant, &record.namespace).unwrap();
    slot.and_then(Slot::live).unwrap().id
}

fn keys<T>(page: &[(RecordId, T)]) -> Vec<&str> {
    page.iter().map(|(id, _)| id.key.as_str()).collect()
}

fn check(state: &mut State<'_>, namespace: u64) {
    let after = IdempotencyKey::parse("a-2").unwrap();
    let all = Page { after: None, prefix: "", limit: 100 };
    let pages = [
        (all, &["a-1", "a-2", "b-1", "b-2", "b-3", "c"][..]),
        (Page { prefix: "b", ..all }, &["b-1", "b-2", "b-3"]),
        (Page { prefix: "b", limit: 2, ..all }, &["b-1", "b-2"]),
        (Page { after: Some(&after), limit: 2, ..all }, &["b-1", "b-2"]),
        (Page { after: Some(&after), prefix: "a", ..all }, &[]),
        (Page { after: Some(&after), prefix: "c", ..all }, &["c"]),
        (Page { prefix: "d", ..all }, &[]),
    ];
    for (page, expected) in pages {
        let found = state.record_page(namespace, page).unwrap();
        assert_eq!(keys(&found), expected, "{page:?}");
        for (id, record) in &found {
            assert_eq!(Some(record), state.record(id).unwrap().as_ref());
        }
    }
    let unfinished = state.unfinished_page(namespace, all).unwrap();
    assert_eq!(keys(&unfinished), ["a-1", "a-2", "b-3", "c"]);
    let unfinished = state.unfinished_page(namespace, Page { prefix: "b", ..all }).unwrap();
    assert_eq!(keys(&unfinished), ["b-3"]);
    assert_eq!(state.record_page(namespace + 1, all).unwrap(), []);
    assert_eq!(state.usage(namespace).unwrap().records, 6);
    check_changed(state, namespace);
}

/// By their latest change. Two records changed at one revision, so they are in one page.
fn check_changed(state: &mut State<'_>, namespace: u64) {
    let all = state.changed_page(namespace, 0, 100).unwrap();
    assert_eq!(keys(&all), ["a-2", "b-3", "a-1", "c", "b-1", "b-2"]);
    assert_eq!(all[4].1.revision, all[5].1.revision);
    let mut seen = Vec::new();
    let mut revision = 0;
    loop {
        let page = state.changed_page(namespace, revision, 1).unwrap();
        let Some((_, last)) = page.last() else { break };
        assert!(last.revision > revision);
        revision = last.revision;
        seen.push(keys(&page).join(" "));
    }
    assert_eq!(seen, ["a-2", "b-3", "a-1", "c", "b-1 b-2"]);
    let page = state.changed_page(namespace, all[2].1.revision, 2).unwrap();
    assert_eq!(keys(&page), ["c", "b-1", "b-2"]);
}

#[test]
fn pages_are_the_same_before_and_after_the_write() {
    let engine = Memory::new("memory");
    let mut state = State::new(&engine, Path::new("state"));
    let namespace = fill(&mut state);
    check(&mut state, namespace);
    engine.write(state.into_batch().unwrap(), Durability::Unsynced).unwrap();
    check(&mut State::new(&engine, Path::new("state")), namespace);
}
