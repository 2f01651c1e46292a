//! `firstclaim record watch`: follows records as they change.

use firstclaim_client::{RecordRef, v1};
use serde_json::{Value, json};

use super::super::naming::text;
use crate::context::Context;
use crate::exit;
use crate::failure::Failure;
use crate::view;

/// Follows one record until it is completed, or all of a namespace.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only this key, until it is completed
    #[arg(value_name = "KEY", value_parser = text("key"), conflicts_with = "after")]
    named: Option<String>,
    /// The same as a flag
    #[arg(short = 'K', long, value_name = "KEY", value_parser = text("key"), conflicts_with_all = ["named", "after"])]
    key: Option<String>,
    /// Changes after this revision; 0 begins with all records that exist
    #[arg(long, default_value_t = 0, value_name = "REVISION")]
    after: u64,
}

pub(crate) async fn run(context: &Context, args: Args) -> Result<u8, Failure> {
    let (tenant, namespace) = (context.tenant(None)?, context.namespace(None)?);
    match args.named.or(args.key) {
        Some(key) => one(context, RecordRef::new(tenant, namespace, key)).await,
        None => all(context, (tenant, namespace), args.after).await,
    }
}

async fn one(context: &Context, record: RecordRef) -> Result<u8, Failure> {
    let mut watch = context.client()?.watch_record(record);
    let mut last = None;
    while let Some(state) = watch.next().await? {
        let record = state.record.ok_or_else(|| Failure::lacks("the record"))?;
        shown(context, &record, None)?;
        last = Some(record.state());
    }
    if last == Some(v1::RecordState::Completed) {
        return Ok(exit::DONE);
    }
    context.out.say("the record is forgotten");
    Ok(exit::NOT_FOUND)
}

async fn all(
    context: &Context,
    (tenant, namespace): (String, String),
    after: u64,
) -> Result<u8, Failure> {
    let mut watch = context.client()?.watch_records(tenant, namespace, after);
    while let Some(change) = watch.next().await? {
        let record = change.record.ok_or_else(|| Failure::lacks("the record"))?;
        shown(context, &record, Some(change.revision))?;
    }
    context.out.say(&format!("the watch ended; go on with --after {}", watch.revision()));
    Ok(exit::DONE)
}

fn shown(context: &Context, record: &v1::Record, revision: Option<u64>) -> Result<(), Failure> {
    let revision = revision.unwrap_or(record.revision);
    let mut line = format!("{revision}  {:<11}  {}", view::state(record.state()), record.key);
    if record.epoch != 0 {
        line += &format!("  epoch {} by {}", record.epoch, record.owner);
    }
    if let Some(done) = &record.completion {
        line += &format!("  {}", view::disposition(done.disposition()));
    }
    let mut data = view::record(record).data;
    data.insert("revision".to_owned(), json!(revision.to_string()));
    context.out.event("RecordChange", Value::Object(data), &line)
}
