//! Messages of the wire as JSON and as lines for people. Epochs are strings in JSON (a double cannot
//! hold them), times are RFC 3339, durations are text with the seconds beside them.

use std::time::Duration;

use firstclaim_client::prost_types::{Duration as WireDuration, Timestamp};
use firstclaim_client::{time, v1};
use serde_json::{Map, Value, json};

use crate::duration;
use crate::failure::short;

/// The longest result that a table shows in full.
const RESULT_SHOWN_MAX: usize = 1024;

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

/// What is open, one entry each.
pub(crate) fn effects(sheet: &mut Sheet, json_name: &str, effects: &[v1::Effect]) {
    let all: Vec<Value> = effects.iter().map(effect).collect();
    sheet.value(json_name, Value::Array(all));
    for effect in effects {
        let mut text = format!("epoch {} by {}", effect.epoch, effect.owner);
        if let Some(since) = &effect.open_since {
            text += &format!(", open since {}", rfc3339(since));
        }
        if !effect.note.is_empty() {
            text += &format!(": {}", effect.note);
        }
        sheet.line("open work", text);
    }
}

fn effect(effect: &v1::Effect) -> Value {
    json!({
        "kind": short(effect.kind().as_str_name(), "EFFECT_KIND_"),
        "state": short(effect.state().as_str_name(), "EFFECT_STATE_"),
        "cause": short(effect.cause().as_str_name(), "OPEN_CAUSE_"),
        "epoch": effect.epoch.to_string(),
        "attempt": effect.attempt_id,
        "owner": effect.owner,
        "openSince": effect.open_since.as_ref().map(rfc3339),
        "lastDeadline": effect.last_deadline.as_ref().map(rfc3339),
        "note": effect.note,
    })
}

/// How a record ended, with what it left behind.
pub(crate) fn completion(sheet: &mut Sheet, completion: &v1::Completion, dropped: bool) {
    sheet.put("disposition", "disposition", disposition(completion.disposition()));
    sheet.put("completeEpoch", "completed by epoch", completion.epoch.to_string());
    sheet.value("completedBy", json!(completion.owner));
    sheet.time("completeTime", "completed", completion.complete_time.as_ref(), "");
    if completion.late {
        sheet.line("late", "yes, after the lease had ended");
    }
    sheet.value("late", json!(completion.late));
    if let Some(found) = &completion.result {
        result(sheet, found, dropped);
    }
    sheet.value("resultDropped", json!(dropped));
    let absent = "with the record";
    sheet.time(
        "resultExpireTime",
        "result kept until",
        completion.result_expire_time.as_ref(),
        absent,
    );
    let absent = "forever";
    sheet.time(
        "identityExpireTime",
        "key kept until",
        completion.identity_expire_time.as_ref(),
        absent,
    );
}

fn result(sheet: &mut Sheet, result: &v1::Result, dropped: bool) {
    let mut data = Map::new();
    data.insert("contentType".to_owned(), json!(result.content_type));
    data.insert("digest".to_owned(), json!(hex(&result.digest)));
    data.insert("length".to_owned(), json!(result.length));
    let line = match &result.body {
        Some(v1::result::Body::Inline(bytes)) => match std::str::from_utf8(bytes) {
            Ok(text) => {
                data.insert("text".to_owned(), json!(text));
                let shown = text.len() <= RESULT_SHOWN_MAX && !text.contains(char::is_control);
                if shown { text.to_owned() } else { format!("{} bytes of text", bytes.len()) }
            }
            Err(_not_text) => {
                data.insert("hex".to_owned(), json!(hex(bytes)));
                format!("{} bytes", bytes.len())
            }
        },
        Some(v1::result::Body::Reference(reference)) => {
            data.insert("reference".to_owned(), json!(reference.uri));
            format!("kept at {}", reference.uri)
        }
        None if dropped => format!("dropped; it was {} bytes", result.length),
        None => format!("{} bytes", result.length),
    };
    sheet.line("result", line);
    sheet.value("result", Value::Object(data));
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

    #[test]
    fn a_completion_is_the_same_in_both_forms() {
        let mut sheet = Sheet::default();
        let result = v1::Result {
            content_type: "text/plain".to_owned(),
            body: Some(v1::result::Body::Inline(b"paid".to_vec())),
            digest: vec![1, 2],
            length: 4,
            ..v1::Result::default()
        };
        let done = v1::Completion {
            disposition: v1::Disposition::Succeeded.into(),
            result: Some(result),
            epoch: 281_474_976_710_657,
            ..v1::Completion::default()
        };
        completion(&mut sheet, &done, false);
        assert_eq!(sheet.data["completeEpoch"], json!("281474976710657"));
        assert_eq!(sheet.data["result"]["text"], json!("paid"));
        assert_eq!(sheet.data["identityExpireTime"], Value::Null);
        assert!(sheet.lines.contains(&("result".to_owned(), "paid".to_owned())));
        assert!(sheet.lines.contains(&("key kept until".to_owned(), "forever".to_owned())));
    }
}
