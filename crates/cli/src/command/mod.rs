//! One file per command: what it takes, what it calls, what it prints.

#[cfg(feature = "server")]
pub(crate) mod bench;
pub(crate) mod claim;
pub(crate) mod cluster;
pub(crate) mod completions;
#[cfg(feature = "server")]
pub(crate) mod demo;
#[cfg(feature = "server")]
pub(crate) mod dev;
pub(crate) mod error;
pub(crate) mod get;
pub(crate) mod help;
pub(crate) mod holder;
pub(crate) mod namespace;
pub(crate) mod record;
#[cfg(feature = "server")]
pub(crate) mod server;
pub(crate) mod tenant;
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
        Command::Get(args) => get::run(&context, args).await,
        Command::Tenant(action) => tenant::run(&context, action).await,
        Command::Namespace(action) => namespace::run(&context, action).await,
        Command::Cluster(action) => cluster::run(&context, action).await,
        #[cfg(feature = "server")]
        Command::Bench(args) => bench::run(&context, args).await,
        Command::Error(action) => error::run(&context, &action),
        Command::Completions(args) => completions::run(&context, &args),
        Command::Version(args) => version::run(&context, &args),
        Command::Help(args) => help::run(&context, &args),
    }
}
