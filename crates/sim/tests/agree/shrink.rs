//! The shortest run that still goes wrong.

use std::fmt::Write;

use super::invariants::Invariants;
use super::run::{Answered, Run};
use super::steps::Sequence;

/// What went wrong in a run.
#[derive(Debug)]
pub(crate) struct Fault {
    /// The commands up to it.
    pub(crate) answered: Vec<Answered>,
    /// The invariant that broke; both sides disagree on the last answer if none.
    pub(crate) broken: Option<String>,
}

/// Runs a sequence; gives every answer to `seen`.
pub(crate) fn run(sequence: &Sequence, mut seen: impl FnMut(&Answered)) -> Result<(), Box<Fault>> {
    let mut invariants = Invariants::default();
    let mut answered = Vec::new();
    let (mut run, set_up) = Run::new(sequence);
    let mut steps = sequence.steps.iter();
    let mut set_up = set_up.into_iter();
    while let Some(next) = set_up.next().or_else(|| steps.find_map(|step| run.take(step))) {
        seen(&next);
        let broken = invariants.check(&next, &run).err();
        let agreed = next.agreed();
        answered.push(next);
        if !agreed || broken.is_some() {
            return Err(Box::new(Fault { answered, broken }));
        }
    }
    Ok(())
}

impl Fault {
    /// In which way it went wrong: the kinds of the last command and of its two answers.
    pub(crate) fn kind(&self) -> String {
        let first = |text: String| -> String {
            text.chars().filter(|letter| !letter.is_ascii_digit()).take(40).collect()
        };
        match (&self.broken, self.answered.last()) {
            (Some(broken), _) => broken.chars().take(4).collect(),
            (None, Some(last)) => {
                let sides = (format!("{:?}", last.real), format!("{:?}", last.expected));
                let command = format!("{:?}", last.command);
                let command = command.split('(').next().unwrap_or_default();
                format!("{command} | {} | {}", first(sides.0), first(sides.1))
            }
            (None, None) => String::new(),
        }
    }
}

/// Leaves steps out as long as the run still goes wrong in the same way.
pub(crate) fn shrink(mut sequence: Sequence) -> Sequence {
    let kind = run(&sequence, |_| {}).err().map(|fault| fault.kind());
    loop {
        let mut shorter = false;
        for size in [16, 4, 2, 1] {
            let mut at = 0;
            while at < sequence.steps.len() {
                let mut candidate = sequence.clone();
                let end = (at + size).min(candidate.steps.len());
                candidate.steps.drain(at..end);
                if run(&candidate, |_| {}).err().map(|fault| fault.kind()) == kind {
                    sequence = candidate;
                    shorter = true;
                } else {
                    at += size;
                }
            }
        }
        if !shorter {
            return sequence;
        }
    }
}

/// A fault as text: the commands that came to something, and where the sides differ.
pub(crate) fn describe(sequence: &Sequence, fault: &Fault) -> String {
    let mut text = String::new();
    for policy in &sequence.policies {
        let _ = writeln!(text, "policy {}", set_fields(&format!("{policy:?}")));
    }
    for one in fault.answered.iter().skip(3) {
        let (at, term) = (one.stamp.time.0, one.stamp.term);
        let _ = writeln!(text, "\nat {at} term {term}: {:?}\n  -> {:?}", one.command, one.real);
    }
    match (&fault.broken, fault.answered.last()) {
        (Some(broken), _) => {
            let _ = writeln!(text, "\nBROKEN: {broken}");
        }
        (None, Some(last)) => {
            let (real, model) = (format!("{:#?}", last.real), format!("{:#?}", last.expected));
            let only = |text: &str, other: &str| -> String {
                text.lines().filter(|line| !other.lines().any(|it| it == *line)).collect()
            };
            let _ = writeln!(text, "\nREAL ONLY  {}", only(&real, &model));
            let _ = writeln!(text, "MODEL ONLY {}\nMODEL {:?}", only(&model, &real), last.expected);
        }
        (None, None) => {}
    }
    text
}

/// A patch without the fields that it does not set.
fn set_fields(patch: &str) -> String {
    patch.replace("PolicyPatch ", "").split(", ").filter(|field| !field.contains(": None")).fold(
        String::new(),
        |all, field| if all.is_empty() { field.to_owned() } else { all + ", " + field },
    )
}
