//! The fault of one field of a caller's input.

/// What is wrong with one field, and what to do about it.
///
/// Made where bytes from outside become domain types, and where a command meets the policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, serde::Serialize, serde::Deserialize)]
#[error("{field}: {problem}; {fix}")]
pub struct Invalid {
    /// Path of the field in the request: `key`, `fingerprints[0].digest`.
    pub field: String,
    /// What is wrong, with the bound and the value's size: `is 513 bytes long`.
    pub problem: String,
    /// What to do: `use at most 512 bytes`.
    pub fix: String,
}

impl Invalid {
    /// Describes the fault of `field`.
    pub fn new(
        field: impl Into<String>,
        problem: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self { field: field.into(), problem: problem.into(), fix: fix.into() }
    }

    /// The same fault, seen from the message that holds the field: `in_field("claim")` turns
    /// `key` into `claim.key`.
    #[must_use]
    pub fn in_field(mut self, parent: &str) -> Self {
        self.field = format!("{parent}.{}", self.field);
        self
    }
}
