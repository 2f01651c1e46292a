//! One node of a dev cluster, on an async runtime of its own, so that it can be killed.

use std::time::Duration;

use firstclaim_replica::Faults;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, sleep};

use super::options::DevError;
use super::region::Region;
use crate::{Config, RunningServer, Server};

/// Threads of a node's runtime.
const THREADS: usize = 2;
/// How long the threads of a killed node may take to see that they are dead.
const KILL_WAIT: Duration = Duration::from_secs(2);
/// How long a restart waits for what a killed node still holds: its ports and its folder's lock.
const RELEASE_WAIT: Duration = Duration::from_secs(5);
const RELEASE_PAUSE: Duration = Duration::from_millis(50);

/// A node, running or not.
#[derive(Debug)]
pub(super) struct Node {
    region: Region,
    config: Config,
    faults: Faults,
    running: Option<Running>,
    killed_before: bool,
}

#[derive(Debug)]
struct Running {
    /// Keeps the node up; its tasks live on the runtime.
    _server: RunningServer,
    /// Always there until this is dropped.
    runtime: Option<Runtime>,
}

impl Node {
    pub(super) fn new(region: Region, config: Config, faults: Faults) -> Self {
        Self { region, config, faults, running: None, killed_before: false }
    }

    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    pub(super) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Starts the node on its data.
    pub(super) async fn start(&mut self) -> Result<(), DevError> {
        if self.is_running() {
            return Err(DevError::WrongState { region: self.region, running: true });
        }
        let patience = if self.killed_before { RELEASE_WAIT } else { Duration::ZERO };
        let give_up = Instant::now() + patience;
        loop {
            match self.start_once().await {
                Ok(running) => {
                    self.running = Some(running);
                    return Ok(());
                }
                Err(error) if Instant::now() < give_up => {
                    tracing::debug!(region = %self.region, %error, "wait for what was killed");
                    sleep(RELEASE_PAUSE).await;
                }
                Err(source) => return Err(DevError::Start { region: self.region, source }),
            }
        }
    }

    async fn start_once(&self) -> Result<Running, Box<dyn std::error::Error + Send + Sync>> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name(self.region.name())
            .enable_all()
            .build()?;
        let start = Server::start_with_faults(self.config.clone(), self.faults.clone());
        match runtime.spawn(start).await {
            Ok(Ok(server)) => Ok(Running { _server: server, runtime: Some(runtime) }),
            Ok(Err(error)) => {
                runtime.shutdown_background();
                Err(error.into())
            }
            Err(error) => {
                runtime.shutdown_background();
                Err(error.into())
            }
        }
    }

    /// Stops the node in the middle of whatever it does. Its tasks are dropped where they stand and
    /// its connections are closed; nothing is drained, and no leadership is handed over.
    pub(super) async fn kill(&mut self) -> Result<(), DevError> {
        let Some(mut running) = self.running.take() else {
            return Err(DevError::WrongState { region: self.region, running: false });
        };
        self.killed_before = true;
        if let Some(runtime) = running.runtime.take() {
            // Tasks end at once; the wait is for threads in the middle of a disk operation.
            let ended =
                tokio::task::spawn_blocking(move || runtime.shutdown_timeout(KILL_WAIT)).await;
            if let Err(error) = ended {
                tracing::warn!(region = %self.region, %error, "wait for the threads of a node");
            }
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Dropping a runtime waits for its threads, which is not allowed in async code.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
