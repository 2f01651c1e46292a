//! The command itself: started, listened to, and told what we are told.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::Duration;

use firstclaim_client::{Claim, Lost};
use rustix::process::{Pid, Signal as Number, kill_process};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStdout, Command};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::stored::Captured;
use crate::output::Output;

/// Output that is passed on at once.
const CHUNK: usize = 16 * 1024;
/// The most that a pipe holds unless its owner made it larger.
const PIPE_BYTES_MAX: u64 = 1024 * 1024;
/// How long the output of a command that has ended stays open without anything in it.
const QUIET: Duration = Duration::from_millis(100);

/// How a command ended.
#[derive(Debug)]
pub(super) enum Ending {
    /// By itself.
    Code {
        code: u8,
        stdout: Captured,
        /// A signal was passed on to it before.
        interrupted: bool,
    },
    /// By a signal.
    Signal(i32),
}

/// The signals that are passed on.
pub(super) struct Signals {
    interrupt: Signal,
    quit: Signal,
    terminate: Signal,
    hangup: Signal,
    user1: Signal,
    user2: Signal,
    /// A terminal sends INT and QUIT to the command as well as to us.
    terminal: bool,
}

impl Signals {
    /// From now on signals do not end this process.
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            user1: signal(SignalKind::user_defined1())?,
            user2: signal(SignalKind::user_defined2())?,
            terminal: io::stdin().is_terminal()
                || io::stdout().is_terminal()
                || io::stderr().is_terminal(),
        })
    }

    /// Waits for a signal, and says which one the command has to be sent.
    async fn next(&mut self) -> Heard {
        let from_terminal = |number| Heard { number, pass: !self.terminal, ends: true };
        let pass = |number, ends| Heard { number, pass: true, ends };
        tokio::select! {
            _ = self.interrupt.recv() => from_terminal(Number::INT),
            _ = self.quit.recv() => from_terminal(Number::QUIT),
            _ = self.terminate.recv() => pass(Number::TERM, true),
            _ = self.hangup.recv() => pass(Number::HUP, true),
            _ = self.user1.recv() => pass(Number::USR1, false),
            _ = self.user2.recv() => pass(Number::USR2, false),
        }
    }
}

/// A signal that came.
struct Heard {
    number: Number,
    /// Whether the command does not get it anyway.
    pass: bool,
    /// Whether it asks to stop.
    ends: bool,
}

/// Runs the command to its end. What it writes to standard output is passed on and kept.
///
/// # Errors
///
/// If it cannot be started.
pub(super) async fn run(
    out: Output,
    command: &[OsString],
    claim: &Claim,
    (mut signals, lost): (Signals, &dyn Fn(&Lost)),
) -> io::Result<Ending> {
    let mut child = start(command, claim)?;
    let mut pump = Pump {
        out: Some(out),
        from: child.stdout.take(),
        captured: Captured::default(),
        chunk: vec![0; CHUNK],
    };
    let (mut interrupted, mut warned) = (false, false);
    let status = loop {
        tokio::select! {
            // Signals first: a command that writes without end can still be stopped.
            biased;
            heard = signals.next() => {
                interrupted |= heard.ends;
                pass_on(&child, &heard);
            }
            why = claim.lost(), if !warned => {
                warned = true;
                lost(&why);
            }
            () = pump.next(), if pump.from.is_some() => {}
            status = child.wait() => break status?,
        }
    };
    // A process that the command left behind may hold its output open for ever.
    pump.rest().await;
    Ok(match (status.code(), status.signal()) {
        (Some(code), _) => Ending::Code {
            code: u8::try_from(code).unwrap_or(u8::MAX),
            stdout: pump.captured,
            interrupted,
        },
        (None, signal) => Ending::Signal(signal.unwrap_or(0)),
    })
}

fn start(command: &[OsString], claim: &Claim) -> io::Result<Child> {
    let (program, arguments) = command
        .split_first()
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no command is given"))?;
    let holder = claim.holder();
    Command::new(program)
        .args(arguments)
        .env("FIRSTCLAIM_TENANT", &holder.tenant)
        .env("FIRSTCLAIM_NAMESPACE", &holder.namespace)
        .env("FIRSTCLAIM_KEY", &holder.key)
        .env("FIRSTCLAIM_ATTEMPT", &holder.attempt_id)
        .env("FIRSTCLAIM_EPOCH", holder.epoch.to_string())
        .stdout(Stdio::piped())
        .spawn()
}

fn pass_on(child: &Child, heard: &Heard) {
    let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    if let (true, Some(id)) = (heard.pass, id)
        && let Err(error) = kill_process(id, heard.number)
    {
        tracing::debug!(%error, "pass a signal on to the command");
    }
}

/// Passes output on and keeps it.
struct Pump {
    /// Where it goes; none when nobody reads there any more.
    out: Option<Output>,
    /// Where it comes from; none when it is closed.
    from: Option<ChildStdout>,
    captured: Captured,
    chunk: Vec<u8>,
}

impl Pump {
    async fn next(&mut self) {
        let Some(from) = &mut self.from else { return };
        let length = match from.read(&mut self.chunk).await {
            Ok(length) => length,
            Err(error) => {
                tracing::debug!(%error, "read what the command writes");
                0
            }
        };
        if length == 0 {
            self.from = None;
            return;
        }
        let bytes = &self.chunk[..length];
        self.captured.take(bytes);
        // The command goes on when our reader is gone: it is stored all the same.
        if let Some(out) = self.out
            && out.bytes(bytes).is_err()
        {
            self.out = None;
        }
    }

    /// Takes what is there already when the command has ended: what a pipe can hold, and no more, for
    /// a process that it left behind may go on writing.
    async fn rest(&mut self) {
        let until = self.captured.length() + PIPE_BYTES_MAX;
        while self.from.is_some() && self.captured.length() < until {
            tokio::select! {
                biased;
                () = self.next() => {}
                () = tokio::time::sleep(QUIET) => return,
            }
        }
    }
}
