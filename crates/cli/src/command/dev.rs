//! `firstclaim dev`: three regions in one process, to try things out.

use std::io;
use std::path::PathBuf;

use firstclaim_server::config::{LogConfig, LogFormat};
use firstclaim_server::dev::{DevOptions, Input, LinkDelay, Ports};
use firstclaim_server::telemetry;

use super::server::stop_signal;
use super::version::BUILD_ID;
use crate::exit;
use crate::failure::{Failure, describe};

/// Runs three regions in one process, to try things out.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Type `help` while it runs: nodes can be killed and started, regions cut off and delayed.
Examples:
  firstclaim dev
  firstclaim dev --delay eu-west:us-east=40ms --delay eu-west:ap-south=90ms --data ./dev-data")]
pub(crate) struct Args {
    /// Keep the data in this folder; without, it is gone in the end
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The first port of the nodes, or `free` for whichever are free
    #[arg(long, default_value = "4360", value_parser = ports, value_name = "PORT")]
    ports: Ports,
    /// Delay between two regions; repeatable
    #[arg(long, value_name = "REGION:REGION=DELAY")]
    delay: Vec<LinkDelay>,
    /// Read no commands from the terminal
    #[arg(long)]
    no_input: bool,
}

fn ports(text: &str) -> Result<Ports, String> {
    if text == "free" {
        return Ok(Ports::Free);
    }
    let port = text.parse().map_err(|_not_a_port| "write a port, such as 4360, or free")?;
    Ok(Ports::From(port))
}

pub(crate) async fn run(args: Args) -> Result<u8, Failure> {
    quiet_log()?;
    let options = DevOptions { data_dir: args.data, ports: args.ports, delays: args.delay };
    let input = if args.no_input {
        Input::lines(&[])
    } else {
        Input::stdin().map_err(|error| Failure::other(format!("read the terminal: {error}")))?
    };
    let stop = async {
        if let Err(error) = stop_signal().await {
            tracing::error!(%error, "no signal can stop this; type `quit`");
            std::future::pending::<()>().await;
        }
    };
    let mut out = io::stdout();
    let run = firstclaim_server::dev::run(&options, input, &mut out, stop);
    run.await.map_err(|error| Failure::other(describe(&error)))?;
    Ok(exit::DONE)
}

/// Shows warnings only: what the command prints is what people came for.
pub(crate) fn quiet_log() -> Result<(), Failure> {
    firstclaim_server::set_build_id(BUILD_ID);
    let config = LogConfig { format: LogFormat::Text, level: "error".to_owned() };
    let filter = std::env::var(telemetry::FILTER_VARIABLE).ok();
    telemetry::start(&config, filter.as_deref()).map_err(|error| Failure::usage(describe(&error)))
}
