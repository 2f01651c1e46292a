//! What format 2 writes. Values whose shape has not changed since format 1 are still sealed as that.

use std::collections::BTreeSet;

use firstclaim_core::limits;
use firstclaim_core::tenant::{Cluster, Grave};
use firstclaim_core::{Command, History, Namespace, Record, Slot, Tenant, Timestamp, Usage};

use super::super::random;
use super::{dump, frozen, kept, reads_back, rows, rows_of, values};
use crate::raft::{Entry, EntryPayload, Payload, log_id};
use crate::store::codec;
use crate::store::engine::{Batch, Durability, Engine as _, Read as _, after_prefix};
use crate::store::memory::Memory;
use crate::store::schema::{self, Table};
use crate::store::v1;
use crate::wire;

const TIME: Timestamp = Timestamp(1_800_000_000_123);

#[test]
fn entries() {
    let payload = codec::encode_payload(TIME, &[Command::Tick, Command::Tick]).unwrap();
    let stored = frozen("v2/payload_ticks", &payload);
    let decoded = codec::decode_payload(&stored).unwrap();
    assert_eq!((decoded.time, decoded.former), (TIME, false));
    assert_eq!(decoded.commands, [Command::Tick, Command::Tick]);

    let payload = EntryPayload::Normal(Payload(payload));
    let entry = Entry { log_id: log_id(7, 1_234), payload };
    let stored = frozen("v2/entry_normal", &codec::encode_message(&wire::entry_to(&entry)));
    let decoded = wire::entry_from(codec::decode_message(&stored).unwrap()).unwrap();
    assert_eq!(decoded, entry);
}

/// The name of a command's kind. A new kind needs a fixture, too.
fn kind(command: &Command) -> &'static str {
    match command {
        Command::Claim(_) => "claim",
        Command::Renew(_) => "renew",
        Command::Complete(_) => "complete",
        Command::Release(_) => "release",
        Command::PutTenant(_) => "put tenant",
        Command::PutNamespace(_) => "put namespace",
        Command::DeleteTenant(_) => "delete tenant",
        Command::DeleteNamespace(_) => "delete namespace",
        Command::Sweep(_) => "sweep",
        Command::Tick => "tick",
        Command::RecordEffect(_) => "record effect",
        Command::SettleEffect(_) => "settle effect",
        Command::Reserve(_) => "reserve",
        Command::Resolve(_) => "resolve",
        Command::Revoke(_) => "revoke",
        Command::Purge(_) => "purge",
        Command::ExtendExisting(_) => "extend existing",
        Command::Report(_) => "report",
    }
}

const KINDS: usize = 18;

#[test]
fn commands() {
    let bytes = kept("v2/payload_commands", || {
        let commands: Vec<_> = random::entries(0).into_iter().flat_map(|(_, all)| all).collect();
        codec::encode_payload(TIME, &commands[..250]).unwrap().to_vec()
    });
    let decoded = codec::decode_payload(&bytes).unwrap();
    assert_eq!(codec::encode_payload(decoded.time, &decoded.commands).unwrap(), bytes);
    let kinds: BTreeSet<_> = decoded.commands.iter().map(kind).collect();
    assert_eq!(kinds.len(), KINDS, "the fixture has only {kinds:?}");
}

#[test]
fn rows_read_back() {
    let bytes = kept("v2/rows", || {
        let engine = Memory::new("memory");
        random::run(&engine, &random::entries(0)[..100], 1);
        dump(&engine)
    });
    let engine = rows_of(&bytes);
    reads_back::<Cluster>(&engine, Table::System);
    reads_back::<v1::Slot<Tenant>>(&engine, Table::Tenants);
    reads_back::<v1::Slot<v1::Namespace>>(&engine, Table::Namespaces);
    reads_back::<Record>(&engine, Table::Records);
    reads_back::<History>(&engine, Table::History);
    reads_back::<Usage>(&engine, Table::Usage);
    let keys = |table| -> Vec<Vec<u8>> {
        let rows = engine.scan(table, &[], &after_prefix(&[]), usize::MAX).unwrap();
        assert!(!rows.is_empty(), "the fixture has no {}", table.name());
        rows.into_iter().map(|(key, _)| key).collect()
    };
    for key in keys(Table::Changed) {
        let (revision, id) = schema::changed_record(&key).unwrap();
        let record = engine.get(Table::Records, &schema::record_key(&id)).unwrap().unwrap();
        let record: Record = codec::decode_value(&record).unwrap();
        assert_eq!(record.revision, revision);
        for (intent, began) in record.intents() {
            let row = schema::similar_key(&schema::record_key(&id), &intent, began).unwrap();
            assert!(keys(Table::Similar).contains(&row));
            let prefix = schema::similar_prefix(id.namespace, &intent).len();
            assert_eq!(schema::similar_record_id(&row, prefix), Some(id.clone()));
        }
    }
}

/// A tenant or namespace that was last written before graves knew the skew is read, and written anew.
#[test]
fn former_slots() {
    // A deleted tenant is in the one, namespaces made anew are in the other.
    let (first, second) = (rows("v1/rows"), rows("v2/rows"));
    let mut batch = Batch::default();
    let mut graves = Vec::new();
    for (key, slot) in values::<Slot<Tenant>>(&first, Table::Tenants) {
        batch.put(Table::Tenants, key, codec::encode_value(&slot).unwrap());
        graves.extend(deleted(&slot));
    }
    assert_eq!(graves.len(), 1);
    for (key, slot) in values::<Slot<Namespace>>(&second, Table::Namespaces) {
        batch.put(Table::Namespaces, key, codec::encode_value(&slot).unwrap());
        graves.extend(slot.live().and_then(|namespace| namespace.predecessor));
    }
    assert_eq!(graves.len(), 4);
    for grave in &graves {
        assert_eq!(grave.intent_horizon, grave.deleted_time.after(limits::INTENT_SKEW_MAX));
    }
    let grave: Slot<Namespace> = Slot::Deleted(graves[2]);
    batch.put(Table::Namespaces, b"grave".to_vec(), codec::encode_value(&grave).unwrap());
    let written = Memory::new("written");
    written.write(batch, Durability::Unsynced).unwrap();
    let written = rows_of(&frozen("v2/slots", &dump(&written)));
    reads_back::<Slot<Tenant>>(&written, Table::Tenants);
    reads_back::<Slot<Namespace>>(&written, Table::Namespaces);
}

fn deleted<T>(slot: &Slot<T>) -> Option<Grave> {
    match slot {
        Slot::Deleted(grave) => Some(*grave),
        Slot::Live(_) => None,
    }
}
