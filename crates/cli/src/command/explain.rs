//! `firstclaim explain`: which rule would decide a claim now, and by what.

use firstclaim_client::ClaimRequest;
use serde_json::{Value, json};

use super::intent::IntentArgs;
use super::naming::{RecordArgs, text};
use crate::context::Context;
use crate::exit;
use crate::failure::Failure;
use crate::output::Shown;
use crate::view::{self, Sheet};

/// Says which rule would decide a claim of a key now, and by what. Claims nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Say what the worker says: without its fingerprint the answer is that of a claim without one.

Example:
  firstclaim explain -t acme -n payouts payout:847 --request 'pay 847 120.00 EUR' --owner worker-7")]
pub(crate) struct Args {
    #[command(flatten)]
    record: RecordArgs,
    /// The attempt that would claim; a new one if it is not given
    #[arg(long)]
    attempt: Option<String>,
    /// Who would claim
    #[arg(long, value_parser = text("owner"))]
    owner: Option<String>,
    #[command(flatten)]
    intent: IntentArgs,
    /// The caller could find out what an earlier, lost attempt did
    #[arg(long)]
    accept_recovery: bool,
}

pub(crate) async fn run(context: &Context, args: Args) -> Result<u8, Failure> {
    let name = args.record.record(context)?;
    let new = ClaimRequest::new(name.tenant, name.namespace, name.key);
    let claim = ClaimRequest {
        attempt_id: args.attempt.unwrap_or_else(|| new.attempt_id.clone()),
        owner: args.owner.unwrap_or_default(),
        fingerprints: args.intent.request.fingerprints()?,
        intent_time: args.intent.intent_time,
        labels: args.intent.label.into_iter().collect(),
        allow_duplicate_intent: args.intent.allow_duplicate_intent,
        accept_recovery: args.accept_recovery,
        ..new
    };
    let answer = context.client()?.explain(&claim).await?;
    let mut sheet = Sheet::default();
    sheet.put("outcome", "outcome", &answer.outcome);
    sheet.value("row", json!(answer.row));
    sheet.line(
        "decided by",
        match answer.row {
            0 => "a check before the table of semantics 5".to_owned(),
            row => format!("row {row} of the table of semantics 5"),
        },
    );
    sheet.put("rule", "rule", &answer.rule);
    sheet.value("inputs", json!(answer.inputs));
    for (name, value) in &answer.inputs {
        sheet.line(&name.replace('_', " "), value);
    }
    match &answer.record {
        Some(record) => sheet.value("record", Value::Object(view::record(record).data)),
        None => sheet.value("record", Value::Null),
    }
    sheet.value("storeTime", json!(answer.store_time.as_ref().map(view::rfc3339)));
    context.out.data("Explanation", Value::Object(sheet.data), &Shown::Fields(sheet.lines))?;
    Ok(exit::DONE)
}
