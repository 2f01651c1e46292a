//! What format 2 writes. Values whose shape has not changed since format 1 are still sealed as that.

use std::collections::BTreeSet;

use firstclaim_core::tenant::Cluster;
use firstclaim_core::{Command, History, Namespace, Record, Slot, Tenant, Timestamp, Usage};

use super::super::random;
use super::{dump, frozen, kept, rows_of};
use crate::raft::{Entry, EntryPayload, Payload, log_id};
use crate::store::codec::{self, Stored};
use crate::store::engine::{Read as _, after_prefix};
use crate::store::memory::Memory;
use crate::store::schema::{self, Table};
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
fn rows() {
    let bytes = kept("v2/rows", || {
        let engine = Memory::new("memory");
        random::run(&engine, &random::entries(0)[..100], 1);
        dump(&engine)
    });
    let engine = rows_of(&bytes);
    reads_back::<Cluster>(&engine, Table::System);
    reads_back::<Slot<Tenant>>(&engine, Table::Tenants);
    reads_back::<Slot<Namespace>>(&engine, Table::Namespaces);
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

/// Every value of the table decodes, and encodes to the same bytes.
fn reads_back<T: Stored>(engine: &Memory, table: Table) {
    let rows = engine.scan(table, &[], &after_prefix(&[]), usize::MAX).unwrap();
    assert!(!rows.is_empty(), "the fixture has no {}", table.name());
    for (_, value) in rows {
        let decoded: T = codec::decode_value(&value).unwrap();
        assert_eq!(codec::encode_value(&decoded).unwrap(), value);
    }
}
