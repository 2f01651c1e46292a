//! Puts each bug of core in and looks how many seeds it takes to find it.

use std::process::ExitCode;
use std::{fs, io};

use firstclaim_core::planted::{ALL, Place, Planted, plant};
use firstclaim_sim::{Property, shortest};

use crate::arguments::Arguments;
use crate::batch::Batch;
use crate::say;

/// Seeds from which the search starts, each anew.
const STARTS: u64 = 9;
/// How far the starts are apart.
const APART: u64 = 100_000;

/// What became of a bug.
struct Search {
    /// Which seed found it from each start, and how; none if it survived.
    found: Vec<Option<(u64, Property)>>,
}

impl Search {
    /// Seeds that it took, few to many. One that survived took all and one more.
    fn took(&self, seeds: u64) -> Vec<u64> {
        let mut took: Vec<u64> =
            self.found.iter().map(|found| found.map_or(seeds + 1, |(count, _)| count)).collect();
        took.sort_unstable();
        took
    }

    /// The properties that found it.
    fn by(&self) -> String {
        let mut properties: Vec<Property> =
            self.found.iter().flatten().map(|(_, property)| *property).collect();
        properties.sort_unstable();
        properties.dedup();
        let names: Vec<String> = properties.iter().map(|it| format!("{it:?}")).collect();
        names.join(" ")
    }
}

/// Looks for every bug of core, or for the one that is named. Fails if one survives, or if the same
/// seeds break something without any bug.
pub(crate) fn find(arguments: &Arguments) -> ExitCode {
    let wanted = |bug: &&Planted| {
        let named = arguments.only.as_deref().is_none_or(|name| bug.name() == name);
        bug.place() == Place::Core && named
    };
    let bugs: Vec<Planted> = ALL.iter().filter(wanted).copied().collect();
    if bugs.is_empty() {
        say("no bug of that name");
        return ExitCode::from(2);
    }
    let mut survived = 0;
    let mut longest = 1;
    say(format!("{:<32} {:<24} {:>6} {:>6}", "bug", "found by", "median", "worst"));
    for bug in &bugs {
        let search = search(arguments, *bug);
        let took = search.took(arguments.seeds);
        let (median, worst) = (took[took.len() / 2], took[took.len() - 1]);
        longest = longest.max(worst.min(arguments.seeds));
        let fate = if worst > arguments.seeds { " SURVIVED" } else { "" };
        survived += u32::from(worst > arguments.seeds);
        say(format!("{:<32} {:<24} {median:>6} {worst:>6}{fate}", bug.name(), search.by()));
        if let Err(error) = show(arguments, *bug, &search) {
            say(format!("{}: {error}", bug.name()));
            return ExitCode::FAILURE;
        }
    }
    say(format!("{} bugs, {survived} survived {} seeds", bugs.len(), arguments.seeds));
    if clean(arguments, longest) && survived == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn search(arguments: &Arguments, bug: Planted) -> Search {
    plant(Some(bug));
    let found = (0..STARTS).map(|start| {
        let from = arguments.from + start * APART;
        let done = batch(arguments, from, arguments.seeds).run();
        done.broken.map(|(seed, broken)| (seed - from + 1, broken.property))
    });
    let found = found.collect();
    plant(None);
    Search { found }
}

/// Writes the shortest history that shows the bug, if a folder was named.
fn show(arguments: &Arguments, bug: Planted, search: &Search) -> io::Result<()> {
    let Some(folder) = &arguments.show else { return Ok(()) };
    plant(Some(bug));
    let found = search.found.iter().enumerate();
    let seeds = found.filter_map(|(start, found)| {
        let (count, _) = (*found)?;
        Some(arguments.from + start as u64 * APART + count - 1)
    });
    let shortest = seeds
        .filter_map(|seed| Some((seed, shortest(seed, arguments.settings)?)))
        .min_by_key(|(_, short)| short.lines.len());
    plant(None);
    let Some((seed, short)) = shortest else { return Ok(()) };
    let mut text = format!("{}: {}\n\n", bug.name(), bug.says());
    for line in &short.lines {
        text += line;
        text.push('\n');
    }
    text += &format!("\nBROKEN {}\nseed {seed}\n", short.broken);
    fs::create_dir_all(folder)?;
    fs::write(format!("{folder}/{}", bug.name()), text)
}

/// Whether the same seeds break nothing without any bug.
fn clean(arguments: &Arguments, seeds: u64) -> bool {
    for start in 0..STARTS {
        let done = batch(arguments, arguments.from + start * APART, seeds).run();
        if let Some((seed, broken)) = done.broken {
            say(format!("without any bug seed {seed} breaks {broken}"));
            return false;
        }
    }
    say(format!("without any bug the first {seeds} seeds from each of {STARTS} starts are clean"));
    true
}

fn batch(arguments: &Arguments, from: u64, seeds: u64) -> Batch {
    let Arguments { threads, settings, .. } = *arguments;
    Batch { from, seeds, threads, settings }
}
