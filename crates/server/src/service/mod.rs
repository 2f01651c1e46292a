//! The gRPC services: decode, let the node answer, encode.

mod claim;
mod cluster;
mod tenant;

pub(crate) use claim::Claims;
pub(crate) use cluster::ClusterInfo;
pub(crate) use tenant::Tenants;

use firstclaim_core::{Answer, Outcome, Timestamp};

use crate::node::Fail;
use crate::status::Failure;

/// The answer of an outcome, or its refusal as a failure.
fn decided(outcome: Outcome) -> Result<(Answer, Timestamp), Fail> {
    let store_time = outcome.store_time;
    match outcome.result {
        Ok(answer) => Ok((answer, store_time)),
        Err(refusal) => Err(Failure::refused(&refusal, store_time).into()),
    }
}
