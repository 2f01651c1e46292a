//! Why a command did not do what was asked, in the form in which people and programs read it.

use std::io::{self, Write};

use firstclaim_client::{Error, Reason};
use serde_json::json;

use crate::exit;
use crate::output::API_VERSION;

/// A failed command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// What was typed cannot be done.
    #[error("{0}")]
    Usage(String),
    /// A call failed.
    #[error(transparent)]
    Call(#[from] Error),
    /// The data could not be written.
    #[error("write the output: {0}")]
    Output(#[from] io::Error),
    /// Anything else.
    #[error("{message}")]
    Other { message: String, code: u8 },
}

impl Failure {
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::Usage(message.into())
    }

    pub(crate) fn other(message: impl Into<String>) -> Self {
        Self::Other { message: message.into(), code: exit::OTHER }
    }

    /// A node answered without what its answer must have.
    pub(crate) fn lacks(what: &str) -> Self {
        Self::other(format!("the node's answer lacks {what}; is it of a later version?"))
    }

    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => exit::USAGE,
            Self::Call(error) => exit::of_error(error),
            Self::Output(_) => exit::OTHER,
            Self::Other { code, .. } => *code,
        }
    }

    /// Writes it to stderr. There is nobody to tell if that fails.
    pub(crate) fn print(&self, json: bool) {
        let text = if json { self.to_json() } else { self.to_text() };
        let _unsaid = io::stderr().write_all(text.as_bytes());
    }

    fn to_json(&self) -> String {
        let mut error = json!({ "message": self.to_string(), "exitCode": self.exit_code() });
        if let Self::Call(call) = self {
            error = json!({
                "message": call.message(),
                "reason": call.reason_text(),
                "applied": call.applied().to_string(),
                "metadata": call.metadata(),
                "fields": call.violations().iter()
                    .map(|fault| json!({ "field": fault.field, "problem": fault.description }))
                    .collect::<Vec<_>>(),
                "retryAfterSeconds": call.retry_after().map(|after| after.as_secs_f64()),
                "endpoints": call.tries().iter()
                    .map(|tried| json!({
                        "endpoint": tried.endpoint,
                        "reached": tried.reached,
                        "problem": tried.problem,
                    }))
                    .collect::<Vec<_>>(),
                "whatToDo": call.reason().advice(),
                "exitCode": self.exit_code(),
            });
        }
        format!("{}\n", json!({ "apiVersion": API_VERSION, "kind": "Error", "error": error }))
    }

    fn to_text(&self) -> String {
        match self {
            Self::Call(error) => call_text(error),
            Self::Usage(message) => format!("error: {message}\n"),
            Self::Output(_) | Self::Other { .. } => format!("error: {self}\n"),
        }
    }
}

/// The reason, what happened, and what to do, with the endpoints where they matter. What the message
/// says already is not said again.
fn call_text(error: &Error) -> String {
    let message = error.message();
    let mut lines: Vec<(String, String)> = Vec::new();
    let mut line = |name: &str, value: &str| lines.push((name.to_owned(), value.to_owned()));
    for fault in error.violations() {
        let text = format!("{}: {}", fault.field, fault.description);
        if !message.contains(&fault.description) {
            line("field", &text);
        }
    }
    for (name, value) in error.metadata() {
        let known = matches!(name.as_str(), "applied" | "field" | "leader_endpoint" | "store_time");
        if !known && !value.is_empty() && !message.contains(value.as_str()) {
            line(&name.replace('_', " "), value);
        }
    }
    if matches!(exit::of_error(error), exit::UNAVAILABLE | exit::UNKNOWN) {
        for (reached, name) in [(true, "reached"), (false, "not reached")] {
            for tried in error.tries().iter().filter(|tried| tried.reached == reached) {
                line(name, &format!("{} ({})", tried.endpoint, tried.problem));
            }
        }
    }
    if Reason::parse(error.reason_text()).is_some() {
        line("meaning", error.reason().meaning());
        line("what to do", error.reason().advice());
        line("more", &format!("firstclaim error explain {}", error.reason_text()));
    }
    let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let head = format!("error: {}  {message}\n", error.reason_text());
    lines.iter().fold(head, |text, (name, value)| text + &format!("  {name:<width$}  {value}\n"))
}

/// An error with its causes.
#[cfg(feature = "server")]
pub(crate) fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// The texts of one reason, as `firstclaim error explain` prints them.
pub(crate) fn explain(reason: Reason) -> String {
    format!("{}\n\n{}\n\nWhat to do: {}\n", reason.as_str(), reason.meaning(), reason.advice())
}

/// The name of an enum value without its type's prefix: `MODE_EXECUTE` is `EXECUTE`.
pub(crate) fn short(name: &str, prefix: &str) -> String {
    name.strip_prefix(prefix).unwrap_or(name).to_owned()
}
