//! `firstclaim resolve` and `firstclaim revoke`: what operators decide about records that nobody else
//! can end.

use std::time::Duration;

use firstclaim_client::{Completion, Finding, Resolution, Resolved};
use serde_json::json;

use super::holder::print;
use super::naming::{EvidenceArgs, KeyArgs, ResultArgs, WarrantArgs};
use super::spec;
use crate::context::Context;
use crate::failure::Failure;
use crate::view::{self, Sheet};
use crate::{duration, exit};

/// Ends a record that is unresolved: a verdict for everything open, and what becomes of it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Verdicts are committed, refused, refused=STATUS, not-found=TIME (a store time from before the provider
was asked) and override (you answer for it). firstclaim unresolved show lists what is open.

Examples:
  firstclaim resolve -t acme -n payouts -K payout:847 --epoch E --verdict 7/payment=committed \\\\
      --succeeded --result tx_58123 --reason 'statement of 2 January, line 12'
  firstclaim resolve -t acme -n payouts -K payout:848 --epoch E --verdict 9@12=override \\\\
      --retry --reason 'the bank was down all night'")]
pub(crate) struct ResolveArgs {
    #[command(flatten)]
    key: KeyArgs,
    /// The epoch that you saw
    #[arg(long)]
    epoch: u64,
    /// This try; minted and printed if it is not given
    #[arg(long)]
    attempt: Option<String>,
    /// What is found about one open effect; repeatable, one for each
    #[arg(long, value_parser = spec::verdict, value_name = "UID=VERDICT")]
    verdict: Vec<(String, Finding)>,
    #[command(flatten)]
    state: State,
    #[command(flatten)]
    result: ResultArgs,
    /// With --retry: how long nobody may try
    #[arg(long, value_parser = duration::parse, value_name = "DURATION", requires = "retry")]
    after: Option<Duration>,
    #[command(flatten)]
    warrant: WarrantArgs,
    #[command(flatten)]
    evidence: EvidenceArgs,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct State {
    /// It is done: carried out
    #[arg(long)]
    succeeded: bool,
    /// It is done: not carried out, for good
    #[arg(long)]
    failed: bool,
    /// It is to be tried again
    #[arg(long, conflicts_with_all = ["result", "result_file", "content_type"])]
    retry: bool,
}

/// Takes from a live holder the right to renew and to be given permits.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  firstclaim revoke -t acme -n payouts -K payout:847 --epoch E --reason 'worker 7 hangs'")]
pub(crate) struct RevokeArgs {
    #[command(flatten)]
    key: KeyArgs,
    /// Whose right
    #[arg(long)]
    epoch: u64,
    #[command(flatten)]
    warrant: WarrantArgs,
}

pub(crate) async fn resolve(context: &Context, args: ResolveArgs) -> Result<u8, Failure> {
    let state = if args.state.retry {
        Resolved::Retryable(args.after.unwrap_or_default())
    } else {
        let (content_type, bytes) = args.result.read()?;
        Resolved::Completed(if args.state.succeeded {
            Completion::succeeded(content_type, bytes)
        } else {
            Completion::failed(content_type, bytes)
        })
    };
    let record = args.key.record(context)?;
    let mut resolution = Resolution::new(record, args.epoch, args.warrant.warrant(), state);
    resolution.verdicts = args.verdict;
    if let Some(attempt) = args.attempt {
        resolution.attempt_id = attempt;
    }
    if let Some((content_type, bytes)) = args.evidence.read()? {
        resolution = resolution.evidence(content_type, bytes);
    }
    let client = context.client()?;
    context.out.say(&format!("attempt {}", resolution.attempt_id));
    let answer = client.resolve(&resolution).await?;
    let mut sheet = Sheet::default();
    sheet.put("key", "key", &resolution.record.key);
    sheet.put("state", "state", view::state(answer.state()));
    sheet.put("epoch", "epoch", answer.epoch.to_string());
    sheet.value("attempt", json!(resolution.attempt_id));
    sheet.flag("repeated", "resolved before", answer.repeated);
    print(context, "Resolution", sheet, answer.store_time.as_ref())
}

pub(crate) async fn revoke(context: &Context, args: RevokeArgs) -> Result<u8, Failure> {
    let record = args.key.record(context)?;
    let warrant = args.warrant.warrant();
    let answer = context.client()?.revoke(&record, args.epoch, warrant).await?;
    let mut sheet = Sheet::default();
    sheet.put("key", "key", &record.key);
    sheet.put("epoch", "epoch", answer.epoch.to_string());
    sheet.time("leaseExpireTime", "lease until", answer.lease_expire_time.as_ref(), "");
    sheet.flag("repeated", "revoked before", answer.repeated);
    print(context, "Revocation", sheet, answer.store_time.as_ref())?;
    context.out.say(
        "next  the holder can neither renew nor be given permits; when its lease is over, the \
         record can be claimed or resolved",
    );
    Ok(exit::DONE)
}
