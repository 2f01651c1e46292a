//! What a call brings with it besides its message: its deadline, and whether it was forwarded.

use std::time::Duration;

use firstclaim_proto::error::HOP_HEADER;
use tokio::time::Instant;
use tonic::metadata::MetadataMap;

/// Deadline of a call that names none.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);
/// The longest deadline that is honoured.
const TIMEOUT_MAX: Duration = Duration::from_secs(60);
/// The transport drops a call at its deadline, without a word about its effect. The answer has to
/// leave this much earlier, or a tenth of the call's time if that is less.
const ANSWER_MARGIN_MAX: Duration = Duration::from_millis(100);

/// The frame of one call.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    metadata: MetadataMap,
    /// Until when it has to be answered.
    pub(crate) deadline: Instant,
    /// How long that was at the beginning.
    pub(crate) timeout: Duration,
    /// Whether another node sent it here: then it goes nowhere else.
    pub(crate) forwarded: bool,
}

impl Call {
    pub(crate) fn new(metadata: &MetadataMap) -> Self {
        let asked = metadata
            .get("grpc-timeout")
            .and_then(|value| value.to_str().ok())
            .and_then(parse_timeout)
            .unwrap_or(TIMEOUT_DEFAULT)
            .min(TIMEOUT_MAX);
        let timeout = asked.saturating_sub((asked / 10).min(ANSWER_MARGIN_MAX));
        Self {
            deadline: Instant::now() + timeout,
            timeout,
            forwarded: metadata.contains_key(HOP_HEADER),
            metadata: metadata.clone(),
        }
    }

    /// What goes along when the call is forwarded.
    pub(crate) fn metadata(&self) -> MetadataMap {
        let mut metadata = self.metadata.clone();
        metadata.remove("grpc-timeout");
        metadata.insert(HOP_HEADER, tonic::metadata::MetadataValue::from_static("1"));
        metadata
    }

    /// What is left of its time.
    pub(crate) fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

/// Reads the header `grpc-timeout`: up to eight digits and a unit.
fn parse_timeout(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 {
        return None;
    }
    let value: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(value * 3600)),
        "M" => Some(Duration::from_secs(value * 60)),
        "S" => Some(Duration::from_secs(value)),
        "m" => Some(Duration::from_millis(value)),
        "u" => Some(Duration::from_micros(value)),
        "n" => Some(Duration::from_nanos(value)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_read_and_bounded() {
        for (text, millis) in [("5S", 4900), ("100m", 90), ("9H", 59_900), ("x", 9_900)] {
            let mut metadata = MetadataMap::new();
            metadata.insert("grpc-timeout", text.parse().expect("ascii"));
            assert_eq!(Call::new(&metadata).timeout, Duration::from_millis(millis), "{text}");
        }
        assert!(!Call::new(&MetadataMap::new()).forwarded);
    }

    #[test]
    fn a_forwarded_call_is_marked_and_keeps_its_metadata() {
        let mut metadata = MetadataMap::new();
        metadata.insert("x-request-id", "r-1".parse().expect("ascii"));
        metadata.insert("grpc-timeout", "5S".parse().expect("ascii"));
        let sent = Call::new(&metadata).metadata();
        assert_eq!(sent.get("x-request-id").expect("kept"), "r-1");
        assert!(sent.get("grpc-timeout").is_none());
        assert!(Call::new(&sent).forwarded);
    }
}
