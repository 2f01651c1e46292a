//! The openraft types of this crate: nothing else spells openraft's generics.

use std::fmt;

use bytes::Bytes;
use firstclaim_core::Outcome;

use crate::Member;
use crate::store::StateMachine;

openraft::declare_raft_types!(
    /// What firstclaim puts into openraft: opaque bytes in, outcomes out, one leader per term.
    pub(crate) TypeConfig:
        D = Payload,
        R = Applied,
        NodeId = u64,
        Node = Member,
        Term = u64,
        LeaderId = openraft::impls::leader_id_std::LeaderId<u64, u64>,
        AsyncRuntime = crate::runtime::Runtime,
);

/// The bytes of a log entry, decoded nowhere but where they are applied.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Payload(pub(crate) Bytes);

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({} bytes)", self.0.len())
    }
}

impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// What an entry decided: one outcome per command, by position.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Applied(pub(crate) Vec<Outcome>);

pub(crate) type Raft = openraft::Raft<TypeConfig, StateMachine>;
pub(crate) type LeaderId = openraft::impls::leader_id_std::LeaderId<u64, u64>;
pub(crate) type CommittedLeaderId = openraft::vote::leader_id_std::CommittedLeaderId<u64>;
pub(crate) type Vote = openraft::impls::Vote<LeaderId>;
pub(crate) type LogId = openraft::LogId<CommittedLeaderId>;
pub(crate) type Entry = openraft::Entry<CommittedLeaderId, EntryPayload>;
pub(crate) type EntryPayload = openraft::EntryPayload<Payload, u64, Member>;
pub(crate) type Membership = openraft::Membership<u64, Member>;
pub(crate) type StoredMembership = openraft::StoredMembership<CommittedLeaderId, u64, Member>;
pub(crate) type SnapshotMeta = openraft::storage::SnapshotMeta<CommittedLeaderId, u64, Member>;
pub(crate) type Snapshot =
    openraft::storage::Snapshot<CommittedLeaderId, u64, Member, crate::store::SnapshotDir>;
pub(crate) type IoFlushed = openraft::storage::IOFlushed<TypeConfig>;
pub(crate) type LogState = openraft::storage::LogState<TypeConfig>;
pub(crate) type EntryResponder = openraft::storage::EntryResponder<TypeConfig>;

/// The log id of an entry by term and index.
pub(crate) fn log_id(term: u64, index: u64) -> LogId {
    LogId::new_term_index(term, index)
}

/// The term that an entry was proposed in.
pub(crate) fn term_of(log_id: &LogId) -> u64 {
    log_id.leader_id.term
}
