//! How an effect and what was found about it are typed: in one word, so that a call can carry many.

use std::time::Duration;

use firstclaim_client::{AsOf, EffectRequest, Finding, Settlement, time};

use super::intent::parse_time;
use crate::duration::{self, Retention};

/// What was found about an effect: `committed`, `refused`, `refused=422`, `not-found=TIME`,
/// `override`.
pub(crate) fn finding(text: &str) -> Result<Finding, String> {
    let (word, value) = match text.split_once('=') {
        Some((word, value)) => (word, Some(value)),
        None => (text, None),
    };
    match (word, value) {
        ("committed", None) => Ok(Finding::Committed),
        ("refused", None) => Ok(Finding::Refused { status: None }),
        ("refused", Some(status)) => match status.parse() {
            Ok(status) => Ok(Finding::Refused { status: Some(status) }),
            Err(_not_a_number) => Err(format!(
                "{status:?} is no HTTP status; write refused=422, or refused if it has none"
            )),
        },
        ("not-found", Some(time)) => Ok(Finding::NotFound(as_of(time)?)),
        ("not-found", None) => Err(
            "\"not found\" proves nothing without a time of the store from before the look-up; \
             write not-found=TIME, with the storeTime of an answer that you got before you asked \
             the provider (firstclaim unresolved show)"
                .to_owned(),
        ),
        ("override", None) => Ok(Finding::Overridden),
        (_, _) => Err(format!(
            "{text:?} is no verdict; write committed, refused, refused=STATUS, not-found=TIME, \
             or, to resolve, override"
        )),
    }
}

/// A time of the store that was written down before a look-up began.
pub(crate) fn as_of(text: &str) -> Result<AsOf, String> {
    Ok(AsOf::written_down(time::timestamp(parse_time(text)?)))
}

/// A verdict with the effect that it is about: `7/payment=committed`.
pub(crate) fn verdict(text: &str) -> Result<(String, Finding), String> {
    let fix = "write UID=VERDICT, such as 7/payment=committed or 7@12=not-found=TIME";
    let (uid, verdict) = text.split_once('=').ok_or(fix)?;
    Ok((uid.to_owned(), finding(verdict)?))
}

/// A settlement that a completion carries:
/// `UID,VERDICT[,provider=P][,key=K][,evidence=TEXT to the end]`.
pub(crate) fn settlement(text: &str) -> Result<Settlement, String> {
    let fix = "write UID,VERDICT,provider=NAME,key=KEY,evidence=TEXT, \
               such as 7/payment,committed,provider=bank,key=pay-847,evidence=tx_58123";
    let (uid, rest) = text.split_once(',').ok_or(fix)?;
    let (word, rest) = split(rest);
    let (mut provider, mut provider_key, mut evidence) = (String::new(), String::new(), None);
    for field in Fields::new(rest, "evidence") {
        let (name, value) = field?;
        match name {
            "provider" => value.clone_into(&mut provider),
            "key" => value.clone_into(&mut provider_key),
            "evidence" => evidence = Some(value.to_owned()),
            other => return Err(format!("{other:?} is not known; {fix}")),
        }
    }
    let finding = finding(word)?;
    let settlement =
        Settlement { uid: uid.to_owned(), provider, provider_key, finding, evidence: None };
    Ok(match evidence {
        Some(text) => settlement.evidence(super::naming::TEXT, text),
        None => settlement,
    })
}

/// An effect that a claim carries:
/// `ID,provider=P[,key=K][,window=D|FOREVER][,slot=S][,within=D][,request=TEXT to the end]`.
pub(crate) fn effect(text: &str) -> Result<EffectRequest, String> {
    let fix = "write ID,provider=NAME,key=KEY,window=24h,slot=NAME,within=10s,request=TEXT, \
               such as payment,provider=bank,key=pay-847,window=24h";
    let (id, rest) = split(text);
    let mut typed = Typed::default();
    for field in Fields::new(rest, "request") {
        let (name, value) = field?;
        match name {
            "provider" => typed.provider = value.to_owned(),
            "key" => typed.key = value.to_owned(),
            "window" => typed.window = Some(duration::parse_retention(value)?),
            "slot" => typed.slot = value.to_owned(),
            "within" => typed.within = Some(duration::parse(value)?),
            "request" => typed.request = Some(value.to_owned()),
            other => return Err(format!("{other:?} is not known; {fix}")),
        }
    }
    if id.is_empty() || typed.provider.is_empty() {
        return Err(format!("the id or the provider is missing; {fix}"));
    }
    let request = EffectRequest {
        provider_key: typed.key,
        dedup_window: typed.window.map(crate::policy::identity_retention),
        slot: typed.slot,
        within: typed.within,
        ..EffectRequest::new(id, typed.provider)
    };
    Ok(match typed.request {
        Some(text) => request.request(super::naming::TEXT, text),
        None => request,
    })
}

#[derive(Default)]
struct Typed {
    provider: String,
    key: String,
    window: Option<Retention>,
    slot: String,
    within: Option<Duration>,
    request: Option<String>,
}

fn split(text: &str) -> (&str, &str) {
    text.split_once(',').unwrap_or((text, ""))
}

/// `name=value` pairs between commas; the value of the last name takes everything to the end.
struct Fields<'a> {
    rest: &'a str,
    last: &'static str,
}

impl<'a> Fields<'a> {
    fn new(rest: &'a str, last: &'static str) -> Self {
        Self { rest, last }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(&'a str, &'a str), String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let takes_all = self.rest.split_once('=').filter(|(name, _)| *name == self.last);
        if let Some(field) = takes_all {
            self.rest = "";
            return Some(Ok(field));
        }
        let (field, rest) = split(self.rest);
        self.rest = rest;
        Some(field.split_once('=').ok_or_else(|| format!("{field:?} is no NAME=VALUE")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_effect_is_typed_in_one_word() {
        let read = effect("payment,provider=bank,key=pay-847,window=24h,request=a=b, c").unwrap();
        let expected = EffectRequest::new("payment", "bank")
            .provider_key("pay-847", Duration::from_secs(86_400))
            .request(super::super::naming::TEXT, "a=b, c");
        assert_eq!(read, expected);
        let lasting =
            effect("mail,provider=smtp,key=m,window=forever,slot=mail,within=5s").unwrap();
        let expected = EffectRequest::new("mail", "smtp")
            .lasting_provider_key("m")
            .slot("mail")
            .within(Duration::from_secs(5));
        assert_eq!(lasting, expected);
        for wrong in ["payment", ",provider=bank", "payment,provider=bank,window=2y", "p,bank"] {
            assert!(effect(wrong).is_err(), "{wrong}");
        }
        assert!(effect("p,provider=b,color=red").unwrap_err().contains("\"color\""));
    }

    #[test]
    fn a_settlement_is_typed_in_one_word() {
        let text = "7/payment,refused=422,provider=bank,key=pay-847,evidence={\"a\":1,\"b\":2}";
        let read = settlement(text).unwrap();
        assert_eq!((read.uid.as_str(), read.provider_key.as_str()), ("7/payment", "pay-847"));
        assert_eq!(read.finding, Finding::Refused { status: Some(422) });
        assert_eq!(read.evidence.unwrap().data, br#"{"a":1,"b":2}"#);
        assert_eq!(settlement("7@12,committed").unwrap().finding, Finding::Committed);
        for wrong in ["7/payment", "7/payment,paid", "7/p,not-found", "7/p,committed,color=red"] {
            assert!(settlement(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn not_found_needs_a_time_of_the_store() {
        let (uid, found) = verdict("7@12=not-found=2026-01-02T03:04:05Z").unwrap();
        assert_eq!(uid, "7@12");
        let Finding::NotFound(as_of) = found else { panic!("{found:?}") };
        assert_eq!(as_of.time().seconds, 1_767_323_045);
        assert!(finding("not-found").unwrap_err().contains("before the look-up"));
        assert!(verdict("7/payment").is_err());
        assert!(verdict("7/payment=paid").unwrap_err().contains("committed"));
    }
}
