//! One file per command: what it takes, what it calls, what it prints; and, beside them, how things
//! are named that several commands take.

pub(crate) mod apply;
#[cfg(feature = "server")]
pub(crate) mod bench;
pub(crate) mod claim;
pub(crate) mod cluster;
pub(crate) mod completions;
#[cfg(feature = "server")]
pub(crate) mod demo;
#[cfg(feature = "server")]
pub(crate) mod dev;
pub(crate) mod diagnose;
pub(crate) mod drill;
pub(crate) mod effect;
pub(crate) mod error;
pub(crate) mod explain;
pub(crate) mod get;
pub(crate) mod help;
pub(crate) mod holder;
pub(crate) mod intent;
pub(crate) mod namespace;
pub(crate) mod naming;
pub(crate) mod owner;
pub(crate) mod policy;
pub(crate) mod record;
pub(crate) mod reserve;
pub(crate) mod resolve;
pub(crate) mod review;
pub(crate) mod run;
#[cfg(feature = "server")]
pub(crate) mod server;
pub(crate) mod settle;
pub(crate) mod spec;
pub(crate) mod tenant;
pub(crate) mod unresolved;
pub(crate) mod version;

use crate::args::{Cli, Command};
use crate::context::Context;
use crate::failure::Failure;

/// Runs a command and returns its exit code.
pub(crate) async fn run(cli: Cli) -> Result<u8, Failure> {
    let context = Context::new(cli.global);
    match cli.command {
        #[cfg(feature = "server")]
        Command::Server(args) => server::run(context.out, args).await,
        #[cfg(feature = "server")]
        Command::Dev(args) => dev::run(args).await,
        #[cfg(feature = "server")]
        Command::Demo(args) => demo::run(args).await,
        Command::Claim(args) => claim::run(&context, args).await,
        Command::Renew(args) => holder::renew(&context, args).await,
        Command::Complete(args) => holder::complete(&context, args).await,
        Command::Release(args) => holder::release(&context, args).await,
        Command::Run(args) => run::run(&context, args).await,
        Command::Effect(args) => effect::run(&context, args).await,
        Command::Settle(args) => settle::run(&context, args).await,
        Command::Reserve(args) => reserve::reserve(&context, args).await,
        Command::Get(args) => get::run(&context, args).await,
        Command::Explain(args) => explain::run(&context, args).await,
        Command::Record(action) => record::run(&context, action).await,
        Command::Unresolved(action) => unresolved::run(&context, action).await,
        Command::Parked(action) => unresolved::parked(&context, action).await,
        Command::Resolve(args) => resolve::resolve(&context, args).await,
        Command::Revoke(args) => resolve::revoke(&context, args).await,
        Command::Admit(args) => reserve::admit(&context, args).await,
        Command::Tenant(action) => tenant::run(&context, action).await,
        Command::Namespace(action) => namespace::run(&context, action).await,
        Command::Policy(action) => policy::run(&context, action).await,
        Command::Apply(args) => apply::apply(&context, args).await,
        Command::Diff(args) => apply::diff(&context, args).await,
        Command::Diagnose(args) => diagnose::run(&context, args).await,
        Command::Review(args) => review::run(&context, args).await,
        Command::Drill(args) => drill::run(&context, args).await,
        Command::Cluster(action) => cluster::run(&context, action).await,
        #[cfg(feature = "server")]
        Command::Bench(args) => bench::run(&context, args).await,
        Command::Error(action) => error::run(&context, &action),
        Command::Completions(args) => completions::run(&context, &args),
        Command::Version(args) => version::run(&context, &args),
        Command::Help(args) => help::run(&context, &args),
    }
}
