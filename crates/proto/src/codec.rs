//! The codec of all our calls: prost's, on messages that are not too heavy.

use std::marker::PhantomData;

use prost::Message;
use prost::bytes::Buf as _;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder};
use tonic_prost::ProstEncoder;

use crate::weigh::{self, Refused, Shaped};

/// Messages `T` to send, messages `U` to receive.
#[derive(Debug)]
pub struct WeighingCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for WeighingCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T: Message + Send + 'static, U: Shaped + Send + 'static> Codec for WeighingCodec<T, U> {
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = WeighingDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder::default()
    }

    fn decoder(&mut self) -> Self::Decoder {
        WeighingDecoder(PhantomData)
    }
}

/// Decodes messages that are not too heavy.
#[derive(Debug)]
pub struct WeighingDecoder<U>(PhantomData<U>);

impl<U: Shaped> Decoder for WeighingDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, buf: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        let bytes = buf.copy_to_bytes(buf.remaining());
        weigh::decode(bytes).map(Some).map_err(|refused| match refused {
            Refused::TooHeavy(_) => Status::out_of_range(refused.to_string()),
            // As prost's own codec says it.
            Refused::Malformed(error) => Status::internal(error.to_string()),
        })
    }
}
