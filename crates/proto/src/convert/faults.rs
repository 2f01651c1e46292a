//! Collects every fault of a message, so that a caller learns of all of them at once.

use std::fmt;

use firstclaim_core::{Epoch, Invalid, limits};

/// The faults of one message, in the order of its fields. Never empty where it is an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults(Vec<Invalid>);

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, fault) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{fault}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}

impl From<Invalid> for Faults {
    fn from(fault: Invalid) -> Self {
        Self(vec![fault])
    }
}

impl From<Vec<Invalid>> for Faults {
    fn from(faults: Vec<Invalid>) -> Self {
        Self(faults)
    }
}

impl Faults {
    /// The faults.
    #[must_use]
    pub fn all(&self) -> &[Invalid] {
        &self.0
    }

    /// The faults, to be kept.
    #[must_use]
    pub fn into_vec(self) -> Vec<Invalid> {
        self.0
    }

    /// Notes a fault.
    pub(super) fn note(
        &mut self,
        field: impl Into<String>,
        problem: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.0.push(Invalid::new(field, problem, fix));
    }

    /// The value, or none and its fault noted.
    pub(super) fn take<T>(&mut self, checked: Result<T, Invalid>) -> Option<T> {
        checked.map_err(|fault| self.0.push(fault)).ok()
    }

    /// As [`Self::take`], for a value that the message holds under another name.
    pub(super) fn take_as<T>(&mut self, field: &str, checked: Result<T, Invalid>) -> Option<T> {
        self.take(checked.map_err(|fault| Invalid { field: field.to_owned(), ..fault }))
    }

    /// As [`Self::take`], for a value inside the field `parent`.
    pub(super) fn take_in<T>(&mut self, parent: &str, checked: Result<T, Invalid>) -> Option<T> {
        self.take(checked.map_err(|fault| fault.in_field(parent)))
    }

    /// What a part of the message became, or none and its faults noted.
    pub(super) fn absorb<T>(&mut self, read: Result<T, Self>) -> Option<T> {
        read.map_err(|faults| self.0.extend(faults.0)).ok()
    }

    /// As [`Self::absorb`], for a part that is the field `parent`.
    pub(super) fn absorb_in<T>(&mut self, parent: &str, read: Result<T, Self>) -> Option<T> {
        read.map_err(|faults| {
            self.0.extend(faults.0.into_iter().map(|fault| fault.in_field(parent)));
        })
        .ok()
    }

    /// A value that an empty text stands for the absence of; none only if it is wrong.
    pub(super) fn optional<T>(
        &mut self,
        text: String,
        parse: impl FnOnce(String) -> Result<T, Invalid>,
    ) -> Option<Option<T>> {
        if text.is_empty() { Some(None) } else { self.take(parse(text)).map(Some) }
    }

    /// What a person says about a decision: 1 to [`limits::NOTE_BYTES_MAX`] bytes, not blank.
    pub(super) fn reason(&mut self, text: String) -> Option<String> {
        let max = limits::NOTE_BYTES_MAX;
        let problem = if text.trim().is_empty() {
            "is blank".to_owned()
        } else if text.len() > max {
            format!("is {} bytes long", text.len())
        } else {
            return Some(text);
        };
        let fix = format!("say in 1 to {max} bytes why: it is kept with the record");
        self.note("reason", problem, fix);
        None
    }

    /// An epoch that an answer showed.
    pub(super) fn epoch(&mut self, field: &str, epoch: u64) -> Option<Epoch> {
        if Epoch(epoch) == Epoch::NONE {
            self.note(field, "is 0", "send the epoch that an answer showed");
            return None;
        }
        Some(Epoch(epoch))
    }

    /// The value of a field that must be there.
    pub(super) fn need<T>(&mut self, field: &str, value: Option<T>) -> Option<T> {
        if value.is_none() {
            self.note(field, "is missing", "send it");
        }
        value
    }

    /// What was built, if nothing was wrong.
    pub(super) fn finish<T>(mut self, built: Option<T>) -> Result<T, Self> {
        match built {
            Some(built) if self.0.is_empty() => Ok(built),
            Some(_) => Err(self),
            None => {
                if self.0.is_empty() {
                    self.note("message", "is incomplete", "send every field that it needs");
                }
                Err(self)
            }
        }
    }
}
