//! `firstclaim bench`: measures a cluster with a closed loop of claims.

use std::time::Duration;

use firstclaim_bench::{BenchConfig, Distribution, Journal, Work, Workload};
use firstclaim_server::dev::{DevCluster, DevOptions, Ports};

use super::dev::quiet_log;
use crate::context::Context;
use crate::failure::{Failure, describe};
use crate::{duration, exit};

/// Measures a cluster with a closed loop of claims.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The tenant and the namespace must exist; `firstclaim dev` has demo/payouts.
Workloads:
  claims      every operation is a first claim, and is completed
  duplicates  nine of ten deliveries are repeats
  effects     every intent records one effect: by a call of its own and in the claim, in turns
  batch       many intents a call

Examples:
  firstclaim bench -t demo -n payouts --concurrency 64 --duration 10s
  firstclaim bench --dev --concurrency 256 --workload duplicates
  firstclaim bench --dev --concurrency 8 --workload batch --batch-size 500")]
pub(crate) struct Args {
    /// Workers, each with one call under way
    #[arg(short, long, default_value_t = 64, value_name = "N")]
    concurrency: usize,
    /// How long to measure
    #[arg(long, default_value = "10s", value_parser = duration::parse)]
    duration: Duration,
    /// Load before the measurement
    #[arg(long, default_value = "2s", value_parser = duration::parse, value_name = "DURATION")]
    warm_up: Duration,
    /// How keys are chosen: sequential, uniform or zipf
    #[arg(long, default_value = "sequential")]
    distribution: Distribution,
    /// How many keys uniform and zipf draw from
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    keys: u64,
    /// What is measured: claims, duplicates, effects or batch
    #[arg(short, long, default_value = "claims")]
    workload: Workload,
    /// With effects: apart, in-claim or both
    #[arg(long, default_value = "both")]
    journal: Journal,
    /// With batch: keys of one call
    #[arg(long, default_value_t = 100, value_name = "N")]
    batch_size: usize,
    /// Share of operations, 0 to 1, that repeat a recent key; if it is not given, the workload's
    #[arg(long, value_name = "SHARE")]
    duplicate_ratio: Option<f64>,
    /// Bytes of the stored result
    #[arg(long, default_value_t = 64, value_name = "BYTES")]
    payload_bytes: usize,
    /// Claim only; the leases are left to lapse
    #[arg(long, conflicts_with = "workload")]
    claim_only: bool,
    /// End after so many operations
    #[arg(long, value_name = "N")]
    operations: Option<u64>,
    /// Where all choices come from; another seed has other keys. Default: a new one
    #[arg(long)]
    seed: Option<u64>,
    /// Start three regions in this process, on free ports, and measure those
    #[arg(long)]
    dev: bool,
}

pub(crate) async fn run(context: &Context, args: Args) -> Result<u8, Failure> {
    if !args.dev {
        return measure(context, args, context.endpoints()).await;
    }
    quiet_log()?;
    let options = DevOptions { ports: Ports::Free, ..DevOptions::default() };
    let cluster = DevCluster::start(&options).await;
    let cluster = cluster.map_err(|error| Failure::other(describe(&error)))?;
    let code = measure(context, args, cluster.endpoints()).await;
    cluster.shutdown().await;
    code
}

async fn measure(context: &Context, args: Args, endpoints: Vec<String>) -> Result<u8, Failure> {
    let default = BenchConfig::default();
    let config = BenchConfig {
        endpoints,
        tenant: context.tenant(None).unwrap_or(default.tenant),
        namespace: context.namespace(None).unwrap_or(default.namespace),
        concurrency: args.concurrency,
        distribution: args.distribution,
        keys: args.keys,
        duplicate_ratio: args.duplicate_ratio.unwrap_or_else(|| args.workload.duplicate_ratio()),
        work: if args.claim_only { Work::Claim } else { args.workload.work(args.journal) },
        batch_size: args.batch_size,
        payload_bytes: args.payload_bytes,
        warm_up: args.warm_up,
        duration: args.duration,
        operations_max: args.operations.unwrap_or(default.operations_max),
        timeout: context.timeout(),
        seed: args.seed.unwrap_or_else(rand::random),
    };
    let report = firstclaim_bench::run(config)
        .await
        .map_err(|error| Failure::Other { message: describe(&error), code: exit::OTHER })?;
    let text = if context.out.format.is_json() {
        report.to_json().map_err(|error| Failure::other(format!("write json: {error}")))?
    } else {
        report.to_string()
    };
    context.out.text(&(text.trim_end().to_owned() + "\n"))?;
    Ok(if report.failures() == 0 { exit::DONE } else { exit::OTHER })
}
