//! `firstclaim completions`: a script that completes the command line in a shell.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Cli;
use crate::context::Context;
use crate::exit;
use crate::failure::Failure;

/// Writes a completion script for a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  firstclaim completions bash > /etc/bash_completion.d/firstclaim")]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "firstclaim", &mut script);
    context.out.text(&String::from_utf8_lossy(&script))?;
    Ok(exit::DONE)
}
