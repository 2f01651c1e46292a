//! `firstclaim claim`: asks for the right to act, and says what to do with the answer.

use std::path::PathBuf;
use std::time::Duration;

use firstclaim_client::v1::claim_response::Outcome;
use firstclaim_client::v1::dispatch_answer::Outcome as Dispatched;
use firstclaim_client::{ClaimRequest, Completion, EffectRequest, v1};
use serde_json::{Value, json};

use super::intent::IntentArgs;
use super::naming::{Bytes, KeyArgs, guess, text};
use super::spec;
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
  firstclaim claim -t acme -n payouts -K payout:847 --request-file order.json --lease 2m --wait 10s
  firstclaim claim -t acme -n payouts -K payout:847 --request-file order.json \\
      --effect payment,provider=bank,key=pay-847,window=24h

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
    #[command(flatten)]
    intent: IntentArgs,
    /// How long the claim shall hold
    #[arg(long, value_parser = duration::parse, value_name = "DURATION")]
    lease: Option<Duration>,
    /// This caller can find out what an earlier, lost attempt did
    #[arg(long)]
    accept_recovery: bool,
    /// Wait so long, at most 30s, for another answer than "pending"
    #[arg(long, value_parser = duration::parse, value_name = "DURATION")]
    wait: Option<Duration>,
    /// An effect to record in the same step, such as payment,provider=bank,key=pay-847,window=24h;
    /// also slot=NAME, within=DURATION, request=TEXT; repeatable
    #[arg(long, value_parser = spec::effect, value_name = "ID,provider=NAME,…")]
    effect: Vec<EffectRequest>,
    /// Complete the record in the same step, as succeeded, with that result
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["effect", "complete_with_file"])]
    complete_with: Option<String>,
    /// The same with the result in a file, - for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "effect")]
    complete_with_file: Option<PathBuf>,
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
    pub(crate) fn into_request(self, context: &Context) -> Result<ClaimRequest, Failure> {
        let (tenant, namespace) = (context.tenant(None)?, context.namespace(None)?);
        let mut request = ClaimRequest::new(tenant, namespace, self.key.key);
        if let Some(attempt) = self.attempt {
            request.attempt_id = attempt;
        }
        request.owner = self.owner.unwrap_or_default();
        request.fingerprints = self.intent.request.fingerprints()?;
        request.lease = self.lease;
        request.intent_time = self.intent.intent_time;
        request.labels = self.intent.label.into_iter().collect();
        request.allow_duplicate_intent = self.intent.allow_duplicate_intent;
        request.accept_recovery = self.accept_recovery;
        request.wait = self.wait.unwrap_or_default();
        request.effects = self.effect;
        let result = self.complete_with.map(Bytes::Text);
        if let Some(bytes) = result.or(self.complete_with_file.map(Bytes::File)) {
            let bytes = bytes.read("complete-with")?;
            request.complete_with = Some(Completion::succeeded(guess(&bytes), bytes));
        }
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
        if let Some(completion) = &acquired.completion {
            return self.completed(acquired, completion);
        }
        let mut sheet = self.sheet("ACQUIRED");
        sheet.put("acquired", "acquired", view::acquired(acquired.kind()));
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
        self.dispatches(&mut sheet, acquired);
        similar(&mut sheet, &acquired.similar_keys);
        sheet.value("life", json!(acquired.life.to_string()));
        self.print(sheet)?;
        if acquired.intent_time_differs {
            self.context.out.say("warning: this claim gave another intent time than the first one");
        }
        self.context.out.say(&self.next(acquired));
        Ok(exit::DONE)
    }

    /// What became of the effects that the claim carried.
    fn dispatches(&self, sheet: &mut Sheet, acquired: &v1::Acquired) {
        let mut all = Vec::new();
        for (effect, answer) in self.request.effects.iter().zip(&acquired.dispatches) {
            let id = &effect.effect_id;
            match &answer.outcome {
                Some(Dispatched::Permit(permit)) => {
                    let (line, data) = super::effect::shown(permit, self.store_time.as_ref());
                    sheet.line("send", line);
                    all.push(json!({ "effect": id, "permit": data }));
                }
                Some(Dispatched::Failure(failure)) => {
                    sheet.line("do not send", format!("{id}: {}", failure.reason));
                    all.push(json!({
                        "effect": id,
                        "reason": failure.reason,
                        "message": failure.message,
                        "metadata": failure.metadata,
                    }));
                }
                None => all.push(json!({ "effect": id })),
            }
        }
        sheet.value("dispatches", Value::Array(all));
    }

    /// Claimed and completed in one step.
    fn completed(
        &self,
        acquired: &v1::Acquired,
        completion: &v1::Completion,
    ) -> Result<u8, Failure> {
        let mut sheet = self.sheet("COMPLETED");
        sheet.put("acquired", "acquired", view::acquired(acquired.kind()));
        sheet.put("epoch", "epoch", acquired.epoch.to_string());
        view::completion(&mut sheet, completion, false);
        similar(&mut sheet, &acquired.similar_keys);
        self.print(sheet)?;
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
        let settle: String = self.permits(acquired).map(settle).collect();
        format!(
            "next  {act}\n  firstclaim complete {grant} --succeeded --result TEXT{settle}\n  \
             firstclaim release {grant} --unknown --note TEXT    (nobody knows whether it happened)\n  \
             firstclaim renew {grant}    (more time)"
        )
    }

    /// The effects that may be sent.
    fn permits<'a>(
        &'a self,
        acquired: &'a v1::Acquired,
    ) -> impl Iterator<Item = (&'a EffectRequest, &'a v1::DispatchPermit)> {
        let answers = self.request.effects.iter().zip(&acquired.dispatches);
        answers.filter_map(|(effect, answer)| match &answer.outcome {
            Some(Dispatched::Permit(permit)) => Some((effect, permit)),
            Some(Dispatched::Failure(_)) | None => None,
        })
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
             find out, and complete with what you found; or settle what you know: firstclaim settle",
        );
        Ok(exit::UNRESOLVED)
    }
}

/// The flag that says what became of an effect.
fn settle((effect, permit): (&EffectRequest, &v1::DispatchPermit)) -> String {
    let key = if permit.provider_key.is_empty() {
        String::new()
    } else {
        format!(",key={}", permit.provider_key)
    };
    let word = format!("{},VERDICT,provider={}{key},evidence=TEXT", permit.uid, effect.provider);
    format!(" --settle {}", quote(&word))
}

/// Other keys with the same request.
pub(crate) fn similar(sheet: &mut Sheet, keys: &[String]) {
    sheet.value("similarKeys", json!(keys));
    for key in keys {
        sheet
            .line("! same as", format!("{key}: a key that is minted per attempt protects nothing"));
    }
}
