//! The command line as a program uses it: arguments in, one JSON object out.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::Outcome;
use crate::process::{Finished, command, run};

/// The command line, pointed at a cluster.
#[derive(Clone, Debug)]
pub struct Cli<'a> {
    binary: &'a Path,
    endpoints: String,
}

impl<'a> Cli<'a> {
    /// The binary, with the endpoints of the nodes.
    #[must_use]
    pub fn new(binary: &'a Path, endpoints: &[String]) -> Self {
        Self { binary, endpoints: endpoints.join(",") }
    }

    /// Runs a command to its end.
    ///
    /// # Errors
    ///
    /// When it cannot be started, or has not ended in time.
    pub async fn run(&self, arguments: &[&str], within: Duration) -> Outcome<Finished> {
        let mut command = command(self.binary);
        command.args(["-E", &self.endpoints]).args(arguments);
        run(command, within).await
    }

    /// Runs a command with `-o json`. Returns its exit code and what it wrote.
    ///
    /// # Errors
    ///
    /// When it cannot be run, or writes no JSON.
    pub async fn json(&self, arguments: &[&str], within: Duration) -> Outcome<(i32, Value)> {
        let mut all = vec!["-o", "json"];
        all.extend(arguments);
        let done = self.run(&all, within).await?;
        let code = done.status.code().unwrap_or(-1);
        let value = serde_json::from_str(&done.stdout).map_err(|error| {
            format!(
                "{arguments:?} ended with {code} and wrote no JSON ({error}):\n{}\n{}",
                done.stdout, done.stderr
            )
        })?;
        Ok((code, value))
    }
}
