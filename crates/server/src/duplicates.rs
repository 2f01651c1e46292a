//! The log lines of duplicates that were stopped: the first few of each second, and how many more there
//! were. A storm of redeliveries is what this program is for; it must not fill the disk with its story.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Lines that one node writes a second.
const LINES_PER_SECOND: u32 = 20;
const SECOND: Duration = Duration::from_secs(1);

/// Says which duplicates get a line.
#[derive(Debug, Default)]
pub(crate) struct DuplicateLines(Mutex<Window>);

#[derive(Debug, Default)]
struct Window {
    began: Option<Instant>,
    written: u32,
    left_out: u64,
}

impl DuplicateLines {
    /// Whether a duplicate of this moment gets a line; then also how many before it got none.
    pub(crate) fn take(&self, now: Instant) -> Option<u64> {
        let mut window = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if window.began.is_none_or(|began| now.saturating_duration_since(began) >= SECOND) {
            window.began = Some(now);
            window.written = 0;
        }
        if window.written >= LINES_PER_SECOND {
            window.left_out += 1;
            return None;
        }
        window.written += 1;
        Some(std::mem::take(&mut window.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reported elsewhere: case 11.
    #[test]
    fn a_storm_gets_a_few_lines_a_second_and_loses_no_count() {
        let lines = DuplicateLines::default();
        let now = Instant::now();
        let first: Vec<_> = (0..100).map(|_| lines.take(now)).collect();
        assert_eq!(first.iter().filter(|line| line.is_some()).count(), 20);
        assert_eq!(first[0], Some(0));
        assert_eq!(lines.take(now + SECOND / 2), None);
        assert_eq!(lines.take(now + SECOND), Some(81));
        assert_eq!(lines.take(now + SECOND), Some(0));
    }
}
