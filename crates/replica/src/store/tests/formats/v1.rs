//! What format 1 wrote, and what it is today. Messages (entries, positions, members) have not changed
//! since.

use firstclaim_core::effect::OpenCause;
use firstclaim_core::name::Region;
use firstclaim_core::outcome::AcquiredKind;
use firstclaim_core::record::{Ending, State};
use firstclaim_core::tenant::Cluster;
use firstclaim_core::{Command, Epoch, Record, Tenant, Timestamp};

use super::super::former;
#[cfg(feature = "rocksdb")]
use super::super::former_folder;
use super::{dump, fixture, frozen, membership, reads_back, rows, values};
use crate::raft::{Entry, EntryPayload, Payload, StoredMembership, Vote, log_id};
use crate::store::codec;
use crate::store::memory::Memory;
use crate::store::migrate::migrate;
use crate::store::schema::Table;
use crate::store::v1;
use crate::wire;

#[test]
fn entries() {
    let payload = fixture("v1/payload_ticks");
    let entries = [
        ("v1/entry_blank", EntryPayload::Blank),
        ("v1/entry_normal", EntryPayload::Normal(Payload(payload.into()))),
        ("v1/entry_membership", EntryPayload::Membership(membership())),
    ];
    for (name, payload) in entries {
        let entry = Entry { log_id: log_id(7, 1_234), payload };
        let stored = frozen(name, &codec::encode_message(&wire::entry_to(&entry)));
        let decoded = wire::entry_from(codec::decode_message(&stored).unwrap()).unwrap();
        assert_eq!(decoded, entry);
    }
}

#[test]
fn positions() {
    let vote = Vote::new_committed(7, 2);
    let stored = frozen("v1/vote", &codec::encode_message(&wire::vote_to(&vote)));
    assert_eq!(wire::vote_from(&codec::decode_message(&stored).unwrap()), vote);

    let id = log_id(7, 1_234);
    let stored = frozen("v1/log_id", &codec::encode_message(&wire::log_id_to(&id)));
    assert_eq!(wire::log_id_from(&codec::decode_message(&stored).unwrap()), id);

    let members = StoredMembership::new(Some(id), membership());
    let bytes = codec::encode_message(&wire::stored_membership_to(&members));
    let stored = frozen("v1/stored_membership", &bytes);
    let decoded = wire::stored_membership_from(codec::decode_message(&stored).unwrap()).unwrap();
    assert_eq!(decoded, members);
}

#[test]
fn ticks_can_be_applied() {
    let decoded = codec::decode_payload(&fixture("v1/payload_ticks")).unwrap();
    assert_eq!(decoded.time, Timestamp(1_800_000_000_123));
    assert_eq!(decoded.commands, [Command::Tick, Command::Tick]);
    assert!(decoded.former);
    assert!(decoded.is_applicable());
}

#[test]
fn commands_can_be_read_and_not_applied() {
    let decoded = codec::decode_payload(&fixture("v1/payload_commands")).unwrap();
    assert_eq!(decoded.time, Timestamp(1_800_000_000_123));
    assert_eq!(decoded.commands.len(), 60);
    assert!(!decoded.is_applicable());
    let (mut claims, mut completes) = (0, 0);
    for command in &decoded.commands {
        if let Command::Claim(claim) = command {
            claims += 1;
            assert_eq!(claim.owner.as_str(), "worker");
            assert_eq!(claim.region, Region::unknown());
            assert!(claim.effects.is_empty() && claim.complete_with.is_none());
            assert!(!claim.allow_duplicate_intent);
        }
        if let Command::Complete(complete) = command {
            completes += 1;
            assert_eq!(complete.result.bytes.as_deref(), Some(&b"done"[..]));
            assert!(complete.settlements.is_empty());
        }
    }
    assert!(claims > 10 && completes > 5, "{claims} claims, {completes} completions");
}

#[test]
fn rows_read_back() {
    let engine = rows("v1/rows");
    reads_back::<v1::Cluster>(&engine, Table::System);
    reads_back::<v1::Slot<Tenant>>(&engine, Table::Tenants);
    reads_back::<v1::Slot<v1::Namespace>>(&engine, Table::Namespaces);
    reads_back::<v1::Record>(&engine, Table::Records);
}

/// The rows after a migration. Frozen as well: replicas that migrate with different builds must come
/// to the same state.
#[test]
fn rows_are_migrated() {
    let state = rows("v1/rows");
    let before: Vec<(Vec<u8>, v1::Record)> = values(&state, Table::Records);
    former::note_format(&state);
    migrate(&Memory::new("log"), &state).unwrap();
    let after: Vec<(Vec<u8>, Record)> = values(&state, Table::Records);
    assert_eq!(before.len(), after.len());
    frozen("v2/migrated_rows", &dump(&state));
}

/// One record of each kind of the folder that the version before wrote, field by field.
#[cfg(feature = "rocksdb")]
#[test]
fn records_mean_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let records = former_folder::records(dir.path());
    let of = |key: &str| records.get(key).unwrap_or_else(|| panic!("no record {key}"));
    let ends =
        |key: &str| of(key).attempts.iter().map(|it| it.ended.map(|it| it.0)).collect::<Vec<_>>();
    let kinds = |key: &str| of(key).attempts.iter().map(|it| it.kind).collect::<Vec<_>>();

    let done = of("done-1");
    let State::Completed(completion) = &done.state else { panic!("{done:?}") };
    assert_eq!(completion.result.bytes.as_deref(), Some(&b"paid 847"[..]));
    assert!(!completion.purged);
    assert_eq!(done.attempts[0].labels.pairs()["message_id"], "m-1");
    assert_eq!(done.attempts[0].region, Region::unknown());
    assert_eq!(done.attempts[0].granted_time, done.first_seen_time);
    assert_eq!(ends("done-1"), [Some(Ending::Succeeded)]);
    assert_eq!(kinds("done-1"), [AcquiredKind::First]);
    assert_eq!((done.revision, done.bound_time), (0, done.first_seen_time));
    assert_eq!(ends("failed-1"), [Some(Ending::Failed)]);
    assert_eq!(ends("live-1"), [None]);
    assert_eq!(ends("retry-1"), [Some(Ending::ReleasedRetry)]);
    assert_eq!(ends("unbound-1"), [Some(Ending::ReleasedUnbind)]);

    let unknown = of("unknown-1");
    assert_eq!(ends("unknown-1"), [Some(Ending::ReleasedUnknown)]);
    assert_eq!(unknown.works[0].cause, Some(OpenCause::ReleasedUnknown));
    assert_eq!(unknown.works[0].note, "connection reset");
    assert!(unknown.works[0].findings.open());

    let rebound = of("rebound-1");
    assert_eq!(kinds("rebound-1"), [AcquiredKind::First, AcquiredKind::Rebound]);
    assert_eq!(ends("rebound-1"), [Some(Ending::ReleasedUnbind), None]);
    assert_ne!(rebound.unbound_epoch, Epoch::NONE);
    assert_eq!(Some(rebound.bound_time), rebound.grant.as_ref().map(|grant| grant.granted_time));
    assert!(rebound.bound_time > rebound.first_seen_time);

    let recovered = of("recovered-1");
    assert_eq!(kinds("recovered-1"), [AcquiredKind::First, AcquiredKind::Recovery]);
    assert_eq!(ends("recovered-1"), [Some(Ending::Lapsed), None]);
    assert_eq!(recovered.works[0].cause, Some(OpenCause::Lapsed));
    assert_eq!(
        recovered.works[0].deadline,
        recovered.works[0].since.after(firstclaim_core::limits::GRACE_MAX)
    );
    assert_eq!(kinds("taken-1"), [AcquiredKind::First, AcquiredKind::Takeover]);
    assert_eq!(of("taken-1").evidence.len(), 1);
}

/// The clock of a migrated state takes the past for unknown.
#[test]
fn a_migrated_clock_gives_old_leases_all_grace() {
    let state = rows("v1/rows");
    let old: v1::Cluster = values(&state, Table::System).remove(0).1;
    let cluster = Cluster::from(old);
    let now = cluster.clock.now();
    let written = now.before(firstclaim_core::Millis(1));
    let expire = now.after(firstclaim_core::Millis(500));
    let latest = cluster.clock.latest_deadline(expire, written);
    assert!(latest >= expire.after(firstclaim_core::limits::GRACE_MAX));
    assert!(cluster.epoch_counter > 0 && cluster.last_id > 0);
}
