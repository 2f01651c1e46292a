//! `firstclaim demo`: the visible story, with the bank's ledger as the witness.

use std::io;
use std::time::Duration;

use super::dev::quiet_log;
use crate::demo::{DemoOptions, run_demo};
use crate::failure::{Failure, describe};
use crate::{duration, exit};

/// Watches 200 payouts survive duplicate deliveries and a killed leader.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit code 0: the ledger shows exactly one payment for each payout.")]
pub(crate) struct Args {
    /// Workers that race
    #[arg(long, value_name = "N")]
    workers: Option<usize>,
    /// Payouts to make
    #[arg(long, value_name = "N")]
    intents: Option<usize>,
    /// Time from one payout to the next
    #[arg(long, value_parser = duration::parse, value_name = "DURATION")]
    pace: Option<Duration>,
    /// Where the schedule and the lost answers come from. Default: a new one, which is printed
    #[arg(long)]
    seed: Option<u64>,
    /// The demo fails after this time
    #[arg(long, value_parser = duration::parse, value_name = "DURATION")]
    limit: Option<Duration>,
}

pub(crate) async fn run(args: Args) -> Result<u8, Failure> {
    quiet_log()?;
    let default = DemoOptions::default();
    let options = DemoOptions {
        workers: args.workers.unwrap_or(default.workers),
        intents: args.intents.unwrap_or(default.intents),
        pace: args.pace.unwrap_or(default.pace),
        seed: args.seed.unwrap_or(default.seed),
        limit: args.limit.unwrap_or(default.limit),
    };
    let report = run_demo(options, &mut io::stdout()).await;
    let report = report.map_err(|error| Failure::other(describe(&error)))?;
    Ok(if report.succeeded() { exit::DONE } else { exit::OTHER })
}
