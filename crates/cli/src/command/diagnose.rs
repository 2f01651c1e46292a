//! `firstclaim diagnose`: where was idempotency lost?

use firstclaim_client::{Client, v1};
use serde_json::{Value, json};

use crate::context::Context;
use crate::diagnose::{Diagnosis, Evidence, Finding, Past, diagnose, fingerprint};
use crate::failure::Failure;
use crate::output::Shown;
use crate::{exit, scan};

/// Lines of evidence that people see of each cause.
const SHOWN: usize = 12;

/// Says where idempotency was lost, from the history of records and the labels of attempts.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
What it goes by: the owner label (or the label instance, pod, hostname) names the process, the label
message_id names the message, the label delivery (or receive_count) counts its deliveries.

  RETRY_IN_HANDLER  the same instance began again within one delivery
  REDELIVERY        another instance, or a later delivery, of the same message
  PUBLISHED_TWICE   another message under the same key
  KEY_PER_ATTEMPT   one fingerprint under many keys
  CHECK_SKIPPED     no claim in the scope was ever a repeat, although a message was claimed under a
                    delivery number above one whose earlier numbers never asked
  KEY_REUSED        another request under the same key
  UNLABELLED        repeats without a message label: nobody can say why

The history keeps the last 8 grants and the last 16 other claims of a key, and may lag by seconds.")]
pub(crate) struct Args {
    /// Only this key, and those that carry the same request
    #[arg(short = 'K', long, value_name = "KEY")]
    key: Option<String>,
    /// Most keys to look at
    #[arg(long, value_name = "N", default_value = "5000")]
    limit: u32,
    /// Show all evidence
    #[arg(long)]
    all: bool,
}

pub(crate) async fn run(context: &Context, args: Args) -> Result<u8, Failure> {
    let (tenant, namespace) = (context.tenant(None)?, context.namespace(None)?);
    let client = context.client()?;
    let scope = (tenant.as_str(), namespace.as_str());
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let (keys, more) = keys(&client, scope, (args.key.as_deref(), limit)).await?;
    let told = scan::histories(&client, scope, &keys).await?;
    let pasts: Vec<Past> = told.iter().map(Past::from_wire).collect();
    let diagnosis = diagnose(&pasts);
    let data = json!({
        "tenant": tenant,
        "namespace": namespace,
        "key": args.key,
        "keys": diagnosis.keys,
        "moreKeys": more,
        "grants": diagnosis.grants,
        "hits": diagnosis.hits,
        "causes": diagnosis.findings.iter().map(finding).collect::<Vec<_>>(),
    });
    let shown = if args.all { usize::MAX } else { SHOWN };
    context.out.data("Diagnosis", data, &Shown::Fields(lines(&diagnosis, shown)))?;
    if more {
        context.out.say(&format!("only the first {} keys were looked at; see --limit", keys.len()));
    }
    Ok(exit::DONE)
}

/// The keys to look at, and whether there are more.
async fn keys(
    client: &Client,
    scope: (&str, &str),
    (key, limit): (Option<&str>, usize),
) -> Result<(Vec<String>, bool), Failure> {
    let found = scan::records(client, scope, limit).await?;
    let Some(key) = key else {
        let keys = found.records.into_iter().map(|record| record.key).collect();
        return Ok((keys, found.more));
    };
    let (tenant, namespace) = scope;
    let read = client.get((tenant, namespace, key), v1::Consistency::Linearizable).await?;
    let request = read.record.as_ref().and_then(fingerprint);
    let alike = |record: &v1::Record| {
        record.key == key || (request.is_some() && fingerprint(record) == request)
    };
    let mut keys: Vec<String> =
        found.records.iter().filter(|record| alike(record)).map(|it| it.key.clone()).collect();
    if !keys.iter().any(|known| known == key) {
        keys.push(key.to_owned());
    }
    Ok((keys, found.more))
}

fn time(millis: u64) -> String {
    i64::try_from(millis)
        .ok()
        .and_then(|millis| jiff::Timestamp::from_millisecond(millis).ok())
        .map_or_else(String::new, |time| time.to_string())
}

fn finding(finding: &Finding) -> Value {
    let evidence =
        |line: &Evidence| json!({ "time": time(line.time), "key": line.key, "text": line.text });
    json!({
        "cause": finding.cause.name(),
        "meaning": finding.cause.meaning(),
        "whatToDo": finding.cause.advice(),
        "count": finding.count,
        "keys": finding.keys,
        "firstTime": time(finding.first),
        "lastTime": time(finding.last),
        "details": finding.details,
        "evidence": finding.evidence.iter().map(evidence).collect::<Vec<_>>(),
    })
}

fn lines(diagnosis: &Diagnosis, shown: usize) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    let mut line = |name: &str, text: String| lines.push((name.to_owned(), text));
    let Diagnosis { keys, grants, hits, .. } = diagnosis;
    line("looked at", format!("{keys} keys, {grants} grants, {hits} claims that were repeats"));
    if diagnosis.findings.is_empty() {
        line("cause", "none: no claim was an unasked repeat".to_owned());
    }
    for finding in &diagnosis.findings {
        line("", String::new());
        line("cause", finding.cause.name().to_owned());
        line("what", finding.cause.meaning().to_owned());
        let span = format!("{} to {}", time(finding.first), time(finding.last));
        line("seen", format!("{} times at {} keys, {span}", finding.count, finding.keys.len()));
        for detail in &finding.details {
            line("", detail.clone());
        }
        line("what to do", finding.cause.advice().to_owned());
        for evidence in finding.evidence.iter().take(shown) {
            line(
                "evidence",
                format!("{} {}: {}", time(evidence.time), evidence.key, evidence.text),
            );
        }
        let rest = finding.evidence.len().saturating_sub(shown);
        if rest > 0 {
            line("", format!("{rest} more lines; see --all"));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clean_scope_says_so() {
        let lines = lines(&diagnose(&[]), SHOWN);
        assert_eq!(lines.len(), 2);
        assert!(lines[1].1.starts_with("none"), "{lines:?}");
    }

    #[test]
    fn times_are_those_of_the_store() {
        assert_eq!(time(1_767_323_045_120), "2026-01-02T03:04:05.12Z");
    }
}
