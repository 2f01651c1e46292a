//! Bad input over real gRPC: one clear error each, with the field and what to do.

use crate::three::{Three, claim, info};
use bytes::{Buf, BufMut, Bytes};
use firstclaim_proto::v1;
use prost::Message as _;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::Channel;
use tonic::{Code, Request, Status};
use tonic_types::StatusExt as _;

/// Sends bytes as they are, as a client in another language might.
#[derive(Clone, Copy, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}

async fn send_raw(channel: &Channel, bytes: Vec<u8>) -> Status {
    let mut client = Grpc::new(channel.clone()).max_encoding_message_size(64 << 20);
    client.ready().await.expect("connected");
    let path = http::uri::PathAndQuery::from_static("/firstclaim.v1.ClaimService/Claim");
    client
        .unary(Request::new(Bytes::from(bytes)), path, Raw)
        .await
        .expect_err("the bytes are wrong")
}

fn violations(status: &Status) -> Vec<String> {
    let details = status.get_details_bad_request();
    let details = details.unwrap_or_else(|| panic!("no field violations in {status:?}"));
    details.field_violations.into_iter().map(|one| one.field).collect()
}

fn check(status: &Status, field: &str, applied: &str, text: &str) {
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    let info = info(status);
    assert_eq!(info.reason, "INVALID_ARGUMENT");
    assert_eq!(info.metadata["applied"], applied, "{status:?}");
    assert!(violations(status).iter().any(|one| one == field), "{field}: {status:?}");
    assert!(status.message().contains(text), "{text:?} is not in {:?}", status.message());
    assert!(status.get_details_retry_info().is_none());
}

type Spoil = fn(&mut v1::ClaimRequest);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_bad_claim_gets_one_clear_error_at_any_node() {
    let three = Three::start().await;
    three.seed(three.leader().await).await;
    let seconds = |seconds: i64| Some(prost_types::Duration { seconds, nanos: 0 });
    let cases: [(&str, &str, &str, Spoil); 9] = [
        ("key", "no", "key: is blank", |claim| claim.key = " \t".to_owned()),
        ("key", "no", "key: is empty", |claim| claim.key = String::new()),
        ("key", "no", "key: is 513 bytes long", |claim| claim.key = "k".repeat(513)),
        ("key", "no", "key: holds a NUL byte", |claim| claim.key = "a\0b".to_owned()),
        ("lease", "no", "lease", |claim| claim.lease = Some(prost_types::Duration::default())),
        ("lease", "no", "negative", |claim| {
            claim.lease = Some(prost_types::Duration { seconds: -5, nanos: 0 });
        }),
        ("lease", "decided", "lease: is 1d", |claim| {
            claim.lease = Some(prost_types::Duration { seconds: 86_400, nanos: 0 });
        }),
        ("fingerprints", "decided", "is missing", |claim| claim.fingerprints.clear()),
        ("fingerprints[0].digest", "no", "is 5 bytes long", |claim| {
            claim.fingerprints[0].digest = vec![1; 5];
        }),
    ];
    for node in 1..=3 {
        for (field, applied, text, spoil) in cases {
            let mut request = claim("good", "one");
            spoil(&mut request);
            let status = three.claims(node).claim(request).await.expect_err("bad input");
            check(&status, field, applied, text);
        }
        // All faults of a message at once.
        let mut request = claim("", "a b");
        request.tenant = "ACME".to_owned();
        let status = three.claims(node).claim(request).await.expect_err("bad input");
        assert_eq!(violations(&status).len(), 3, "{status:?}");

        let mut request = claim("good", "one");
        request.tenant = "nobody".to_owned();
        let status = three.claims(node).claim(request).await.expect_err("no such tenant");
        assert_eq!(
            (status.code(), info(&status).reason.as_str()),
            (Code::NotFound, "TENANT_NOT_FOUND")
        );

        let mut wrong = claim("good", "one").encode_to_vec();
        wrong.extend_from_slice(&[0x1a, 2, 0xff, 0xfe]);
        let status = send_raw(&three.channels[&node], wrong).await;
        check(&status, "key", "no", "key: is not UTF-8; send text encoded as UTF-8");
        let status = send_raw(&three.channels[&node], vec![0x1a, 200]).await;
        assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
        let status = send_raw(&three.channels[&node], vec![0; 6 << 20]).await;
        check(&status, "request", "no", "is too large a message");
    }
    // After all that, the nodes still serve.
    let mut request = claim("good", "one");
    request.lease = seconds(60);
    three.claims(three.follower().await).claim(request).await.expect("a good claim");
    three.stop().await;
}
