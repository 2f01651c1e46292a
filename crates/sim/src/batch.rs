//! Many seeds, each on one thread from beginning to end.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use firstclaim_sim::{Broken, Figures, Settings, run};

/// Which seeds, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    pub(crate) from: u64,
    pub(crate) seeds: u64,
    pub(crate) threads: u64,
    pub(crate) settings: Settings,
}

/// What a batch came to.
#[derive(Debug, Default)]
pub(crate) struct Done {
    pub(crate) figures: Figures,
    /// The first seed that broke something, and what.
    pub(crate) broken: Option<(u64, Broken)>,
}

impl Batch {
    /// Runs until all seeds are done, or until the first of them that breaks something is known.
    pub(crate) fn run(&self) -> Done {
        let next = AtomicU64::new(self.from);
        let first_broken = AtomicU64::new(u64::MAX);
        let done = Mutex::new(Done::default());
        let work = || {
            let mut figures = Figures::default();
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= self.from + self.seeds || first_broken.load(Ordering::Relaxed) < seed {
                    break;
                }
                let ended = run(seed, self.settings);
                figures.merge(&ended.figures);
                let Some(broken) = ended.broken else { continue };
                first_broken.fetch_min(seed, Ordering::Relaxed);
                let mut done = done.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                if done.broken.as_ref().is_none_or(|(earlier, _)| seed < *earlier) {
                    done.broken = Some((seed, broken));
                }
            }
            let mut done = done.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            done.figures.merge(&figures);
        };
        std::thread::scope(|scope| {
            for _ in 0..self.threads {
                scope.spawn(work);
            }
        });
        done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
