//! How a record ended.

use firstclaim_client::v1;
use serde_json::{Map, Value, json};

use super::{Sheet, disposition, hex};

/// The longest result that a table shows in full.
const RESULT_SHOWN_MAX: usize = 1024;

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
    sheet.value("byEvidence", json!(completion.by_evidence));
    if completion.by_evidence {
        sheet.line("by evidence", "yes, told after its claim was superseded");
    }
    sheet.value("completeAttempt", json!(completion.attempt_id));
    sheet.value("purged", json!(completion.purged));
    if completion.purged {
        sheet.line("purged", "yes");
    }
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
        Some(v1::result::Body::Inline(bytes)) => body(&mut data, bytes),
        Some(v1::result::Body::Reference(reference)) => {
            data.insert("reference".to_owned(), json!(reference.uri));
            format!("kept at {}", reference.uri)
        }
        None if result.oversize => format!("not kept; it was {} bytes", result.length),
        None if dropped => format!("dropped; it was {} bytes", result.length),
        None => format!("{} bytes", result.length),
    };
    sheet.line("result", line);
    data.insert("oversize".to_owned(), json!(result.oversize));
    sheet.value("result", Value::Object(data));
}

/// Bytes: all of them as data, and what a line has room for.
pub(super) fn body(data: &mut Map<String, Value>, bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => {
            data.insert("text".to_owned(), json!(text));
            let shown = text.len() <= RESULT_SHOWN_MAX && !text.contains(char::is_control);
            if shown { text.to_owned() } else { format!("{} bytes of text", bytes.len()) }
        }
        Err(_not_text) => {
            data.insert("hex".to_owned(), json!(hex(bytes)));
            format!("{} bytes", bytes.len())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
