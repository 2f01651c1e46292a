//! The shortest log that still shows what is wrong.

use crate::checks::{Broken, Oracles};
use crate::history::{Entry, Replayed, replay};
use crate::tell::tell;
use crate::world::{Settings, run};

/// A log that shows what is wrong, and nothing else.
#[derive(Clone, Debug)]
pub struct Shortest {
    /// What is wrong in it.
    pub broken: Broken,
    /// What happens in it, a line each.
    pub lines: Vec<String>,
}

/// Runs a seed again and leaves out of its log what can be left out. None if nothing is wrong with it.
#[must_use]
pub fn shortest(seed: u64, settings: Settings) -> Option<Shortest> {
    let ended = run(seed, Settings { history: true, ..settings });
    let broken = ended.broken?;
    let shrinking = Shrinking { oracles: settings.oracles, kind: kind(&broken) };
    let entries = shrinking.shrink(ended.history);
    let mut lines = Vec::new();
    let mut say = |entry: Entry| lines.push(tell(&entry));
    // What cannot be run again apart from its world is shown as it was.
    let broken = match replay(&entries, settings.oracles, &mut say) {
        Replayed::Broken(broken, _) => broken,
        Replayed::Clean | Replayed::Dishonest => broken,
    };
    Some(Shortest { broken, lines })
}

/// In which way it is wrong: the property, and the beginning of what is said, without its numbers.
fn kind(broken: &Broken) -> String {
    let says = broken.says.chars().filter(|letter| !letter.is_ascii_digit());
    format!("{:?} {}", broken.property, says.take(24).collect::<String>())
}

struct Shrinking {
    oracles: Oracles,
    kind: String,
}

impl Shrinking {
    /// How long a log is until it goes wrong in the same way; none if it does not.
    fn fails(&self, entries: &[Entry]) -> Option<usize> {
        match replay(entries, self.oracles, &mut |_| {}) {
            Replayed::Broken(broken, length) if kind(&broken) == self.kind => Some(length),
            Replayed::Broken(..) | Replayed::Clean | Replayed::Dishonest => None,
        }
    }

    fn shrink(&self, mut entries: Vec<Entry>) -> Vec<Entry> {
        let Some(length) = self.fails(&entries) else { return entries };
        entries.truncate(length);
        self.keep_one_record(&mut entries);
        loop {
            let before = entries.len();
            let mut size = (before / 2).max(1);
            loop {
                self.leave_out(&mut entries, size);
                if size == 1 {
                    break;
                }
                size /= 2;
            }
            if entries.len() == before {
                return entries;
            }
        }
    }

    /// Mostly one key is all that it takes.
    fn keep_one_record(&self, entries: &mut Vec<Entry>) {
        let Some(record) = entries.last().and_then(Entry::record).cloned() else { return };
        let mut fewer = entries.clone();
        fewer.retain(|entry| entry.record().is_none_or(|it| *it == record));
        if self.fails(&fewer).is_some() {
            *entries = fewer;
        }
    }

    /// Leaves out pieces of that size, from the end, as long as it still goes wrong.
    fn leave_out(&self, entries: &mut Vec<Entry>, size: usize) {
        let mut end = entries.len();
        while end > 0 {
            let start = end.saturating_sub(size);
            let mut candidate = entries.clone();
            candidate.drain(start..end);
            if let Some(length) = self.fails(&candidate) {
                candidate.truncate(length);
                *entries = candidate;
            }
            end = start.min(entries.len());
        }
    }
}
