//! Many entries in one batch do the same as a batch for each, on both engines.
//!
//! Random commands run over a few keys, so that they meet each other's changes in every way.

use std::path::Path;

use firstclaim_core::command::{
    Claim, Complete, DeleteNamespace, DeleteTenant, Holder, PutMode, PutNamespace, PutTenant,
    Release, ReleaseKind, Renew, Sweep,
};
use firstclaim_core::record::Epoch;
use firstclaim_core::record::{Disposition, ResultBody};
use firstclaim_core::{
    Answer, AttemptId, Command, Fingerprint, FingerprintSet, IdempotencyKey, Labels, Millis,
    NamespaceName, Outcome, OwnerLabel, PolicyPatch, RecordRef, Scheme, Stamp, TenantName,
    Timestamp,
};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use crate::store::engine::{Durability, Engine};
use crate::store::machine::hash_rows;
use crate::store::memory::Memory;
use crate::store::state::State;

const ENTRIES: usize = 300;
const COMMANDS_MAX: usize = 6;

/// An entry: its stamp's time, and its commands.
pub(super) type Batch = (u64, Vec<Command>);

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
    AttemptId::parse(format!("attempt-{:016}", random.random_range(0..4))).unwrap()
}

fn holder(random: &mut StdRng, epochs: &[(RecordRef, AttemptId, Epoch)]) -> Holder {
    if epochs.is_empty() || random.random_range(0..8) == 0 {
        let epoch = Epoch(random.random_range(0..50));
        return Holder { record: record(random), epoch, attempt_id: attempt(random) };
    }
    // Mostly the newest grants.
    let newest = epochs.len() - 1;
    let (record, attempt_id, epoch) = &epochs[newest - random.random_range(0..=newest.min(5))];
    Holder { record: record.clone(), epoch: *epoch, attempt_id: attempt_id.clone() }
}

fn command(random: &mut StdRng, epochs: &[(RecordRef, AttemptId, Epoch)]) -> Command {
    match random.random_range(0..100) {
        0..45 => {
            let scheme = Scheme::parse("test/1").unwrap();
            let print = Fingerprint::new(scheme, vec![1; 32], Default::default()).unwrap();
            Command::Claim(Claim {
                record: record(random),
                attempt_id: attempt(random),
                owner: OwnerLabel::parse("worker").unwrap(),
                fingerprints: FingerprintSet::new(vec![print]).unwrap(),
                lease: None,
                intent_time: None,
                labels: Labels::default(),
                accept_recovery: random.random(),
            })
        }
        45..65 => Command::Complete(Complete {
            holder: holder(random, epochs),
            disposition: Disposition::Succeeded,
            result: ResultBody::inline(b"done".to_vec(), "text/plain".into()),
        }),
        65..70 => Command::Renew(Renew { holder: holder(random, epochs), lease: None }),
        70..80 => {
            let kind = match random.random_range(0..3) {
                0 => ReleaseKind::Retry { retry_after: Millis(random.random_range(0..2_000)) },
                1 => ReleaseKind::Unbind,
                _ => ReleaseKind::Unknown { note: "lost sight".into() },
            };
            Command::Release(Release { holder: holder(random, epochs), kind })
        }
        80..90 => Command::Sweep(Sweep { limit: random.random_range(1..5) }),
        90..94 => Command::Tick,
        94..96 => put_tenant(names(random).0),
        96..98 => {
            let (tenant, namespace) = names(random);
            put_namespace(tenant, namespace)
        }
        98 => {
            let (tenant, namespace) = names(random);
            Command::DeleteNamespace(DeleteNamespace {
                tenant,
                namespace,
                expected: None,
                force: random.random(),
            })
        }
        _ => {
            let tenant = names(random).0;
            Command::DeleteTenant(DeleteTenant { tenant, expected: None, force: random.random() })
        }
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

fn put_namespace(tenant: TenantName, namespace: NamespaceName) -> Command {
    Command::PutNamespace(PutNamespace {
        tenant,
        namespace,
        policy: PolicyPatch::default(),
        mode: PutMode::Create { members_applied: u64::MAX },
        validate_only: false,
    })
}

/// Applies an entry to a state.
fn apply(state: &mut State<'_>, index: u64, (time, commands): &Batch) -> Vec<Outcome> {
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
        engine.write(state.into_batch().unwrap(), Durability::Process).unwrap();
    }
    (outcomes, hash_rows(engine).unwrap())
}

/// Makes up entries. What was granted before decides who holds what, so they are applied as well.
pub(super) fn entries(seed: u64) -> Vec<Batch> {
    let mut random = StdRng::seed_from_u64(seed);
    let engine = Memory::new("memory");
    let mut epochs = Vec::new();
    let mut now = 1_000_000;
    let mut entries = Vec::new();
    for index in 0..ENTRIES {
        now += random.random_range(0..4_000);
        if random.random_range(0..40) == 0 {
            now += 40 * 24 * 3_600_000;
        }
        let count = random.random_range(1..=COMMANDS_MAX);
        let mut commands: Vec<_> = (0..count).map(|_| command(&mut random, &epochs)).collect();
        if index == 0 {
            let (tenant, namespace) = names(&mut random);
            commands = vec![put_tenant(tenant.clone()), put_namespace(tenant, namespace)];
        }
        let entry = (now, commands);
        let mut state = State::new(&engine, Path::new("state"));
        let outcomes = apply(&mut state, index as u64, &entry);
        engine.write(state.into_batch().unwrap(), Durability::Process).unwrap();
        for (command, outcome) in entry.1.iter().zip(outcomes) {
            if let (Command::Claim(claim), Ok(Answer::Acquired(grant))) = (command, outcome.result)
            {
                epochs.push((claim.record.clone(), claim.attempt_id.clone(), grant.epoch));
            }
        }
        entries.push(entry);
    }
    assert!(epochs.len() > 20, "seed {seed}: hardly anything was granted");
    entries
}

#[test]
fn batches_and_engines_do_not_matter() {
    for seed in 0..20 {
        let entries = entries(seed);
        let expected = run(&Memory::new("memory"), &entries, 1);
        for per_batch in [2, 7, ENTRIES] {
            let found = run(&Memory::new("memory"), &entries, per_batch);
            assert_eq!(found, expected, "seed {seed}, {per_batch} entries in a batch");
        }
        #[cfg(feature = "rocksdb")]
        if seed < 2 {
            use crate::store::rocks::{Rocks, Use};
            for per_batch in [1, 32] {
                let dir = tempfile::tempdir().unwrap();
                let engine = Rocks::open(&dir.path().join("db"), Use::State).unwrap();
                let found = run(&engine, &entries, per_batch);
                assert_eq!(found, expected, "seed {seed}, {per_batch} entries in a batch");
            }
        }
    }
}
