//! `firstclaim settle`: says what became of an effect. Needs no claim.

use firstclaim_client::{AsOf, Finding, Settlement};
use serde_json::json;

use super::holder::print;
use super::naming::{EvidenceArgs, KeyArgs, PrincipalArgs};
use super::spec;
use crate::context::Context;
use crate::exit;
use crate::failure::Failure;
use crate::view::{self, Sheet};

/// Says, with evidence, whether an effect happened.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The UID is shown by firstclaim unresolved show: LIFE/ID for a recorded effect, LIFE@EPOCH for the work
of an epoch. To say \"not found\", first write down the store time of an answer, then ask the provider,
then settle with --as-of.

Examples:
  firstclaim settle -t acme -n payouts -K payout:847 7/payment --provider bank --provider-key pay-847 \\\\
      --committed --evidence tx_58123
  firstclaim settle -t acme -n payouts -K payout:848 9@12 --not-found --as-of 2026-01-02T03:04:05Z")]
pub(crate) struct Args {
    #[command(flatten)]
    key: KeyArgs,
    /// Which effect
    uid: String,
    /// Its provider; none for work
    #[arg(long)]
    provider: Option<String>,
    /// Its provider key, if it has one
    #[arg(long, value_name = "KEY")]
    provider_key: Option<String>,
    #[command(flatten)]
    verdict: Verdict,
    /// With --refused: the provider's HTTP status
    #[arg(long, requires = "refused", conflicts_with_all = ["committed", "not_found"])]
    status: Option<u32>,
    /// With --not-found: a store time from before the provider was asked
    #[arg(
        long,
        value_parser = spec::as_of,
        requires = "not_found",
        conflicts_with_all = ["committed", "refused"],
        value_name = "RFC3339"
    )]
    as_of: Option<AsOf>,
    #[command(flatten)]
    evidence: EvidenceArgs,
    #[command(flatten)]
    principal: PrincipalArgs,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Verdict {
    /// It happened
    #[arg(long)]
    committed: bool,
    /// It did not: the provider refused it for good. 409, 429 and 5xx are no such refusals
    #[arg(long)]
    refused: bool,
    /// It did not: the provider does not know it
    #[arg(long, requires = "as_of")]
    not_found: bool,
}

impl Args {
    fn finding(&self) -> Result<Finding, Failure> {
        if self.verdict.committed {
            return Ok(Finding::Committed);
        }
        match self.as_of {
            _ if self.verdict.refused => Ok(Finding::Refused { status: self.status }),
            Some(as_of) => Ok(Finding::NotFound(as_of)),
            None => Err(Failure::usage("--not-found needs --as-of")),
        }
    }
}

pub(crate) async fn run(context: &Context, args: Args) -> Result<u8, Failure> {
    let finding = args.finding()?;
    let mut settlement = Settlement {
        uid: args.uid,
        provider: args.provider.unwrap_or_default(),
        provider_key: args.provider_key.unwrap_or_default(),
        finding,
        evidence: None,
    };
    if let Some((content_type, bytes)) = args.evidence.read()? {
        settlement = settlement.evidence(content_type, bytes);
    }
    let record = args.key.record(context)?;
    let principal = args.principal.principal();
    let answer = context.client()?.settle(&record, &settlement, &principal).await?;
    let mut sheet = Sheet::default();
    sheet.put("uid", "settled", &settlement.uid);
    let verdict = answer.settlement.as_ref().and_then(|found| found.verdict.as_ref());
    sheet.put("verdict", "verdict", view::verdict(verdict));
    sheet.put("state", "state", view::state(answer.state()));
    sheet.value("mode", json!(view::mode(answer.mode())));
    sheet.flag("repeated", "known before", answer.repeated);
    sheet.flag("completedRecord", "completed by it", answer.completed_record);
    sheet.value("conflict", json!(answer.conflict));
    view::effects(&mut sheet, "open", &answer.open);
    print(context, "Settlement", sheet, answer.store_time.as_ref())?;
    if answer.conflict {
        context.out.say(
            "warning: this contradicts an earlier finding. Nobody may act before somebody has \
             looked at both and resolved it: firstclaim resolve",
        );
    }
    Ok(exit::DONE)
}
