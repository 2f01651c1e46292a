//! The firstclaim binary: arguments, command, exit code.

mod args;
mod command;
mod context;
mod diagnose;
mod drill;
mod duration;
mod exit;
mod failure;
mod metered;
mod observed;
mod output;
mod policy;
mod policy_check;
mod policy_file;
mod review;
mod scan;
mod view;

#[cfg(feature = "server")]
mod demo;

use std::io::{self, Write};
use std::process::{self, ExitCode};

use clap::Parser;

use crate::args::Cli;
use crate::failure::Failure;

fn main() -> ExitCode {
    abort_on_panic();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version go to stdout, faults to stderr; nobody is left to tell if that fails.
            let _unsaid = error.print();
            return ExitCode::from(if error.use_stderr() { exit::USAGE } else { exit::DONE });
        }
    };
    let json = cli.global.output.is_json();
    let code = match run(cli) {
        Ok(code) => code,
        Err(failure) => {
            failure.print(json);
            failure.exit_code()
        }
    };
    ExitCode::from(code)
}

fn run(cli: Cli) -> Result<u8, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::other(format!("start the runtime: {error}")))?;
    runtime.block_on(command::run(cli))
}

/// A panic anywhere means that a state may be half written in memory: the process must not go on.
/// A hook does it rather than the profile's `panic = "abort"`, so that tests and binary share one
/// build of every dependency.
fn abort_on_panic() {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        default(info);
        let _unsaid = io::stderr().flush();
        process::abort();
    }));
}
