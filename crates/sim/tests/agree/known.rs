//! Disagreements that are known and not resolved yet. A run that meets one ends there.

use firstclaim_core::command::{Command, ReleaseKind};
use firstclaim_core::{EffectName, EffectUid};
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
    let of_work = |it: &Observation| {
        matches!(
            it,
            Observation::Refused(Refused::NotYetProvable {
                uid: EffectUid { name: EffectName::Work(_), .. },
                ..
            })
        )
    };
    if of_work(real) || of_work(expected) {
        return Some("the deadline of settled work stays where it was when it was settled");
    }
    None
}
