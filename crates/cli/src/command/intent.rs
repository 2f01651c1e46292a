//! How a command says which intent a key stands for: its request, when it was born, its labels.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::SystemTime;

use clap::Args;
use firstclaim_client::{RecordRef, Reservation, fingerprint, v1};

use super::naming::Bytes;
use crate::failure::Failure;
use crate::view;

/// The request that the key stands for.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct RequestArgs {
    /// Digest of the canonical request; repeatable, the preferred scheme first
    #[arg(long, value_parser = parse_fingerprint, value_name = "SCHEME=HEX")]
    fingerprint: Vec<v1::Fingerprint>,
    /// The canonical request; its exact bytes are the fingerprint
    #[arg(long, value_name = "TEXT", conflicts_with = "request_file")]
    request: Option<String>,
    /// The canonical request in a file, - for standard input
    #[arg(long, value_name = "FILE")]
    request_file: Option<PathBuf>,
}

impl RequestArgs {
    /// The fingerprints, those that are given as such first.
    pub(crate) fn fingerprints(self) -> Result<Vec<v1::Fingerprint>, Failure> {
        let mut fingerprints = self.fingerprint;
        let text = self.request.map(Bytes::Text).or(self.request_file.map(Bytes::File));
        if let Some(bytes) = text {
            fingerprints.push(fingerprint::raw(&bytes.read("request")?));
        }
        Ok(fingerprints)
    }
}

/// The intent.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct IntentArgs {
    #[command(flatten)]
    pub(crate) request: RequestArgs,
    /// When the intent was born: the same on every repeat, never the time of sending
    #[arg(long, value_parser = parse_time, value_name = "RFC3339")]
    pub(crate) intent_time: Option<SystemTime>,
    /// Message id, delivery number and the like; repeatable
    #[arg(long, value_parser = parse_label, value_name = "NAME=VALUE")]
    pub(crate) label: Vec<(String, String)>,
    /// The same request under another key is another intent
    #[arg(long)]
    pub(crate) allow_duplicate_intent: bool,
}

impl IntentArgs {
    /// The reservation of that key.
    pub(crate) fn reservation(self, record: RecordRef) -> Result<Reservation, Failure> {
        Ok(Reservation {
            record,
            fingerprints: self.request.fingerprints()?,
            intent_time: self.intent_time,
            labels: self.label.into_iter().collect(),
            allow_duplicate_intent: self.allow_duplicate_intent,
        })
    }
}

fn parse_fingerprint(text: &str) -> Result<v1::Fingerprint, String> {
    let fix = "write SCHEME=HEX, such as payout-v1=9f86d081884c7d65…";
    let (scheme, digest) = text.rsplit_once('=').ok_or(fix)?;
    let digest = view::unhex(digest).ok_or("the digest is not hexadecimal; write SCHEME=HEX")?;
    Ok(v1::Fingerprint { scheme: scheme.to_owned(), digest, parts: BTreeMap::new() })
}

/// Reads a label.
pub(crate) fn parse_label(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Reads a time with its zone.
pub(crate) fn parse_time(text: &str) -> Result<SystemTime, String> {
    let time: jiff::Timestamp =
        text.parse().map_err(|error| format!("{error}; write 2026-01-02T03:04:05Z"))?;
    if time < jiff::Timestamp::UNIX_EPOCH {
        return Err("is before 1970; write 2026-01-02T03:04:05Z".to_owned());
    }
    time.try_into().map_err(|error: jiff::Error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_scheme_and_digest() {
        let print = parse_fingerprint("payout=v1=00ff").unwrap();
        assert_eq!((print.scheme.as_str(), print.digest.as_slice()), ("payout=v1", &[0, 255][..]));
        assert!(parse_fingerprint("payout=v1=0").is_err());
        assert!(parse_fingerprint("payout").is_err());
    }

    #[test]
    fn times_need_a_zone() {
        assert!(parse_time("2026-01-02T03:04:05Z").is_ok());
        assert!(parse_time("2026-01-02T03:04:05+02:00").is_ok());
        for wrong in ["2026-01-02", "2026-01-02T03:04:05", "1969-12-31T23:59:59Z"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
    }
}
