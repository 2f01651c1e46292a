//! Times and durations: protobuf's signed seconds and nanoseconds against the store's milliseconds.
//!
//! Towards the domain, parts of a millisecond are cut off. Towards the wire, what protobuf cannot
//! hold (the end of time) becomes the last that it can.

use firstclaim_core::policy::Retention;
use firstclaim_core::{Expiry, Invalid, Millis, Timestamp};

use super::Faults;
use crate::v1;

/// 9999-12-31T23:59:59Z, the last second of a protobuf timestamp.
const LAST_SECOND: u64 = 253_402_300_799;
/// The longest protobuf duration: about 10,000 years.
const LONGEST_SECONDS: u64 = 315_576_000_000;
const NANOS_PER_MILLI: i32 = 1_000_000;

/// A time on the wire.
#[must_use]
pub fn timestamp(time: Timestamp) -> prost_types::Timestamp {
    let (seconds, nanos) = split(time.0, LAST_SECOND);
    prost_types::Timestamp { seconds, nanos }
}

/// A duration on the wire.
#[must_use]
pub fn duration(duration: Millis) -> prost_types::Duration {
    let (seconds, nanos) = split(duration.0, LONGEST_SECONDS);
    prost_types::Duration { seconds, nanos }
}

fn split(millis: u64, most_seconds: u64) -> (i64, i32) {
    let seconds = (millis / 1000).min(most_seconds);
    let nanos = i32::try_from(millis % 1000).unwrap_or(0) * NANOS_PER_MILLI;
    (i64::try_from(seconds).unwrap_or(i64::MAX), nanos)
}

/// Reads a time of the wire.
///
/// # Errors
///
/// [`Invalid`] if it is not a time since 1970 that protobuf allows.
pub fn read_timestamp(field: &str, time: prost_types::Timestamp) -> Result<Timestamp, Invalid> {
    let invalid = |problem: String| Invalid::new(field, problem, "send a time of 1970 to 9999");
    let seconds = u64::try_from(time.seconds).ok().filter(|seconds| *seconds <= LAST_SECOND);
    let seconds =
        seconds.ok_or_else(|| invalid(format!("is {} s from the start of 1970", time.seconds)))?;
    let millis = millis_of(time.nanos).ok_or_else(|| invalid(format!("has {} ns", time.nanos)))?;
    Ok(Timestamp(seconds * 1000 + millis))
}

/// Reads a duration of the wire.
///
/// # Errors
///
/// [`Invalid`] if it is negative or longer than protobuf allows.
pub fn read_duration(field: &str, duration: prost_types::Duration) -> Result<Millis, Invalid> {
    let invalid = |problem: String, fix: &str| Invalid::new(field, problem, fix);
    if duration.seconds < 0 || duration.nanos < 0 {
        let problem = format!("is negative ({} s, {} ns)", duration.seconds, duration.nanos);
        return Err(invalid(problem, "send a duration that is not negative"));
    }
    let seconds = u64::try_from(duration.seconds).unwrap_or(u64::MAX);
    if seconds > LONGEST_SECONDS {
        return Err(invalid(format!("is {seconds} s long"), "send at most 315576000000 s"));
    }
    let millis = millis_of(duration.nanos).ok_or_else(|| {
        invalid(
            format!("has {} ns", duration.nanos),
            "send at most 999999999 ns beside the seconds",
        )
    })?;
    Ok(Millis(seconds * 1000 + millis))
}

fn millis_of(nanos: i32) -> Option<u64> {
    let millis = nanos / NANOS_PER_MILLI;
    if (0..1_000_000_000).contains(&nanos) { u64::try_from(millis).ok() } else { None }
}

/// When something is forgotten: absent for never.
#[must_use]
pub fn expiry(expiry: Expiry) -> Option<prost_types::Timestamp> {
    match expiry {
        Expiry::At(time) => Some(timestamp(time)),
        Expiry::Never => None,
    }
}

/// Reads when something is forgotten.
///
/// # Errors
///
/// As [`read_timestamp`].
pub fn read_expiry(field: &str, time: Option<prost_types::Timestamp>) -> Result<Expiry, Invalid> {
    time.map_or(Ok(Expiry::Never), |time| read_timestamp(field, time).map(Expiry::At))
}

/// How long a key is remembered.
#[must_use]
pub fn retention(retention: Retention) -> v1::IdentityRetention {
    let kind = match retention {
        Retention::For(length) => v1::identity_retention::Kind::Duration(duration(length)),
        Retention::Forever => v1::identity_retention::Kind::Forever(true),
    };
    v1::IdentityRetention { kind: Some(kind) }
}

/// Reads how long a key is remembered.
///
/// # Errors
///
/// [`Invalid`] if neither a duration nor `forever: true` is given.
pub fn read_retention(field: &str, wire: v1::IdentityRetention) -> Result<Retention, Invalid> {
    let fix = "send duration, or forever: true";
    match wire.kind {
        Some(v1::identity_retention::Kind::Duration(length)) => {
            read_duration(&format!("{field}.duration"), length).map(Retention::For)
        }
        Some(v1::identity_retention::Kind::Forever(true)) => Ok(Retention::Forever),
        Some(v1::identity_retention::Kind::Forever(false)) => {
            Err(Invalid::new(format!("{field}.forever"), "is false", fix))
        }
        None => Err(Invalid::new(field, "is empty", fix)),
    }
}

/// Until when it is safe to start something: the end of the lease as promised, grace aside.
#[must_use]
pub fn safe_to_dispatch_until(lease_expire_time: Timestamp) -> prost_types::Timestamp {
    timestamp(lease_expire_time)
}

impl Faults {
    /// A time that may be absent.
    pub(super) fn timestamp(
        &mut self,
        field: &str,
        time: Option<prost_types::Timestamp>,
    ) -> Option<Timestamp> {
        time.and_then(|time| self.take(read_timestamp(field, time)))
    }

    /// A time that must be there.
    pub(super) fn need_timestamp(
        &mut self,
        field: &str,
        time: Option<prost_types::Timestamp>,
    ) -> Option<Timestamp> {
        let time = self.need(field, time)?;
        self.take(read_timestamp(field, time))
    }

    /// A duration that may be absent.
    pub(super) fn duration(
        &mut self,
        field: &str,
        duration: Option<prost_types::Duration>,
    ) -> Option<Millis> {
        duration.and_then(|duration| self.take(read_duration(field, duration)))
    }

    /// A duration that must be there.
    pub(super) fn need_duration(
        &mut self,
        field: &str,
        duration: Option<prost_types::Duration>,
    ) -> Option<Millis> {
        let duration = self.need(field, duration)?;
        self.take(read_duration(field, duration))
    }
}
