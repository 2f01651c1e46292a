//! The line commands of a running dev cluster.

use std::str::FromStr;
use std::time::Duration;

use super::options::parse_delay;
use super::region::Region;

/// What the commands are, for people.
pub(super) const HELP: &str = concat!(
    "  status                     who leads, how far each node is\n",
    "  kill REGION                stop a node at once, as kill -9 would\n",
    "  start REGION               start it again on its data\n",
    "  cut REGION REGION          let nothing through between two regions\n",
    "  delay REGION REGION 40ms   delay every message between two regions\n",
    "  heal                       take all cuts away; delays stay\n",
    "  help                       this list\n",
    "  quit                       stop the cluster\n",
    "Regions: eu-west, us-east, ap-south.\n",
);

/// A line that was understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Status,
    Kill(Region),
    Start(Region),
    Cut(Region, Region),
    Delay(Region, Region, Duration),
    Heal,
    Help,
    Quit,
    /// An empty line.
    Nothing,
}

impl FromStr for Command {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, Self::Err> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let region = |word: &str| word.parse::<Region>().map_err(|error| error.to_string());
        let pair = |one: &str, other: &str| {
            let (one, other) = (region(one)?, region(other)?);
            if one == other {
                Err("name two different regions".to_owned())
            } else {
                Ok((one, other))
            }
        };
        match words.as_slice() {
            [] => Ok(Self::Nothing),
            ["status"] => Ok(Self::Status),
            ["heal"] => Ok(Self::Heal),
            ["help" | "?"] => Ok(Self::Help),
            ["quit" | "exit"] => Ok(Self::Quit),
            ["kill", one] => Ok(Self::Kill(region(one)?)),
            ["start", one] => Ok(Self::Start(region(one)?)),
            ["cut", one, other] => pair(one, other).map(|(one, other)| Self::Cut(one, other)),
            ["delay", one, other, delay] => {
                let (one, other) = pair(one, other)?;
                let delay = parse_delay(delay)
                    .ok_or_else(|| format!("`{delay}` is no delay; write 40ms, up to 2s"))?;
                Ok(Self::Delay(one, other, delay))
            }
            [word @ ("kill" | "start" | "cut" | "delay"), ..] => {
                Err(format!("`{word}` needs other words; `help` lists them"))
            }
            [word, ..] => Err(format!("no command is called `{word}`; `help` lists them")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Command, Duration, HELP, Region};

    #[test]
    fn lines_are_understood_with_any_spacing() {
        let lines = [
            ("", Command::Nothing),
            (" status ", Command::Status),
            ("kill eu-west", Command::Kill(Region::EuWest)),
            ("start  us-east", Command::Start(Region::UsEast)),
            ("cut eu-west ap-south", Command::Cut(Region::EuWest, Region::ApSouth)),
            (
                "delay eu-west us-east 80ms",
                Command::Delay(Region::EuWest, Region::UsEast, Duration::from_millis(80)),
            ),
            ("heal", Command::Heal),
            ("help", Command::Help),
            ("quit", Command::Quit),
        ];
        for (line, command) in lines {
            assert_eq!(line.parse::<Command>(), Ok(command), "{line}");
        }
    }

    #[test]
    fn what_is_not_understood_says_what_to_do() {
        for line in ["kill", "kill mars", "cut eu-west eu-west", "delay eu-west us-east x", "stop"]
        {
            let problem = line.parse::<Command>().unwrap_err();
            assert!(
                ["help", "use eu-west", "two different", "write 40ms"]
                    .iter()
                    .any(|advice| problem.contains(advice)),
                "{line}: {problem}"
            );
        }
    }

    #[test]
    fn every_command_of_the_help_is_a_command() {
        let lines: Vec<&str> = HELP.lines().filter(|line| line.starts_with("  ")).collect();
        assert_eq!(lines.len(), 8);
        for line in lines {
            let command = line.trim().split("  ").next().unwrap_or_default();
            let line = command.replacen("REGION", "eu-west", 1).replacen("REGION", "us-east", 1);
            assert!(line.parse::<Command>().is_ok(), "{line}");
        }
    }
}
