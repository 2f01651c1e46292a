//! `firstclaim dev`: starts the cluster, prints it, and obeys lines until it is told to stop.

use std::io::{self, BufRead, Write};

use tokio::sync::mpsc;

use super::cluster::DevCluster;
use super::command::{Command, HELP};
use super::options::{DevError, DevOptions, LinkDelay};
use super::text;

/// Lines that were read but not obeyed yet.
const LINES_WAITING: usize = 64;

/// Where line commands come from. Its end does not stop the cluster.
#[derive(Debug)]
pub struct Input {
    lines: mpsc::Receiver<String>,
}

impl Input {
    /// The lines of this process's standard input.
    ///
    /// # Errors
    ///
    /// When the thread that reads them cannot be started.
    pub fn stdin() -> io::Result<Self> {
        let (send, lines) = mpsc::channel(LINES_WAITING);
        // Not a task: a read of standard input cannot be given up, and would keep the runtime from
        // ending. A thread ends with the process.
        std::thread::Builder::new().name("stdin".to_owned()).spawn(move || {
            for line in io::stdin().lock().lines() {
                let Ok(line) = line else { return };
                if send.blocking_send(line).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { lines })
    }

    /// These lines, and no more.
    #[must_use]
    pub fn lines(lines: &[&str]) -> Self {
        let (send, receive) = mpsc::channel(lines.len().max(1));
        for line in lines {
            // The channel has room for each of them.
            let sent = send.try_send((*line).to_owned());
            debug_assert!(sent.is_ok(), "{sent:?}");
        }
        Self { lines: receive }
    }
}

/// Runs a dev cluster until `stop` or the line `quit`.
///
/// # Errors
///
/// [`DevError`] if it does not start, or if `out` cannot be written to. What goes wrong with a line
/// command is written to `out`.
pub async fn run(
    options: &DevOptions,
    mut input: Input,
    out: &mut (dyn Write + Send),
    stop: impl Future<Output = ()>,
) -> Result<(), DevError> {
    let mut stop = std::pin::pin!(stop);
    let started = tokio::select! {
        started = DevCluster::start(options) => started,
        () = &mut stop => return Ok(()),
    };
    let mut cluster = started?;
    let all = cluster.status().await;
    write!(out, "{}", text::welcome(&cluster, &all))?;
    out.flush()?;
    let mut open = true;
    loop {
        let line = tokio::select! {
            () = &mut stop => break,
            line = input.lines.recv(), if open => line,
        };
        let Some(line) = line else {
            open = false;
            continue;
        };
        match line.parse() {
            Ok(Command::Quit) => break,
            Ok(command) => write!(out, "{}", obey(&mut cluster, command).await)?,
            Err(problem) => writeln!(out, "  {problem}")?,
        }
        out.flush()?;
    }
    let temporary = cluster.is_temporary();
    let folder = cluster.data_dir().display().to_string();
    cluster.shutdown().await;
    let what = if temporary { "removed" } else { "kept" };
    writeln!(out, "dev cluster stopped; {folder} is {what}")?;
    Ok(())
}

/// Does what a line says, and returns what to print.
async fn obey(cluster: &mut DevCluster, command: Command) -> String {
    match command {
        Command::Nothing | Command::Quit => String::new(),
        Command::Help => HELP.to_owned(),
        Command::Status => text::table(cluster, &cluster.status().await),
        Command::Kill(region) => match cluster.kill(region).await {
            Ok(()) => format!("  {region} is down; `start {region}` starts it on its data\n"),
            Err(error) => format!("  {error}\n"),
        },
        Command::Start(region) => match cluster.restart(region).await {
            Ok(()) => format!("  {region} is up\n"),
            Err(error) => format!("  {}\n", chain(&error)),
        },
        Command::Cut(one, other) => {
            cluster.cut(one, other);
            format!("  nothing gets through between {one} and {other} until `heal`\n")
        }
        Command::Delay(one, other, delay) => {
            cluster.delay(LinkDelay { one, other, delay });
            let warning = text::too_far(cluster, delay).unwrap_or_default();
            format!("  {one} <-> {other}: {} ms each way\n{warning}", delay.as_millis())
        }
        Command::Heal => {
            cluster.heal();
            "  no cuts\n".to_owned()
        }
    }
}

/// An error with its causes, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let words = cause.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::options::Ports;
    use super::{DevOptions, Input, run};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_cluster_obeys_its_lines_and_leaves_nothing_behind() {
        let options = DevOptions { ports: Ports::Free, ..DevOptions::default() };
        let lines = [
            "kill us-east",
            "kill us-east",
            "status",
            "start us-east",
            "cut eu-west us-east",
            "delay eu-west ap-south 500ms",
            "status",
            "heal",
            "dance",
            "quit",
        ];
        let mut out = Vec::new();
        run(&options, Input::lines(&lines), &mut out, std::future::pending()).await.unwrap();
        let told = String::from_utf8(out).unwrap();
        for words in [
            "firstclaim 0.",
            "eu-west     n1     ",
            "us-east is down",
            "the node of us-east is not running",
            "us-east     n2     down",
            "us-east is up",
            "eu-west <-> us-east: cut",
            "longer than the 20 ms",
            "eu-west <-> ap-south: 500 ms each way",
            "no cuts",
            "no command is called `dance`",
            "is removed",
        ] {
            assert!(told.contains(words), "{words} is missing in:\n{told}");
        }
        let folder = told.split("data in ").nth(1).and_then(|rest| rest.split(',').next());
        assert!(!std::path::Path::new(folder.unwrap()).exists(), "{folder:?}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn data_that_is_kept_is_there_at_the_next_start() {
        let folder = tempfile::tempdir().unwrap();
        let options = DevOptions {
            ports: Ports::Free,
            data_dir: Some(folder.path().to_owned()),
            ..DevOptions::default()
        };
        for _ in 0..2 {
            let mut out = Vec::new();
            let lines = Input::lines(&["quit"]);
            run(&options, lines, &mut out, std::future::pending()).await.unwrap();
            let told = String::from_utf8(out).unwrap();
            assert!(told.contains("is kept"), "{told}");
        }
    }
}
