//! `firstclaim drill`: the failure table against a live cluster, with the provider's ledger as the
//! witness.

use std::time::Duration;

use clap::builder::PossibleValuesParser;
use firstclaim_client::{Client, ClientConfig};

use crate::context::Context;
use crate::drill::{self, DrillOptions};
use crate::failure::Failure;
use crate::{duration, exit};

/// One try at one endpoint: short, so that a worker hears soon that its node is gone.
const TRY_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs the failure table against a cluster.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The queue and the provider are fakes inside this process; the cluster is the one that --endpoint
names. The drill works in a tenant of its own, drill-…, and deletes it when it has passed.

Exit code 0: no intent had two effects, and none was lost or is stuck without being listed as
unresolved. 1: the drill has failed; its tenant stays for you to look at.")]
pub(crate) struct Args {
    /// Intents of each scenario
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u8).range(1..=100))]
    intents: u8,
    /// Only this scenario; repeatable
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(drill::names()))]
    scenario: Vec<String>,
    /// What has not ended by then counts as stuck
    #[arg(long, value_parser = duration::parse, value_name = "DURATION", default_value = "60s")]
    limit: Duration,
    /// Keep the tenant
    #[arg(long)]
    keep: bool,
}

pub(crate) async fn run(context: &Context, args: Args) -> Result<u8, Failure> {
    let options = DrillOptions {
        intents: usize::from(args.intents),
        only: args.scenario,
        limit: args.limit,
        keep: args.keep,
    };
    let report = drill::run_drill(&clients(context)?, &options).await?;
    context.out.data("Drill", report.json(), &report.shown())?;
    for fault in report.faults() {
        context.out.say(&format!("FAULT  {fault}"));
    }
    let elapsed = report.elapsed.as_secs_f64();
    if report.passed() {
        context.out.say(&format!(
            "\nEvery intent had its effect once, was refused by name, or is listed as unresolved. \
             {elapsed:.1} s"
        ));
        return Ok(exit::DONE);
    }
    context.out.say(&format!(
        "\nFAILED after {elapsed:.1} s; look at firstclaim record list -t {} -n SCENARIO",
        report.tenant
    ));
    Ok(exit::OTHER)
}

/// A client for each endpoint, which goes on to the next ones when its own is gone.
fn clients(context: &Context) -> Result<Vec<Client>, Failure> {
    let mut endpoints = context.endpoints();
    let mut clients = Vec::new();
    for _ in 0..endpoints.len() {
        let mut config = ClientConfig::new(endpoints.clone()).with_timeout(context.timeout());
        config.try_timeout = config.try_timeout.min(TRY_TIMEOUT);
        let client = Client::lazy(config).map_err(|error| Failure::usage(error.to_string()))?;
        clients.push(client);
        endpoints.rotate_left(1);
    }
    if clients.is_empty() {
        return Err(Failure::usage("no endpoint is given; name one with --endpoint (-E)"));
    }
    Ok(clients)
}
