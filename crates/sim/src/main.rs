//! `firstclaim-sim`: runs seeds, shows one, finds planted bugs.

mod arguments;

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;

use arguments::{Arguments, Mode};
use firstclaim_sim::{Figures, Settings, run, shortest, trace};

#[expect(clippy::print_stderr, reason = "a program says what is wrong with its arguments")]
fn main() -> ExitCode {
    match Arguments::parse(std::env::args().skip(1)) {
        Ok(arguments) => match arguments.mode {
            Mode::Seeds => seeds(&arguments),
            Mode::One(seed) => one(seed, arguments.settings),
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

/// Many seeds, each on one thread from beginning to end.
fn seeds(arguments: &Arguments) -> ExitCode {
    let next = AtomicU64::new(arguments.from);
    let end = arguments.from + arguments.seeds;
    let total = Mutex::new(Figures::default());
    let broken = AtomicU64::new(u64::MAX);
    let work = || {
        let mut figures = Figures::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end || broken.load(Ordering::Relaxed) < seed {
                break;
            }
            let ended = run(seed, arguments.settings);
            if ended.broken.is_some() {
                broken.fetch_min(seed, Ordering::Relaxed);
            }
            figures.merge(&ended.figures);
        }
        if let Ok(mut total) = total.lock() {
            total.merge(&figures);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..arguments.threads {
            scope.spawn(work);
        }
    });
    let seed = broken.into_inner();
    if seed != u64::MAX {
        return show_broken(seed, arguments.settings);
    }
    let Ok(total) = total.into_inner() else { return ExitCode::FAILURE };
    say(&total);
    let never = total.never();
    if arguments.seeds >= arguments::ALL_REACHED && !never.is_empty() {
        say(format!("never: {never:#?}"));
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// A seed that breaks something, as short as it can be.
fn show_broken(seed: u64, settings: Settings) -> ExitCode {
    if let Some(short) = shortest(seed, settings) {
        // A log that cannot be cut down is long: its end is what matters.
        for line in &short.lines[short.lines.len().saturating_sub(LINES)..] {
            say(line);
        }
        say(format!("BROKEN {}", short.broken));
    }
    say(format!("seed {seed}: replay with `firstclaim-sim --seed {seed}`"));
    ExitCode::FAILURE
}
