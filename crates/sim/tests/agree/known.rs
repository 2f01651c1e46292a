//! Disagreements that are known and not resolved yet. A run that meets one ends there.

use firstclaim_core::EffectName;
use firstclaim_core::command::{Command, ReleaseKind};
use firstclaim_sim::{Observation, Refused};

use super::run::Answered;

/// Which known disagreement an answer shows.
pub(crate) fn known(answered: &Answered) -> Option<&'static str> {
    let (real, expected) = (&answered.real, &answered.expected);
    if let Command::Release(it) = &answered.command
        && let ReleaseKind::Retry { .. } = it.kind
    {
        let hindered = matches!(real, Observation::Refused(Refused::UnsettledEffects { .. }));
        let released = matches!(expected, Observation::Released { .. });
        return (hindered && released)
            .then_some("own lapsed work hinders RETRY once anything was settled");
    }
    if let Command::SettleEffect(it) = &answered.command
        && let EffectName::Work(_) = it.settle.uid.name
    {
        let early =
            |it: &Observation| matches!(it, Observation::Refused(Refused::NotYetProvable { .. }));
        return (early(real) || early(expected))
            .then_some("the deadline of settled work stays behind");
    }
    None
}
