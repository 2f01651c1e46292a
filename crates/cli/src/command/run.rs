//! `firstclaim run`: claims a key, runs a command, and stores how it ended, so that a repeat prints
//! what the first run printed and ends as it ended.
//!
//! ```text
//! claim ─▶ command (its lease renewed) ─▶ exit code     ─▶ complete with stdout and code
//!                                      └▶ signal, crash ─▶ nobody knows: unresolved
//! ```

mod child;
mod stored;

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use firstclaim_client::{Claim, ClaimOutcome, ClaimRequest, Completion, Error, fingerprint, v1};
use tokio::time::{Instant, sleep};

use self::child::{Ending, Signals};
use self::stored::Stored;
use super::intent::IntentArgs;
use super::naming::{KeyArgs, text};
use crate::context::{Context, quote};
use crate::failure::Failure;
use crate::view;
use crate::{duration, exit};

/// Names how the request of a command line is made.
const SCHEME: &str = "firstclaim-run-1";
/// How long the outcome of a command is told again and again to a store that does not answer.
const TELL_FOR: Duration = Duration::from_secs(60);
const TELL_PAUSE: Duration = Duration::from_millis(500);
/// What a shell says of a program that was not found, and of one that may not be started.
const NOT_FOUND: u8 = 127;
const NOT_STARTED: u8 = 126;

/// Claims a key, runs a command, and completes with its output and exit code.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A repeat prints the stored standard output and exits with the stored code; the command does not run.
The command line is the request: another one under the same key is refused (13), unless you give the
request yourself. Standard input, environment and working directory take no part in it.

  the command ends        the record is              exit code
  with code 0             COMPLETED, SUCCEEDED       0
  with another code       COMPLETED, FAILED          that code; see --retry-on and --unknown-on
  by a signal N           UNRESOLVED                 128+N, as for codes above 128
  cannot be started       RETRYABLE                  126 or 127

Where a lapse means TAKEOVER, a command that a signal ended leaves its claim to lapse, and the next run
takes over. If firstclaim run itself is killed, the lease lapses likewise. All other exit codes are
those of firstclaim help exit-codes, and mean that the command did not run, or that its end could not be
stored; standard error says which. Signals are passed on to the command (INT and QUIT only without a
terminal, which sends them itself). It finds FIRSTCLAIM_KEY, FIRSTCLAIM_EPOCH, FIRSTCLAIM_ATTEMPT,
FIRSTCLAIM_TENANT and FIRSTCLAIM_NAMESPACE in its environment.

Examples:
  firstclaim run -t acme -n payouts -K payout:847:2026-W36 -- ./pay.sh 847 120.00
  firstclaim run -t acme -n reports -K report:2026-01-02 --retry-on 75 --wait 30s -- make report")]
pub(crate) struct Args {
    #[command(flatten)]
    key: KeyArgs,
    #[command(flatten)]
    intent: IntentArgs,
    /// Who asks, one label per process
    #[arg(long, value_parser = text("owner"))]
    owner: Option<String>,
    /// How long the claim holds without a renewal; it is renewed while the command runs
    #[arg(long, value_parser = duration::parse, value_name = "DURATION")]
    lease: Option<Duration>,
    /// Wait so long, at most 30s, for another run of this key to end
    #[arg(long, value_parser = duration::parse, value_name = "DURATION")]
    wait: Option<Duration>,
    /// Exit codes that mean: nothing happened, try again; repeatable
    #[arg(long, value_delimiter = ',', value_name = "CODE")]
    retry_on: Vec<u8>,
    /// Exit codes that mean: nobody knows whether it happened; repeatable
    #[arg(long, value_delimiter = ',', value_name = "CODE")]
    unknown_on: Vec<u8>,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

pub(crate) async fn run(context: &Context, args: Args) -> Result<u8, Failure> {
    let client = context.client()?;
    let request = request(context, &args)?;
    match client.claim(request).await? {
        ClaimOutcome::Acquired(claim) => execute(context, &args, &claim).await,
        ClaimOutcome::Completed(_) => Err(Failure::lacks("the claim")),
        ClaimOutcome::Replay(replay) => replayed(context, &replay),
        ClaimOutcome::Pending(pending) => {
            let until = pending.until.as_ref().map(view::rfc3339).unwrap_or_default();
            let why = match pending.reason() {
                v1::PendingReason::Held => format!("{} runs it", pending.owner),
                v1::PendingReason::TakeoverDelayed => {
                    format!("the run of {} lapsed a moment ago", pending.owner)
                }
                v1::PendingReason::Backoff => "the last run asked for a pause".to_owned(),
                v1::PendingReason::Unspecified => "the store says so".to_owned(),
            };
            context.out.say(&format!(
                "firstclaim: not now: {why}, until {until}; the command did not run"
            ));
            Ok(exit::PENDING)
        }
        ClaimOutcome::Unresolved(unresolved) => {
            let since = unresolved.since.as_ref().map(view::rfc3339).unwrap_or_default();
            let flags = context.flags(&context.tenant(None)?, &context.namespace(None)?);
            context.out.say(&format!(
                "firstclaim: unresolved since {since}: an earlier run may have done it; the command \
                 did not run\n  firstclaim unresolved show {flags} -K {}",
                quote(&args.key.key)
            ));
            Ok(exit::UNRESOLVED)
        }
    }
}

fn request(context: &Context, args: &Args) -> Result<ClaimRequest, Failure> {
    let (tenant, namespace) = (context.tenant(None)?, context.namespace(None)?);
    let intent = args.intent.clone();
    let mut fingerprints = intent.request.fingerprints()?;
    if fingerprints.is_empty() {
        fingerprints.push(command_line(&args.command));
    }
    Ok(ClaimRequest {
        owner: args.owner.clone().unwrap_or_default(),
        fingerprints,
        lease: args.lease,
        intent_time: intent.intent_time,
        labels: intent.label.into_iter().collect(),
        allow_duplicate_intent: intent.allow_duplicate_intent,
        wait: args.wait.unwrap_or_default(),
        ..ClaimRequest::new(tenant, namespace, args.key.key.clone())
    })
}

/// The request that a command line is.
fn command_line(command: &[OsString]) -> v1::Fingerprint {
    let program = command.first().map(|program| program.as_bytes()).unwrap_or_default();
    let mut arguments = Vec::new();
    for argument in command.iter().skip(1) {
        let bytes = argument.as_bytes();
        arguments.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
        arguments.extend_from_slice(bytes);
    }
    fingerprint::of_parts(SCHEME, &[("program", program), ("arguments", &arguments)])
}

/// Prints what the first run printed.
fn replayed(context: &Context, replay: &v1::Replay) -> Result<u8, Failure> {
    let completion = replay.completion.as_ref().ok_or_else(|| Failure::lacks("the completion"))?;
    let stored = Stored::read(completion);
    if let Some(bytes) = &stored.stdout {
        context.out.bytes(bytes)?;
    }
    let age = replay.age.as_ref().and_then(firstclaim_client::time::from_wire).unwrap_or_default();
    let kept = completion.result_expire_time.as_ref().map_or_else(
        || "as long as the key".to_owned(),
        |until| format!("until {}", view::rfc3339(until)),
    );
    let output = match (&stored.stdout, stored.length) {
        (Some(_), _) => format!("its output is kept {kept}"),
        (None, length) => format!("its output ({length} bytes) is not kept any more"),
    };
    context.out.say(&format!(
        "firstclaim: replayed: {} ran it {} ago; {output}",
        completion.owner,
        duration::about(age)
    ));
    Ok(stored.code)
}

async fn execute(context: &Context, args: &Args, claim: &Claim) -> Result<u8, Failure> {
    // Before the command starts, or a signal could end us while it runs.
    let signals = Signals::listen().map_err(|error| {
        Failure::other(format!("listen for signals: {error}; the command did not run"))
    })?;
    let lost = |lost: &firstclaim_client::Lost| {
        context.out.say(&format!(
            "firstclaim: warning: {lost}; the command goes on, and its end is still told to the store"
        ));
    };
    let ending = match child::run(context.out, &args.command, claim, (signals, &lost)).await {
        Ok(ending) => ending,
        Err(error) => return not_started(context, args, claim, &error).await,
    };
    match ending {
        Ending::Code { code, .. } if args.retry_on.contains(&code) => {
            tell(context, code, || claim.release_retry(Duration::ZERO)).await?;
            context.out.say("firstclaim: the key may be run again");
            Ok(code)
        }
        Ending::Code { code, .. } if args.unknown_on.contains(&code) => {
            unclear(context, claim, code, &format!("the command ended with code {code}")).await
        }
        // What a shell says of a command that a signal ended, and what a command says that was told
        // to stop and did: neither says that it did nothing, or all.
        Ending::Code { code, interrupted, .. } if code > 128 || (interrupted && code != 0) => {
            unclear(context, claim, code, &format!("the command was stopped, code {code}")).await
        }
        Ending::Code { code, stdout, .. } => {
            let completion = stored::completion(code, stdout);
            let again = || claim.finish(Completion::clone(&completion));
            tell(context, code, again).await?;
            Ok(code)
        }
        Ending::Signal(signal) => {
            let code = u8::try_from(128 + signal).unwrap_or(u8::MAX);
            unclear(context, claim, code, &format!("signal {signal} ended the command")).await
        }
    }
}

/// Nothing happened: the key is free for another run.
async fn not_started(
    context: &Context,
    args: &Args,
    claim: &Claim,
    error: &std::io::Error,
) -> Result<u8, Failure> {
    let program = args.command.first().map(|word| word.to_string_lossy()).unwrap_or_default();
    let missing = error.kind() == std::io::ErrorKind::NotFound;
    let code = if missing { NOT_FOUND } else { NOT_STARTED };
    tell(context, code, || claim.release_retry(Duration::ZERO)).await?;
    Err(Failure::Other { message: format!("start {program:?}: {error}"), code })
}

/// Nobody knows how far the command came.
async fn unclear(context: &Context, claim: &Claim, code: u8, note: &str) -> Result<u8, Failure> {
    if claim.acquired().on_lapse() == v1::OnLapse::Takeover {
        context
            .out
            .say(&format!("firstclaim: {note}; when the lease is over, the next run takes over"));
        return Ok(code);
    }
    tell(context, code, || claim.release_unknown(note)).await?;
    context.out.say(&format!(
        "firstclaim: {note}: nobody knows whether it did its work. The key is unresolved:\n  \
         firstclaim unresolved show {} -K {}",
        context.flags(&claim.holder().tenant, &claim.holder().namespace),
        quote(claim.key())
    ));
    Ok(code)
}

/// Tells the store how the command ended, more than once if it does not answer.
async fn tell<T, F, Fut>(context: &Context, code: u8, call: F) -> Result<T, Failure>
where
    F: Fn() -> Fut,
    Fut: Future<Output = Result<T, Error>>,
{
    let until = Instant::now() + TELL_FOR;
    loop {
        let error = match call().await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        let again = error.is_transient() && Instant::now() < until;
        context.out.say(&format!(
            "firstclaim: the command ended with code {code}, but that could not be stored{}",
            if again { "; trying again" } else { "" }
        ));
        if !again {
            return Err(error.into());
        }
        sleep(TELL_PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &[&str]) -> v1::Fingerprint {
        command_line(&words.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn a_command_line_is_its_words_and_not_their_sum() {
        assert_eq!(line(&["pay", "847", "120"]), line(&["pay", "847", "120"]));
        assert_ne!(line(&["pay", "847", "120"]).digest, line(&["pay", "847120"]).digest);
        let (one, two) = (line(&["pay", "847"]), line(&["pay", "848"]));
        assert_eq!(one.parts["program"], two.parts["program"]);
        assert_ne!(one.parts["arguments"], two.parts["arguments"]);
    }
}
