//! Effects, what is known about them, and what shows it.

use firstclaim_client::v1;
use serde_json::{Map, Value, json};

use super::completion::body;
use super::{Sheet, hex, rfc3339};
use crate::duration;
use crate::failure::short;

/// What happened, did not, or may have happened: one entry each.
pub(crate) fn effects(sheet: &mut Sheet, json_name: &str, effects: &[v1::Effect]) {
    sheet.value(json_name, effects.iter().map(data).collect());
    for effect in effects {
        sheet.line(label(effect), line(effect));
        if effect.conflict {
            sheet.line("! conflict", "said to have happened after it was said not to have");
        }
    }
}

fn label(effect: &v1::Effect) -> &'static str {
    match (effect.state(), effect.kind()) {
        (v1::EffectState::Committed, _) => "happened",
        (v1::EffectState::NotCommitted, _) => "did not happen",
        (_, v1::EffectKind::Work) => "open work",
        (_, v1::EffectKind::Recorded | v1::EffectKind::Unspecified) => "open effect",
    }
}

fn line(effect: &v1::Effect) -> String {
    let mut text = effect.uid.clone();
    match effect.kind() {
        v1::EffectKind::Recorded => {
            text += &format!(" at {}", effect.provider);
            if !effect.provider_key.is_empty() {
                text += &format!(", key {}", effect.provider_key);
            }
            text += &format!(", permits {}", effect.permits.len());
        }
        v1::EffectKind::Work | v1::EffectKind::Unspecified => {
            text += &format!(" by {}", effect.owner);
        }
    }
    if let Some(since) = &effect.open_since {
        text += &format!(", open since {}", rfc3339(since));
    }
    if effect.state() == v1::EffectState::Open
        && let Some(provable) = &effect.provable_time
    {
        text += &format!(", \"not found\" proves something from {}", rfc3339(provable));
    }
    if let Some(settlement) = &effect.settlement {
        text += &format!(": {} by {}", verdict(settlement.verdict.as_ref()), settlement.principal);
        if let Some(evidence) = &settlement.evidence {
            text += &format!(", {}", content_line(evidence));
        }
    }
    if !effect.note.is_empty() {
        text += &format!(": {}", effect.note);
    }
    text
}

fn data(effect: &v1::Effect) -> Value {
    let permits = effect.permits.iter().map(|permit| {
        json!({
            "number": permit.number,
            "epoch": permit.epoch.to_string(),
            "permitTime": permit.permit_time.as_ref().map(rfc3339),
            "notAfter": permit.not_after.as_ref().map(rfc3339),
        })
    });
    let window = effect.dedup_window.as_ref().and_then(crate::policy::retention);
    let horizon = effect.settle_horizon.as_ref().and_then(firstclaim_client::time::from_wire);
    json!({
        "uid": effect.uid,
        "kind": short(effect.kind().as_str_name(), "EFFECT_KIND_"),
        "state": short(effect.state().as_str_name(), "EFFECT_STATE_"),
        "cause": short(effect.cause().as_str_name(), "OPEN_CAUSE_"),
        "epoch": effect.epoch.to_string(),
        "attempt": effect.attempt_id,
        "owner": effect.owner,
        "openSince": effect.open_since.as_ref().map(rfc3339),
        "lastDeadline": effect.last_deadline.as_ref().map(rfc3339),
        "provableTime": effect.provable_time.as_ref().map(rfc3339),
        "settleHorizon": horizon.map(duration::format),
        "note": effect.note,
        "slot": effect.slot,
        "provider": effect.provider,
        "providerKey": effect.provider_key,
        "dedupWindow": window,
        "request": effect.request.as_ref().map(content),
        "permits": permits.collect::<Vec<_>>(),
        "settlement": effect.settlement.as_ref().map(settlement),
        "conflict": effect.conflict,
        "contradictions": effect.contradictions.iter().map(settlement).collect::<Vec<_>>(),
    })
}

fn settlement(settlement: &v1::Settlement) -> Value {
    json!({
        "verdict": verdict(settlement.verdict.as_ref()),
        "evidence": settlement.evidence.as_ref().map(content),
        "settleTime": settlement.settle_time.as_ref().map(rfc3339),
        "principal": settlement.principal,
    })
}

/// A verdict as it is typed.
pub(crate) fn verdict(verdict: Option<&v1::Verdict>) -> String {
    use v1::verdict::Kind;
    match verdict.and_then(|verdict| verdict.kind.as_ref()) {
        Some(Kind::Committed(_)) => "committed".to_owned(),
        Some(Kind::Refused(refused)) => match refused.status {
            Some(status) => format!("refused={status}"),
            None => "refused".to_owned(),
        },
        Some(Kind::NotFound(not_found)) => {
            let as_of = not_found.as_of.as_ref().map(rfc3339).unwrap_or_default();
            format!("not-found={as_of}")
        }
        Some(Kind::Overridden(_)) => "override".to_owned(),
        None => "unknown here".to_owned(),
    }
}

/// Bytes with their media type.
pub(crate) fn content(content: &v1::Content) -> Value {
    let mut data = Map::new();
    data.insert("contentType".to_owned(), json!(content.content_type));
    data.insert("digest".to_owned(), json!(hex(&content.digest)));
    data.insert("length".to_owned(), json!(content.length));
    if content.data.len() as u64 == content.length {
        drop(body(&mut data, &content.data));
    }
    Value::Object(data)
}

fn content_line(content: &v1::Content) -> String {
    if content.data.is_empty() && content.length > 0 {
        return format!("{} bytes that were purged", content.length);
    }
    body(&mut Map::new(), &content.data)
}

#[cfg(test)]
mod tests {
    use firstclaim_client::prost_types::Timestamp;

    use super::*;

    fn effect() -> v1::Effect {
        v1::Effect {
            kind: v1::EffectKind::Recorded.into(),
            state: v1::EffectState::Open.into(),
            uid: "7/payment".to_owned(),
            provider: "bank".to_owned(),
            provider_key: "pay-847".to_owned(),
            permits: vec![v1::Permit { number: 1, ..v1::Permit::default() }],
            provable_time: Some(Timestamp { seconds: 0, nanos: 0 }),
            ..v1::Effect::default()
        }
    }

    #[test]
    fn an_open_effect_says_what_is_needed_to_settle_it() {
        let mut sheet = Sheet::default();
        effects(&mut sheet, "open", &[effect()]);
        let (label, line) = &sheet.lines[0];
        assert_eq!(label, "open effect");
        for part in ["7/payment", "bank", "pay-847", "1970-01-01T00:00:00Z"] {
            assert!(line.contains(part), "{part}: {line}");
        }
        assert_eq!(sheet.data["open"][0]["providerKey"], "pay-847");
        assert_eq!(sheet.data["open"][0]["state"], "OPEN");
    }

    #[test]
    fn what_is_settled_shows_its_evidence() {
        let verdict = v1::Verdict { kind: Some(v1::verdict::Kind::Committed(v1::Committed {})) };
        let evidence = v1::Content { data: b"tx_1".to_vec(), length: 4, ..v1::Content::default() };
        let settlement = v1::Settlement {
            verdict: Some(verdict),
            evidence: Some(evidence),
            principal: "ada".to_owned(),
            ..v1::Settlement::default()
        };
        let known = v1::Effect {
            state: v1::EffectState::Committed.into(),
            settlement: Some(settlement),
            conflict: true,
            ..effect()
        };
        let mut sheet = Sheet::default();
        effects(&mut sheet, "effects", &[known]);
        assert_eq!(sheet.lines[0].0, "happened");
        assert!(sheet.lines[0].1.ends_with(": committed by ada, tx_1"), "{:?}", sheet.lines[0]);
        assert_eq!(sheet.lines[1].0, "! conflict");
        assert_eq!(sheet.data["effects"][0]["settlement"]["evidence"]["text"], "tx_1");
    }

    #[test]
    fn verdicts_are_shown_as_they_are_typed() {
        use v1::verdict::Kind;
        let as_of = Some(Timestamp { seconds: 1, nanos: 0 });
        for (kind, text) in [
            (Kind::Committed(v1::Committed {}), "committed"),
            (Kind::Refused(v1::Refused { status: None }), "refused"),
            (Kind::Refused(v1::Refused { status: Some(422) }), "refused=422"),
            (Kind::NotFound(v1::NotFound { as_of }), "not-found=1970-01-01T00:00:01Z"),
            (Kind::Overridden(v1::Overridden {}), "override"),
        ] {
            assert_eq!(verdict(Some(&v1::Verdict { kind: Some(kind) })), text);
        }
    }
}
