//! `firstclaim effect`: leave to send an effect, before it is sent.

use std::time::Duration;

use firstclaim_client::prost_types::Timestamp;
use firstclaim_client::{EffectRequest, v1};
use serde_json::{Value, json};

use super::holder::print;
use super::naming::{Bytes, HolderArgs, guess, text};
use crate::context::{Context, quote};
use crate::duration::{self, Retention};
use crate::failure::Failure;
use crate::view::{self, Sheet};

/// Records an effect and asks for leave to send it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Send once, before the time that is printed, or never. Then say what became of it: firstclaim settle,
or firstclaim complete --settle. A timeout is no answer: leave the effect open, or ask for the next
--number to send the same effect again with the same provider key.

Example:
  firstclaim effect -t acme -n payouts -K payout:847 --epoch E --attempt A payment \\\\
      --provider bank --provider-key pay-847 --dedup-window 24h --request 'pay 847 120.00 EUR'")]
pub(crate) struct Args {
    #[command(flatten)]
    holder: HolderArgs,
    /// The name of the effect in this record, such as payment
    effect: String,
    /// Where it is sent
    #[arg(long)]
    provider: String,
    /// The key that the provider tells repeats by
    #[arg(long, value_name = "KEY")]
    provider_key: Option<String>,
    /// For how long after the first dispatch it does so, or FOREVER
    #[arg(long, value_parser = duration::parse_retention, value_name = "DURATION")]
    dedup_window: Option<Retention>,
    /// Effects of one slot exclude each other
    #[arg(long)]
    slot: Option<String>,
    /// Which dispatch; the same number gets the same permit
    #[arg(long, default_value_t = 1, value_name = "N")]
    number: u32,
    /// What is sent
    #[arg(long, value_name = "TEXT", conflicts_with = "request_file")]
    request: Option<String>,
    /// What is sent, in a file, - for standard input
    #[arg(long, value_name = "FILE")]
    request_file: Option<std::path::PathBuf>,
    /// Media type of what is sent
    #[arg(long, value_parser = text("request_type"), value_name = "TYPE")]
    request_type: Option<String>,
    /// How long the permit is wanted for; as long as the lease if it is not given
    #[arg(long, value_parser = duration::parse, value_name = "DURATION")]
    within: Option<Duration>,
}

pub(crate) async fn run(context: &Context, args: Args) -> Result<u8, Failure> {
    let mut effect = EffectRequest {
        number: args.number,
        slot: args.slot.unwrap_or_default(),
        provider_key: args.provider_key.unwrap_or_default(),
        dedup_window: args.dedup_window.map(crate::policy::identity_retention),
        within: args.within,
        ..EffectRequest::new(args.effect, args.provider)
    };
    let bytes = args.request.map(Bytes::Text).or(args.request_file.map(Bytes::File));
    if let Some(bytes) = bytes {
        let max = firstclaim_client::limits::EFFECT_REQUEST_BYTES_MAX;
        let bytes = bytes.read_up_to("request", max)?;
        let media = args.request_type.unwrap_or_else(|| guess(&bytes).to_owned());
        effect = effect.request(media, bytes);
    }
    let holder = args.holder.holder(context)?;
    let permit = context.client()?.record_effect(&holder, &effect).await?;
    let mut sheet = Sheet::default();
    let (line, data) = shown(permit.granted(), None);
    sheet.put("key", "key", &holder.key);
    sheet.line("send", line);
    sheet.value("permit", data);
    let left = permit.send_before().saturating_duration_since(tokio::time::Instant::now());
    sheet.line("time left", duration::about(left));
    sheet.value("leftSeconds", json!(left.as_secs_f64()));
    print(context, "Permit", sheet, None)?;
    if permit.repeated() {
        let text = "warning: this permit was given before; if it may have been used, ask for the next --number instead";
        context.out.say(text);
    }
    let flags = context.flags(&holder.tenant, &holder.namespace);
    context.out.say(&format!(
        "next  send once, then say what became of it:\n  firstclaim settle {flags} -K {} {} --provider {} \
         --provider-key {} --committed --evidence TEXT",
        quote(&holder.key),
        quote(permit.uid()),
        quote(permit.provider()),
        quote(permit.provider_key()),
    ));
    Ok(crate::exit::DONE)
}

/// A permit as a line and as data.
pub(crate) fn shown(
    granted: &v1::DispatchPermit,
    store_time: Option<&Timestamp>,
) -> (String, Value) {
    let permit = granted.permit.unwrap_or_default();
    let not_after = permit.not_after.as_ref().map(view::rfc3339);
    let left = view::left(store_time, permit.not_after.as_ref());
    let mut line = format!("{}, dispatch {}", granted.uid, permit.number);
    if !granted.provider_key.is_empty() {
        line += &format!(", with key {}", granted.provider_key);
    }
    if let Some(not_after) = &not_after {
        line += &format!(", before {not_after}");
    }
    let data = json!({
        "uid": granted.uid,
        "number": permit.number,
        "providerKey": granted.provider_key,
        "epoch": permit.epoch.to_string(),
        "notAfter": not_after,
        "leftSeconds": left.map(|left| left.as_secs_f64()),
        "repeated": granted.repeated,
    });
    (line, data)
}
