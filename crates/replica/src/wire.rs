//! openraft's structures ⇄ our messages, for the peers and for the disk.
//!
//! openraft's own types change shape between versions, so none of them is ever written as such.

use std::collections::BTreeMap;

use firstclaim_proto::peer::v1 as proto;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, StreamAppendError, StreamAppendResult,
    VoteRequest, VoteResponse,
};

use crate::Member;
use crate::raft::{
    Entry, EntryPayload, LogId, Membership, Payload, StoredMembership, TypeConfig, Vote, log_id,
    term_of,
};

/// A message lacks a field, or contradicts itself.
#[derive(Debug, thiserror::Error)]
#[error("{field} {problem}")]
pub(crate) struct Malformed {
    field: &'static str,
    problem: String,
}

fn missing(field: &'static str) -> Malformed {
    Malformed { field, problem: "is missing".to_owned() }
}

pub(crate) fn log_id_to(id: &LogId) -> proto::LogId {
    proto::LogId { term: term_of(id), index: id.index }
}

pub(crate) fn log_id_from(id: &proto::LogId) -> LogId {
    log_id(id.term, id.index)
}

pub(crate) fn vote_to(vote: &Vote) -> proto::Vote {
    let leader = vote.leader_id;
    proto::Vote { term: leader.term, node_id: leader.voted_for, committed: vote.committed }
}

pub(crate) fn vote_from(vote: &proto::Vote) -> Vote {
    if vote.committed {
        Vote::new_committed(vote.term, vote.node_id)
    } else {
        Vote::new(vote.term, vote.node_id)
    }
}

pub(crate) fn required_vote(vote: Option<&proto::Vote>) -> Result<Vote, Malformed> {
    vote.map(vote_from).ok_or_else(|| missing("vote"))
}

pub(crate) fn membership_to(membership: &Membership) -> proto::Membership {
    let configs = membership.get_joint_config().iter();
    let nodes = membership.nodes().map(|(id, member)| proto::Node {
        id: *id,
        region: member.region.clone(),
        peer_addr: member.peer_addr.clone(),
        client_addr: member.client_addr.clone(),
    });
    proto::Membership {
        configs: configs.map(|ids| proto::Voters { ids: ids.iter().copied().collect() }).collect(),
        nodes: nodes.collect(),
    }
}

pub(crate) fn membership_from(membership: proto::Membership) -> Result<Membership, Malformed> {
    let configs = membership.configs.into_iter().map(|set| set.ids.into_iter().collect()).collect();
    let nodes: BTreeMap<u64, Member> = membership
        .nodes
        .into_iter()
        .map(|node| {
            let member = Member {
                region: node.region,
                peer_addr: node.peer_addr,
                client_addr: node.client_addr,
            };
            (node.id, member)
        })
        .collect();
    Membership::new(configs, nodes)
        .map_err(|error| Malformed { field: "membership", problem: error.to_string() })
}

pub(crate) fn stored_membership_to(stored: &StoredMembership) -> proto::StoredMembership {
    proto::StoredMembership {
        log_id: stored.log_id().as_ref().map(log_id_to),
        membership: Some(membership_to(stored.membership())),
    }
}

pub(crate) fn stored_membership_from(
    stored: proto::StoredMembership,
) -> Result<StoredMembership, Malformed> {
    let Some(log_id) = stored.log_id else { return Ok(StoredMembership::default()) };
    let membership = stored.membership.ok_or_else(|| missing("membership"))?;
    Ok(StoredMembership::new(Some(log_id_from(&log_id)), membership_from(membership)?))
}

pub(crate) fn entry_to(entry: &Entry) -> proto::Entry {
    use proto::entry::Payload as Wire;
    let payload = match &entry.payload {
        EntryPayload::Blank => Wire::Blank(proto::Blank {}),
        EntryPayload::Normal(Payload(bytes)) => Wire::Normal(bytes.clone()),
        EntryPayload::Membership(members) => Wire::Membership(membership_to(members)),
    };
    proto::Entry { log_id: Some(log_id_to(&entry.log_id)), payload: Some(payload) }
}

pub(crate) fn entry_from(entry: proto::Entry) -> Result<Entry, Malformed> {
    use proto::entry::Payload as Wire;
    let log_id = entry.log_id.as_ref().map(log_id_from).ok_or_else(|| missing("log_id"))?;
    let payload = match entry.payload.ok_or_else(|| missing("payload"))? {
        Wire::Blank(proto::Blank {}) => EntryPayload::Blank,
        Wire::Normal(bytes) => EntryPayload::Normal(Payload(bytes)),
        Wire::Membership(members) => EntryPayload::Membership(membership_from(members)?),
    };
    Ok(Entry { log_id, payload })
}

/// How many bytes an entry takes in a message, about.
pub(crate) fn entry_bytes(entry: &Entry) -> usize {
    const OVERHEAD: usize = 64;
    const MEMBER: usize = 256;
    OVERHEAD
        + match &entry.payload {
            EntryPayload::Blank => 0,
            EntryPayload::Normal(Payload(bytes)) => bytes.len(),
            EntryPayload::Membership(membership) => membership.nodes().count() * MEMBER,
        }
}

pub(crate) fn append_to(request: &AppendEntriesRequest<TypeConfig>) -> proto::AppendRequest {
    proto::AppendRequest {
        vote: Some(vote_to(&request.vote)),
        prev_log_id: request.prev_log_id.as_ref().map(log_id_to),
        entries: request.entries.iter().map(entry_to).collect(),
        leader_commit: request.leader_commit.as_ref().map(log_id_to),
    }
}

pub(crate) fn append_from(
    request: proto::AppendRequest,
) -> Result<AppendEntriesRequest<TypeConfig>, Malformed> {
    let entries: Result<Vec<_>, _> = request.entries.into_iter().map(entry_from).collect();
    Ok(AppendEntriesRequest {
        vote: required_vote(request.vote.as_ref())?,
        prev_log_id: request.prev_log_id.as_ref().map(log_id_from),
        entries: entries?,
        leader_commit: request.leader_commit.as_ref().map(log_id_from),
    })
}

pub(crate) fn append_result_to(result: &StreamAppendResult<TypeConfig>) -> proto::AppendResponse {
    use proto::append_response::Result as Wire;
    let result = match result {
        Ok(Some(last)) => Wire::Partial(log_id_to(last)),
        Ok(None) => Wire::Success(proto::Blank {}),
        Err(StreamAppendError::Conflict(at)) => Wire::Conflict(log_id_to(at)),
        Err(StreamAppendError::HigherVote(vote)) => Wire::HigherVote(vote_to(vote)),
    };
    proto::AppendResponse { result: Some(result) }
}

pub(crate) fn append_result_from(
    response: proto::AppendResponse,
) -> Result<StreamAppendResult<TypeConfig>, Malformed> {
    use proto::append_response::Result as Wire;
    Ok(match response.result.ok_or_else(|| missing("result"))? {
        Wire::Success(proto::Blank {}) => Ok(None),
        Wire::Partial(last) => Ok(Some(log_id_from(&last))),
        Wire::Conflict(at) => Err(StreamAppendError::Conflict(log_id_from(&at))),
        Wire::HigherVote(vote) => Err(StreamAppendError::HigherVote(vote_from(&vote))),
    })
}

pub(crate) fn append_response_to(
    response: &AppendEntriesResponse<TypeConfig>,
    prev: Option<&LogId>,
) -> proto::AppendResponse {
    use proto::append_response::Result as Wire;
    let result = match response {
        AppendEntriesResponse::Success | AppendEntriesResponse::PartialSuccess(None) => {
            Wire::Success(proto::Blank {})
        }
        AppendEntriesResponse::PartialSuccess(Some(last)) => Wire::Partial(log_id_to(last)),
        AppendEntriesResponse::Conflict => Wire::Conflict(prev.map(log_id_to).unwrap_or_default()),
        AppendEntriesResponse::HigherVote(vote) => Wire::HigherVote(vote_to(vote)),
    };
    proto::AppendResponse { result: Some(result) }
}

pub(crate) fn append_response_from(
    response: proto::AppendResponse,
) -> Result<AppendEntriesResponse<TypeConfig>, Malformed> {
    use proto::append_response::Result as Wire;
    Ok(match response.result.ok_or_else(|| missing("result"))? {
        Wire::Success(proto::Blank {}) => AppendEntriesResponse::Success,
        Wire::Partial(last) => AppendEntriesResponse::PartialSuccess(Some(log_id_from(&last))),
        Wire::Conflict(_) => AppendEntriesResponse::Conflict,
        Wire::HigherVote(vote) => AppendEntriesResponse::HigherVote(vote_from(&vote)),
    })
}

pub(crate) fn vote_request_to(request: &VoteRequest<TypeConfig>) -> proto::VoteRequest {
    proto::VoteRequest {
        vote: Some(vote_to(&request.vote)),
        last_log_id: request.last_log_id.as_ref().map(log_id_to),
        leadership_transfer: request.leadership_transfer,
    }
}

pub(crate) fn vote_request_from(
    request: &proto::VoteRequest,
) -> Result<VoteRequest<TypeConfig>, Malformed> {
    Ok(VoteRequest {
        vote: required_vote(request.vote.as_ref())?,
        last_log_id: request.last_log_id.as_ref().map(log_id_from),
        leadership_transfer: request.leadership_transfer,
    })
}

pub(crate) fn vote_response_to(response: &VoteResponse<TypeConfig>) -> proto::VoteResponse {
    proto::VoteResponse {
        vote: Some(vote_to(&response.vote)),
        granted: response.vote_granted,
        last_log_id: response.last_log_id.as_ref().map(log_id_to),
    }
}

pub(crate) fn vote_response_from(
    response: &proto::VoteResponse,
) -> Result<VoteResponse<TypeConfig>, Malformed> {
    let vote = required_vote(response.vote.as_ref())?;
    let last_log_id = response.last_log_id.as_ref().map(log_id_from);
    Ok(VoteResponse::new(vote, last_log_id, response.granted))
}
