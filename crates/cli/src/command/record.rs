//! How a command names a record, a grant, and bytes.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use firstclaim_client::{HolderRef, limits};

use crate::context::Context;
use crate::failure::Failure;

/// The key.
#[derive(Clone, Debug, Args)]
pub(crate) struct KeyArgs {
    /// The name of the business intent, the same on every repeat of it
    #[arg(short = 'K', long, value_parser = text("key"))]
    pub(crate) key: String,
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
        let bytes = match self {
            Self::Text(text) => text.clone().into_bytes(),
            Self::File(path) => read_file(path, what)?,
        };
        if bytes.len() > limits::RESULT_BYTES_MAX {
            return Err(Failure::usage(format!(
                "{what}: is longer than {} bytes; send less, or a reference to it",
                limits::RESULT_BYTES_MAX
            )));
        }
        Ok(bytes)
    }
}

fn read_file(path: &Path, what: &str) -> Result<Vec<u8>, Failure> {
    let bound = limits::RESULT_BYTES_MAX as u64 + 1;
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
