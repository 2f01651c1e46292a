//! What work says about itself, and how a failure of it is taken.
//!
//! | what is known | to the store |
//! |---|---|
//! | it happened | Complete SUCCEEDED |
//! | it did not, and the unchanged request never will | Complete FAILED |
//! | it certainly did not, and may later | Release RETRY, after a pause that grows with the tries |
//! | anything else: a timeout, a broken connection, a 5xx | Release UNKNOWN |

use std::time::Duration;

use crate::outcome::Completion;
use crate::v1;

/// What the work says about itself. There is no way to say "probably".
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// It happened; this is kept and given to every repeat.
    Done(v1::Result),
    /// It did not happen and never shall; this is kept and given to every repeat.
    FinalFailure(v1::Result),
    /// It certainly did not happen; try again after a while.
    Retry {
        /// How long nobody may try.
        after: Duration,
    },
    /// It certainly did not happen; try again after a pause that [`Backoff`] says.
    RetryLater,
    /// Nobody knows whether it happened. A timeout of a provider is this, not [`Work::Retry`].
    Unknown {
        /// What to tell whoever has to find out.
        note: String,
    },
}

impl Work {
    /// It happened, with that result.
    pub fn done(content_type: impl Into<String>, result: impl Into<Vec<u8>>) -> Self {
        Self::Done(Completion::succeeded(content_type, result).result)
    }

    /// It did not happen and never shall, with that result.
    pub fn failed(content_type: impl Into<String>, result: impl Into<Vec<u8>>) -> Self {
        Self::FinalFailure(Completion::failed(content_type, result).result)
    }
}

/// How a failure of the work is to be taken. Errors of providers turn into it (`impl From<MyError> for
/// WorkError`), so that the work can use `?`.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum WorkError {
    /// The request is wrong as it is: unchanged, it will never be carried out. Nothing happened.
    #[error("the request will never be carried out")]
    Invalid(v1::Result),
    /// Nothing happened, and a later try may do better: the send was never begun, the connection
    /// never made, the call turned away before anybody looked at it.
    #[error("nothing happened; try again later")]
    Temporary,
    /// Nobody knows whether it happened.
    #[error("nobody knows whether it happened: {note}")]
    Unknown {
        /// What to tell whoever has to find out.
        note: String,
    },
}

impl WorkError {
    /// How a provider's HTTP status is to be taken, with the body of its answer.
    ///
    /// * 400, 413, 414, 415, 422: the request is wrong as it is.
    /// * 401, 403, 404, 405, 429: nobody carried it out, but that says more about settings and load
    ///   than about the request.
    /// * All else, 409 and 5xx too, may have happened.
    #[must_use]
    pub fn http(status: u16, content_type: &str, body: &[u8]) -> Self {
        match status {
            400 | 413 | 414 | 415 | 422 => {
                Self::Invalid(Completion::failed(content_type, body).result)
            }
            401 | 403 | 404 | 405 | 429 => Self::Temporary,
            other => Self::Unknown { note: format!("the provider answered {other}") },
        }
    }

    /// Nobody knows, because of that.
    pub fn unknown(note: impl Into<String>) -> Self {
        Self::Unknown { note: note.into() }
    }
}

impl From<WorkError> for Work {
    fn from(error: WorkError) -> Self {
        match error {
            WorkError::Invalid(result) => Self::FinalFailure(result),
            WorkError::Temporary => Self::RetryLater,
            WorkError::Unknown { note } => Self::Unknown { note },
        }
    }
}

impl<E: Into<WorkError>> From<Result<v1::Result, E>> for Work {
    fn from(result: Result<v1::Result, E>) -> Self {
        match result {
            Ok(result) => Self::Done(result),
            Err(error) => error.into().into(),
        }
    }
}

/// How long an intent rests after a try that failed for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// After the first try. It doubles with each further one.
    pub first: Duration,
    /// The longest.
    pub longest: Duration,
}

impl Default for Backoff {
    /// From 1 s to 5 min.
    fn default() -> Self {
        Self { first: Duration::from_secs(1), longest: Duration::from_secs(300) }
    }
}

impl Backoff {
    /// The pause after that many tries, jitter included: from half of the full length to all of it,
    /// so that many that failed together do not come back together.
    #[must_use]
    pub fn after(&self, tries: u32) -> Duration {
        let doublings = tries.saturating_sub(1).min(31);
        let full = self.first.saturating_mul(1 << doublings).min(self.longest);
        full.mul_f64(rand::random_range(0.5..=1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reported elsewhere: case 80.
    #[test]
    fn only_what_is_certain_is_final_or_tried_again() {
        for status in [400, 413, 414, 415, 422] {
            let error = WorkError::http(status, "text/plain", b"no");
            assert!(matches!(Work::from(error), Work::FinalFailure(_)), "{status}");
        }
        for status in [401, 403, 404, 405, 429] {
            assert_eq!(Work::from(WorkError::http(status, "", b"")), Work::RetryLater, "{status}");
        }
        for status in [102, 200, 302, 408, 409, 423, 425, 500, 502, 503, 504, 599] {
            let error = WorkError::http(status, "", b"");
            assert!(matches!(Work::from(error), Work::Unknown { .. }), "{status}");
        }
    }

    #[test]
    fn results_of_the_work_are_taken_as_they_are() {
        let done = Completion::succeeded("text/plain", "tx").result;
        let said: Result<v1::Result, WorkError> = Ok(done.clone());
        assert_eq!(Work::from(said), Work::Done(done));
        let said: Result<v1::Result, WorkError> = Err(WorkError::unknown("timed out"));
        assert_eq!(Work::from(said), Work::Unknown { note: "timed out".to_owned() });
    }

    #[test]
    fn the_pause_doubles_up_to_its_bound_and_is_never_the_same_for_all() {
        let backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(60) };
        for (tries, full) in [(0, 1), (1, 1), (2, 2), (3, 4), (7, 60), (40, 60), (u32::MAX, 60)] {
            let full = Duration::from_secs(full);
            for _ in 0..50 {
                let pause = backoff.after(tries);
                assert!(pause <= full && pause * 2 >= full, "{tries}: {pause:?}");
            }
        }
        let some: Vec<Duration> = (0..20).map(|_| backoff.after(5)).collect();
        assert!(some.iter().any(|pause| *pause != some[0]), "{some:?}");
    }
}
