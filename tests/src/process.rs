//! Child processes that never outlive the test that started them.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::Outcome;

/// A running child. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

/// A child that has ended.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// What it wrote to its standard output.
    pub stdout: String,
    /// What it wrote to its standard error.
    pub stderr: String,
}

/// A command that sees none of our own settings: a server would read `FIRSTCLAIM_…` as its own.
#[must_use]
pub fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("FIRSTCLAIM_") {
            command.env_remove(name);
        }
    }
    command.env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

impl Process {
    /// Starts a child. All that it writes goes to the file `log`.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub fn start(name: &str, command: &mut Command, log: &Path) -> Outcome<Self> {
        let file =
            File::create(log).map_err(|error| format!("create {}: {error}", log.display()))?;
        let child = command
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .map_err(|error| format!("start {name}: {error}"))?;
        Ok(Self { name: name.to_owned(), child, log: log.to_path_buf() })
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Kills it with SIGKILL and waits until it is gone.
    pub fn kill(&mut self) {
        // Both fail only if it is gone already.
        drop(self.child.kill());
        drop(self.child.wait());
    }

    /// Sends SIGKILL and does not wait.
    pub fn send_kill(&mut self) {
        // Fails only if it is gone already.
        drop(self.child.kill());
    }

    /// Sends it a signal by its name, such as `STOP`.
    ///
    /// # Errors
    ///
    /// When no shell can be started, or it says that there is no such process.
    pub fn signal(&self, name: &str) -> Outcome<()> {
        // The shell's own `kill`: a minimal system has no other.
        let line = format!("kill -{name} {}", self.id());
        let status = Command::new("sh").args(["-c", &line]).status()?;
        if status.success() { Ok(()) } else { Err(format!("{line}: {status}").into()) }
    }

    /// Asks it to stop with SIGTERM and waits for its end.
    ///
    /// # Errors
    ///
    /// When it has not ended in time. It is killed then.
    pub async fn stop(&mut self, within: Duration) -> Outcome<ExitStatus> {
        self.signal("TERM")?;
        match self.wait(within).await {
            Some(status) => Ok(status),
            None => {
                self.kill();
                Err(format!("{} has not stopped within {within:?}\n{}", self.name, self.tail())
                    .into())
            }
        }
    }

    /// Waits for its end, but not for ever.
    pub async fn wait(&mut self, within: Duration) -> Option<ExitStatus> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.ended() {
                return Some(status);
            }
            if start.elapsed() > within {
                return None;
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// The last lines that it has written, under its name.
    #[must_use]
    pub fn tail(&self) -> String {
        tail(&self.name, &self.log)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The last lines of a log, under a heading.
#[must_use]
pub fn tail(name: &str, log: &Path) -> String {
    const LINES: usize = 20;
    const CHARS: usize = 300;
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let last = &lines[lines.len().saturating_sub(LINES)..];
    let cut: Vec<String> = last.iter().map(|line| line.chars().take(CHARS).collect()).collect();
    format!("-- {name}, last lines of {}:\n{}", log.display(), cut.join("\n"))
}

/// Runs a child to its end.
///
/// # Errors
///
/// When it cannot be started, or has not ended in time.
pub async fn run(command: Command, within: Duration) -> Outcome<Finished> {
    let shown = format!("{command:?}");
    let mut command = tokio::process::Command::from(command);
    command.kill_on_drop(true);
    let output = tokio::time::timeout(within, command.output())
        .await
        .map_err(|_elapsed| format!("{shown} has not ended within {within:?}"))?
        .map_err(|error| format!("run {shown}: {error}"))?;
    Ok(Finished {
        status: output.status,
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}
