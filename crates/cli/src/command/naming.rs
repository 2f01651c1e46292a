//! How a command names a record, a grant, a person, and bytes.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use firstclaim_client::{HolderRef, RecordRef, Warrant, limits};

use crate::context::Context;
use crate::failure::Failure;

/// The media type of bytes that name none.
pub(crate) const TEXT: &str = "text/plain; charset=utf-8";
pub(crate) const BINARY: &str = "application/octet-stream";

/// The key.
#[derive(Clone, Debug, Args)]
pub(crate) struct KeyArgs {
    /// The name of the business intent, the same on every repeat of it
    #[arg(short = 'K', long, value_parser = text("key"))]
    pub(crate) key: String,
}

impl KeyArgs {
    pub(crate) fn record(self, context: &Context) -> Result<RecordRef, Failure> {
        Ok(RecordRef::new(context.tenant(None)?, context.namespace(None)?, self.key))
    }
}

/// The key of a record that is looked at: the only thing that has to be named, so that it may stand
/// alone.
#[derive(Clone, Debug, Args)]
pub(crate) struct RecordArgs {
    /// The key
    #[arg(value_name = "KEY", value_parser = text("key"), required_unless_present = "key")]
    named: Option<String>,
    /// The same as a flag
    #[arg(short = 'K', long, value_name = "KEY", value_parser = text("key"), conflicts_with = "named")]
    key: Option<String>,
}

impl RecordArgs {
    pub(crate) fn record(self, context: &Context) -> Result<RecordRef, Failure> {
        let key = self.named.or(self.key);
        let key = key.ok_or_else(|| Failure::usage("no key is given; name it"))?;
        Ok(RecordRef::new(context.tenant(None)?, context.namespace(None)?, key))
    }
}

/// The grant.
#[derive(Clone, Debug, Args)]
pub(crate) struct HolderArgs {
    #[command(flatten)]
    pub(crate) key: KeyArgs,
    /// The epoch that was granted
    #[arg(long)]
    pub(crate) epoch: u64,
    /// The attempt that it was granted to
    #[arg(long)]
    pub(crate) attempt: String,
}

impl HolderArgs {
    pub(crate) fn holder(self, context: &Context) -> Result<HolderRef, Failure> {
        Ok(HolderRef {
            tenant: context.tenant(None)?,
            namespace: context.namespace(None)?,
            key: self.key.key,
            attempt_id: self.attempt,
            epoch: self.epoch,
        })
    }
}

/// Who says so.
#[derive(Clone, Debug, Args)]
pub(crate) struct PrincipalArgs {
    /// Who says so; USER@HOST if it is not given
    #[arg(long, env = "FIRSTCLAIM_PRINCIPAL", value_parser = text("principal"))]
    principal: Option<String>,
}

impl PrincipalArgs {
    pub(crate) fn principal(self) -> String {
        self.principal.unwrap_or_else(|| {
            let word = |name| std::env::var(name).ok().filter(|word: &String| !word.is_empty());
            let user = word("USER").or_else(|| word("LOGNAME"));
            let host = word("HOSTNAME").or_else(|| {
                let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
                Some(name.trim().to_owned())
            });
            let unknown = || "unknown".to_owned();
            format!("{}@{}", user.unwrap_or_else(unknown), host.unwrap_or_else(unknown))
        })
    }
}

/// Who decides, and why.
#[derive(Clone, Debug, Args)]
pub(crate) struct WarrantArgs {
    /// Why; it is kept for whoever reads it later
    #[arg(long, value_parser = text("reason"))]
    reason: String,
    #[command(flatten)]
    principal: PrincipalArgs,
}

impl WarrantArgs {
    pub(crate) fn warrant(self) -> Warrant {
        Warrant::new(self.principal.principal(), self.reason)
    }
}

/// What shows that something happened, or did not.
#[derive(Clone, Debug, Args)]
pub(crate) struct EvidenceArgs {
    /// What shows it
    #[arg(long, value_name = "TEXT", conflicts_with = "evidence_file")]
    evidence: Option<String>,
    /// What shows it, in a file, - for standard input
    #[arg(long, value_name = "FILE")]
    evidence_file: Option<PathBuf>,
    /// Media type of the evidence
    #[arg(long, value_parser = text("evidence_type"), value_name = "TYPE")]
    evidence_type: Option<String>,
}

impl EvidenceArgs {
    /// Media type and bytes, if there are any.
    pub(crate) fn read(self) -> Result<Option<(String, Vec<u8>)>, Failure> {
        let bytes = self.evidence.map(Bytes::Text).or(self.evidence_file.map(Bytes::File));
        let Some(bytes) = bytes else { return Ok(None) };
        let bytes = bytes.read_up_to("evidence", limits::EVIDENCE_BYTES_MAX)?;
        let content_type = self.evidence_type.unwrap_or_else(|| guess(&bytes).to_owned());
        Ok(Some((content_type, bytes)))
    }
}

/// What is left behind.
#[derive(Clone, Debug, Args)]
pub(crate) struct ResultArgs {
    /// The result
    #[arg(long, value_name = "TEXT", conflicts_with = "result_file")]
    result: Option<String>,
    /// The result in a file, - for standard input
    #[arg(long, value_name = "FILE")]
    result_file: Option<PathBuf>,
    /// Media type of the result
    #[arg(long, value_parser = text("content_type"), value_name = "TYPE")]
    content_type: Option<String>,
}

impl ResultArgs {
    /// Media type and bytes; no bytes if none are given.
    pub(crate) fn read(self) -> Result<(String, Vec<u8>), Failure> {
        let bytes = self.result.map(Bytes::Text).or(self.result_file.map(Bytes::File));
        let bytes = bytes.map(|bytes| bytes.read("result")).transpose()?.unwrap_or_default();
        let content_type = self.content_type.unwrap_or_else(|| guess(&bytes).to_owned());
        Ok((content_type, bytes))
    }
}

/// The media type of bytes that name none.
pub(crate) fn guess(bytes: &[u8]) -> &'static str {
    if std::str::from_utf8(bytes).is_ok() { TEXT } else { BINARY }
}

/// Bytes, from the command line or from a file.
#[derive(Clone, Debug)]
pub(crate) enum Bytes {
    Text(String),
    /// `-` is standard input.
    File(PathBuf),
}

impl Bytes {
    /// Reads them, but no more than a call can carry.
    pub(crate) fn read(&self, what: &str) -> Result<Vec<u8>, Failure> {
        self.read_up_to(what, limits::RESULT_BYTES_MAX)
    }

    /// Reads them, but no more than so many.
    pub(crate) fn read_up_to(&self, what: &str, max: usize) -> Result<Vec<u8>, Failure> {
        let bytes = match self {
            Self::Text(text) => text.clone().into_bytes(),
            Self::File(path) => read_file(path, what, max)?,
        };
        if bytes.len() > max {
            return Err(Failure::usage(format!(
                "{what}: is longer than {max} bytes; send less, or a reference to it"
            )));
        }
        Ok(bytes)
    }
}

fn read_file(path: &Path, what: &str, max: usize) -> Result<Vec<u8>, Failure> {
    let bound = max as u64 + 1;
    let mut bytes = Vec::new();
    let read = if path.as_os_str() == OsStr::new("-") {
        io::stdin().lock().take(bound).read_to_end(&mut bytes)
    } else {
        File::open(path).and_then(|file| file.take(bound).read_to_end(&mut bytes))
    };
    match read {
        Ok(_) => Ok(bytes),
        Err(error) => Err(Failure::usage(format!("{what}: read {}: {error}", path.display()))),
    }
}

/// A text argument whose fault names the field.
pub(crate) fn text(field: &'static str) -> impl TypedValueParser<Value = String> {
    OsStringValueParser::new().try_map(move |value| {
        value.into_string().map_err(|_not_utf8| {
            format!("{field}: is not UTF-8; keys and labels are text, encode other bytes first")
        })
    })
}
