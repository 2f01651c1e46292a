//! `firstclaim policy check`: is the policy of a namespace long enough for what really comes?

use clap::Subcommand;
use firstclaim_client::{Client, v1};
use serde_json::json;

use crate::context::Context;
use crate::diagnose::millis;
use crate::failure::Failure;
use crate::observed::{Observed, observe};
use crate::output::Shown;
use crate::policy_check::{Level, check};
use crate::{exit, scan};

/// What to do with policies.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Check retention and the rest against the declared windows and against what was seen
    #[command(after_help = "Exit code 0: nothing fails. 6: the policy does not hold.")]
    Check {
        /// Most records to look at
        #[arg(long, value_name = "N", default_value = "5000")]
        limit: u32,
    },
}

pub(crate) async fn run(context: &Context, action: Action) -> Result<u8, Failure> {
    let Action::Check { limit } = action;
    let (tenant, namespace) = (context.tenant(None)?, context.namespace(None)?);
    let client = context.client()?;
    let (policy, facts) = look(&client, (&tenant, &namespace), limit).await?;
    let rulings = check(&policy, &facts);
    let failed = rulings.iter().any(|ruling| ruling.level == Level::Failure);
    let data = json!({
        "tenant": tenant,
        "namespace": namespace,
        "holds": !failed,
        "records": facts.records,
        "moreRecords": facts.more,
        "rulings": rulings.iter().map(|ruling| json!({
            "level": ruling.level.name().to_uppercase(),
            "rule": ruling.rule,
            "text": ruling.text,
        })).collect::<Vec<_>>(),
    });
    let rows = rulings.iter().map(|ruling| {
        vec![ruling.level.name().to_owned(), ruling.rule.to_owned(), ruling.text.clone()]
    });
    let shown = Shown::Rows { header: vec!["", "RULE", "WHAT IS SO"], rows: rows.collect() };
    context.out.data("PolicyCheck", data, &shown)?;
    if facts.more {
        let seen = facts.records;
        context.out.say(&format!("only the first {seen} records were looked at; see --limit"));
    }
    Ok(if failed { exit::CONFLICT } else { exit::DONE })
}

/// A namespace, looked at.
pub(crate) struct Look {
    /// The policy in effect.
    pub(crate) policy: v1::Policy,
    pub(crate) facts: Observed,
    pub(crate) histories: Vec<v1::GetHistoryResponse>,
}

/// The policy in effect of a namespace, and what was seen in it.
pub(crate) async fn look(
    client: &Client,
    scope: (&str, &str),
    limit: u32,
) -> Result<(v1::Policy, Observed), Failure> {
    look_closely(client, scope, limit).await.map(|seen| (seen.policy, seen.facts))
}

/// The same with the histories.
pub(crate) async fn look_closely(
    client: &Client,
    (tenant, namespace): (&str, &str),
    limit: u32,
) -> Result<Look, Failure> {
    let request =
        v1::GetNamespaceRequest { tenant: tenant.to_owned(), namespace: namespace.to_owned() };
    let present = client.get_namespace(request).await?;
    let now = present.store_time.as_ref().map_or(0, millis);
    let policy = present.namespace.and_then(|namespace| namespace.effective_policy);
    let policy = policy.ok_or_else(|| Failure::lacks("the policy in effect"))?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let found = scan::records(client, (tenant, namespace), limit).await?;
    let keys: Vec<String> = found.records.into_iter().map(|record| record.key).collect();
    let histories = scan::histories(client, (tenant, namespace), &keys).await?;
    let facts = observe(&histories, found.more, now);
    Ok(Look { policy, facts, histories })
}
