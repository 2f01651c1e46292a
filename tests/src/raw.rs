//! Calls in bytes: what no client of ours would send, and answers exactly as they came.

use prost::bytes::{Buf, BufMut};
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Request, Status};

/// Sends a message given as bytes to a method such as `firstclaim.v1.ClaimService/Claim`, and returns
/// the bytes of the answer.
///
/// # Errors
///
/// What the node answered instead.
pub async fn call(channel: Channel, method: &str, message: Vec<u8>) -> Result<Vec<u8>, Status> {
    let path = PathAndQuery::try_from(format!("/{method}"))
        .map_err(|error| Status::internal(format!("{method} is no path: {error}")))?;
    let mut client = Grpc::new(channel);
    client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    Ok(client.unary(Request::new(message), path, Bytes).await?.into_inner())
}

/// A field of a message: its number, and its bytes.
#[must_use]
pub fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    // The key of a length-delimited field, and a length in two bytes.
    let (low, high) = (bytes.len() & 0x7f, bytes.len() >> 7);
    let [low, high] = [low, high].map(|part| u8::try_from(part).unwrap_or(u8::MAX));
    [&[number << 3 | 2, low | 0x80, high], bytes].concat()
}

/// The bytes of the first field of an answer, if that is a message with the number 1.
#[must_use]
pub fn first_field(answer: &[u8]) -> Option<&[u8]> {
    let (key, rest) = answer.split_first()?;
    if *key != (1 << 3 | 2) {
        return None;
    }
    let mut length = 0_usize;
    for (at, byte) in rest.iter().enumerate().take(4) {
        length |= usize::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return rest.get(at + 1..)?.get(..length);
        }
    }
    None
}

/// Bytes in, bytes out.
#[derive(Clone, Copy, Debug)]
struct Bytes;

impl Codec for Bytes {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let mut bytes = vec![0; buffer.remaining()];
        buffer.copy_to_slice(&mut bytes);
        Ok(Some(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::{field, first_field};

    #[test]
    fn fields_are_read_back() {
        for length in [0, 1, 127, 128, 600] {
            let bytes = vec![7; length];
            let mut message = field(1, &bytes);
            message.extend(field(2, b"more"));
            assert_eq!(first_field(&message), Some(bytes.as_slice()), "{length}");
        }
        assert_eq!(first_field(&field(2, b"other")), None);
        assert_eq!(first_field(&[]), None);
    }
}
