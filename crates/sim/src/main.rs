//! `firstclaim-sim`: runs seeds, shows one, finds planted bugs.

mod arguments;
mod batch;
#[cfg(feature = "planted")]
mod planting;

use std::process::ExitCode;

use arguments::{Arguments, Mode};
use firstclaim_sim::{Settings, shortest, trace};

#[expect(clippy::print_stderr, reason = "a program says what is wrong with its arguments")]
fn main() -> ExitCode {
    match Arguments::parse(std::env::args().skip(1)) {
        Ok(arguments) => match &arguments.mode {
            Mode::Seeds => seeds(&arguments),
            Mode::One(seed) => one(*seed, arguments.settings),
            #[cfg(feature = "planted")]
            Mode::Planted => planting::find(&arguments),
        },
        Err(problem) => {
            eprintln!("firstclaim-sim: {problem}\n{}", arguments::USAGE);
            ExitCode::from(2)
        }
    }
}

#[expect(clippy::print_stdout, reason = "the output of the program")]
fn say(text: impl std::fmt::Display) {
    println!("{text}");
}

/// Lines of a log that are shown.
const LINES: usize = 80;

/// One seed, whole.
fn one(seed: u64, settings: Settings) -> ExitCode {
    let trace = trace(seed, settings);
    for line in &trace.lines {
        say(line);
    }
    say(&trace.figures);
    say(format!("seed {seed}, trace {:016x}", trace.hash));
    ExitCode::SUCCESS
}

/// Many seeds.
fn seeds(arguments: &Arguments) -> ExitCode {
    let batch = batch::Batch {
        from: arguments.from,
        seeds: arguments.seeds,
        threads: arguments.threads,
        settings: arguments.settings,
    };
    let done = batch.run();
    if let Some((seed, _)) = done.broken {
        say(show_broken(seed, arguments.settings));
        return ExitCode::FAILURE;
    }
    say(&done.figures);
    let never = done.figures.never();
    if arguments.seeds >= arguments::ALL_REACHED && !never.is_empty() {
        say(format!("never: {never:#?}"));
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// A seed that breaks something, as short as it can be.
fn show_broken(seed: u64, settings: Settings) -> String {
    let mut text = String::new();
    if let Some(short) = shortest(seed, settings) {
        // A log that cannot be cut down is long: its end is what matters.
        for line in &short.lines[short.lines.len().saturating_sub(LINES)..] {
            text += &format!("{line}\n");
        }
        text += &format!("BROKEN {}\n", short.broken);
    }
    text + &format!("seed {seed}: replay with `firstclaim-sim --seed {seed}`")
}
