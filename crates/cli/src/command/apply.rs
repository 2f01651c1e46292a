//! `firstclaim apply` and `diff`: tenants, namespaces and policies as a file says.

use std::path::PathBuf;

use firstclaim_client::Client;
use serde_json::{Value, json};

use super::naming::Bytes;
use super::policy::look;
use crate::context::Context;
use crate::duration::about;
use crate::exit;
use crate::failure::Failure;
use crate::output::Shown;
use crate::policy_check::{Kept, identity};
use crate::policy_file::{self, Change, Document, Stop, Target, Verb};

/// Records that are looked at for the oldest repeat before a retention is shortened.
const LOOKED_AT: u32 = 5_000;

/// Makes tenants, namespaces and policies as a file says.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The file is YAML with one document per tenant or namespace:

  apiVersion: firstclaim/v1
  kind: Namespace
  metadata: {tenant: acme, name: payouts}
  spec:
    identityRetention: 90d
    replayWindows: {dlq_redrive: 14d}

A document says all: what it does not name goes back to what is inherited. Nothing is changed unless
all of the file is in order. What the file does not name at all is left alone.")]
pub(crate) struct ApplyArgs {
    #[command(flatten)]
    file: FileArgs,
    /// Shorten an identity retention below the oldest repeat that was seen
    #[arg(long)]
    accept_shorter_retention: bool,
}

/// Shows what a file would change.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit code 0: nothing would change. 6: something would.")]
pub(crate) struct DiffArgs {
    #[command(flatten)]
    file: FileArgs,
}

#[derive(Debug, clap::Args)]
struct FileArgs {
    /// The file, - for standard input
    #[arg(short = 'f', long, value_name = "FILE")]
    file: PathBuf,
}

/// A file that was read.
struct Source {
    name: String,
    text: String,
    documents: Vec<Document>,
}

impl FileArgs {
    fn read(&self) -> Result<Source, Failure> {
        let name = self.file.display().to_string();
        let bytes = Bytes::File(self.file.clone()).read("policy file")?;
        let text = String::from_utf8(bytes)
            .map_err(|error| Failure::usage(format!("{name}: is not UTF-8: {error}")))?;
        match policy_file::read(&text) {
            Ok(documents) => Ok(Source { name, text, documents }),
            Err(faults) => Err(Failure::usage(policy_file::faults_text(&name, &text, &faults))),
        }
    }
}

impl Source {
    fn stopped(&self, stop: Stop) -> Failure {
        match stop {
            Stop::Call(error) => error.into(),
            Stop::Faults(faults) => {
                Failure::usage(policy_file::faults_text(&self.name, &self.text, &faults))
            }
        }
    }
}

pub(crate) async fn diff(context: &Context, args: DiffArgs) -> Result<u8, Failure> {
    let source = args.file.read()?;
    let client = context.client()?;
    let changes = policy_file::diff(&client, &source.documents).await;
    let mut changes = changes.map_err(|stop| source.stopped(stop))?;
    for risk in risks(&client, &source, &changes).await? {
        if let Some(change) = changes.iter_mut().find(|change| change.target == risk.target) {
            change.warnings.push(risk.text);
        }
    }
    print(context, &changes, true)?;
    let still = changes.iter().all(|change| change.verb == Verb::Keep);
    Ok(if still { exit::DONE } else { exit::CONFLICT })
}

pub(crate) async fn apply(context: &Context, args: ApplyArgs) -> Result<u8, Failure> {
    let source = args.file.read()?;
    let client = context.client()?;
    let planned = policy_file::diff(&client, &source.documents).await;
    let planned = planned.map_err(|stop| source.stopped(stop))?;
    let risks = risks(&client, &source, &planned).await?;
    if !risks.is_empty() && !args.accept_shorter_retention {
        let faults: Vec<policy_file::Fault> = risks
            .into_iter()
            .map(|risk| {
                let text = format!("{}; --accept-shorter-retention takes the risk", risk.text);
                policy_file::Fault::at(risk.place, text)
            })
            .collect();
        return Err(Failure::usage(policy_file::faults_text(&source.name, &source.text, &faults)));
    }
    let changes = policy_file::apply(&client, &source.documents).await;
    print(context, &changes.map_err(|stop| source.stopped(stop))?, false)?;
    Ok(exit::DONE)
}

/// A retention that would be too short for what was seen.
struct Risk {
    target: Target,
    place: (u64, u64),
    text: String,
}

/// Namespaces whose keys would be remembered for less long than repeats were seen to take.
async fn risks(client: &Client, source: &Source, planned: &[Change]) -> Result<Vec<Risk>, Failure> {
    const FIELD: &str = "identity_retention";
    let mut risks = Vec::new();
    for change in planned {
        let Target::Namespace { tenant, name } = &change.target else { continue };
        let shortened = change.changes.iter().any(|it| it.field.ends_with(FIELD));
        let document = source.documents.iter().find(|it| it.target == change.target);
        let (true, Some(document)) = (shortened, document) else { continue };
        let next = identity(&document.policy);
        let (present, facts) = look(client, (tenant, name), LOOKED_AT).await?;
        let Some(seen) = facts.oldest_repeat else { continue };
        if document.policy.identity_retention.is_some()
            && next < identity(&present)
            && next < Kept::For(seen.length)
        {
            risks.push(Risk {
                target: change.target.clone(),
                place: document.places.get(FIELD).copied().unwrap_or(document.place),
                text: format!(
                    "identity retention {} is shorter than the oldest repeat that was seen ({}, {})",
                    next.text(),
                    about(seen.length),
                    seen.key
                ),
            });
        }
    }
    Ok(risks)
}

fn print(context: &Context, changes: &[Change], dry: bool) -> Result<(), Failure> {
    let data = json!({ "dryRun": dry, "changes": changes.iter().map(value).collect::<Vec<_>>() });
    let mut lines = Vec::new();
    for change in changes {
        let verb = match (change.verb, dry) {
            (Verb::Create, true) => "would be created",
            (Verb::Create, false) => "created",
            (Verb::Change, true) => "would be changed",
            (Verb::Change, false) => "changed",
            (Verb::Keep, _) => "is as it should be",
        };
        lines.push((change.target.describe(), verb.to_owned()));
        for one in &change.changes {
            lines.push((format!("  {}", one.field), format!("{} -> {}", one.before, one.after)));
        }
        for warning in &change.warnings {
            lines.push(("  warning".to_owned(), warning.clone()));
        }
    }
    context.out.data("PolicyChanges", data, &Shown::Fields(lines))
}

fn value(change: &Change) -> Value {
    let (tenant, namespace) = match &change.target {
        Target::Tenant(name) => (name, None),
        Target::Namespace { tenant, name } => (tenant, Some(name)),
    };
    let verb = match change.verb {
        Verb::Create => "CREATE",
        Verb::Change => "CHANGE",
        Verb::Keep => "KEEP",
    };
    json!({
        "tenant": tenant,
        "namespace": namespace,
        "verb": verb,
        "fields": change.changes.iter().map(|one| json!({
            "field": one.field,
            "before": one.before,
            "after": one.after,
        })).collect::<Vec<_>>(),
        "warnings": change.warnings,
    })
}
