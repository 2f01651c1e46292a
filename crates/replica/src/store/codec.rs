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
//! payload of entry  format u8 · bincode of Batch
//! ```
//!
//! The bytes of every format ever written are frozen in `tests/formats`.

use bincode::config::{Configuration, Limit, LittleEndian, Varint};
use bytes::Bytes;
use firstclaim_core::{Command, Timestamp};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The format byte of a sealed value.
const SEAL_FORMAT: u8 = 1;
/// The format byte of an entry's payload.
const PAYLOAD_FORMAT: u8 = 1;

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
#[derive(Serialize, Deserialize)]
struct Stamped<C> {
    /// The leader's clock when it proposed.
    time: Timestamp,
    commands: C,
}

/// Encodes the payload of a log entry.
///
/// # Errors
///
/// If it would be too long.
pub(crate) fn encode_payload(time: Timestamp, commands: &[Command]) -> Result<Bytes, String> {
    let mut bytes = vec![PAYLOAD_FORMAT];
    append_bincode(&Stamped { time, commands }, &mut bytes)?;
    if bytes.len() > PAYLOAD_BYTES_MAX {
        return Err(format!("{} bytes exceed the limit of {PAYLOAD_BYTES_MAX}", bytes.len()));
    }
    Ok(bytes.into())
}

/// Decodes the payload of a log entry.
pub(crate) fn decode_payload(bytes: &[u8]) -> Result<(Timestamp, Vec<Command>), Fault> {
    let body = expect_format(bytes, PAYLOAD_FORMAT)?;
    let stamped: Stamped<Vec<Command>> = decode_bincode(body).map_err(Fault::Unknown)?;
    Ok((stamped.time, stamped.commands))
}

/// Encodes and seals a value of ours.
pub(crate) fn encode_value<T: Serialize>(value: &T) -> Result<Vec<u8>, String> {
    let mut bytes = unsealed();
    append_bincode(value, &mut bytes)?;
    Ok(close(bytes))
}

/// Checks the seal of a value of ours and decodes it.
pub(crate) fn decode_value<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Fault> {
    decode_bincode(unseal(bytes)?).map_err(Fault::Damaged)
}

/// Encodes and seals a message.
pub(crate) fn encode_message<M: prost::Message>(message: &M) -> Vec<u8> {
    let mut bytes = unsealed();
    bytes.reserve(message.encoded_len());
    message.encode_raw(&mut bytes);
    close(bytes)
}

/// Checks the seal of a message and decodes it.
pub(crate) fn decode_message<M: prost::Message + Default>(bytes: &[u8]) -> Result<M, Fault> {
    M::decode(unseal(bytes)?).map_err(|error| Fault::Damaged(error.to_string()))
}

fn unsealed() -> Vec<u8> {
    vec![SEAL_FORMAT, 0, 0, 0, 0]
}

/// Puts the checksum of the body into the header.
fn close(mut bytes: Vec<u8>) -> Vec<u8> {
    let (header, body) = bytes.split_at_mut(SEAL_HEADER_BYTES);
    header[1..].copy_from_slice(&crc32c::crc32c(body).to_be_bytes());
    bytes
}

fn unseal(bytes: &[u8]) -> Result<&[u8], Fault> {
    let sealed = expect_format(bytes, SEAL_FORMAT)?;
    let Some((checksum, body)) = sealed.split_first_chunk() else {
        return Err(Fault::Damaged(format!("a value of {} bytes is cut off", bytes.len())));
    };
    let (expected, found) = (u32::from_be_bytes(*checksum), crc32c::crc32c(body));
    if expected == found {
        Ok(body)
    } else {
        Err(Fault::Damaged(format!("the checksum is {found:08x} instead of {expected:08x}")))
    }
}

fn expect_format(bytes: &[u8], expected: u8) -> Result<&[u8], Fault> {
    match bytes.split_first() {
        Some((format, body)) if *format == expected => Ok(body),
        Some((format, _)) => Err(Fault::Unknown(format!(
            "it is of format {format}, and this program knows only format {expected}"
        ))),
        None => Err(Fault::Damaged("a value is empty".to_owned())),
    }
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

    #[test]
    fn every_flipped_bit_is_found() {
        let sealed = encode_value(&(7u64, "text".to_owned())).unwrap();
        assert_eq!(decode_value::<(u64, String)>(&sealed).unwrap(), (7, "text".to_owned()));
        for bit in 0..sealed.len() * 8 {
            let mut damaged = sealed.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            decode_value::<(u64, String)>(&damaged).unwrap_err();
        }
        for length in 0..sealed.len() {
            decode_value::<(u64, String)>(&sealed[..length]).unwrap_err();
        }
    }

    #[test]
    fn a_newer_format_is_named() {
        let mut sealed = encode_value(&7u64).unwrap();
        sealed[0] = 9;
        let fault = decode_value::<u64>(&sealed).unwrap_err();
        assert_eq!(fault.to_string(), "it is of format 9, and this program knows only format 1");
    }
}
