//! `firstclaim reserve` and `firstclaim admit`: keys that are bound to their request before anybody
//! claims them.

use firstclaim_client::v1;
use serde_json::json;

use super::claim::similar;
use super::holder::print;
use super::intent::IntentArgs;
use super::naming::{KeyArgs, WarrantArgs};
use crate::context::Context;
use crate::failure::Failure;
use crate::view::{self, Sheet};

/// Binds a key to its request where the intent is born, before the message is published.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A namespace with the policy `reserve: REQUIRED` serves only keys that a producer reserved, so that a
key which a worker mints in its retry loop can run nothing.

Example:
  firstclaim reserve -t acme -n payouts -K payout:847 --request 'pay 847 120.00 EUR' \\\\
      --intent-time 2026-01-02T03:04:05Z --label order=847")]
pub(crate) struct ReserveArgs {
    #[command(flatten)]
    key: KeyArgs,
    #[command(flatten)]
    intent: IntentArgs,
}

/// Reserves a key that was refused as LATE_REPLAY but is known never to have run.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  firstclaim admit -t acme -n payouts -K payout:847 --request 'pay 847 120.00 EUR' \\\\
      --intent-time 2026-01-02T03:04:05Z --reason 'the bank never saw it; ticket 4711'")]
pub(crate) struct AdmitArgs {
    #[command(flatten)]
    key: KeyArgs,
    #[command(flatten)]
    intent: IntentArgs,
    #[command(flatten)]
    warrant: WarrantArgs,
}

pub(crate) async fn reserve(context: &Context, args: ReserveArgs) -> Result<u8, Failure> {
    let reservation = args.intent.reservation(args.key.record(context)?)?;
    let answer = context.client()?.reserve(&reservation).await?;
    shown(context, &reservation.record.key, &answer)
}

pub(crate) async fn admit(context: &Context, args: AdmitArgs) -> Result<u8, Failure> {
    let reservation = args.intent.reservation(args.key.record(context)?)?;
    let answer = context.client()?.admit(&reservation, args.warrant.warrant()).await?;
    shown(context, &reservation.record.key, &answer)
}

fn shown(context: &Context, key: &str, answer: &v1::ReserveResponse) -> Result<u8, Failure> {
    let mut sheet = Sheet::default();
    sheet.put("key", "key", key);
    sheet.put("state", "state", view::state(answer.state()));
    sheet.flag("created", "reserved now", answer.created);
    sheet.value("epoch", json!(answer.epoch.to_string()));
    sheet.time("firstSeenTime", "first seen", answer.first_seen_time.as_ref(), "");
    sheet.time("intentTime", "intent time", answer.intent_time.as_ref(), "");
    sheet.time("identityExpireTime", "kept until", answer.identity_expire_time.as_ref(), "");
    sheet.value("horizonChecked", json!(answer.horizon_checked));
    sheet.value("intentTimeDiffers", json!(answer.intent_time_differs));
    similar(&mut sheet, &answer.similar_keys);
    let code = print(context, "Reservation", sheet, answer.store_time.as_ref())?;
    if answer.intent_time_differs {
        context.out.say("warning: this call gave another intent time than the first one");
    }
    Ok(code)
}
