//! What a record keeps of a command that ended: its exit code and what it wrote.

use firstclaim_client::{Completion, limits, v1};
use sha2::{Digest, Sha256};

/// The media type of a stored run; its parameter is the exit code, so that it outlives the output.
const MEDIA_TYPE: &str = "application/vnd.firstclaim.run";
const PARAMETER: &str = "exit-code=";
/// Stands for output that was too long to be kept anywhere.
const NOWHERE: &str = "urn:firstclaim:run:output-too-long";

/// What a command wrote, as far as a record can hold it.
#[derive(Debug, Default)]
pub(crate) struct Captured {
    bytes: Vec<u8>,
    length: u64,
    digest: Sha256,
}

impl Captured {
    /// Takes in more output.
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        self.digest.update(bytes);
        if self.fits() {
            self.bytes.extend_from_slice(bytes);
        } else {
            // It is not stored in part: a repeat must not take a part for the whole.
            self.bytes = Vec::new();
        }
    }

    /// How much that was so far.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    fn fits(&self) -> bool {
        self.length <= limits::RESULT_BYTES_MAX as u64
    }
}

/// How a record ends whose command ended with that code.
pub(crate) fn completion(code: u8, stdout: Captured) -> Completion {
    let disposition = if code == 0 { v1::Disposition::Succeeded } else { v1::Disposition::Failed };
    let body = if stdout.fits() {
        v1::result::Body::Inline(stdout.bytes)
    } else {
        v1::result::Body::Reference(v1::ResultReference {
            uri: NOWHERE.to_owned(),
            digest: stdout.digest.finalize().to_vec(),
            length: stdout.length,
        })
    };
    let result = v1::Result {
        content_type: format!("{MEDIA_TYPE}; {PARAMETER}{code}"),
        body: Some(body),
        ..v1::Result::default()
    };
    Completion::new(disposition, result)
}

/// A run as a record has kept it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    /// How the command ended. Of a record that something else completed: 0 if it succeeded, else 1.
    pub(crate) code: u8,
    /// What it wrote; none if that is not kept.
    pub(crate) stdout: Option<Vec<u8>>,
    /// How long that was.
    pub(crate) length: u64,
}

impl Stored {
    pub(crate) fn read(completion: &v1::Completion) -> Self {
        let succeeded = completion.disposition() == v1::Disposition::Succeeded;
        let result = completion.result.clone().unwrap_or_default();
        let named = result.content_type.strip_prefix(MEDIA_TYPE).and_then(|rest| {
            let (_, code) = rest.split_once(PARAMETER)?;
            code.trim().parse().ok()
        });
        let stdout = match result.body {
            Some(v1::result::Body::Inline(bytes)) => Some(bytes),
            Some(v1::result::Body::Reference(_)) => None,
            // An empty result may come without a body.
            None if result.length == 0 && !completion.purged => Some(Vec::new()),
            None => None,
        };
        Self { code: named.unwrap_or(u8::from(!succeeded)), stdout, length: result.length }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the store would answer.
    fn kept(completion: &Completion, dropped: bool) -> v1::Completion {
        let mut result = completion.result.clone();
        result.length = match &result.body {
            Some(v1::result::Body::Inline(bytes)) => bytes.len() as u64,
            Some(v1::result::Body::Reference(reference)) => reference.length,
            None => 0,
        };
        if dropped {
            result.body = None;
        }
        v1::Completion {
            disposition: completion.disposition.into(),
            result: Some(result),
            ..v1::Completion::default()
        }
    }

    fn captured(bytes: &[u8]) -> Captured {
        let mut captured = Captured::default();
        captured.take(bytes);
        captured
    }

    #[test]
    fn code_and_output_come_back_as_they_were() {
        for code in [0, 1, 75, 255] {
            let completion = completion(code, captured(b"transfer \xff tx_1\n"));
            let stored = Stored::read(&kept(&completion, false));
            assert_eq!(stored.code, code);
            assert_eq!(stored.stdout.as_deref(), Some(&b"transfer \xff tx_1\n"[..]));
            let dropped = Stored::read(&kept(&completion, true));
            assert_eq!((dropped.code, dropped.stdout, dropped.length), (code, None, 16));
        }
        let silent = completion(3, Captured::default());
        assert_eq!(Stored::read(&kept(&silent, true)).stdout, Some(Vec::new()));
    }

    #[test]
    fn output_that_is_too_long_is_not_kept_in_part() {
        let mut long = Captured::default();
        for _ in 0..17 {
            long.take(&vec![b'x'; 64 * 1024]);
        }
        let completion = completion(0, long);
        let stored = Stored::read(&kept(&completion, false));
        assert_eq!((stored.stdout, stored.length), (None, 17 * 64 * 1024));
    }

    #[test]
    fn what_something_else_completed_has_a_code_too() {
        for (disposition, code) in [(v1::Disposition::Succeeded, 0), (v1::Disposition::Failed, 1)] {
            let mut done = kept(&Completion::succeeded("text/plain", "paid"), false);
            done.disposition = disposition.into();
            let stored = Stored::read(&done);
            assert_eq!((stored.code, stored.stdout.as_deref()), (code, Some(&b"paid"[..])));
        }
    }
}
