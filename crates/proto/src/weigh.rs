//! Weighs a message before it is decoded: two bytes on the wire can be an item of many fields in memory, so
//! a limit of bytes is none of memory.

use prost::bytes::Buf;
use prost::encoding::{self, DecodeContext, WireType};
use prost::{DecodeError, Message};

use crate::generated::SHAPES;

/// How the words of a refusal begin that tells of too much memory.
pub const TOO_HEAVY_PREFIX: &str = "would take more than ";

/// Messages deeper than this are refused by prost, too.
const DEPTH_MAX: usize = 100;
const TEXT_BYTES: usize = 32;
const NUMBER_BYTES: usize = 8;

/// What one more message of a type takes, and what its fields hold.
#[derive(Debug)]
pub(crate) struct Shape {
    /// Without its lists and texts.
    pub(crate) bytes: usize,
    /// By number. The others have their room in `bytes`.
    pub(crate) fields: &'static [(u32, Part)],
}

/// What a field holds.
#[derive(Debug)]
pub(crate) enum Part {
    Message {
        /// What the first in its parent takes: nothing if there is only one, which is part of it.
        first: usize,
        /// What one more takes.
        bytes: usize,
        /// Where its shape stands.
        shape: usize,
    },
    /// One of a list of texts, or of byte strings.
    Text,
    /// One of a list of numbers, or many packed.
    Numbers,
}

/// A generated message.
pub trait Shaped: Message + Default {
    /// Where its shape stands in the table.
    #[doc(hidden)]
    const SHAPE: usize;
    /// Bytes of memory that its structures may take.
    const MEMORY_MAX: usize;
}

/// Why bytes are no message.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// It would take too much memory.
    #[error("{TOO_HEAVY_PREFIX}{0} bytes of memory")]
    TooHeavy(usize),
    /// It is malformed.
    #[error(transparent)]
    Malformed(#[from] DecodeError),
}

/// Decodes a message that is not too heavy.
///
/// # Errors
///
/// If it is too heavy, or malformed.
pub fn decode<M: Shaped>(bytes: impl Buf + AsRef<[u8]>) -> Result<M, Refused> {
    if weight::<M>(bytes.as_ref()) > M::MEMORY_MAX {
        return Err(Refused::TooHeavy(M::MEMORY_MAX));
    }
    Ok(M::decode(bytes)?)
}

/// Bytes of memory that the structures of a message will take, estimated from above, at the least until it is
/// found malformed. Stops where it is more than the message may take.
fn weight<M: Shaped>(bytes: &[u8]) -> usize {
    let mut scale = Scale { weight: 0, most: M::MEMORY_MAX };
    let shape = &SHAPES[M::SHAPE];
    scale.put(shape.bytes);
    // Where it is malformed, decoding stops as well.
    let _ended = scale.put_fields(shape, bytes, 0);
    scale.weight
}

struct Scale {
    weight: usize,
    most: usize,
}

impl Scale {
    fn put(&mut self, bytes: usize) {
        self.weight = self.weight.saturating_add(bytes);
    }

    /// Goes through the fields of a message. None at its end if that came too early.
    fn put_fields(&mut self, shape: &Shape, mut rest: &[u8], depth: usize) -> Option<()> {
        let mut met = 0_u64;
        while !rest.is_empty() {
            if self.weight > self.most || depth > DEPTH_MAX {
                return None;
            }
            let (number, wire_type) = encoding::decode_key(&mut rest).ok()?;
            let part = shape.fields.iter().enumerate().find(|(_, (known, _))| *known == number);
            let Some((at, (_, part))) = part.filter(|_| wire_type == WireType::LengthDelimited)
            else {
                // One of a list of numbers, what has its room, or what is not known.
                self.put(NUMBER_BYTES);
                let context = DecodeContext::default();
                encoding::skip_field(wire_type, number, &mut rest, context).ok()?;
                continue;
            };
            let length = usize::try_from(encoding::decode_varint(&mut rest).ok()?).ok()?;
            let content = rest.get(..length)?;
            rest.advance(length);
            match part {
                Part::Message { first, bytes, shape } => {
                    let this = 1_u64.checked_shl(u32::try_from(at).ok()?).unwrap_or(0);
                    self.put(if met & this == 0 { *first } else { *bytes });
                    met |= this;
                    self.put_fields(&SHAPES[*shape], content, depth + 1)?;
                }
                Part::Text => self.put(TEXT_BYTES),
                Part::Numbers => self.put(length.saturating_mul(NUMBER_BYTES)),
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use firstclaim_core::limits;
    use prost::bytes::Bytes;

    use super::*;
    use crate::{peer, v1};

    /// Of one message without content.
    fn size<M: Shaped>() -> usize {
        SHAPES[M::SHAPE].bytes
    }

    #[test]
    fn the_estimate_is_not_below_what_the_compiler_makes_and_not_far_above() {
        fn check<M: Shaped>() {
            let (estimated, made) = (size::<M>(), size_of::<M>());
            let name = std::any::type_name::<M>();
            assert!(estimated >= made, "{name}: {estimated} < {made}");
            assert!(estimated <= 2 * made + 16, "{name}: {estimated} > 2 * {made}");
        }
        check::<v1::ClaimRequest>();
        check::<v1::ClaimResponse>();
        check::<v1::ClaimBatchRequest>();
        check::<v1::CompleteRequest>();
        check::<v1::Fingerprint>();
        check::<v1::Record>();
        check::<v1::RenewResponse>();
        check::<v1::GetHistoryResponse>();
        check::<v1::GetNamespaceResponse>();
        check::<v1::ExplainResponse>();
        check::<peer::v1::Entry>();
        check::<peer::v1::AppendRequest>();
        check::<peer::v1::Membership>();
    }

    #[test]
    fn empty_items_are_refused_before_they_take_memory() {
        let items = Bytes::from([0x12, 0].repeat(2_000_000));
        let refused = decode::<v1::ClaimBatchRequest>(items).expect_err("it is too heavy");
        assert!(matches!(refused, Refused::TooHeavy(_)), "{refused}");
        let effects = Bytes::from([0x3a, 0].repeat(2_000_000));
        let refused = decode::<v1::RenewResponse>(effects).expect_err("it is too heavy");
        assert!(matches!(refused, Refused::TooHeavy(_)), "{refused}");
        let entries = Bytes::from([0x1a, 0].repeat(2_000_000));
        let refused = decode::<peer::v1::AppendRequest>(entries).expect_err("it is too heavy");
        assert!(matches!(refused, Refused::TooHeavy(_)), "{refused}");
    }

    #[test]
    fn parts_within_parts_count() {
        // A claim, and in it many empty labels.
        let labels = [0x62, 0].repeat(100_000);
        let mut item = v1::ClaimBatchRequest::default();
        item.items.push(v1::ClaimRequest::default());
        let light = weight::<v1::ClaimBatchRequest>(&item.encode_to_vec());
        assert!(light < 2 * (size::<v1::ClaimBatchRequest>() + size::<v1::ClaimRequest>()));
        let alone = weight::<v1::ClaimRequest>(&labels);
        assert!(alone > 100_000 * 48, "{alone}");
    }

    /// Text as long as a number of the list, so that all are different.
    fn names(count: usize) -> std::collections::BTreeMap<String, String> {
        (0..count).map(|number| (format!("n{number}"), "v".to_owned())).collect()
    }

    #[test]
    fn the_fullest_batch_is_not_too_heavy() {
        let parts = names(limits::FINGERPRINT_PARTS_MAX);
        let parts = parts.into_keys().map(|part| (part, vec![7; limits::DIGEST_BYTES_MIN]));
        let fingerprint = v1::Fingerprint {
            scheme: "s".to_owned(),
            digest: vec![7; limits::DIGEST_BYTES_MIN],
            parts: parts.collect(),
        };
        let dispatch = v1::Dispatch {
            dedup_window: Some(v1::IdentityRetention::default()),
            request: Some(v1::Content::default()),
            ..v1::Dispatch::default()
        };
        let claim = v1::ClaimRequest {
            fingerprints: vec![fingerprint; limits::FINGERPRINTS_MAX],
            labels: names(limits::LABELS_MAX),
            effects: vec![dispatch; limits::EFFECTS_PER_CALL_MAX],
            ..v1::ClaimRequest::default()
        };
        let batch = v1::ClaimBatchRequest {
            items: vec![claim; limits::BATCH_ITEMS_MAX],
            ..v1::ClaimBatchRequest::default()
        };
        let weight = weight::<v1::ClaimBatchRequest>(&batch.encode_to_vec());
        assert!(weight < limits::REQUEST_MEMORY_MAX / 4 * 3, "{weight}");
        assert!(weight > limits::REQUEST_MEMORY_MAX / 4, "{weight}: the limit is too generous");
    }

    /// Of all that a record holds in lists, permits take most memory for their bytes.
    #[test]
    fn the_fullest_page_is_not_too_heavy() {
        const PAGE_BYTES: usize = 3 * 1024 * 1024;
        let time = Some(prost_types::Timestamp { seconds: 1_800_000_000, nanos: 0 });
        let permit = v1::Permit { number: 1, epoch: 1, permit_time: time, not_after: time };
        let permits = vec![permit; limits::DISPATCHES_MAX as usize];
        let effect = v1::Effect { permits, ..v1::Effect::default() };
        let effects = vec![effect; limits::EFFECTS_MAX];
        let record = v1::Record { effects, labels: names(8), ..v1::Record::default() };
        let bytes = record.encode_to_vec();
        let page = PAGE_BYTES / bytes.len() * weight::<v1::Record>(&bytes);
        assert!(page < limits::ANSWER_MEMORY_MAX, "{page}");
    }

    #[test]
    fn what_is_malformed_is_left_to_the_decoder() {
        for bytes in [&[0x12_u8, 5, 1][..], &[0xff; 20], &[0x12], &[0x0b], &[0x10, 1]] {
            let refused = decode::<v1::ClaimBatchRequest>(Bytes::copy_from_slice(bytes));
            assert!(matches!(refused, Err(Refused::Malformed(_))), "{bytes:?}");
        }
        // A field of a later version.
        let unknown = Bytes::from_static(&[0xa2, 0x7d, 2, 1, 2]);
        assert_eq!(decode::<v1::GetRequest>(unknown).expect("read"), v1::GetRequest::default());
    }

    #[test]
    fn deep_nesting_ends() {
        let mut bytes = Vec::new();
        for _ in 0..50_000 {
            bytes.extend([0x0b]);
        }
        assert!(decode::<v1::ClaimRequest>(Bytes::from(bytes)).is_err());
    }
}
