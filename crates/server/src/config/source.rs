//! What the file, the environment and the flags say, each with the place where they say it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use toml::de::{DeString, DeTable, DeValue};

use super::fault::{Fault, Origin};
use super::raw::{KEYS, MEMBER_KEYS, RawConfig};
use super::suggest::nearest;

/// Variables that belong to the command line client, to the build or to the tests, not to the
/// server.
const FOREIGN_VARIABLES: &[&str] = &[
    "FIRSTCLAIM_ENDPOINT",
    "FIRSTCLAIM_TENANT",
    "FIRSTCLAIM_NAMESPACE",
    "FIRSTCLAIM_TIMEOUT",
    "FIRSTCLAIM_OUTPUT",
    "FIRSTCLAIM_LOG",
    "FIRSTCLAIM_BIN",
    "FIRSTCLAIM_BUF",
    "FIRSTCLAIM_BUILD_ID",
    "FIRSTCLAIM_CONFIG",
    "FIRSTCLAIM_KEEP",
    "FIRSTCLAIM_SEED",
];

/// A setting given on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlagSetting {
    /// What it sets: `node.data_dir`.
    pub key: &'static str,
    /// What the caller typed: `--data-dir`.
    pub flag: &'static str,
    /// To what.
    pub value: String,
}

/// Where settings are read from, the weakest first.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The file.
    pub file: Option<PathBuf>,
    /// The environment; only names that start with `FIRSTCLAIM_` count.
    pub environment: BTreeMap<String, String>,
    /// The command line.
    pub flags: Vec<FlagSetting>,
}

/// All that the sources say, merged.
#[derive(Debug, Default)]
pub(super) struct Merged {
    pub(super) raw: RawConfig,
    pub(super) origins: BTreeMap<String, Origin>,
    pub(super) faults: Vec<Fault>,
    unknown: Vec<(usize, Fault)>,
}

impl Merged {
    pub(super) fn read(sources: &Sources) -> Self {
        let mut merged = Self::default();
        if let Some(path) = &sources.file {
            match std::fs::read_to_string(path) {
                Ok(text) => merged.take_file(&path.display().to_string(), &text),
                Err(error) => merged.faults.push(Fault {
                    place: path.display().to_string(),
                    problem: format!("cannot be read: {error}; name a readable file in --config"),
                }),
            }
        }
        merged.take_environment(&sources.environment);
        for setting in &sources.flags {
            merged.set(setting.key, &setting.value, Origin::Flag(setting.flag.to_owned()));
        }
        merged
    }

    fn set(&mut self, key: &str, value: &str, origin: Origin) {
        match self.raw.set(key, value) {
            Ok(()) => {
                self.origins.insert(key.to_owned(), origin);
            }
            Err(problem) => {
                self.faults.push(Fault { place: origin.to_string(), problem });
            }
        }
    }

    fn take_file(&mut self, path: &str, text: &str) {
        let file = File { path, text };
        let table = match DeTable::parse(text) {
            Ok(table) => table.into_inner(),
            Err(error) => return self.faults.push(file.fault(&error)),
        };
        self.walk(&file, &table);
        if !self.unknown.is_empty() {
            // The table is walked by name; people read a file from the top.
            self.unknown.sort_by_key(|(offset, _)| *offset);
            let unknown = std::mem::take(&mut self.unknown);
            self.faults.extend(unknown.into_iter().map(|(_, fault)| fault));
            return;
        }
        match toml::from_str(text) {
            Ok(raw) => self.raw = raw,
            Err(error) => self.faults.push(file.fault(&error)),
        }
    }

    /// Notes the place of every setting, and every key that is none.
    fn walk(&mut self, file: &File<'_>, table: &DeTable<'_>) {
        let mut sections: Vec<&str> =
            KEYS.iter().filter_map(|key| Some(key.split_once('.')?.0)).collect();
        sections.dedup();
        for (name, section) in table {
            if !sections.contains(&name.get_ref().as_ref()) {
                self.unknown(file, name, "", &sections);
                continue;
            }
            let prefix = format!("{}.", name.get_ref());
            let known: Vec<&str> =
                KEYS.iter().filter_map(|key| key.strip_prefix(prefix.as_str())).collect();
            let DeValue::Table(section) = section.get_ref() else { continue };
            for (key, value) in section {
                if known.contains(&key.get_ref().as_ref()) {
                    let path = format!("{prefix}{}", key.get_ref());
                    self.origins.insert(path, Origin::File(file.place(value.span().start)));
                } else {
                    self.unknown(file, key, &prefix, &known);
                }
                if let DeValue::Array(members) = value.get_ref() {
                    self.walk_members(file, members.iter());
                }
            }
        }
    }

    fn walk_members<'a>(
        &mut self,
        file: &File<'_>,
        members: impl Iterator<Item = &'a toml::Spanned<DeValue<'a>>>,
    ) {
        for (at, member) in members.enumerate() {
            let DeValue::Table(member) = member.get_ref() else { continue };
            for (key, value) in member {
                if MEMBER_KEYS.contains(&key.get_ref().as_ref()) {
                    let path = format!("cluster.members[{at}].{}", key.get_ref());
                    self.origins.insert(path, Origin::File(file.place(value.span().start)));
                } else {
                    let prefix = "cluster.members.";
                    self.unknown(file, key, prefix, MEMBER_KEYS);
                }
            }
        }
    }

    fn unknown(
        &mut self,
        file: &File<'_>,
        name: &toml::Spanned<DeString<'_>>,
        prefix: &str,
        known: &[&str],
    ) {
        let (offset, name) = (name.span().start, name.get_ref());
        let advice = match nearest(name, known.iter().copied()) {
            Some(meant) => format!("did you mean {meant:?}?"),
            None => format!("the keys here are {}", known.join(", ")),
        };
        let problem = format!("unknown key \"{prefix}{name}\"; {advice}");
        let fault = Fault { place: file.place(offset), problem };
        self.unknown.push((offset, fault));
    }

    fn take_environment(&mut self, environment: &BTreeMap<String, String>) {
        let known: Vec<(String, &str)> = KEYS.iter().map(|key| (variable(key), *key)).collect();
        for (name, value) in environment {
            if !name.starts_with("FIRSTCLAIM_") || FOREIGN_VARIABLES.contains(&name.as_str()) {
                continue;
            }
            let origin = Origin::Environment(name.clone());
            if let Some((_, key)) = known.iter().find(|(variable, _)| variable == name) {
                self.set(key, value, origin);
                continue;
            }
            let names = known.iter().map(|(variable, _)| variable.as_str());
            let advice = match nearest(name, names.chain(FOREIGN_VARIABLES.iter().copied())) {
                Some(meant) => format!("did you mean {meant}?"),
                None => "variables are named FIRSTCLAIM_SECTION__KEY; unset it".to_owned(),
            };
            let problem = format!("is no setting of firstclaim; {advice}");
            self.faults.push(Fault { place: origin.to_string(), problem });
        }
    }
}

/// The variable that sets a key: `FIRSTCLAIM_NODE__DATA_DIR`.
fn variable(key: &str) -> String {
    format!("FIRSTCLAIM_{}", key.replace('.', "__").to_uppercase())
}

struct File<'a> {
    path: &'a str,
    text: &'a str,
}

impl File<'_> {
    /// `path:line:column` of a byte, counted from 1.
    fn place(&self, offset: usize) -> String {
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let column = before.get(start..).unwrap_or_default().chars().count() + 1;
        format!("{}:{line}:{column}", self.path)
    }

    fn fault(&self, error: &toml::de::Error) -> Fault {
        let place = match error.span() {
            Some(span) => self.place(span.start),
            None => self.path.to_owned(),
        };
        Fault { place, problem: error.message().trim().replace('\n', ", ") }
    }
}
