//! `firstclaim review`: the twelve questions of an idempotency review, for one namespace.

use firstclaim_client::{Client, Error};
use serde_json::{Value, json};

use super::policy::look_closely;
use crate::context::Context;
use crate::diagnose::{Past, diagnose};
use crate::failure::Failure;
use crate::output::Shown;
use crate::policy_check::check;
use crate::review::{Answer, Sources, review};
use crate::{exit, metered};

/// Answers the twelve questions of an idempotency review for a namespace.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Answers come from the policy in effect, from what records and histories show, from the metrics of the
nodes that --metrics names, and from the state of the cluster. What the store cannot know is printed as \"you assume: …\": put it into your design
document, and find out.")]
pub(crate) struct Args {
    /// Most records to look at
    #[arg(long, value_name = "N", default_value = "5000")]
    limit: u32,
    /// HTTP address of a node whose metrics are to be read as well; repeatable
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    metrics: Vec<String>,
}

pub(crate) async fn run(context: &Context, args: Args) -> Result<u8, Failure> {
    let (tenant, namespace) = (context.tenant(None)?, context.namespace(None)?);
    let client = context.client()?;
    let seen = look_closely(&client, (&tenant, &namespace), args.limit).await?;
    let members = members(&client).await?;
    let metered = metered::ask(&args.metrics, (&tenant, &namespace)).await?;
    let pasts: Vec<Past> = seen.histories.iter().map(Past::from_wire).collect();
    let diagnosis = diagnose(&pasts);
    let rulings = check(&seen.policy, &seen.facts);
    let answers = review(&Sources {
        policy: &seen.policy,
        facts: &seen.facts,
        diagnosis: &diagnosis,
        rulings: &rulings,
        members: &members,
        metered: metered.as_ref(),
    });
    let data = json!({
        "tenant": tenant,
        "namespace": namespace,
        "records": seen.facts.records,
        "moreRecords": seen.facts.more,
        "answers": (1..).zip(&answers).map(value).collect::<Vec<_>>(),
    });
    context.out.data("Review", data, &Shown::Fields(lines(&answers)))?;
    Ok(exit::DONE)
}

/// The members as the leader knows them, or else as any node does.
async fn members(client: &Client) -> Result<Vec<firstclaim_client::v1::Member>, Error> {
    let seen = client.members().await?;
    let leader = seen.members.iter().find(|member| member.leader);
    if let Some(leader) = leader
        && !leader.client_address.is_empty()
        && let Ok(by_leader) = client.members_at(&leader.client_address).await
    {
        return Ok(by_leader.members);
    }
    Ok(seen.members)
}

fn value((number, answer): (u32, &Answer)) -> Value {
    json!({
        "number": number,
        "title": answer.title,
        "question": answer.question,
        "known": answer.known,
        "concerns": answer.concerns,
        "youAssume": answer.assumed,
    })
}

fn lines(answers: &[Answer]) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    for (number, answer) in (1..).zip(answers) {
        lines.push((format!("{number}. {}", answer.title), answer.question.to_owned()));
        let said = answer.known.iter().cloned();
        let concerns = answer.concerns.iter().map(|text| format!("! {text}"));
        let assumed = answer.assumed.iter().map(|text| format!("you assume: {text}"));
        lines.extend(said.chain(concerns).chain(assumed).map(|text| (String::new(), text)));
    }
    lines
}
