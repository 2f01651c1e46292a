//! The closed sets of words: modes, states, kinds, endings.
//!
//! A word that is not set, or that this version does not know, is a fault of its field.

use firstclaim_core::Invalid;
use firstclaim_core::outcome::AcquiredKind;
use firstclaim_core::policy::OnLapse;
use firstclaim_core::record::{Disposition, Ending, Logical, Mode};

use super::Faults;
use crate::v1;

/// The fault of an enum that is not set, or holds what this version does not know.
pub(super) fn unknown(field: &str, wire: i32, fix: &str) -> Invalid {
    let problem =
        if wire == 0 { "is not set".to_owned() } else { format!("is {wire}, which is not known") };
    Invalid::new(field, problem, fix)
}

/// What to do about a word of an answer that is newer than this client.
const UPGRADE: &str = "upgrade the client to one that knows it";

/// A mode on the wire.
#[must_use]
pub fn mode(mode: Mode) -> v1::Mode {
    match mode {
        Mode::Execute => v1::Mode::Execute,
        Mode::Resume => v1::Mode::Resume,
        Mode::Reconcile => v1::Mode::Reconcile,
    }
}

/// Reads a mode.
///
/// # Errors
///
/// [`Invalid`] for one that is not set or not known.
pub fn read_mode(wire: i32) -> Result<Mode, Invalid> {
    match v1::Mode::try_from(wire) {
        Ok(v1::Mode::Execute) => Ok(Mode::Execute),
        Ok(v1::Mode::Resume) => Ok(Mode::Resume),
        Ok(v1::Mode::Reconcile) => Ok(Mode::Reconcile),
        Ok(v1::Mode::Unspecified) | Err(_) => {
            Err(unknown("mode", wire, "use EXECUTE, RESUME or RECONCILE"))
        }
    }
}

/// What a lapse means, on the wire.
#[must_use]
pub fn on_lapse(on_lapse: OnLapse) -> v1::OnLapse {
    match on_lapse {
        OnLapse::Recover => v1::OnLapse::Recover,
        OnLapse::Takeover => v1::OnLapse::Takeover,
    }
}

/// Reads what a lapse means.
///
/// # Errors
///
/// [`Invalid`] for one that is not set or not known.
pub fn read_on_lapse(wire: i32) -> Result<OnLapse, Invalid> {
    match v1::OnLapse::try_from(wire) {
        Ok(v1::OnLapse::Recover) => Ok(OnLapse::Recover),
        Ok(v1::OnLapse::Takeover) => Ok(OnLapse::Takeover),
        Ok(v1::OnLapse::Unspecified) | Err(_) => {
            Err(unknown("on_lapse", wire, "use TAKEOVER or RECOVER"))
        }
    }
}

/// A disposition on the wire.
#[must_use]
pub fn disposition(disposition: Disposition) -> v1::Disposition {
    match disposition {
        Disposition::Succeeded => v1::Disposition::Succeeded,
        Disposition::Failed => v1::Disposition::Failed,
    }
}

/// Reads a disposition.
///
/// # Errors
///
/// [`Invalid`] for one that is not set or not known.
pub fn read_disposition(wire: i32) -> Result<Disposition, Invalid> {
    match v1::Disposition::try_from(wire) {
        Ok(v1::Disposition::Succeeded) => Ok(Disposition::Succeeded),
        Ok(v1::Disposition::Failed) => Ok(Disposition::Failed),
        Ok(v1::Disposition::Unspecified) | Err(_) => Err(unknown(
            "disposition",
            wire,
            "send SUCCEEDED, or FAILED if it must never be tried again",
        )),
    }
}

/// How a claim was acquired, on the wire.
#[must_use]
pub fn kind(kind: AcquiredKind) -> v1::AcquiredKind {
    match kind {
        AcquiredKind::First => v1::AcquiredKind::First,
        AcquiredKind::AlreadyHeld => v1::AcquiredKind::AlreadyHeld,
        AcquiredKind::Recovery => v1::AcquiredKind::Recovery,
        AcquiredKind::Takeover => v1::AcquiredKind::Takeover,
        AcquiredKind::Retry => v1::AcquiredKind::Retry,
        AcquiredKind::Rebound => v1::AcquiredKind::Rebound,
    }
}

/// Reads how a claim was acquired.
///
/// # Errors
///
/// [`Invalid`] for one that is not set or not known.
pub fn read_kind(wire: i32) -> Result<AcquiredKind, Invalid> {
    match v1::AcquiredKind::try_from(wire) {
        Ok(v1::AcquiredKind::First) => Ok(AcquiredKind::First),
        Ok(v1::AcquiredKind::AlreadyHeld) => Ok(AcquiredKind::AlreadyHeld),
        Ok(v1::AcquiredKind::Recovery) => Ok(AcquiredKind::Recovery),
        Ok(v1::AcquiredKind::Takeover) => Ok(AcquiredKind::Takeover),
        Ok(v1::AcquiredKind::Retry) => Ok(AcquiredKind::Retry),
        Ok(v1::AcquiredKind::Rebound) => Ok(AcquiredKind::Rebound),
        Ok(v1::AcquiredKind::Unspecified) | Err(_) => Err(unknown("kind", wire, UPGRADE)),
    }
}

/// How a grant ended, on the wire.
#[must_use]
pub fn ending(ending: Ending) -> v1::Ending {
    match ending {
        Ending::Succeeded => v1::Ending::Succeeded,
        Ending::Failed => v1::Ending::Failed,
        Ending::ReleasedRetry => v1::Ending::ReleasedRetry,
        Ending::ReleasedUnbind => v1::Ending::ReleasedUnbind,
        Ending::ReleasedUnknown => v1::Ending::ReleasedUnknown,
        Ending::Lapsed => v1::Ending::Lapsed,
        Ending::Overtaken => v1::Ending::Overtaken,
    }
}

/// The state of a record on the wire; `open` says whether anything is.
#[must_use]
pub fn state(logical: Logical, open: bool) -> v1::RecordState {
    match logical {
        Logical::Reserved => v1::RecordState::Reserved,
        Logical::Live => v1::RecordState::Claimed,
        Logical::Lapsed if !open => v1::RecordState::Lapsed,
        Logical::Lapsed | Logical::Unresolved => v1::RecordState::Unresolved,
        Logical::Retryable => v1::RecordState::Retryable,
        Logical::Unbound => v1::RecordState::Unbound,
        Logical::Completed => v1::RecordState::Completed,
    }
}

/// Reads the state of a record out of an answer.
///
/// # Errors
///
/// [`Invalid`] for one that is not set or not known.
pub fn read_state(wire: i32) -> Result<Logical, Invalid> {
    match v1::RecordState::try_from(wire) {
        Ok(v1::RecordState::Reserved) => Ok(Logical::Reserved),
        Ok(v1::RecordState::Claimed) => Ok(Logical::Live),
        Ok(v1::RecordState::Lapsed) => Ok(Logical::Lapsed),
        Ok(v1::RecordState::Unresolved) => Ok(Logical::Unresolved),
        Ok(v1::RecordState::Retryable) => Ok(Logical::Retryable),
        Ok(v1::RecordState::Unbound) => Ok(Logical::Unbound),
        Ok(v1::RecordState::Completed) => Ok(Logical::Completed),
        Ok(v1::RecordState::Unspecified) | Err(_) => Err(unknown("state", wire, UPGRADE)),
    }
}

impl Faults {
    /// A mode that may be absent.
    pub(super) fn mode(&mut self, wire: i32) -> Option<Mode> {
        if wire == 0 { None } else { self.take(read_mode(wire)) }
    }
}
