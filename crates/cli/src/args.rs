//! What can be typed: the global flags and the list of commands.

use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::command;
use crate::duration;

/// The first claim on a business intent, decided once for all regions.
#[derive(Debug, Parser)]
#[command(
    name = "firstclaim",
    version,
    disable_help_subcommand = true,
    arg_required_else_help = true,
    after_help = "Durations are written 500ms, 30s, 15m, 24h, 30d. Exit codes: firstclaim help exit-codes"
)]
pub(crate) struct Cli {
    /// Flags of every command.
    #[command(flatten)]
    pub(crate) global: Global,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags of every command.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Nodes to ask, nearest first; repeatable
    #[arg(
        short = 'E',
        long,
        global = true,
        env = "FIRSTCLAIM_ENDPOINT",
        value_delimiter = ',',
        default_value = "127.0.0.1:4360",
        value_name = "HOST:PORT"
    )]
    pub(crate) endpoint: Vec<String>,
    /// Tenant
    #[arg(short = 't', long, global = true, env = "FIRSTCLAIM_TENANT")]
    pub(crate) tenant: Option<String>,
    /// Namespace
    #[arg(short = 'n', long, global = true, env = "FIRSTCLAIM_NAMESPACE")]
    pub(crate) namespace: Option<String>,
    /// Longest time for one call with all its tries
    #[arg(
        long,
        global = true,
        env = "FIRSTCLAIM_TIMEOUT",
        default_value = "15s",
        value_parser = duration::parse,
        value_name = "DURATION"
    )]
    pub(crate) timeout: Duration,
    /// How data is written
    #[arg(
        short = 'o',
        long,
        global = true,
        env = "FIRSTCLAIM_OUTPUT",
        value_enum,
        default_value = "table"
    )]
    pub(crate) output: Format,
}

/// How data is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Table,
    /// For programs: one object with `apiVersion` and `kind`
    Json,
}

impl Format {
    pub(crate) fn is_json(self) -> bool {
        self == Self::Json
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run one node of a cluster
    #[cfg(feature = "server")]
    Server(command::server::Args),
    /// Run three regions in one process, to try things out
    #[cfg(feature = "server")]
    Dev(command::dev::Args),
    /// Watch 200 payouts survive duplicate deliveries and a killed leader
    #[cfg(feature = "server")]
    Demo(command::demo::Args),
    /// Ask for the right to act on an intent
    Claim(command::claim::Args),
    /// Make the lease of a claim longer
    Renew(command::holder::RenewArgs),
    /// End an intent for good and store its result
    Complete(command::holder::CompleteArgs),
    /// Give a claim back without completing it
    Release(command::holder::ReleaseArgs),
    /// Show what is known about a key
    Get(command::get::Args),
    /// Manage tenants and their policies
    #[command(subcommand)]
    Tenant(command::tenant::Action),
    /// Manage namespaces and what they override of their tenant's policy
    #[command(subcommand)]
    Namespace(command::namespace::Action),
    /// Look at the cluster
    #[command(subcommand)]
    Cluster(command::cluster::Action),
    /// Measure a cluster with a closed loop of claims
    #[cfg(feature = "server")]
    Bench(command::bench::Args),
    /// Explain the reasons of failures
    #[command(subcommand)]
    Error(command::error::Action),
    /// Write a completion script for a shell
    Completions(command::completions::Args),
    /// Show the version
    Version(command::version::Args),
    /// Show help about a command or a topic (exit-codes)
    Help(command::help::Args),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn global_flags_stand_before_or_after_the_command() {
        for line in [
            "firstclaim -t acme -n payouts -E a:1,b:2 -o json --timeout 3s get -K k",
            "firstclaim get -K k -t acme -n payouts -E a:1 -E b:2 -o json --timeout 3s",
        ] {
            let global = parse(line).unwrap().global;
            assert_eq!(global.endpoint, ["a:1", "b:2"], "{line}");
            assert_eq!(global.tenant.as_deref(), Some("acme"));
            assert_eq!(global.namespace.as_deref(), Some("payouts"));
            assert_eq!(global.timeout, Duration::from_secs(3));
            assert!(global.output.is_json());
        }
    }

    #[test]
    fn faults_are_faults() {
        for line in [
            "firstclaim",
            "firstclaim get",
            "firstclaim gett -K k",
            "firstclaim get -K k --timeout 3",
            "firstclaim get -K k --timeout 3mo",
            "firstclaim get -K k -o xml",
            "firstclaim complete -K k --epoch 1 --attempt a",
            "firstclaim complete -K k --epoch 1 --attempt a --succeeded --failed",
            "firstclaim release -K k --epoch 1 --attempt a --retry --unbind",
            "firstclaim claim -K k --fingerprint raw",
            "firstclaim claim -K k --intent-time yesterday",
            "firstclaim tenant set acme --replay-window dlq",
            "firstclaim tenant set acme --identity-retention 1y",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn every_command_has_an_example_of_its_flags_that_parses() {
        for line in [
            "firstclaim claim -K k --request pay --lease 30s --label a=b --accept-recovery",
            "firstclaim claim -K k --fingerprint s=00112233445566778899aabbccddeeff",
            "firstclaim claim -K k --intent-time 2026-01-02T03:04:05Z --owner w --attempt a",
            "firstclaim renew -K k --epoch 281474976710657 --attempt a --lease 1m",
            "firstclaim complete -K k --epoch 1 --attempt a --succeeded --result done",
            "firstclaim complete -K k --epoch 1 --attempt a --failed --result-file f",
            "firstclaim release -K k --epoch 1 --attempt a --retry --after 5s",
            "firstclaim release -K k --epoch 1 --attempt a --unknown --note timeout",
            "firstclaim get -K k --local",
            "firstclaim tenant create acme --identity-retention forever --on-lapse takeover",
            "firstclaim tenant set acme --result-retention 7d --unset lease_max --dry-run",
            "firstclaim tenant list",
            "firstclaim tenant delete acme --force",
            "firstclaim namespace set payouts -t acme --replay-window dlq=14d",
            "firstclaim cluster status",
            "firstclaim cluster check",
            "firstclaim error explain STALE_EPOCH",
            "firstclaim error list",
            "firstclaim completions bash",
            "firstclaim version --build-id",
            "firstclaim help exit-codes",
            "firstclaim help tenant set",
        ] {
            if let Err(error) = parse(line) {
                panic!("{line}: {error}");
            }
        }
    }
}
