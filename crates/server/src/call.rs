//! What a call brings with it besides its message: its deadline, and whether it was forwarded.

use std::time::Duration;

use firstclaim_core::name::Region;
use firstclaim_proto::error::{HOP_HEADER, REGION_HEADER};
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
    /// Whether the caller said how long it waits.
    named_timeout: bool,
}

impl Call {
    pub(crate) fn new(metadata: &MetadataMap) -> Self {
        let named = metadata
            .get("grpc-timeout")
            .and_then(|value| value.to_str().ok())
            .and_then(parse_timeout);
        let asked = named.unwrap_or(TIMEOUT_DEFAULT).min(TIMEOUT_MAX);
        let timeout = asked.saturating_sub((asked / 10).min(ANSWER_MARGIN_MAX));
        Self {
            deadline: Instant::now() + timeout,
            timeout,
            forwarded: metadata.contains_key(HOP_HEADER),
            named_timeout: named.is_some(),
            metadata: metadata.clone(),
        }
    }

    /// Gives a call that named no deadline `wait` more.
    pub(crate) fn allow(&mut self, wait: Duration) {
        if !self.named_timeout {
            self.timeout += wait;
            self.deadline += wait;
        }
    }

    /// The region that the call came in at: `here`, unless another node sent it.
    pub(crate) fn region(&self, here: &Region) -> Region {
        if !self.forwarded {
            return here.clone();
        }
        let named = self.metadata.get(REGION_HEADER).and_then(|value| value.to_str().ok());
        named.and_then(|name| Region::parse(name).ok()).unwrap_or_else(Region::unknown)
    }

    /// What goes along when the call, which came in at `region`, is forwarded.
    pub(crate) fn metadata(&self, region: &Region) -> MetadataMap {
        let mut metadata = self.metadata.clone();
        metadata.remove("grpc-timeout");
        metadata.remove(REGION_HEADER);
        // A name that no header can hold is left out: it is for people, nothing depends on it.
        if let Ok(name) = region.as_str().parse() {
            metadata.insert(REGION_HEADER, name);
        }
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
    fn only_a_call_without_a_deadline_of_its_own_is_given_time_to_wait() {
        let mut call = Call::new(&MetadataMap::new());
        call.allow(Duration::from_secs(30));
        assert_eq!(call.timeout, Duration::from_millis(39_900));
        let mut metadata = MetadataMap::new();
        metadata.insert("grpc-timeout", "5S".parse().expect("ascii"));
        let mut call = Call::new(&metadata);
        call.allow(Duration::from_secs(30));
        assert_eq!(call.timeout, Duration::from_millis(4900));
    }

    #[test]
    fn a_forwarded_call_is_marked_and_keeps_its_metadata() {
        let mut metadata = MetadataMap::new();
        metadata.insert("x-request-id", "r-1".parse().expect("ascii"));
        metadata.insert("grpc-timeout", "5S".parse().expect("ascii"));
        let here = Region::parse("eu-west").expect("a region");
        let sent = Call::new(&metadata).metadata(&here);
        let (there, elsewhere) = (Call::new(&sent), Region::parse("us-east").expect("a region"));
        assert_eq!(there.region(&elsewhere), here);
        assert_eq!(Call::new(&metadata).region(&elsewhere), elsewhere);
        assert_eq!(sent.get("x-request-id").expect("kept"), "r-1");
        assert!(sent.get("grpc-timeout").is_none());
        assert!(Call::new(&sent).forwarded);
    }
}
