//! Values ⇄ bytes.
//!
//! Everything on disk is *sealed*: a format byte, a checksum of the rest, the rest. So a flipped
//! bit is found where the value is read, whatever it would have decoded to, and an older program
//! that meets a newer value says so.
//!
//! What is inside a seal, or in the payload of a log entry, is bincode where only this program
//! reads it (commands, records, tenants) and prost where another program or version may.
//!
//! ```text
//! sealed value      format u8 · crc32c u32 · body
//! payload of entry  format u8 · bincode of time and commands
//! ```
//!
//! The format of a value is that of its own shape: a shape that did not change keeps its number. What
//! the shapes were before is in [`v1`].
//!
//! The bytes of every format ever written are frozen in `tests/formats`.

use std::marker::PhantomData;

use bincode::config::{Configuration, Limit, LittleEndian, Varint};
use bytes::Bytes;
use firstclaim_core::limits::ENTRY_COMMANDS_MAX;
use firstclaim_core::tenant::Cluster;
use firstclaim_core::{Command, History, Namespace, Record, Slot, Tenant, Timestamp, Usage};
use firstclaim_proto::weigh::{self, Shaped};
use serde::de::{DeserializeOwned, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::store::v1;

/// The format byte of a sealed message.
const MESSAGE_FORMAT: u8 = 1;
/// The format byte of an entry's payload.
const PAYLOAD_FORMAT: u8 = 2;
/// The one that the version before this wrote.
const FORMER_PAYLOAD_FORMAT: u8 = 1;

const SEAL_HEADER_BYTES: usize = 5;

/// No value of ours is longer, so that a damaged length cannot ask for all memory.
pub(crate) const VALUE_BYTES_MAX: usize = 4 << 20;

/// No entry's payload is longer. The largest command is 1 MiB; a batch of small ones closes at half
/// of that.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 2 << 20;

const _: () = assert!(PAYLOAD_BYTES_MAX <= VALUE_BYTES_MAX, "an entry must fit a value");

type Config = Configuration<LittleEndian, Varint, Limit<VALUE_BYTES_MAX>>;

fn config() -> Config {
    bincode::config::standard().with_limit::<VALUE_BYTES_MAX>()
}

/// Why bytes could not be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// They are not what was written.
    Damaged(String),
    /// They were written in a format that this program does not know.
    Unknown(String),
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Damaged(what) | Self::Unknown(what) => f.write_str(what),
        }
    }
}

/// What the payload of a log entry says.
#[derive(Serialize)]
struct Stamped<'a> {
    /// The leader's clock when it proposed.
    time: Timestamp,
    commands: &'a [Command],
}

/// The same, as it is read.
#[derive(Deserialize)]
struct Read<C> {
    time: Timestamp,
    #[serde(deserialize_with = "few", bound = "C: Deserialize<'de>")]
    commands: Vec<C>,
}

/// Reads no more commands than an entry may hold. The smallest is a byte long and takes hundreds of
/// bytes of memory.
fn few<'de, C: Deserialize<'de>, D: Deserializer<'de>>(bytes: D) -> Result<Vec<C>, D::Error> {
    struct Few<C>(PhantomData<C>);

    impl<'de, C: Deserialize<'de>> Visitor<'de> for Few<C> {
        type Value = Vec<C>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "at most {ENTRY_COMMANDS_MAX} commands")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut rest: A) -> Result<Self::Value, A::Error> {
            let mut commands = Vec::new();
            while let Some(command) = rest.next_element()? {
                if commands.len() == ENTRY_COMMANDS_MAX {
                    return Err(A::Error::custom(too_many()));
                }
                commands.push(command);
            }
            Ok(commands)
        }
    }

    bytes.deserialize_seq(Few(PhantomData))
}

fn too_many() -> String {
    format!("there are more than {ENTRY_COMMANDS_MAX} commands in the entry")
}

/// A log entry's payload that was read.
#[derive(Debug, PartialEq)]
pub(crate) struct Decoded {
    /// The leader's clock when it proposed.
    pub(crate) time: Timestamp,
    pub(crate) commands: Vec<Command>,
    /// Whether the version before this one wrote it.
    pub(crate) former: bool,
}

impl Decoded {
    /// Whether it may be applied by this version.
    ///
    /// Replicas of the version before this one may have applied what it wrote, and decided by its
    /// rules; a replica that decided by the rules of today would part from them. Ticks decide
    /// nothing.
    pub(crate) fn is_applicable(&self) -> bool {
        !self.former || self.commands.iter().all(|command| *command == Command::Tick)
    }
}

/// Encodes the payload of a log entry.
///
/// # Errors
///
/// If it would be too long, or if there are too many commands.
pub(crate) fn encode_payload(time: Timestamp, commands: &[Command]) -> Result<Bytes, String> {
    if commands.len() > ENTRY_COMMANDS_MAX {
        return Err(too_many());
    }
    let mut bytes = vec![PAYLOAD_FORMAT];
    append_bincode(&Stamped { time, commands }, &mut bytes)?;
    if bytes.len() > PAYLOAD_BYTES_MAX {
        return Err(format!("{} bytes exceed the limit of {PAYLOAD_BYTES_MAX}", bytes.len()));
    }
    Ok(bytes.into())
}

/// Decodes the payload of a log entry.
pub(crate) fn decode_payload(bytes: &[u8]) -> Result<Decoded, Fault> {
    if is_former_payload(bytes) {
        let body = expect_format(bytes, FORMER_PAYLOAD_FORMAT)?;
        let stamped: Read<v1::Command> = decode_bincode(body).map_err(Fault::Unknown)?;
        let commands = stamped.commands.into_iter().map(Command::from).collect();
        return Ok(Decoded { time: stamped.time, commands, former: true });
    }
    let body = expect_format(bytes, PAYLOAD_FORMAT)?;
    let stamped: Read<Command> = decode_bincode(body).map_err(Fault::Unknown)?;
    Ok(Decoded { time: stamped.time, commands: stamped.commands, former: false })
}

/// Whether the version before this one wrote the payload.
pub(crate) fn is_former_payload(bytes: &[u8]) -> bool {
    bytes.first() == Some(&FORMER_PAYLOAD_FORMAT)
}

/// A value of the state.
pub(crate) trait Stored: Serialize + DeserializeOwned {
    /// The number of its present shape.
    const FORMAT: u8;

    /// Reads the body of a former shape that is not gone through when a folder is migrated: it stays
    /// until its value is written again. None for a format that never was.
    fn from_former(_format: u8, _body: &[u8]) -> Option<Result<Self, String>> {
        None
    }
}

impl Stored for Cluster {
    const FORMAT: u8 = 2;
}

impl Stored for Slot<Tenant> {
    const FORMAT: u8 = 2;

    fn from_former(format: u8, body: &[u8]) -> Option<Result<Self, String>> {
        (format == 1).then(|| Ok(decode_bincode::<v1::Slot<Tenant>>(body)?.into()))
    }
}

impl Stored for Slot<Namespace> {
    const FORMAT: u8 = 2;

    fn from_former(format: u8, body: &[u8]) -> Option<Result<Self, String>> {
        (format == 1).then(|| Ok(decode_bincode::<v1::Slot<v1::Namespace>>(body)?.into()))
    }
}

impl Stored for Record {
    const FORMAT: u8 = 2;
}

impl Stored for History {
    const FORMAT: u8 = 1;
}

impl Stored for Usage {
    const FORMAT: u8 = 1;
}

/// Encodes and seals a value of ours.
pub(crate) fn encode_value<T: Stored>(value: &T) -> Result<Vec<u8>, String> {
    let mut bytes = unsealed(T::FORMAT);
    append_bincode(value, &mut bytes)?;
    Ok(close(bytes))
}

/// Checks the seal of a value of ours and decodes it.
pub(crate) fn decode_value<T: Stored>(bytes: &[u8]) -> Result<T, Fault> {
    let (format, body) = unseal(bytes)?;
    let decoded = if format == T::FORMAT {
        decode_bincode(body)
    } else {
        T::from_former(format, body).ok_or_else(|| unknown(format, T::FORMAT))?
    };
    decoded.map_err(Fault::Damaged)
}

/// Encodes and seals a message.
pub(crate) fn encode_message<M: prost::Message>(message: &M) -> Vec<u8> {
    let mut bytes = unsealed(MESSAGE_FORMAT);
    bytes.reserve(message.encoded_len());
    message.encode_raw(&mut bytes);
    close(bytes)
}

/// Checks the seal of a message and decodes it.
pub(crate) fn decode_message<M: Shaped>(bytes: &[u8]) -> Result<M, Fault> {
    let (format, body) = unseal(bytes)?;
    if format != MESSAGE_FORMAT {
        return Err(unknown(format, MESSAGE_FORMAT));
    }
    weigh::decode(body).map_err(|error| Fault::Damaged(error.to_string()))
}

/// Seals a body as it is, so that a fuzzer gets past the checksum.
#[cfg(feature = "fuzzing")]
pub(crate) fn seal(format: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = unsealed(format);
    bytes.extend_from_slice(body);
    close(bytes)
}

fn unsealed(format: u8) -> Vec<u8> {
    vec![format, 0, 0, 0, 0]
}

/// Puts the checksum of the body into the header.
fn close(mut bytes: Vec<u8>) -> Vec<u8> {
    let (header, body) = bytes.split_at_mut(SEAL_HEADER_BYTES);
    header[1..].copy_from_slice(&crc32c::crc32c(body).to_be_bytes());
    bytes
}

/// The format and the body of a sealed value.
fn unseal(bytes: &[u8]) -> Result<(u8, &[u8]), Fault> {
    let Some((header, body)) = bytes.split_first_chunk::<SEAL_HEADER_BYTES>() else {
        return Err(Fault::Damaged(format!("a value of {} bytes is cut off", bytes.len())));
    };
    let [format, checksum @ ..] = *header;
    let (expected, found) = (u32::from_be_bytes(checksum), crc32c::crc32c(body));
    if expected == found {
        Ok((format, body))
    } else {
        Err(Fault::Damaged(format!("the checksum is {found:08x} instead of {expected:08x}")))
    }
}

fn expect_format(bytes: &[u8], expected: u8) -> Result<&[u8], Fault> {
    match bytes.split_first() {
        Some((format, body)) if *format == expected => Ok(body),
        Some((format, _)) => Err(unknown(*format, expected)),
        None => Err(Fault::Damaged("a value is empty".to_owned())),
    }
}

fn unknown(format: u8, expected: u8) -> Fault {
    Fault::Unknown(format!(
        "it is of format {format}, and this program knows only format {expected}"
    ))
}

fn append_bincode<T: Serialize>(value: &T, bytes: &mut Vec<u8>) -> Result<(), String> {
    let encoded = bincode::serde::encode_into_std_write(value, bytes, config());
    encoded.map(|_| ()).map_err(|error| error.to_string())
}

fn decode_bincode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let (value, used) =
        bincode::serde::decode_from_slice(bytes, config()).map_err(|error| error.to_string())?;
    if used == bytes.len() {
        Ok(value)
    } else {
        Err(format!("{} bytes are left over", bytes.len() - used))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Sample(u64, String);

    impl Stored for Sample {
        const FORMAT: u8 = 3;
    }

    fn sample() -> Sample {
        Sample(7, "text".to_owned())
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let sealed = encode_value(&sample()).unwrap();
        assert_eq!(decode_value::<Sample>(&sealed).unwrap(), sample());
        for bit in 0..sealed.len() * 8 {
            let mut damaged = sealed.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            decode_value::<Sample>(&damaged).unwrap_err();
        }
        for length in 0..sealed.len() {
            decode_value::<Sample>(&sealed[..length]).unwrap_err();
        }
    }

    /// 4 MiB of ticks were a gigabyte of commands, whoever sent them.
    #[test]
    fn more_commands_than_an_entry_holds_are_neither_read_nor_written() {
        let most = vec![Command::Tick; ENTRY_COMMANDS_MAX];
        let payload = encode_payload(Timestamp(7), &most).unwrap();
        assert_eq!(decode_payload(&payload).unwrap().commands, most);
        let more = [most.as_slice(), &[Command::Tick]].concat();
        encode_payload(Timestamp(7), &more).unwrap_err();
        for format in [FORMER_PAYLOAD_FORMAT, PAYLOAD_FORMAT] {
            // Time 7, so many commands (a length of two bytes), ticks.
            let head = [format, 7, 251, 1, 1];
            let payload = [&head[..], &[9; ENTRY_COMMANDS_MAX + 1]].concat();
            let fault = decode_payload(&payload).unwrap_err();
            assert!(fault.to_string().contains("more than 256 commands"), "{fault}");
        }
    }

    #[test]
    fn a_newer_format_is_named() {
        let mut sealed = encode_value(&sample()).unwrap();
        sealed[0] = 9;
        let fault = decode_value::<Sample>(&sealed).unwrap_err();
        assert_eq!(fault.to_string(), "it is of format 9, and this program knows only format 3");

        let mut payload = encode_payload(Timestamp(7), &[Command::Tick]).unwrap().to_vec();
        payload[0] = 3;
        let fault = decode_payload(&payload).unwrap_err();
        assert_eq!(fault.to_string(), "it is of format 3, and this program knows only format 2");
    }
}
