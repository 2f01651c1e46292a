//! The few arguments of `firstclaim-sim`.

use firstclaim_sim::Settings;

/// What it can do.
pub(crate) const USAGE: &str = "\
usage: firstclaim-sim [--seeds N] [--from SEED] [--threads N] [--operations N] [--invariants]
       firstclaim-sim --seed SEED
       firstclaim-sim planted [--seeds N] [--only NAME] [--show FOLDER] [--invariants]
--invariants leaves the model out; `planted` needs a build with that feature";

/// Seeds after which every marker must have been reached.
pub(crate) const ALL_REACHED: u64 = 300;

/// What to do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mode {
    /// Many seeds.
    Seeds,
    /// One, with its trace.
    One(u64),
    /// Seeds until each planted bug is found.
    #[cfg(feature = "planted")]
    Planted,
}

/// What was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Arguments {
    pub(crate) mode: Mode,
    pub(crate) seeds: u64,
    pub(crate) from: u64,
    pub(crate) threads: u64,
    pub(crate) settings: Settings,
    /// The one bug to look for.
    #[cfg(feature = "planted")]
    pub(crate) only: Option<String>,
    /// Where the shortest history of each bug goes.
    #[cfg(feature = "planted")]
    pub(crate) show: Option<String>,
}

impl Arguments {
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut parsed = Self {
            mode: Mode::Seeds,
            seeds: 200,
            from: 1,
            threads: 2,
            settings: Settings::default(),
            #[cfg(feature = "planted")]
            only: None,
            #[cfg(feature = "planted")]
            show: None,
        };
        while let Some(argument) = arguments.next() {
            let mut text = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
            match argument.as_str() {
                "--seeds" => parsed.seeds = number(&text()?)?,
                "--seed" => parsed.mode = Mode::One(number(&text()?)?),
                "--from" => parsed.from = number(&text()?)?,
                "--threads" => parsed.threads = number(&text()?)?.max(1),
                "--operations" => parsed.settings.operations = number(&text()?)?,
                "--invariants" => parsed.settings.oracles.model = false,
                #[cfg(feature = "planted")]
                "planted" => {
                    parsed.mode = Mode::Planted;
                    parsed.seeds = 500;
                }
                #[cfg(feature = "planted")]
                "--only" => parsed.only = Some(text()?),
                #[cfg(feature = "planted")]
                "--show" => parsed.show = Some(text()?),
                _ => return Err(format!("{argument:?} is unknown")),
            }
        }
        Ok(parsed)
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|error| format!("{text:?} is no number: {error}"))
}
