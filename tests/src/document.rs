//! Runs the console blocks of a page as a reader would type them.
//!
//! A block is fenced as `console`. A line that starts with `$ ` is a command (after a backslash it goes
//! on in the next line); the lines below it are what it writes, compared as in
//! [`transcript`](crate::transcript). A comment just above a block says what must be running:
//!
//! * `<!-- test: dev -->`: `firstclaim dev` on its usual ports.
//! * `<!-- test: three -->`: three processes, from the example configurations.
//! * `<!-- test: skip REASON -->`: the block is not run.
//!
//! All blocks of one kind share one shell, so that a variable set in one is there in the next. A
//! command must succeed, unless the page shows in words what it writes instead, or the next command
//! looks at `$?`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::Outcome;
use crate::process::command;
use crate::transcript::difference;

const STEP_WITHIN: Duration = Duration::from_secs(60);
/// What a shell says of a command that it could not run, or that was killed.
const NOT_RUN: i32 = 125;
const FENCE: &str = "```";
const MARK: &str = "<!-- test:";

/// What must be running for a block.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Nothing.
    Bare,
    /// `firstclaim dev`.
    Dev,
    /// Three processes.
    Three,
    /// It is not run, for that reason.
    Skip(String),
}

/// A command with what it shall write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The line that it stands in, from 1.
    pub line: usize,
    /// What is typed.
    pub command: String,
    /// What is shown below it.
    pub shown: Vec<String>,
}

/// A console block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The line of its fence, from 1.
    pub line: usize,
    /// What must be running.
    pub stage: Stage,
    /// Its commands.
    pub steps: Vec<Step>,
}

/// Reads the console blocks of a page.
///
/// # Errors
///
/// When a block does not end, starts with output, or has a mark that means nothing.
pub fn blocks(text: &str) -> Outcome<Vec<Block>> {
    let mut blocks = Vec::new();
    let mut mark: Option<(usize, &str)> = None;
    let mut lines = (1..).zip(text.lines());
    while let Some((number, line)) = lines.next() {
        if let Some(text) = line.trim().strip_prefix(MARK) {
            mark = Some((number, text.trim_end_matches("-->").trim()));
        } else if let Some(language) = line.strip_prefix(FENCE) {
            let body: Vec<(usize, &str)> =
                lines.by_ref().take_while(|(_, line)| *line != FENCE).collect();
            let end = number + body.len() + 1;
            if text.lines().nth(end - 1) != Some(FENCE) {
                return Err(format!("line {number}: the block does not end").into());
            }
            if language == "console" {
                let stage = stage(mark.take())?;
                blocks.push(Block { line: number, stage, steps: steps(&body)? });
            }
            no_block_for(mark.take())?;
        } else if !line.trim().is_empty() {
            no_block_for(mark.take())?;
        }
    }
    no_block_for(mark)?;
    Ok(blocks)
}

fn no_block_for(mark: Option<(usize, &str)>) -> Outcome<()> {
    match mark {
        Some((line, text)) => {
            Err(format!("line {line}: no console block follows `test: {text}`").into())
        }
        None => Ok(()),
    }
}

fn stage(mark: Option<(usize, &str)>) -> Outcome<Stage> {
    let Some((line, text)) = mark else { return Ok(Stage::Bare) };
    match text.split_once(' ').unwrap_or((text, "")) {
        ("dev", "") => Ok(Stage::Dev),
        ("three", "") => Ok(Stage::Three),
        ("skip", reason) if !reason.is_empty() => Ok(Stage::Skip(reason.to_owned())),
        _ => Err(format!("line {line}: `test: {text}` is none of dev, three, skip REASON").into()),
    }
}

fn steps(body: &[(usize, &str)]) -> Outcome<Vec<Step>> {
    let mut steps: Vec<Step> = Vec::new();
    for (line, text) in body {
        let last = steps.last_mut();
        match (text.strip_prefix("$ "), last) {
            (Some(command), _) => {
                steps.push(Step { line: *line, command: command.to_owned(), shown: Vec::new() });
            }
            (None, Some(step)) if step.shown.is_empty() && step.command.ends_with('\\') => {
                step.command.push('\n');
                step.command.push_str(text.strip_prefix("> ").unwrap_or(text));
            }
            (None, Some(step)) => step.shown.push((*text).to_owned()),
            (None, None) => return Err(format!("line {line}: output before any command").into()),
        }
    }
    Ok(steps)
}

/// A shell at which commands are typed.
#[derive(Debug)]
pub struct Shell {
    _child: Child,
    typed: ChildStdin,
    written: Lines<BufReader<ChildStdout>>,
    status: i32,
}

impl Shell {
    /// Opens a shell in a folder, with more variables in its environment.
    ///
    /// # Errors
    ///
    /// When there is no bash.
    pub fn open(folder: &Path, environment: &BTreeMap<String, String>) -> Outcome<Self> {
        let mut bash = command(Path::new("bash"));
        bash.args(["--noprofile", "--norc", "-c", "exec 2>&1; exec bash --noprofile --norc"])
            .current_dir(folder)
            .envs(environment)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = Command::from(bash).kill_on_drop(true).spawn()?;
        let (Some(typed), Some(written)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("the shell has no pipes".into());
        };
        let written = BufReader::new(written).lines();
        Ok(Self { _child: child, typed, written, status: 0 })
    }

    /// Types the commands of a block and compares what they write.
    ///
    /// # Errors
    ///
    /// The first command that fails or writes something else, with its line.
    pub async fn run(&mut self, block: &Block) -> Outcome<()> {
        for (at, step) in block.steps.iter().enumerate() {
            let Step { line, command, shown } = step;
            let written = self
                .type_in(command)
                .await
                .map_err(|error| format!("line {line}: $ {command}\n  {error}"))?;
            if let Some(difference) = difference(shown, &written) {
                return Err(format!("line {line}: $ {command}\n{difference}").into());
            }
            let next = block.steps.get(at + 1);
            let shown = shown.iter().any(|line| !line.is_empty() && line != "...");
            let expected = shown || next.is_some_and(|next| next.command.contains("$?"));
            if self.status >= NOT_RUN || (self.status != 0 && !expected) {
                let (status, written) = (self.status, written.join("\n"));
                let fault = format!("line {line}: $ {command}\n  ended with {status}:\n{written}");
                return Err(fault.into());
            }
        }
        Ok(())
    }

    /// Types one command and returns the lines that it writes.
    async fn type_in(&mut self, command: &str) -> Outcome<Vec<String>> {
        const END: &str = "--end-of-step--";
        // The command sees the status of the one before, and its own is kept for the next.
        let script = format!(
            "(exit {})\n{command}\n__status=$?; printf '\\n{END} %d\\n' \"$__status\"\n",
            self.status
        );
        self.typed.write_all(script.as_bytes()).await?;
        self.typed.flush().await?;
        let mut lines: Vec<String> = Vec::new();
        loop {
            let next =
                timeout(STEP_WITHIN, self.written.next_line()).await.map_err(|_elapsed| {
                    format!("has not ended within {STEP_WITHIN:?}; so far:\n{}", lines.join("\n"))
                })?;
            let line = next?.ok_or_else(|| format!("ended the shell:\n{}", lines.join("\n")))?;
            if let Some(status) = line.strip_prefix(END) {
                self.status = status.trim().parse()?;
                if lines.last().is_some_and(String::is_empty) {
                    lines.pop();
                }
                return Ok(lines);
            }
            lines.push(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
# A page

```console
$ name=world
$ echo hello \\
>   $name
hello world
```

<!-- test: dev -->

```console
$ false
$ echo $?
1
```

```toml
$ = 1
```

<!-- test: skip it takes an hour -->
```console
$ make everything
```
";

    async fn run(page: &str) -> Result<(), String> {
        let mut shell = Shell::open(Path::new("/"), &BTreeMap::new()).expect("a shell");
        for block in blocks(page).expect("a page") {
            if !matches!(block.stage, Stage::Skip(_)) {
                shell.run(&block).await.map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    fn page(body: &str) -> String {
        format!("```console\n{body}\n```\n")
    }

    #[test]
    fn blocks_are_found_with_their_marks() {
        let found = blocks(PAGE).expect("a page");
        let stages: Vec<_> = found.iter().map(|block| (block.line, block.stage.clone())).collect();
        let skip = Stage::Skip("it takes an hour".to_owned());
        assert_eq!(stages, [(3, Stage::Bare), (12, Stage::Dev), (23, skip)]);
        assert_eq!(found[0].steps[1].command, "echo hello \\\n  $name");
        assert_eq!(found[0].steps[1].shown, ["hello world"]);
    }

    #[test]
    fn marks_that_mean_nothing_are_found() {
        for bad in [
            "<!-- test: dve -->\n```console\n$ true\n```\n",
            "<!-- test: skip -->\n```console\n$ true\n```\n",
            "<!-- test: dev -->\n```toml\na = 1\n```\n",
            "<!-- test: dev -->\ntext\n```console\n$ true\n```\n",
            "<!-- test: dev -->\n",
            "```console\noutput\n$ true\n```\n",
            "```console\n$ true\n",
        ] {
            assert!(blocks(bad).is_err(), "{bad}");
        }
    }

    #[tokio::test]
    async fn what_is_shown_is_what_is_written() {
        assert_eq!(run(PAGE).await, Ok(()));
        assert_eq!(
            run(&page("$ printf 'no end'\nno end\n$ echo to stderr >&2\nto [..]")).await,
            Ok(())
        );
    }

    #[tokio::test]
    async fn a_wrong_expectation_fails() {
        let fault = run(&page("$ echo one\none\n$ echo two\nthree")).await.expect_err("it differs");
        assert!(fault.contains("line 4: $ echo two"), "{fault}");
        assert!(run(&page("$ echo one")).await.is_err());
        assert!(run(&page("$ true\none")).await.is_err());
    }

    #[tokio::test]
    async fn a_failed_command_fails() {
        assert!(run(&page("$ false")).await.is_err());
        assert!(run(&page("$ ls /no/such/folder\n...")).await.is_err());
        assert_eq!(run(&page("$ echo no; false\nno")).await, Ok(()));
        assert!(run(&page("$ exit 0")).await.is_err());
        assert!(run(&page("$ no-such-command\n[..]not found")).await.is_err());
    }
}
