//! `firstclaim server`: one node of a cluster, until it is told to stop.

use std::collections::BTreeMap;
use std::path::PathBuf;

use firstclaim_server::config::{FlagSetting, Sources};
use firstclaim_server::{Config, Server, StartError, telemetry};

use super::version::BUILD_ID;
use crate::exit;
use crate::failure::{Failure, describe};
use crate::output::Output;

/// Runs one node of a cluster.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Settings come, the weakest first, from defaults, the file, FIRSTCLAIM_SECTION__KEY variables, and flags.
Example:
  firstclaim server -c /etc/firstclaim/firstclaim.toml")]
pub(crate) struct Args {
    /// Configuration file
    #[arg(short, long, env = "FIRSTCLAIM_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Id of the cluster
    #[arg(long, value_name = "ID")]
    cluster_id: Option<String>,
    /// Which of the members this node is
    #[arg(long, value_name = "ID")]
    node_id: Option<String>,
    /// Where the node keeps its data
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// Where clients reach it
    #[arg(long, value_name = "HOST:PORT")]
    listen_grpc: Option<String>,
    /// Where metrics and probes are
    #[arg(long, value_name = "HOST:PORT")]
    listen_http: Option<String>,
    /// Where other members reach it
    #[arg(long, value_name = "HOST:PORT")]
    listen_peer: Option<String>,
    /// error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
    /// auto, text or json
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// Listen off loopback although nobody has to say who he is
    #[arg(long)]
    insecure_no_auth: bool,
    /// Check the configuration, print it, and exit
    #[arg(long)]
    check_config: bool,
}

impl Args {
    fn sources(&self) -> Sources {
        let named = [
            ("cluster.id", "--cluster-id", &self.cluster_id),
            ("node.id", "--node-id", &self.node_id),
            ("node.data_dir", "--data-dir", &self.data_dir),
            ("listen.grpc", "--listen-grpc", &self.listen_grpc),
            ("listen.http", "--listen-http", &self.listen_http),
            ("listen.peer", "--listen-peer", &self.listen_peer),
            ("log.level", "--log-level", &self.log_level),
            ("log.format", "--log-format", &self.log_format),
        ];
        let setting = |(key, flag, value): (&'static str, &'static str, &Option<String>)| {
            value.clone().map(|value| FlagSetting { key, flag, value })
        };
        let mut flags: Vec<FlagSetting> = named.into_iter().filter_map(setting).collect();
        if self.insecure_no_auth {
            flags.push(FlagSetting {
                key: "listen.insecure_no_auth",
                flag: "--insecure-no-auth",
                value: "true".to_owned(),
            });
        }
        let environment: BTreeMap<String, String> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(name, _)| name.starts_with("FIRSTCLAIM_"))
            .collect();
        Sources { file: self.config.clone(), environment, flags }
    }
}

pub(crate) async fn run(out: Output, args: Args) -> Result<u8, Failure> {
    let config = Config::load(&args.sources()).and_then(|config| config.check().map(|()| config));
    let config = config.map_err(|error| Failure::usage(error.to_string()))?;
    if args.check_config {
        out.text(&format!("{config:#?}\n"))?;
        return Ok(exit::DONE);
    }
    let filter = std::env::var(telemetry::FILTER_VARIABLE).ok();
    telemetry::start(&config.log, filter.as_deref())
        .map_err(|error| Failure::usage(describe(&error)))?;
    firstclaim_server::set_build_id(BUILD_ID);
    // Listened for from the first moment on: a node answers calls before it has started for good.
    let mut stop = std::pin::pin!(stop_signal());
    let server = tokio::select! {
        biased;
        signal = &mut stop => return signal.map(|()| exit::DONE),
        started = Server::start(config) => started.map_err(|error| start_failure(&error))?,
    };
    tokio::select! {
        ended = server.stopped() => match ended {
            Ok(()) => Ok(exit::DONE),
            Err(error) => Err(Failure::other(describe(&error))),
        },
        signal = &mut stop => {
            signal?;
            server.shutdown().await;
            Ok(exit::DONE)
        }
    }
}

fn start_failure(error: &StartError) -> Failure {
    if let StartError::Config(faults) = error {
        return Failure::usage(faults.to_string());
    }
    Failure::other(format!("start the server: {}", describe(error)))
}

/// Waits for the terminal's or the service manager's wish to stop.
pub(crate) async fn stop_signal() -> Result<(), Failure> {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
        .map_err(|error| Failure::other(format!("listen for SIGTERM: {error}")))?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => {
            interrupted.map_err(|error| Failure::other(format!("listen for SIGINT: {error}")))
        }
        _ = terminate.recv() => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::args::{Cli, Command};

    #[test]
    fn flags_become_settings_that_name_themselves() {
        let line =
            "firstclaim server -c a.toml --node-id 2 --insecure-no-auth --listen-grpc [::1]:1";
        let cli = Cli::try_parse_from(line.split_whitespace()).unwrap();
        let Command::Server(args) = cli.command else { panic!("another command") };
        let sources = args.sources();
        let flags: Vec<_> =
            sources.flags.iter().map(|flag| (flag.key, flag.flag, flag.value.as_str())).collect();
        assert_eq!(
            flags,
            [
                ("node.id", "--node-id", "2"),
                ("listen.grpc", "--listen-grpc", "[::1]:1"),
                ("listen.insecure_no_auth", "--insecure-no-auth", "true"),
            ]
        );
        assert_eq!(sources.file.as_deref(), Some(std::path::Path::new("a.toml")));
    }
}
