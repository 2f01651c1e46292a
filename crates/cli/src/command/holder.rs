//! `firstclaim renew`, `complete` and `release`: what the holder of a claim says.

use std::time::Duration;

use firstclaim_client::v1::release_request::Intent;
use firstclaim_client::{Completion, Settlement, time, v1};
use serde_json::{Value, json};

use super::naming::{HolderArgs, ResultArgs, text};
use super::spec;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::Shown;
use crate::view::{self, Sheet};
use crate::{duration, exit};

/// Makes the lease of a claim longer.
#[derive(Debug, clap::Args)]
pub(crate) struct RenewArgs {
    #[command(flatten)]
    holder: HolderArgs,
    /// How long the claim shall hold from now
    #[arg(long, value_parser = duration::parse, value_name = "DURATION")]
    lease: Option<Duration>,
}

/// Ends an intent for good and stores its result.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  firstclaim complete -t acme -n payouts -K payout:847 --epoch E --attempt A --succeeded --result tx_58123
  firstclaim complete -t acme -n payouts -K payout:847 --epoch E --attempt A --succeeded \\
      --settle 7/payment,committed,provider=bank,key=pay-847,evidence=tx_58123")]
pub(crate) struct CompleteArgs {
    #[command(flatten)]
    holder: HolderArgs,
    #[command(flatten)]
    how: Disposition,
    #[command(flatten)]
    result: ResultArgs,
    /// What became of an effect, such as 7/payment,committed,provider=bank,key=pay-847,evidence=TEXT;
    /// or refused, refused=STATUS, not-found=TIME; repeatable
    #[arg(long, value_parser = spec::settlement, value_name = "UID,VERDICT,…")]
    settle: Vec<Settlement>,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Disposition {
    /// It was carried out
    #[arg(long)]
    succeeded: bool,
    /// It ended without being carried out, for good
    #[arg(long)]
    failed: bool,
}

/// Gives a claim back without completing it.
#[derive(Debug, clap::Args)]
pub(crate) struct ReleaseArgs {
    #[command(flatten)]
    holder: HolderArgs,
    #[command(flatten)]
    knowledge: Knowledge,
    /// With --retry: how long nobody may try
    #[arg(long, value_parser = duration::parse, value_name = "DURATION", requires = "retry")]
    after: Option<Duration>,
    /// With --unknown: what to tell whoever has to find out
    #[arg(long, value_parser = text("note"), requires = "unknown")]
    note: Option<String>,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Knowledge {
    /// It did not happen: try again
    #[arg(long)]
    retry: bool,
    /// It did not happen, and the key may be bound to another request
    #[arg(long)]
    unbind: bool,
    /// Nobody knows whether it happened
    #[arg(long)]
    unknown: bool,
}

pub(crate) async fn renew(context: &Context, args: RenewArgs) -> Result<u8, Failure> {
    let holder = args.holder.holder(context)?;
    let response = context.client()?.renew(&holder, args.lease).await?;
    let mut sheet = Sheet::default();
    sheet.put("key", "key", &holder.key);
    sheet.put("epoch", "epoch", holder.epoch.to_string());
    sheet.put("mode", "mode", view::mode(response.mode()));
    let expire = response.lease_expire_time.as_ref();
    sheet.time("leaseExpireTime", "lease until", expire, "");
    let safe = response.safe_to_dispatch_until.as_ref();
    sheet.value("safeToDispatchUntil", json!(safe.map(view::rfc3339)));
    if let Some(left) = view::left(response.store_time.as_ref(), expire) {
        sheet.value("leaseSeconds", json!(left.as_secs_f64()));
        sheet.line("lease", duration::about(left));
    }
    print(context, "Renewal", sheet, response.store_time.as_ref())
}

pub(crate) async fn complete(context: &Context, args: CompleteArgs) -> Result<u8, Failure> {
    let holder = args.holder.holder(context)?;
    let (content_type, bytes) = args.result.read()?;
    let completion = if args.how.succeeded {
        Completion::succeeded(content_type, bytes)
    } else {
        Completion::failed(content_type, bytes)
    };
    let completion = args.settle.into_iter().fold(completion, Completion::settling);
    let response = context.client()?.complete(&holder, completion).await?;
    let done = response.completion.as_ref().ok_or_else(|| Failure::lacks("the completion"))?;
    let mut sheet = Sheet::default();
    sheet.put("outcome", "outcome", "COMPLETED");
    sheet.put("key", "key", &holder.key);
    view::completion(&mut sheet, done, response.result_dropped);
    sheet.flag("repeated", "repeated", response.repeated);
    print(context, "Completion", sheet, response.store_time.as_ref())
}

pub(crate) async fn release(context: &Context, args: ReleaseArgs) -> Result<u8, Failure> {
    let holder = args.holder.holder(context)?;
    let intent = if args.knowledge.retry {
        Intent::Retry(v1::ReleaseRetry { retry_after: args.after.map(time::to_wire) })
    } else if args.knowledge.unbind {
        Intent::Unbind(v1::ReleaseUnbind {})
    } else {
        Intent::Unknown(v1::ReleaseUnknown { note: args.note.unwrap_or_default() })
    };
    let response = context.client()?.release(&holder, intent).await?;
    let mut sheet = Sheet::default();
    sheet.put("state", "state", view::state(response.state()));
    sheet.put("key", "key", &holder.key);
    sheet.put("epoch", "epoch", response.epoch.to_string());
    sheet.time("notBefore", "not before", response.not_before.as_ref(), "");
    sheet.time("since", "unresolved since", response.since.as_ref(), "");
    sheet.time("identityExpireTime", "key kept until", response.identity_expire_time.as_ref(), "");
    print(context, "Release", sheet, response.store_time.as_ref())
}

pub(crate) fn print(
    context: &Context,
    kind: &str,
    mut sheet: Sheet,
    store_time: Option<&firstclaim_client::prost_types::Timestamp>,
) -> Result<u8, Failure> {
    sheet.value("storeTime", json!(store_time.map(view::rfc3339)));
    context.out.data(kind, Value::Object(sheet.data), &Shown::Fields(sheet.lines))?;
    Ok(exit::DONE)
}
