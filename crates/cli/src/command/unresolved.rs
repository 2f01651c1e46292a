//! `firstclaim unresolved` and `firstclaim parked`: the records that wait for people.

use clap::Subcommand;
use firstclaim_client::prost_types::Timestamp;
use firstclaim_client::{time, v1};
use serde_json::{Value, json};

use super::naming::RecordArgs;
use super::record::{ListArgs, Listed, PAGE};
use crate::context::{Context, quote};
use crate::exit;
use crate::failure::Failure;
use crate::output::Shown;
use crate::view;

/// What may have happened and nobody has said.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// List what is unresolved, in the namespace or, without one, in the whole tenant
    #[command(after_help = "\
Example:
  firstclaim unresolved list -t acme")]
    List(ListArgs),
    /// Show what is open in one record, and how it can be ended
    #[command(after_help = "\
Example:
  firstclaim unresolved show -t acme -n payouts payout:847

Exit code 0: nothing is open. 12: something is.")]
    Show {
        #[command(flatten)]
        key: RecordArgs,
    },
}

/// Records whose tries are used up.
#[derive(Debug, Subcommand)]
pub(crate) enum Parked {
    /// List records with as many EXECUTE grants as the policy's `max_attempts` allows
    #[command(after_help = "\
Find out why the tries failed (firstclaim record history), then raise max_attempts, or end the record.

Example:
  firstclaim parked list -t acme -n payouts")]
    List(ListArgs),
}

pub(crate) async fn run(context: &Context, action: Action) -> Result<u8, Failure> {
    match action {
        Action::List(args) => list(context, args, false).await,
        Action::Show { key } => show(context, key).await,
    }
}

pub(crate) async fn parked(context: &Context, action: Parked) -> Result<u8, Failure> {
    match action {
        Parked::List(args) => list(context, args, true).await,
    }
}

async fn list(context: &Context, args: ListArgs, parked: bool) -> Result<u8, Failure> {
    let tenant = context.tenant(None)?;
    let namespace = context.namespace(None).unwrap_or_default();
    let client = context.client()?;
    let mut listed = Listed::new(args);
    while let Some(page_token) = listed.next() {
        let request = v1::ListUnresolvedRequest {
            tenant: tenant.clone(),
            namespace: namespace.clone(),
            page_size: listed.wanted().min(PAGE),
            page_token,
            parked,
        };
        let page = client.list_unresolved(request).await?;
        listed.take(page.records, page.next_page_token, page.store_time);
    }
    let kind = if parked { "ParkedList" } else { "UnresolvedList" };
    let header = if parked {
        vec!["AGE", "NAMESPACE", "KEY", "STATE", "EPOCH", "GRANTS", "LAST HOLDER"]
    } else {
        vec!["AGE", "NAMESPACE", "KEY", "EPOCH", "LAST HOLDER", "OPEN", "WHY"]
    };
    let now = listed.store_time();
    let row = |record: &v1::Record| if parked { parked_row(record, now) } else { row(record, now) };
    let rows: Vec<_> = listed.records().iter().map(row).collect();
    listed.print(context, kind, header, rows)?;
    if !parked {
        summary(context, &listed);
    }
    Ok(exit::DONE)
}

fn summary(context: &Context, listed: &Listed) {
    let oldest = listed
        .records()
        .iter()
        .filter_map(|record| since(record).cloned())
        .min_by(|one, other| (one.seconds, one.nanos).cmp(&(other.seconds, other.nanos)));
    match (listed.records().len(), oldest) {
        (0, _) => context.out.say("nothing is unresolved"),
        (count, oldest) => {
            let age = view::age(listed.store_time(), oldest.as_ref());
            let records =
                if count == 1 { "1 record waits" } else { &format!("{count} records wait") };
            context.out.say(&format!("{records} for a decision; the oldest for {age}"));
        }
    }
}

fn open(record: &v1::Record) -> Vec<&v1::Effect> {
    record
        .effects
        .iter()
        .filter(|effect| effect.state() == v1::EffectState::Open || effect.conflict)
        .collect()
}

/// Since when the oldest of what is open is open.
fn since(record: &v1::Record) -> Option<&Timestamp> {
    let times = record.effects.iter().filter_map(|effect| effect.open_since.as_ref());
    times.min_by_key(|time| (time.seconds, time.nanos))
}

fn row(record: &v1::Record, now: Option<&Timestamp>) -> Vec<String> {
    let open = open(record);
    let why = open.first().map(|effect| {
        if effect.conflict {
            return "contradictory evidence".to_owned();
        }
        match effect.cause() {
            v1::OpenCause::Lapsed => "the lease ended".to_owned(),
            v1::OpenCause::ReleasedUnknown if effect.note.is_empty() => {
                "released: outcome not known".to_owned()
            }
            v1::OpenCause::ReleasedUnknown => format!("released: {}", effect.note),
            v1::OpenCause::Interrupted => "interrupted by evidence".to_owned(),
            v1::OpenCause::Unspecified => "recorded, not settled".to_owned(),
        }
    });
    vec![
        view::age(now, since(record)),
        record.namespace.clone(),
        record.key.clone(),
        record.epoch.to_string(),
        record.owner.clone(),
        open.iter().map(|effect| effect.uid.as_str()).collect::<Vec<_>>().join(", "),
        why.unwrap_or_default(),
    ]
}

fn parked_row(record: &v1::Record, now: Option<&Timestamp>) -> Vec<String> {
    vec![
        view::age(now, record.first_seen_time.as_ref()),
        record.namespace.clone(),
        record.key.clone(),
        view::state(record.state()),
        record.epoch.to_string(),
        record.execute_grants.to_string(),
        record.owner.clone(),
    ]
}

async fn show(context: &Context, key: RecordArgs) -> Result<u8, Failure> {
    let name = key.record(context)?;
    let client = context.client()?;
    let names = (name.tenant.as_str(), name.namespace.as_str(), name.key.as_str());
    let answer = client.get(names, v1::Consistency::Linearizable).await?;
    let record = answer.record.as_ref().ok_or_else(|| Failure::lacks("the record"))?;
    let now = answer.store_time.as_ref();
    let open = open(record);
    let mut sheet = view::Sheet::default();
    sheet.put("key", "key", &record.key);
    sheet.put("state", "state", view::state(record.state()));
    sheet.put("epoch", "epoch", record.epoch.to_string());
    sheet.put("owner", "last holder", &record.owner);
    sheet.time("storeTime", "store time", now, "");
    let provable = open.iter().map(|effect| {
        let from = effect.provable_time.as_ref();
        let left = now.zip(from).map(|(now, from)| time::between(now, from).as_secs_f64());
        json!({ "uid": effect.uid, "provableInSeconds": left })
    });
    sheet.value("provable", provable.collect());
    let effects: Vec<v1::Effect> = open.iter().map(|effect| (*effect).clone()).collect();
    view::effects(&mut sheet, "open", &effects);
    context.out.data("Unresolved", Value::Object(sheet.data), &Shown::Fields(sheet.lines))?;
    if open.is_empty() {
        context.out.say("nothing is open: the next claim gets this record");
        return Ok(exit::DONE);
    }
    context.out.say(&next(context, &name.key, record, &open, now));
    Ok(exit::UNRESOLVED)
}

/// The command lines that end what is open.
fn next(
    context: &Context,
    key: &str,
    record: &v1::Record,
    open: &[&v1::Effect],
    now: Option<&Timestamp>,
) -> String {
    let flags = context.flags(&record.tenant, &record.namespace);
    let mut text = "next  find out at the provider, then say so:".to_owned();
    for effect in open {
        let mut settle = format!("firstclaim settle {flags} -K {} {}", quote(key), effect.uid);
        if effect.kind() == v1::EffectKind::Recorded {
            settle += &format!(" --provider {}", quote(&effect.provider));
            if !effect.provider_key.is_empty() {
                settle += &format!(" --provider-key {}", quote(&effect.provider_key));
            }
        }
        text += &format!("\n  {settle} --committed --evidence TEXT");
        let proves = match (now, effect.provable_time.as_ref()) {
            (Some(now), Some(from)) => time::between(now, from).is_zero(),
            (_, _) => false,
        };
        if let (true, Some(now)) = (proves, now) {
            let as_of = view::rfc3339(now);
            text +=
                &format!("\n  {settle} --not-found --as-of {as_of}    (if you ask it after this)");
        }
    }
    let verdicts: String =
        open.iter().map(|effect| format!(" --verdict {}=VERDICT", effect.uid)).collect();
    text + &format!(
        "\n  firstclaim resolve {flags} -K {} --epoch {}{verdicts} --succeeded|--failed|--retry --reason TEXT",
        quote(key),
        record.epoch
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_since_when_and_why() {
        let at = |seconds| Some(Timestamp { seconds, nanos: 0 });
        let effect = |uid: &str, since| v1::Effect {
            uid: uid.to_owned(),
            state: v1::EffectState::Open.into(),
            cause: v1::OpenCause::ReleasedUnknown.into(),
            note: "the bank did not answer".to_owned(),
            open_since: at(since),
            ..v1::Effect::default()
        };
        let settled =
            v1::Effect { state: v1::EffectState::Committed.into(), ..v1::Effect::default() };
        let record = v1::Record {
            key: "k".to_owned(),
            effects: vec![settled, effect("7/mail", 90), effect("7/pay", 40)],
            ..v1::Record::default()
        };
        let row = row(&record, at(100).as_ref());
        assert_eq!(row[0], "1m");
        assert_eq!(row[5], "7/mail, 7/pay");
        assert_eq!(row[6], "released: the bank did not answer");
    }
}
