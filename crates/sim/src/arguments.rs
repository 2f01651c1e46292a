//! The few arguments of `firstclaim-sim`.

use firstclaim_sim::Settings;

/// What it can do.
pub(crate) const USAGE: &str = "\
usage: firstclaim-sim [--seeds N] [--from SEED] [--threads N] [--operations N]
       firstclaim-sim --seed SEED";

/// Seeds after which every marker must have been reached.
pub(crate) const ALL_REACHED: u64 = 300;

/// What to do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mode {
    /// Many seeds.
    Seeds,
    /// One, with its trace.
    One(u64),
}

/// What was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arguments {
    pub(crate) mode: Mode,
    pub(crate) seeds: u64,
    pub(crate) from: u64,
    pub(crate) threads: u64,
    pub(crate) settings: Settings,
}

impl Arguments {
    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut parsed = Self {
            mode: Mode::Seeds,
            seeds: 200,
            from: 1,
            threads: 2,
            settings: Settings::default(),
        };
        let mut arguments = arguments;
        while let Some(argument) = arguments.next() {
            let mut number = || {
                let value = arguments.next().ok_or_else(|| format!("{argument} needs a number"))?;
                value.parse::<u64>().map_err(|error| format!("{argument} {value}: {error}"))
            };
            match argument.as_str() {
                "--seeds" => parsed.seeds = number()?,
                "--seed" => parsed.mode = Mode::One(number()?),
                "--from" => parsed.from = number()?,
                "--threads" => parsed.threads = number()?.max(1),
                "--operations" => parsed.settings.operations = number()?,
                _ => return Err(format!("{argument:?} is unknown")),
            }
        }
        Ok(parsed)
    }
}
