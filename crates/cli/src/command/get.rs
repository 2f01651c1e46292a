//! `firstclaim get`: all that is known about a key.

use firstclaim_client::v1;
use serde_json::{Value, json};

use super::record::KeyArgs;
use crate::context::Context;
use crate::exit;
use crate::failure::Failure;
use crate::output::Shown;
use crate::view::{self, Sheet};

/// Shows what is known about a key.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    key: KeyArgs,
    /// Take whatever the node that answers has applied, without asking the leader
    #[arg(long)]
    local: bool,
}

pub(crate) async fn run(context: &Context, args: Args) -> Result<u8, Failure> {
    let (tenant, namespace) = (context.tenant(None)?, context.namespace(None)?);
    let consistency =
        if args.local { v1::Consistency::Local } else { v1::Consistency::Linearizable };
    let name = (tenant.as_str(), namespace.as_str(), args.key.key.as_str());
    let response = context.client()?.get(name, consistency).await?;
    let record = response.record.as_ref().ok_or_else(|| Failure::lacks("the record"))?;
    let mut sheet = sheet(record);
    sheet.number("appliedIndex", "applied index", response.applied_index);
    sheet.time("storeTime", "store time", response.store_time.as_ref(), "");
    context.out.data("Record", Value::Object(sheet.data), &Shown::Fields(sheet.lines))?;
    Ok(exit::DONE)
}

fn sheet(record: &v1::Record) -> Sheet {
    let mut sheet = Sheet::default();
    sheet.put("state", "state", view::state(record.state()));
    sheet.put("tenant", "tenant", &record.tenant);
    sheet.put("namespace", "namespace", &record.namespace);
    sheet.put("key", "key", &record.key);
    sheet.put("epoch", "epoch", record.epoch.to_string());
    if record.epoch != 0 {
        sheet.put("mode", "mode", view::mode(record.mode()));
        sheet.put("owner", "owner", &record.owner);
        sheet.put("onLapse", "a lapse means", view::on_lapse(record.on_lapse()));
    }
    sheet.time("leaseExpireTime", "lease until", record.lease_expire_time.as_ref(), "");
    sheet.time("effectiveDeadline", "lease really until", record.effective_deadline.as_ref(), "");
    sheet.time("notBefore", "not before", record.not_before.as_ref(), "");
    sheet.number("executeGrants", "grants", u64::from(record.execute_grants));
    let prints = record
        .fingerprints
        .iter()
        .map(|print| json!({ "scheme": print.scheme, "digest": view::hex(&print.digest) }));
    sheet.value("fingerprints", prints.collect());
    for print in &record.fingerprints {
        sheet.line("fingerprint", format!("{}={}", print.scheme, view::hex(&print.digest)));
    }
    sheet.time("firstSeenTime", "first seen", record.first_seen_time.as_ref(), "");
    sheet.time("intentTime", "intent time", record.intent_time.as_ref(), "");
    sheet.value("labels", json!(record.labels));
    for (name, value) in &record.labels {
        sheet.line("label", format!("{name}={value}"));
    }
    view::effects(&mut sheet, "effects", &record.effects);
    match &record.completion {
        Some(completion) => view::completion(&mut sheet, completion, record.result_dropped),
        None => {
            let expire = record.identity_expire_time.as_ref();
            sheet.time("identityExpireTime", "key kept until", expire, "");
        }
    }
    sheet
}
