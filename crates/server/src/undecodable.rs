//! Gives the transport's own refusals the shape of ours.
//!
//! A message that does not decode never reaches a service: tonic refuses it with INTERNAL and plain
//! text. A key that is not UTF-8 is such a message, and its sender deserves to hear which field it
//! is. Everything that carries details already is left as it is.

use firstclaim_core::Invalid;
use firstclaim_core::limits::{BATCH_ITEMS_MAX, CLIENT_MESSAGE_BYTES_MAX};
use firstclaim_proto::weigh;
use tonic::body::Body;
use tonic::{Code, Status};

use crate::status::{Applied, Failure};

/// What prost says before the path of the field.
const DECODE_PREFIX: &str = "failed to decode Protobuf message: ";
/// What prost says of text.
const NOT_UTF8: &str = "invalid string value: data is not UTF-8 encoded";
/// What tonic says before the sizes.
const TOO_LARGE_PREFIX: &str = "Error, decoded message length too large";

/// Replaces a refusal of the transport by one of ours; leaves every other response alone.
pub(crate) fn explain(response: http::Response<Body>) -> http::Response<Body> {
    if response.headers().contains_key("grpc-status-details-bin") {
        return response;
    }
    let Some(status) = Status::from_header_map(response.headers()) else { return response };
    match fault(status.code(), status.message()) {
        Some(fault) => Failure::invalid(&[fault], Applied::No).into_status().into_http(),
        None => response,
    }
}

fn fault(code: Code, message: &str) -> Option<Invalid> {
    if code == Code::OutOfRange && message.starts_with(TOO_LARGE_PREFIX) {
        let fix = format!("send at most {CLIENT_MESSAGE_BYTES_MAX} bytes");
        return Some(Invalid::new("request", "is too large a message", fix));
    }
    if code == Code::OutOfRange && message.starts_with(weigh::TOO_HEAVY_PREFIX) {
        let fix = format!("send fewer parts; a batch holds at most {BATCH_ITEMS_MAX} items");
        return Some(Invalid::new("request", message.to_owned(), fix));
    }
    if code != Code::Internal {
        return None;
    }
    let (path, problem) = split(message.strip_prefix(DECODE_PREFIX)?);
    if problem == NOT_UTF8 {
        return Some(Invalid::new(path, "is not UTF-8", "send text encoded as UTF-8"));
    }
    let fix = "encode the message by firstclaim's .proto files";
    Some(Invalid::new(path, format!("does not decode: {problem}"), fix))
}

/// `Fingerprint.scheme: ClaimRequest.fingerprints: why` names the field `fingerprints.scheme`: prost
/// notes the steps from the inside out.
fn split(text: &str) -> (String, &str) {
    let mut fields = Vec::new();
    let mut rest = text;
    while let Some((step, after)) = rest.split_once(": ") {
        let Some((message, field)) = step.split_once('.') else { break };
        if message.is_empty() || step.contains(' ') {
            break;
        }
        fields.insert(0, field);
        rest = after;
    }
    if fields.is_empty() { ("request".to_owned(), rest) } else { (fields.join("."), rest) }
}

#[cfg(test)]
mod tests {
    use firstclaim_proto::v1;
    use prost::Message as _;

    use super::*;

    #[test]
    fn text_that_is_not_utf8_is_blamed_on_its_field() {
        // Field 3 of a claim, two bytes that are no UTF-8.
        let error = v1::ClaimRequest::decode(&[0x1a, 2, 0xff, 0xfe][..]).expect_err("not UTF-8");
        let fault = fault(Code::Internal, &error.to_string()).expect("explained");
        assert_eq!(fault.to_string(), "key: is not UTF-8; send text encoded as UTF-8");
        // Field 6, and in it field 1.
        let nested = [0x32, 4, 0x0a, 2, 0xff, 0xfe];
        let error = v1::ClaimRequest::decode(&nested[..]).expect_err("not UTF-8");
        let fault = super::fault(Code::Internal, &error.to_string()).expect("explained");
        assert_eq!(fault.field, "fingerprints.scheme");
    }

    #[test]
    fn a_message_of_too_many_parts_is_told_so() {
        let items = [0x12_u8, 0].repeat(1_000_000);
        let refused = weigh::decode::<v1::ClaimBatchRequest>(&*items).expect_err("too heavy");
        let fault = fault(Code::OutOfRange, &refused.to_string()).expect("explained");
        assert_eq!(
            fault.to_string(),
            "request: would take more than 16777216 bytes of memory; send fewer parts; a batch holds at \
             most 500 items"
        );
    }

    #[test]
    fn other_failures_are_left_alone() {
        assert_eq!(fault(Code::Internal, "something else"), None);
        assert_eq!(fault(Code::Unimplemented, ""), None);
    }
}
