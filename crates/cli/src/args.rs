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
    /// Claim, run a command, and complete with its output and exit code
    Run(command::run::Args),
    /// Record an effect and ask for leave to send it
    Effect(command::effect::Args),
    /// Say, with evidence, whether an effect happened
    Settle(command::settle::Args),
    /// Bind a key to its request where the intent is born
    Reserve(command::reserve::ReserveArgs),
    /// Show what is known about a key
    Get(command::get::Args),
    /// Say which rule would decide a claim now, and by what
    Explain(command::explain::Args),
    /// Look at records and at their past
    #[command(subcommand)]
    Record(command::record::Action),
    /// Look at what may have happened and nobody has said
    #[command(subcommand)]
    Unresolved(command::unresolved::Action),
    /// Look at records whose tries are used up
    #[command(subcommand)]
    Parked(command::unresolved::Parked),
    /// End a record that nobody else can end
    Resolve(command::resolve::ResolveArgs),
    /// Take from a live holder the right to go on
    Revoke(command::resolve::RevokeArgs),
    /// Let a key in that was refused as too late but is known never to have run
    Admit(command::reserve::AdmitArgs),
    /// Manage tenants and their policies
    #[command(subcommand)]
    Tenant(command::tenant::Action),
    /// Manage namespaces and what they override of their tenant's policy
    #[command(subcommand)]
    Namespace(command::namespace::Action),
    /// Check whether the policy of a namespace is long enough for what really comes
    #[command(subcommand)]
    Policy(command::policy::Action),
    /// Make tenants, namespaces and policies as a file says
    Apply(command::apply::ApplyArgs),
    /// Show what a policy file would change
    Diff(command::apply::DiffArgs),
    /// Say where idempotency was lost
    Diagnose(command::diagnose::Args),
    /// Answer the twelve questions of an idempotency review
    Review(command::review::Args),
    /// Run the failure table against a cluster, with a fake queue and a fake provider
    Drill(command::drill::Args),
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
            "firstclaim claim -K k --effect payment",
            "firstclaim claim -K k --effect p,provider=b --complete-with done",
            "firstclaim settle -K k 7/p",
            "firstclaim settle -K k 7/p --not-found",
            "firstclaim settle -K k 7/p --committed --refused",
            "firstclaim settle -K k 7/p --committed --status 422",
            "firstclaim resolve -K k --epoch 1 --succeeded",
            "firstclaim resolve -K k --epoch 1 --reason r",
            "firstclaim resolve -K k --epoch 1 --reason r --retry --result x",
            "firstclaim resolve -K k --epoch 1 --reason r --succeeded --verdict 7/p=paid",
            "firstclaim revoke -K k --epoch 1",
            "firstclaim record purge -K k --epoch 1",
            "firstclaim record list --state done",
            "firstclaim record watch -K k --after 3",
            "firstclaim effect -K k --epoch 1 --attempt a payment",
            "firstclaim run -K k",
            "firstclaim record show",
            "firstclaim record show k -K k",
            "firstclaim explain",
            "firstclaim run -K k ./pay.sh",
            "firstclaim run -K k --retry-on 300 -- ./pay.sh",
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
            "firstclaim claim -K k --wait 10s --allow-duplicate-intent --complete-with done",
            "firstclaim claim -K k --effect payment,provider=bank,key=k,window=24h",
            "firstclaim complete -K k --epoch 1 --attempt a --succeeded --settle 7/p,committed,provider=b",
            "firstclaim run -K k --wait 5s --retry-on 75,69 -- ./pay.sh 847 --fast",
            "firstclaim effect -K k --epoch 1 --attempt a payment --provider bank --provider-key p --dedup-window forever --number 2 --within 5s",
            "firstclaim settle -K k 7/p --provider b --provider-key p --committed --evidence tx",
            "firstclaim settle -K k 7@12 --not-found --as-of 2026-01-02T03:04:05Z --principal ada",
            "firstclaim settle -K k 7/p --refused --status 422",
            "firstclaim reserve -K k --request pay --intent-time 2026-01-02T03:04:05Z --label a=b",
            "firstclaim admit -K k --request pay --reason never-ran",
            "firstclaim resolve -K k --epoch 1 --verdict 7/p=committed --succeeded --result tx --reason r",
            "firstclaim resolve -K k --epoch 1 --verdict 7@12=override --retry --after 1h --reason r",
            "firstclaim revoke -K k --epoch 1 --reason hangs",
            "firstclaim explain payout:847 --request pay --owner w",
            "firstclaim record show -K k",
            "firstclaim record history -K k",
            "firstclaim record history payout:847",
            "firstclaim record watch payout:847",
            "firstclaim unresolved show payout:847",
            "firstclaim get payout:847 --local",
            "firstclaim explain -K k",
            "firstclaim record list --state unresolved --older-than 1h --prefix p --label a=b --limit 0",
            "firstclaim record watch --after 918204",
            "firstclaim record watch -K k",
            "firstclaim record purge -K k --epoch 1 --reason erasure",
            "firstclaim unresolved list",
            "firstclaim unresolved show -K k",
            "firstclaim parked list --limit 10",
            "firstclaim namespace extend-existing payouts -t acme",
            "firstclaim get -K k --local",
            "firstclaim tenant create acme --identity-retention forever --on-lapse takeover",
            "firstclaim tenant set acme --result-retention 7d --unset lease_max --dry-run",
            "firstclaim tenant list",
            "firstclaim tenant delete acme --force",
            "firstclaim namespace set payouts -t acme --replay-window dlq=14d",
            "firstclaim policy check -t acme -n payouts --limit 100",
            "firstclaim apply -f acme.yaml --accept-shorter-retention",
            "firstclaim diff -f -",
            "firstclaim diagnose -n payouts -K payout:847 --all",
            "firstclaim review -n payouts",
            "firstclaim drill --intents 2 --scenario both-alive --limit 30s --keep",
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
