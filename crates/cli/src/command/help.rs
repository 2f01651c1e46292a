//! `firstclaim help`: help about a command, or about a topic that belongs to none.

use clap::CommandFactory;
use serde_json::json;

use crate::args::Cli;
use crate::context::Context;
use crate::exit;
use crate::failure::Failure;
use crate::output::Shown;

/// Shows help about a command or a topic.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A command, such as `tenant set`, or the topic `exit-codes`
    topic: Vec<String>,
}

pub(crate) fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    if args.topic == ["exit-codes"] {
        return exit_codes(context);
    }
    let mut command = Cli::command();
    command.build();
    let mut found = &mut command;
    for word in &args.topic {
        found = found.find_subcommand_mut(word).ok_or_else(|| {
            let topic = args.topic.join(" ");
            Failure::usage(format!("there is no help about {topic:?}; `firstclaim help` lists the commands, and there is `firstclaim help exit-codes`"))
        })?;
    }
    let text = found.render_long_help().to_string();
    context.out.text(&text)?;
    Ok(exit::DONE)
}

fn exit_codes(context: &Context) -> Result<u8, Failure> {
    let codes: Vec<_> = exit::TABLE
        .iter()
        .map(|(code, meaning)| json!({ "code": code, "meaning": meaning }))
        .collect();
    let rows =
        exit::TABLE.iter().map(|(code, meaning)| vec![code.to_string(), (*meaning).to_owned()]);
    let shown = Shown::Rows { header: vec!["CODE", "MEANING"], rows: rows.collect() };
    context.out.data("ExitCodes", json!({ "exitCodes": codes }), &shown)?;
    Ok(exit::DONE)
}
