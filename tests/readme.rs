//! The README does as it says: its console blocks are run as they stand there, with the output that
//! they show.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use firstclaim_client::v1;
use firstclaim_client::v1::cluster_service_client::ClusterServiceClient;
use firstclaim_tests::cluster::channel;
use firstclaim_tests::document::{Block, Shell, Stage, blocks};
use firstclaim_tests::process::{Process, command};
use firstclaim_tests::{Outcome, binary, say};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

/// Where the nodes of `firstclaim dev` and of the example configurations take clients.
const PORTS: [u16; 3] = [4360, 4370, 4380];
const CONFIGS: [&str; 3] = ["eu-west", "us-east", "ap-south"];
const CLAIM_SERVICE: &str = "firstclaim.v1.ClaimService";
const READY_WITHIN: Duration = Duration::from_secs(40);
const STOP_WITHIN: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_console_blocks_of_the_readme_run_as_shown() {
    if let Err(fault) = run().await {
        panic!("README.md: {fault}");
    }
}

async fn run() -> Outcome<()> {
    let blocks = readme()?;
    let tour = Tour::prepare(&blocks)?;
    let mut ran = 0;
    for stage in [Stage::Bare, Stage::Dev, Stage::Three] {
        let of_stage: Vec<&Block> = blocks.iter().filter(|block| block.stage == stage).collect();
        if !of_stage.is_empty() {
            ran += tour.run(&stage, &of_stage).await?;
        }
    }
    say(&format!("readme: {ran} commands ran as shown"));
    Ok(())
}

fn readme() -> Outcome<Vec<Block>> {
    let path = binary::repository().join("README.md");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    blocks(&text)
}

/// What the page must not lack, and what it may leave out.
#[test]
fn the_readme_shows_the_service_and_skips_little() {
    let blocks = readme().expect("read the page");
    let commands = |skipped: bool| -> Vec<&str> {
        blocks
            .iter()
            .filter(|block| matches!(block.stage, Stage::Skip(_)) == skipped)
            .flat_map(|block| block.steps.iter().map(|step| step.command.as_str()))
            .collect()
    };
    let run = commands(false);
    for needed in ["firstclaim claim", "firstclaim complete", "firstclaim tenant set"] {
        assert!(run.iter().any(|command| command.contains(needed)), "no block runs `{needed}`");
    }
    // The client is a variable in one command, and called by it in others.
    let reflected =
        run.iter().any(|line| line.contains("buf curl") && line.contains(CLAIM_SERVICE));
    assert!(reflected, "no block calls {CLAIM_SERVICE} with a client that knows only reflection");
    for call in ["/Claim ", "/Complete "] {
        let found = run.iter().any(|command| command.contains(call) && command.contains(" -d "));
        assert!(found, "no block calls {call} with such a client");
    }
    for skipped in commands(true) {
        let may = ["make ", "firstclaim dev", "firstclaim server", "sudo "];
        assert!(may.iter().any(|start| skipped.starts_with(start)), "`{skipped}` is skipped");
    }
}

/// A folder with what a reader has in the repository, and the environment of a reader's shell.
struct Tour {
    folder: TempDir,
    binary: PathBuf,
    environment: BTreeMap<String, String>,
}

impl Tour {
    fn prepare(blocks: &[Block]) -> Outcome<Self> {
        let binary = binary::firstclaim()?;
        let folder = tempfile::Builder::new().prefix("firstclaim-readme-").tempdir()?;
        let configs = folder.path().join("deploy/config");
        fs::create_dir_all(&configs)?;
        for name in CONFIGS {
            let file = format!("{name}.toml");
            let from = binary::repository().join("deploy/config").join(&file);
            fs::copy(&from, configs.join(file))
                .map_err(|error| format!("copy {}: {error}", from.display()))?;
        }
        let mut path = vec![parent(&binary)];
        if blocks.iter().flat_map(|block| &block.steps).any(|step| step.command.contains("buf ")) {
            path.push(parent(&buf(&binary)?));
        }
        path.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
        let path = env::join_paths(path)?.to_string_lossy().into_owned();
        let environment =
            BTreeMap::from([("PATH".to_owned(), path), ("COLUMNS".to_owned(), "200".to_owned())]);
        Ok(Self { folder, binary, environment })
    }

    /// Sets the stage, types the blocks, and takes the stage down.
    async fn run(&self, stage: &Stage, blocks: &[&Block]) -> Outcome<usize> {
        let mut processes = self.set(stage).await?;
        let mut shell = Shell::open(self.folder.path(), &self.environment)?;
        let mut ran = 0;
        for block in blocks {
            if let Err(fault) = shell.run(block).await {
                let logs: Vec<String> = processes.iter().map(Process::tail).collect();
                return Err(format!("{fault}\n{}", logs.join("\n")).into());
            }
            ran += block.steps.len();
        }
        for process in &mut processes {
            process.stop(STOP_WITHIN).await?;
        }
        Ok(ran)
    }

    async fn set(&self, stage: &Stage) -> Outcome<Vec<Process>> {
        let mut processes = Vec::new();
        match stage {
            Stage::Bare | Stage::Skip(_) => return Ok(processes),
            Stage::Dev => processes.push(self.start("dev", &["dev", "--no-input"])?),
            Stage::Three => {
                for name in CONFIGS {
                    let config = format!("deploy/config/{name}.toml");
                    processes.push(self.start(name, &["server", "-c", &config])?);
                }
            }
        }
        wait_ready(&mut processes).await?;
        Ok(processes)
    }

    fn start(&self, name: &str, arguments: &[&str]) -> Outcome<Process> {
        let mut command = command(&self.binary);
        command.args(arguments).current_dir(self.folder.path());
        Process::start(name, &mut command, &self.folder.path().join(format!("{name}.log")))
    }
}

async fn wait_ready(processes: &mut [Process]) -> Outcome<()> {
    let start = Instant::now();
    let mut waiting: Vec<u16> = PORTS.to_vec();
    while let Some(port) = waiting.last() {
        for process in &mut *processes {
            if let Some(status) = process.ended() {
                return Err(format!("a node ended with {status}\n{}", process.tail()).into());
            }
        }
        let mut operations = ClusterServiceClient::new(channel(*port)?);
        let answer = operations.get_status(v1::GetStatusRequest {}).await;
        if answer.is_ok_and(|status| status.into_inner().ready) {
            waiting.pop();
        } else if start.elapsed() > READY_WITHIN {
            let logs: Vec<String> = processes.iter().map(Process::tail).collect();
            return Err(format!("port {port} is not ready\n{}", logs.join("\n")).into());
        } else {
            sleep(Duration::from_millis(100)).await;
        }
    }
    Ok(())
}

/// The gRPC client that knows nothing but what the nodes tell it by reflection.
fn buf(binary: &Path) -> Outcome<PathBuf> {
    let path = match env::var_os("FIRSTCLAIM_BUF") {
        Some(path) => PathBuf::from(path),
        None => parent(&parent(binary)).join("tools/bin/buf"),
    };
    if path.is_file() {
        return Ok(path);
    }
    let path = path.display();
    Err(format!("there is no buf at {path}; `make tests` installs it, or set FIRSTCLAIM_BUF")
        .into())
}

fn parent(path: &Path) -> PathBuf {
    path.parent().unwrap_or(Path::new("/")).to_path_buf()
}
