//! `firstclaim claim`: asks for the right to act, and says what to do with the answer.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use firstclaim_client::v1::claim_response::Outcome;
use firstclaim_client::{ClaimRequest, fingerprint, v1};
use serde_json::{Value, json};

use super::record::{Bytes, KeyArgs, text};
use crate::context::{Context, quote};
use crate::failure::{Failure, short};
use crate::output::Shown;
use crate::view::{self, Sheet};
use crate::{duration, exit};

/// Asks for the right to act on an intent.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  firstclaim claim -t acme -n payouts -K payout:847 --request 'pay 847 120.00 EUR'
  firstclaim claim -t acme -n payouts -K payout:847 --request-file order.json --lease 2m

Exit code 0: acquired, act and complete. 10: done before. 11: pending. 12: unresolved. 13: another request.")]
pub(crate) struct Args {
    #[command(flatten)]
    key: KeyArgs,
    /// This try; minted and printed if it is not given
    #[arg(long)]
    attempt: Option<String>,
    /// Who asks, one label per process
    #[arg(long, value_parser = text("owner"))]
    owner: Option<String>,
    /// Digest of the canonical request; repeatable, the preferred scheme first
    #[arg(long, value_parser = parse_fingerprint, value_name = "SCHEME=HEX")]
    fingerprint: Vec<v1::Fingerprint>,
    /// The canonical request; its exact bytes are the fingerprint
    #[arg(long, value_name = "TEXT", conflicts_with = "request_file")]
    request: Option<String>,
    /// The canonical request in a file, - for standard input
    #[arg(long, value_name = "FILE")]
    request_file: Option<PathBuf>,
    /// How long the claim shall hold
    #[arg(long, value_parser = duration::parse, value_name = "DURATION")]
    lease: Option<Duration>,
    /// When the intent was born: the same on every repeat, never the time of sending
    #[arg(long, value_parser = parse_time, value_name = "RFC3339")]
    intent_time: Option<SystemTime>,
    /// Message id, delivery number and the like; repeatable
    #[arg(long, value_parser = parse_label, value_name = "NAME=VALUE")]
    label: Vec<(String, String)>,
    /// This caller can find out what an earlier, lost attempt did
    #[arg(long)]
    accept_recovery: bool,
}

pub(crate) async fn run(context: &Context, args: Args) -> Result<u8, Failure> {
    let request = args.into_request(context)?;
    let client = context.client()?;
    context.out.say(&format!("attempt {}", request.attempt_id));
    let response = client.claim_once(&request).await?;
    let answer = Answer { context, request: &request, store_time: response.store_time };
    match response.outcome.ok_or_else(|| Failure::lacks("the outcome"))? {
        Outcome::Acquired(acquired) => answer.acquired(&acquired),
        Outcome::Replay(replay) => answer.replay(&replay),
        Outcome::Pending(pending) => answer.pending(&pending),
        Outcome::Unresolved(unresolved) => answer.unresolved(&unresolved),
    }
}

impl Args {
    fn into_request(self, context: &Context) -> Result<ClaimRequest, Failure> {
        let (tenant, namespace) = (context.tenant(None)?, context.namespace(None)?);
        let mut request = ClaimRequest::new(tenant, namespace, self.key.key);
        if let Some(attempt) = self.attempt {
            request.attempt_id = attempt;
        }
        request.owner = self.owner.unwrap_or_default();
        request.fingerprints = self.fingerprint;
        let text = self.request.map(Bytes::Text).or(self.request_file.map(Bytes::File));
        if let Some(bytes) = text {
            request.fingerprints.push(fingerprint::raw(&bytes.read("request")?));
        }
        request.lease = self.lease;
        request.intent_time = self.intent_time;
        request.labels = self.label.into_iter().collect::<BTreeMap<_, _>>();
        request.accept_recovery = self.accept_recovery;
        Ok(request)
    }
}

/// An answer about to be printed.
struct Answer<'a> {
    context: &'a Context,
    request: &'a ClaimRequest,
    store_time: Option<firstclaim_client::prost_types::Timestamp>,
}

impl Answer<'_> {
    fn sheet(&self, outcome: &str) -> Sheet {
        let mut sheet = Sheet::default();
        sheet.put("outcome", "outcome", outcome);
        sheet.put("key", "key", &self.request.key);
        sheet.put("attempt", "attempt", &self.request.attempt_id);
        sheet
    }

    fn print(&self, mut sheet: Sheet) -> Result<(), Failure> {
        sheet.value("tenant", json!(self.request.tenant));
        sheet.value("namespace", json!(self.request.namespace));
        sheet.value("storeTime", json!(self.store_time.as_ref().map(view::rfc3339)));
        self.context.out.data("Claim", Value::Object(sheet.data), &Shown::Fields(sheet.lines))
    }

    fn acquired(&self, acquired: &v1::Acquired) -> Result<u8, Failure> {
        let mut sheet = self.sheet("ACQUIRED");
        let kind = short(acquired.kind().as_str_name(), "ACQUIRED_KIND_");
        sheet.put("acquired", "acquired", kind);
        sheet.put("epoch", "epoch", acquired.epoch.to_string());
        sheet.put("mode", "mode", view::mode(acquired.mode()));
        let expire = acquired.lease_expire_time.as_ref();
        sheet.time("leaseExpireTime", "lease until", expire, "");
        let safe = acquired.safe_to_dispatch_until.as_ref();
        sheet.value("safeToDispatchUntil", json!(safe.map(view::rfc3339)));
        if let Some(left) = view::left(self.store_time.as_ref(), expire) {
            sheet.value("leaseSeconds", json!(left.as_secs_f64()));
            sheet.line("lease", duration::about(left));
        }
        sheet.put("onLapse", "a lapse means", view::on_lapse(acquired.on_lapse()));
        sheet.number("executeGrants", "grants", u64::from(acquired.execute_grants));
        sheet.value("horizonChecked", json!(acquired.horizon_checked));
        sheet.value("intentTimeDiffers", json!(acquired.intent_time_differs));
        view::effects(&mut sheet, "effects", &acquired.effects);
        self.print(sheet)?;
        if acquired.intent_time_differs {
            self.context.out.say("warning: this claim gave another intent time than the first one");
        }
        self.context.out.say(&self.next(acquired));
        Ok(exit::DONE)
    }

    /// The command lines that end this grant.
    fn next(&self, acquired: &v1::Acquired) -> String {
        let request = self.request;
        let grant = format!(
            "{} -K {} --epoch {} --attempt {}",
            self.context.flags(&request.tenant, &request.namespace),
            quote(&request.key),
            acquired.epoch,
            quote(&request.attempt_id)
        );
        let act = match acquired.mode() {
            v1::Mode::Execute => "act, then say how it ended:",
            v1::Mode::Resume => "send the same effects again, then say how it ended:",
            v1::Mode::Reconcile | v1::Mode::Unspecified => {
                "do not act: find out what the earlier attempt did, then say so:"
            }
        };
        format!(
            "next  {act}\n  firstclaim complete {grant} --succeeded --result TEXT\n  \
             firstclaim release {grant} --unknown --note TEXT    (nobody knows whether it happened)\n  \
             firstclaim renew {grant}    (more time)"
        )
    }

    fn replay(&self, replay: &v1::Replay) -> Result<u8, Failure> {
        let mut sheet = self.sheet("REPLAY");
        let completion =
            replay.completion.as_ref().ok_or_else(|| Failure::lacks("the completion"))?;
        view::completion(&mut sheet, completion, replay.result_dropped);
        sheet.duration("age", "age", replay.age.as_ref());
        sheet.flag("byThisAttempt", "by this attempt", replay.by_this_attempt);
        self.print(sheet)?;
        self.context.out.say("next  do nothing: the intent is done, this is its stored result");
        Ok(exit::REPLAY)
    }

    fn pending(&self, pending: &v1::Pending) -> Result<u8, Failure> {
        let mut sheet = self.sheet("PENDING");
        let reason = short(pending.reason().as_str_name(), "PENDING_REASON_");
        sheet.put("reason", "reason", reason);
        if !pending.owner.is_empty() {
            sheet.put("owner", "owner", &pending.owner);
        }
        sheet.put("epoch", "epoch", pending.epoch.to_string());
        sheet.time("until", "until", pending.until.as_ref(), "");
        sheet.duration("retryAfter", "ask again in", pending.retry_after.as_ref());
        self.print(sheet)?;
        self.context.out.say("next  do nothing: run the same command again after that time");
        Ok(exit::PENDING)
    }

    fn unresolved(&self, unresolved: &v1::Unresolved) -> Result<u8, Failure> {
        let mut sheet = self.sheet("UNRESOLVED");
        sheet.put("epoch", "epoch", unresolved.epoch.to_string());
        sheet.time("since", "since", unresolved.since.as_ref(), "");
        sheet.time("firstSeenTime", "first seen", unresolved.first_seen_time.as_ref(), "");
        view::effects(&mut sheet, "open", &unresolved.open);
        if !unresolved.who_may_settle.is_empty() {
            sheet.put("whoMaySettle", "who may settle", &unresolved.who_may_settle);
        }
        self.print(sheet)?;
        self.context.out.say(
            "next  do not act: an earlier attempt may have done it. Claim with --accept-recovery, \
             find out, and complete with what you found",
        );
        Ok(exit::UNRESOLVED)
    }
}

fn parse_fingerprint(text: &str) -> Result<v1::Fingerprint, String> {
    let fix = "write SCHEME=HEX, such as payout-v1=9f86d081884c7d65…";
    let (scheme, digest) = text.rsplit_once('=').ok_or(fix)?;
    let digest = view::unhex(digest).ok_or("the digest is not hexadecimal; write SCHEME=HEX")?;
    Ok(v1::Fingerprint { scheme: scheme.to_owned(), digest, parts: BTreeMap::new() })
}

fn parse_label(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn parse_time(text: &str) -> Result<SystemTime, String> {
    let time: jiff::Timestamp =
        text.parse().map_err(|error| format!("{error}; write 2026-01-02T03:04:05Z"))?;
    if time < jiff::Timestamp::UNIX_EPOCH {
        return Err("is before 1970; write 2026-01-02T03:04:05Z".to_owned());
    }
    time.try_into().map_err(|error: jiff::Error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_scheme_and_digest() {
        let print = parse_fingerprint("payout=v1=00ff").unwrap();
        assert_eq!((print.scheme.as_str(), print.digest.as_slice()), ("payout=v1", &[0, 255][..]));
        assert!(parse_fingerprint("payout=v1=0").is_err());
        assert!(parse_fingerprint("payout").is_err());
    }

    #[test]
    fn times_need_a_zone() {
        assert!(parse_time("2026-01-02T03:04:05Z").is_ok());
        assert!(parse_time("2026-01-02T03:04:05+02:00").is_ok());
        for wrong in ["2026-01-02", "2026-01-02T03:04:05", "1969-12-31T23:59:59Z"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
    }
}
