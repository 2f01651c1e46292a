//! Messages of the wire as JSON and as lines for people. Epochs are strings in JSON (a double cannot
//! hold them), times are RFC 3339, durations are text with the seconds beside them.

mod completion;
mod effect;
mod record;

use std::time::Duration;

use firstclaim_client::prost_types::{Duration as WireDuration, Timestamp};
use firstclaim_client::{time, v1};
use serde_json::{Map, Value, json};

pub(crate) use self::completion::completion;
pub(crate) use self::effect::{effects, verdict};
pub(crate) use self::record::{acquired, age, attempt, ending, labels, record};
use crate::duration;
use crate::failure::short;

/// One thing, built up for both forms at once so that they never differ.
#[derive(Debug, Default)]
pub(crate) struct Sheet {
    pub(crate) data: Map<String, Value>,
    pub(crate) lines: Vec<(String, String)>,
}

impl Sheet {
    /// A name and a value; the JSON name is `json_name`.
    pub(crate) fn put(&mut self, json_name: &str, label: &str, value: impl Into<String>) {
        let value = value.into();
        self.data.insert(json_name.to_owned(), json!(value));
        self.line(label, value);
    }

    pub(crate) fn flag(&mut self, json_name: &str, label: &str, value: bool) {
        self.data.insert(json_name.to_owned(), json!(value));
        self.line(label, if value { "yes" } else { "no" });
    }

    pub(crate) fn number(&mut self, json_name: &str, label: &str, value: u64) {
        self.data.insert(json_name.to_owned(), json!(value));
        self.line(label, value.to_string());
    }

    /// A time; absent ones are null and, if `absent` says what that means, a line.
    pub(crate) fn time(
        &mut self,
        json_name: &str,
        label: &str,
        time: Option<&Timestamp>,
        absent: &str,
    ) {
        self.data.insert(json_name.to_owned(), json!(time.map(rfc3339)));
        match time {
            Some(time) => self.line(label, rfc3339(time)),
            None if !absent.is_empty() => self.line(label, absent),
            None => {}
        }
    }

    /// A duration with the seconds beside it.
    pub(crate) fn duration(&mut self, json_name: &str, label: &str, value: Option<&WireDuration>) {
        let Some(value) = value.and_then(time::from_wire) else { return };
        self.data.insert(json_name.to_owned(), json!(duration::format(value)));
        self.data.insert(format!("{json_name}Seconds"), json!(value.as_secs_f64()));
        self.line(label, duration::about(value));
    }

    pub(crate) fn value(&mut self, json_name: &str, value: Value) {
        self.data.insert(json_name.to_owned(), value);
    }

    pub(crate) fn line(&mut self, label: &str, value: impl Into<String>) {
        self.lines.push((label.to_owned(), value.into()));
    }
}

/// A time as RFC 3339 in UTC.
pub(crate) fn rfc3339(time: &Timestamp) -> String {
    jiff::Timestamp::new(time.seconds, time.nanos).map_or_else(
        |_out_of_range| format!("{}s since 1970", time.seconds),
        |time| time.to_string(),
    )
}

/// How long a lease holds from the store's present time.
pub(crate) fn left(store_time: Option<&Timestamp>, until: Option<&Timestamp>) -> Option<Duration> {
    Some(time::between(store_time?, until?))
}

pub(crate) fn mode(mode: v1::Mode) -> String {
    short(mode.as_str_name(), "MODE_")
}

pub(crate) fn disposition(disposition: v1::Disposition) -> String {
    short(disposition.as_str_name(), "DISPOSITION_")
}

pub(crate) fn state(state: v1::RecordState) -> String {
    short(state.as_str_name(), "RECORD_STATE_")
}

pub(crate) fn on_lapse(on_lapse: v1::OnLapse) -> String {
    short(on_lapse.as_str_name(), "ON_LAPSE_")
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}

/// Hexadecimal as bytes.
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_goes_both_ways() {
        assert_eq!(hex(&[0, 0xab, 0xff]), "00abff");
        assert_eq!(unhex("00aBff"), Some(vec![0, 0xab, 0xff]));
        for wrong in ["0", "zz", "+1", "é"] {
            assert_eq!(unhex(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn times_are_rfc_3339() {
        let time = Timestamp { seconds: 1_767_323_045, nanos: 120_000_000 };
        assert_eq!(rfc3339(&time), "2026-01-02T03:04:05.12Z");
    }
}
