//! Times and durations of the wire as those of the standard library, and back.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A duration of the wire.
#[must_use]
pub fn to_wire(duration: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(duration.subsec_nanos()).unwrap_or(0),
    }
}

/// A duration of the standard library; none if it is negative.
#[must_use]
pub fn from_wire(duration: &prost_types::Duration) -> Option<Duration> {
    let seconds = u64::try_from(duration.seconds).ok()?;
    let nanos = u32::try_from(duration.nanos).ok()?;
    Some(Duration::from_secs(seconds) + Duration::from_nanos(u64::from(nanos)))
}

/// A time of the wire, to the millisecond. Times before 1970 become 1970.
#[must_use]
pub fn timestamp(time: SystemTime) -> prost_types::Timestamp {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let millis = i32::try_from(since.subsec_millis()).unwrap_or(0);
    prost_types::Timestamp {
        seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        nanos: millis * 1_000_000,
    }
}

/// A time of the standard library; none if it is before 1970 or out of range.
#[must_use]
pub fn system_time(time: &prost_types::Timestamp) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(since_epoch(time)?)
}

/// How long it is from `earlier` to `later`; zero if it is not later.
#[must_use]
pub fn between(earlier: &prost_types::Timestamp, later: &prost_types::Timestamp) -> Duration {
    let (Some(earlier), Some(later)) = (since_epoch(earlier), since_epoch(later)) else {
        return Duration::ZERO;
    };
    later.saturating_sub(earlier)
}

fn since_epoch(time: &prost_types::Timestamp) -> Option<Duration> {
    let nanos = u64::try_from(time.nanos).ok()?;
    Some(Duration::from_secs(u64::try_from(time.seconds).ok()?) + Duration::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_times_survive_the_wire() {
        let duration = Duration::from_millis(90_061_001);
        assert_eq!(from_wire(&to_wire(duration)), Some(duration));
        let time = UNIX_EPOCH + Duration::from_millis(1_700_000_000_123);
        assert_eq!(system_time(&timestamp(time)), Some(time));
    }

    #[test]
    fn what_is_negative_is_refused_or_zero() {
        assert_eq!(from_wire(&prost_types::Duration { seconds: -1, nanos: 0 }), None);
        assert_eq!(system_time(&prost_types::Timestamp { seconds: -1, nanos: 0 }), None);
        let (early, late) = (
            prost_types::Timestamp { seconds: 5, nanos: 0 },
            prost_types::Timestamp { seconds: 7, nanos: 500_000_000 },
        );
        assert_eq!(between(&early, &late), Duration::from_millis(2500));
        assert_eq!(between(&late, &early), Duration::ZERO);
    }
}
