//! What a server answers or refuses with, as the client reads it.

use std::fmt::Debug;

use firstclaim_client::Error;
use firstclaim_proto::convert::{
    Faults, batch, claim, dispatch, holder, operator, reserve, resolve, settle,
};
use firstclaim_proto::v1;
use firstclaim_proto::weigh::Shaped;
use tonic::{Code, Status};

use crate::requests::accepted;
use crate::wire::decoded;

/// A byte that chooses the call, the bytes of its answer.
pub(crate) fn response(bytes: &[u8]) -> bool {
    let Some((call, body)) = bytes.split_first() else { return false };
    match call {
        0 => read(body, claim::read_response),
        1 => read(body, holder::read_renew_response),
        2 => read(body, holder::read_complete_response),
        3 => read(body, holder::read_release_response),
        4 => read(body, dispatch::read_record_effect_response),
        5 => read(body, settle::read_response),
        6 => read(body, reserve::read_response),
        7 => read(body, resolve::read_response),
        8 => read(body, |it: v1::RevokeResponse| operator::read_revoke_response(&it)),
        9 => read(body, |it: v1::PurgeRecordResponse| operator::read_purge_response(&it)),
        10 => read(body, operator::read_extend_response),
        11 => read(body, |it: v1::ClaimBatchResponse| {
            let sent = it.items.len();
            batch::read_claims_response(it, sent)
        }),
        12 => read(body, |it: v1::CompleteBatchResponse| {
            let sent = it.items.len();
            batch::read_completions_response(it, sent)
        }),
        _ => false,
    }
}

fn read<M: Shaped + PartialEq + Debug, T>(
    body: &[u8],
    read: impl Fn(M) -> Result<T, Faults>,
) -> bool {
    decoded(body).and_then(|message| accepted(read(message))).is_some()
}

/// A byte that is the code of a refusal, the bytes of its details.
pub(crate) fn status(bytes: &[u8]) -> bool {
    let Some((code, details)) = bytes.split_first() else { return false };
    let code = Code::from_i32(i32::from(*code));
    let status = Status::with_details(code, "words", details.to_vec().into());
    let error = Error::from_status(&status);
    assert_eq!(error.code(), code);
    assert!(!error.to_string().is_empty());
    let _repeated = error.is_transient();
    !error.metadata().is_empty()
}
