//! Random commands of every kind over a few keys, so that they meet each other's changes in every way.

use std::collections::BTreeMap;
use std::path::Path;

use firstclaim_core::command::{
    Claim, Complete, CompleteWith, DeleteNamespace, DeleteTenant, Dispatch, ExtendExisting, Holder,
    Purge, PutMode, PutNamespace, PutTenant, RecordEffect, RecordReport, Release, ReleaseKind,
    Renew, Report, Reserve, Resolve, Resolved, Revoke, Settle, SettleEffect, Sweep,
};
use firstclaim_core::effect::Verdict;
use firstclaim_core::name::{EffectId, Principal, ProviderKey, ProviderName, Region, SlotName};
use firstclaim_core::policy::{DuplicateIntent, OnLapse, Retention};
use firstclaim_core::record::{Disposition, Epoch, ResultBody};
use firstclaim_core::{
    Answer, AttemptId, Command, Content, EffectName, EffectUid, Fingerprint, FingerprintSet,
    IdempotencyKey, Labels, Millis, NamespaceName, Outcome, OwnerLabel, PolicyPatch, RecordRef,
    Scheme, Sighting, Stamp, TenantName, Timestamp,
};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use crate::store::engine::{Durability, Engine};
use crate::store::machine::hash_rows;
use crate::store::memory::Memory;
use crate::store::state::State;

pub(super) const ENTRIES: usize = 300;
const COMMANDS_MAX: usize = 6;

/// An entry: its stamp's time, and its commands.
pub(super) type Batch = (u64, Vec<Command>);

/// A claim that was granted.
struct Granted {
    record: RecordRef,
    attempt_id: AttemptId,
    epoch: Epoch,
    life: u64,
}

fn names(random: &mut StdRng) -> (TenantName, NamespaceName) {
    let tenant = format!("t{}", random.random_range(0..2));
    let namespace = format!("n{}", random.random_range(0..2));
    (TenantName::parse(tenant).unwrap(), NamespaceName::parse(namespace).unwrap())
}

fn record(random: &mut StdRng) -> RecordRef {
    let (tenant, namespace) = names(random);
    let key = IdempotencyKey::parse(format!("key-{}", random.random_range(0..6))).unwrap();
    RecordRef { tenant, namespace, key }
}

fn attempt(random: &mut StdRng) -> AttemptId {
    AttemptId::parse(format!("attempt-{:016}", random.random_range(0..16))).unwrap()
}

fn principal() -> Principal {
    Principal::parse("operator").unwrap()
}

/// Mostly one of the newest grants.
fn granted<'a>(random: &mut StdRng, grants: &'a [Granted]) -> Option<&'a Granted> {
    let newest = grants.len().checked_sub(1)?;
    grants.get(newest - random.random_range(0..=newest.min(5)))
}

fn holder(random: &mut StdRng, grants: &[Granted]) -> Holder {
    match granted(random, grants) {
        Some(grant) if random.random_range(0..8) > 0 => Holder {
            record: grant.record.clone(),
            epoch: grant.epoch,
            attempt_id: grant.attempt_id.clone(),
        },
        Some(_) | None => {
            let epoch = Epoch(random.random_range(0..50));
            Holder { record: record(random), epoch, attempt_id: attempt(random) }
        }
    }
}

/// Few requests under many keys, so that they meet as similar ones.
fn fingerprints(random: &mut StdRng) -> FingerprintSet {
    let print = |scheme: &str, digest: u8| {
        let scheme = Scheme::parse(scheme).unwrap();
        Fingerprint::new(scheme, vec![digest; 32], BTreeMap::new()).unwrap()
    };
    let mut prints = vec![print("test/1", u8::from(random.random_range(0..6) == 0))];
    if random.random() {
        prints.push(print("test/2", 7));
    }
    FingerprintSet::new(prints).unwrap()
}

fn content(text: &str) -> Content {
    Content::new(text.as_bytes().to_vec(), "text/plain".to_owned())
}

fn result() -> ResultBody {
    ResultBody::inline(b"done".to_vec(), "text/plain".into())
}

fn effect_id(random: &mut StdRng) -> EffectId {
    EffectId::parse(format!("effect-{}", random.random_range(0..2))).unwrap()
}

fn dispatch(random: &mut StdRng) -> Dispatch {
    Dispatch {
        id: effect_id(random),
        number: random.random_range(1..3),
        slot: SlotName::default_slot(),
        provider: ProviderName::parse("bank").unwrap(),
        provider_key: Some(ProviderKey::parse("pk-1").unwrap()),
        dedup_window: Some(Retention::For(Millis::from_hours(24))),
        request: content("pay"),
        within: None,
    }
}

fn verdict(random: &mut StdRng) -> Verdict {
    match random.random_range(0..3) {
        0 => Verdict::Committed,
        1 => Verdict::Refused { status: Some(402) },
        _ => Verdict::NotFound { as_of: Timestamp(1_000_000) },
    }
}

fn settle(random: &mut StdRng, grants: &[Granted]) -> (RecordRef, Settle) {
    let (record, epoch, life) = match granted(random, grants) {
        Some(grant) => (grant.record.clone(), grant.epoch, grant.life),
        None => (record(random), Epoch(1), 1),
    };
    let recorded = random.random();
    let name =
        if recorded { EffectName::Effect(effect_id(random)) } else { EffectName::Work(epoch) };
    let settle = Settle {
        uid: EffectUid { life, name },
        provider: recorded.then(|| ProviderName::parse("bank").unwrap()),
        provider_key: recorded.then(|| ProviderKey::parse("pk-1").unwrap()),
        verdict: verdict(random),
        evidence: content("receipt"),
    };
    (record, settle)
}

fn claim(random: &mut StdRng) -> Claim {
    let effects = if random.random_range(0..4) == 0 { vec![dispatch(random)] } else { Vec::new() };
    let at_once = effects.is_empty() && random.random_range(0..10) == 0;
    let complete_with = CompleteWith { disposition: Disposition::Succeeded, result: result() };
    Claim {
        record: record(random),
        attempt_id: attempt(random),
        owner: OwnerLabel::parse("worker").unwrap(),
        fingerprints: fingerprints(random),
        lease: None,
        intent_time: None,
        labels: Labels::default(),
        accept_recovery: random.random(),
        region: Region::parse("eu-west").unwrap(),
        effects,
        complete_with: at_once.then_some(complete_with),
        allow_duplicate_intent: random.random_range(0..4) == 0,
    }
}

fn report(random: &mut StdRng) -> Report {
    let sighting = Sighting {
        time: Timestamp(1_000_000 + random.random_range(0..1_000)),
        outcome: "REPLAY".to_owned(),
        attempt_id: attempt(random),
        owner: OwnerLabel::parse("worker").unwrap(),
        region: Region::unknown(),
        labels: Labels::default(),
    };
    let counts = [("REPLAY".to_owned(), random.random_range(1..9))].into();
    let record = record(random);
    Report { records: vec![RecordReport { record, sightings: vec![sighting], counts }] }
}

fn release(random: &mut StdRng, grants: &[Granted]) -> Release {
    let kind = match random.random_range(0..3) {
        0 => ReleaseKind::Retry { retry_after: Millis(random.random_range(0..2_000)) },
        1 => ReleaseKind::Unbind,
        _ => ReleaseKind::Unknown { note: "lost sight".into() },
    };
    Release { holder: holder(random, grants), kind }
}

fn command(random: &mut StdRng, grants: &[Granted]) -> Command {
    match random.random_range(0..120) {
        0..40 => Command::Claim(claim(random)),
        40..55 => Command::Complete(Complete {
            holder: holder(random, grants),
            disposition: Disposition::Succeeded,
            result: result(),
            settlements: Vec::new(),
        }),
        55..60 => Command::Renew(Renew { holder: holder(random, grants), lease: None }),
        60..70 => Command::Release(release(random, grants)),
        70..75 => Command::Reserve(Reserve {
            record: record(random),
            fingerprints: fingerprints(random),
            intent_time: None,
            labels: Labels::default(),
            allow_duplicate_intent: true,
            admit: None,
        }),
        75..80 => Command::RecordEffect(RecordEffect {
            holder: holder(random, grants),
            dispatch: dispatch(random),
        }),
        80..88 => {
            let (record, settle) = settle(random, grants);
            Command::SettleEffect(SettleEffect { record, settle, principal: principal() })
        }
        88..100 => operator_command(random, grants),
        100..110 => Command::Sweep(Sweep { limit: random.random_range(1..5) }),
        110..112 => Command::Tick,
        _ => owner_command(random),
    }
}

/// What an operator or a node does with records.
fn operator_command(random: &mut StdRng, grants: &[Granted]) -> Command {
    let Holder { record, epoch, attempt_id } = holder(random, grants);
    let (reason, principal) = ("looked it up".to_owned(), principal());
    match random.random_range(0..5) {
        0 => {
            let state = Resolved::Retryable { retry_after: Millis(0) };
            let life = granted(random, grants).map_or(1, |grant| grant.life);
            let work = EffectUid { life, name: EffectName::Work(epoch) };
            let verdicts = vec![(work, Verdict::Overridden)];
            Command::Resolve(Resolve {
                record,
                expected_epoch: epoch,
                attempt_id,
                verdicts,
                evidence: content("the bank's statement"),
                reason,
                principal,
                state,
            })
        }
        1 => Command::Revoke(Revoke { record, epoch, reason, principal }),
        2 => Command::Purge(Purge { record, expected_epoch: epoch, reason, principal }),
        3 => Command::ExtendExisting(ExtendExisting {
            tenant: record.tenant,
            namespace: record.namespace,
            after: None,
            limit: 100,
            principal,
        }),
        _ => Command::Report(report(random)),
    }
}

/// What the owner of a tenant does.
fn owner_command(random: &mut StdRng) -> Command {
    let (tenant, namespace) = names(random);
    match random.random_range(0..20) {
        0..5 => put_tenant(tenant),
        5..15 => put_namespace(tenant, namespace),
        15..18 => Command::PutNamespace(PutNamespace {
            tenant,
            namespace,
            policy: PolicyPatch {
                identity_retention: Some(Retention::For(Millis::from_hours(24 * 60))),
                ..policy()
            },
            mode: PutMode::Update { expected: None },
            validate_only: false,
        }),
        18 => Command::DeleteNamespace(DeleteNamespace {
            tenant,
            namespace,
            expected: None,
            force: random.random(),
        }),
        _ => Command::DeleteTenant(DeleteTenant { tenant, expected: None, force: random.random() }),
    }
}

fn put_tenant(tenant: TenantName) -> Command {
    Command::PutTenant(PutTenant {
        tenant,
        policy: PolicyPatch::default(),
        mode: PutMode::Create { members_applied: u64::MAX },
        validate_only: false,
    })
}

/// A policy under which the counts and the index of similar requests decide something.
fn policy() -> PolicyPatch {
    PolicyPatch {
        records_max: Some(4),
        duplicate_intent: Some(DuplicateIntent::Block),
        duplicate_intent_window: Some(Millis::from_secs(20)),
        on_lapse: Some(OnLapse::Takeover),
        ..PolicyPatch::default()
    }
}

fn put_namespace(tenant: TenantName, namespace: NamespaceName) -> Command {
    let strict = namespace.as_str() == "n1";
    Command::PutNamespace(PutNamespace {
        tenant,
        namespace,
        policy: if strict { policy() } else { PolicyPatch::default() },
        mode: PutMode::Create { members_applied: u64::MAX },
        validate_only: false,
    })
}

/// Makes all tenants and namespaces.
fn owners() -> Vec<Command> {
    let tenant = |number| TenantName::parse(format!("t{number}")).unwrap();
    let namespace = |number| NamespaceName::parse(format!("n{number}")).unwrap();
    let namespaces = (0..2)
        .flat_map(|of| (0..2).map(move |number| put_namespace(tenant(of), namespace(number))));
    (0..2).map(|number| put_tenant(tenant(number))).chain(namespaces).collect()
}

/// Applies an entry to a state.
pub(super) fn apply(state: &mut State<'_>, index: u64, (time, commands): &Batch) -> Vec<Outcome> {
    let stamp = Stamp { term: 1 + index / 100, index, time: Timestamp(*time) };
    firstclaim_core::apply(state, stamp, commands).unwrap()
}

/// Applies entries to an engine, so many to a batch.
pub(super) fn run(
    engine: &dyn Engine,
    entries: &[Batch],
    per_batch: usize,
) -> (Vec<Vec<Outcome>>, [u8; 32]) {
    let mut outcomes = Vec::new();
    let mut index = 0;
    for chunk in entries.chunks(per_batch) {
        let mut state = State::new(engine, Path::new("state"));
        for entry in chunk {
            outcomes.push(apply(&mut state, index, entry));
            index += 1;
        }
        engine.write(state.into_batch().unwrap(), Durability::Unsynced).unwrap();
    }
    (outcomes, hash_rows(engine).unwrap())
}

/// Makes up entries. What was granted before decides who holds what, so they are applied as well.
pub(super) fn entries(seed: u64) -> Vec<Batch> {
    let mut random = StdRng::seed_from_u64(seed);
    let engine = Memory::new("memory");
    let mut grants = Vec::new();
    let mut now = 1_000_000;
    let mut entries = Vec::new();
    for index in 0..ENTRIES {
        now += random.random_range(0..4_000);
        if random.random_range(0..40) == 0 {
            now += 40 * 24 * 3_600_000;
        }
        let count = random.random_range(1..=COMMANDS_MAX);
        let mut commands: Vec<_> = (0..count).map(|_| command(&mut random, &grants)).collect();
        if index == 0 {
            commands = owners();
        }
        let entry = (now, commands);
        let mut state = State::new(&engine, Path::new("state"));
        let outcomes = apply(&mut state, index as u64, &entry);
        engine.write(state.into_batch().unwrap(), Durability::Unsynced).unwrap();
        for (command, outcome) in entry.1.iter().zip(outcomes) {
            if let (Command::Claim(claim), Ok(Answer::Acquired(grant))) = (command, outcome.result)
            {
                grants.push(Granted {
                    record: claim.record.clone(),
                    attempt_id: claim.attempt_id.clone(),
                    epoch: grant.epoch,
                    life: grant.life,
                });
            }
        }
        entries.push(entry);
    }
    assert!(grants.len() > 30, "seed {seed}: only {} claims were granted", grants.len());
    entries
}
