//! `firstclaim get`: all that is known about a key.

use firstclaim_client::v1;
use serde_json::Value;

use super::naming::RecordArgs;
use crate::context::Context;
use crate::exit;
use crate::failure::Failure;
use crate::output::Shown;
use crate::view;

/// Shows what is known about a key.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    record: RecordArgs,
    /// Take whatever the node that answers has applied, without asking the leader
    #[arg(long)]
    local: bool,
}

pub(crate) async fn run(context: &Context, args: Args) -> Result<u8, Failure> {
    let name = args.record.record(context)?;
    let consistency =
        if args.local { v1::Consistency::Local } else { v1::Consistency::Linearizable };
    let names = (name.tenant.as_str(), name.namespace.as_str(), name.key.as_str());
    let response = context.client()?.get(names, consistency).await?;
    let record = response.record.as_ref().ok_or_else(|| Failure::lacks("the record"))?;
    let mut sheet = view::record(record);
    sheet.number("appliedIndex", "applied index", response.applied_index);
    sheet.time("storeTime", "store time", response.store_time.as_ref(), "");
    context.out.data("Record", Value::Object(sheet.data), &Shown::Fields(sheet.lines))?;
    Ok(exit::DONE)
}
