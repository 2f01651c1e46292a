//! External side effects as answers show them, with their permits, verdicts and evidence.

use firstclaim_core::effect::{
    Content, Effect, EffectName, EffectUid, Findings, Journal, OpenCause, Permit, Settlement,
    Verdict, Work,
};
use firstclaim_core::name::{Principal, ProviderKey, ProviderName, SlotName};
use firstclaim_core::outcome::Inherited;
use firstclaim_core::policy::OnLapse;
use firstclaim_core::record::KnownAttempt;
use firstclaim_core::{AttemptId, Epoch, Invalid, OwnerLabel, limits};

use super::Faults;
use super::enums::{self, unknown};
use super::time::{self, duration, timestamp};
use crate::v1;

/// Bytes with their media type.
#[must_use]
pub fn content(content: Content) -> v1::Content {
    v1::Content {
        content_type: content.content_type,
        data: content.bytes.unwrap_or_default(),
        digest: content.digest,
        length: content.length,
    }
}

/// Takes content from an answer as the server describes it.
fn stored_content(wire: v1::Content) -> Content {
    let gone = wire.data.is_empty() && (wire.length > 0 || wire.digest.is_empty());
    Content {
        content_type: wire.content_type,
        digest: wire.digest,
        length: wire.length,
        bytes: (!gone).then_some(wire.data),
    }
}

impl Faults {
    /// Checks a media type.
    pub(super) fn content_type(&mut self, field: &str, text: &str) {
        if text.len() > limits::CONTENT_TYPE_BYTES_MAX {
            let fix = format!("use at most {} bytes", limits::CONTENT_TYPE_BYTES_MAX);
            self.note(field, format!("is {} bytes long", text.len()), fix);
        }
        if text.chars().any(char::is_control) {
            let fix = "send a media type, such as application/json";
            self.note(field, "holds a control character", fix);
        }
    }

    /// Reads content of at most `max` bytes; absent is empty. Digest and length are computed here.
    pub(super) fn content(
        &mut self,
        field: &str,
        wire: Option<v1::Content>,
        max: usize,
    ) -> Option<Content> {
        let wire = wire.unwrap_or_default();
        self.content_type(&format!("{field}.content_type"), &wire.content_type);
        if wire.data.len() > max {
            let fix = format!("send at most {max} bytes, or a digest or reference of the rest");
            self.note(format!("{field}.data"), format!("is {} bytes long", wire.data.len()), fix);
            return None;
        }
        Some(Content::new(wire.data, wire.content_type))
    }
}

/// A verdict on the wire.
#[must_use]
pub fn verdict(verdict: Verdict) -> v1::Verdict {
    use v1::verdict::Kind;
    let kind = match verdict {
        Verdict::Committed => Kind::Committed(v1::Committed {}),
        Verdict::Refused { status } => Kind::Refused(v1::Refused { status: status.map(u32::from) }),
        Verdict::NotFound { as_of } => {
            Kind::NotFound(v1::NotFound { as_of: Some(timestamp(as_of)) })
        }
        Verdict::Overridden => Kind::Overridden(v1::Overridden {}),
    };
    v1::Verdict { kind: Some(kind) }
}

/// Reads a verdict, which must be there.
///
/// # Errors
///
/// [`Invalid`] if none is given, or it lacks what it must say.
pub fn read_verdict(wire: Option<v1::Verdict>) -> Result<Verdict, Invalid> {
    use v1::verdict::Kind;
    match wire.and_then(|wire| wire.kind) {
        Some(Kind::Committed(v1::Committed {})) => Ok(Verdict::Committed),
        Some(Kind::Refused(refused)) => {
            let status = refused.status.map(|status| {
                let known = u16::try_from(status).ok().filter(|it| (100..600).contains(it));
                known.ok_or_else(|| {
                    let fix = "send the HTTP status of the refusal, or none";
                    Invalid::new("verdict.refused.status", format!("is {status}"), fix)
                })
            });
            Ok(Verdict::Refused { status: status.transpose()? })
        }
        Some(Kind::NotFound(v1::NotFound { as_of: Some(as_of) })) => {
            let as_of = time::read_timestamp("verdict.not_found.as_of", as_of)?;
            Ok(Verdict::NotFound { as_of })
        }
        Some(Kind::NotFound(v1::NotFound { as_of: None })) => Err(Invalid::new(
            "verdict.not_found.as_of",
            "is missing",
            "send the store time of a linearizable answer that came before the look-up began",
        )),
        Some(Kind::Overridden(v1::Overridden {})) => Ok(Verdict::Overridden),
        None => Err(Invalid::new(
            "verdict",
            "is missing",
            "send committed, refused or not_found: nothing is ever assumed",
        )),
    }
}

/// A settlement as it is kept.
#[must_use]
pub fn settlement(settlement: &Settlement) -> v1::Settlement {
    v1::Settlement {
        verdict: Some(verdict(settlement.verdict)),
        evidence: Some(content(settlement.evidence.clone())),
        settle_time: Some(timestamp(settlement.time)),
        principal: settlement.principal.as_str().to_owned(),
    }
}

/// Reads a settlement as it is kept.
///
/// # Errors
///
/// Every fault of the answer.
pub fn read_settlement(wire: v1::Settlement) -> Result<Settlement, Faults> {
    let mut faults = Faults::default();
    let verdict = faults.take(read_verdict(wire.verdict));
    let evidence = stored_content(wire.evidence.unwrap_or_default());
    let time = faults.need_timestamp("settle_time", wire.settle_time);
    let principal = faults.take(Principal::parse(wire.principal));
    let build =
        || Some(Settlement { verdict: verdict?, evidence, time: time?, principal: principal? });
    let built = build();
    faults.finish(built)
}

/// A permit on the wire.
#[must_use]
pub fn permit(permit: Permit) -> v1::Permit {
    v1::Permit {
        number: permit.number,
        epoch: permit.epoch.0,
        permit_time: Some(timestamp(permit.permitted_time)),
        not_after: Some(timestamp(permit.not_after)),
    }
}

/// Reads a permit.
///
/// # Errors
///
/// Every fault of the answer.
pub fn read_permit(wire: &v1::Permit) -> Result<Permit, Faults> {
    let mut faults = Faults::default();
    let permitted_time = faults.need_timestamp("permit_time", wire.permit_time);
    let not_after = faults.need_timestamp("not_after", wire.not_after);
    let build = || {
        Some(Permit {
            number: wire.number,
            epoch: Epoch(wire.epoch),
            permitted_time: permitted_time?,
            not_after: not_after?,
        })
    };
    let built = build();
    faults.finish(built)
}

/// All of a journal, of the record's life `life`. `attempts` tells whose the effects are, as far as
/// they are remembered.
#[must_use]
pub fn journal(life: u64, journal: &Journal, attempts: &[KnownAttempt]) -> Vec<v1::Effect> {
    let works = journal.works.iter().map(|one| work(life, one));
    works.chain(journal.effects.iter().map(|one| recorded(life, one, attempts))).collect()
}

/// What the holder of an EXECUTE claim has to know of earlier grants; nothing if there is nothing.
pub(super) fn inherited(inherited: Option<&Inherited>) -> (v1::OnLapse, Vec<v1::Effect>) {
    inherited.map_or((v1::OnLapse::Unspecified, Vec::new()), |it| {
        (enums::on_lapse(it.on_lapse), journal(it.life, &it.journal, &[]))
    })
}

fn work(life: u64, work: &Work) -> v1::Effect {
    let cause = match work.cause {
        Some(OpenCause::Lapsed) => v1::OpenCause::Lapsed,
        Some(OpenCause::ReleasedUnknown) => v1::OpenCause::ReleasedUnknown,
        Some(OpenCause::Interrupted) => v1::OpenCause::Interrupted,
        None => v1::OpenCause::Unspecified,
    };
    let uid = EffectUid { life, name: EffectName::Work(work.epoch) };
    let shown = v1::Effect {
        kind: v1::EffectKind::Work.into(),
        uid: uid.to_string(),
        epoch: work.epoch.0,
        owner: work.owner.as_str().to_owned(),
        attempt_id: work.attempt_id.as_str().to_owned(),
        open_since: Some(timestamp(work.since)),
        last_deadline: Some(timestamp(work.deadline)),
        note: work.note.clone(),
        settle_horizon: Some(duration(work.settle_horizon)),
        cause: cause.into(),
        provable_time: Some(timestamp(work.deadline.after(work.settle_horizon))),
        ..v1::Effect::default()
    };
    with_findings(shown, &work.findings)
}

fn recorded(life: u64, effect: &Effect, attempts: &[KnownAttempt]) -> v1::Effect {
    let uid = EffectUid { life, name: EffectName::Effect(effect.id.clone()) };
    let last = effect.last_not_after();
    let epoch = effect.permits.last().map_or(Epoch::NONE, |permit| permit.epoch);
    let holder = attempts.iter().rev().find(|known| known.epoch == epoch);
    let shown = v1::Effect {
        kind: v1::EffectKind::Recorded.into(),
        uid: uid.to_string(),
        epoch: epoch.0,
        owner: holder.map(|known| known.owner.as_str().to_owned()).unwrap_or_default(),
        attempt_id: holder.map(|known| known.attempt_id.as_str().to_owned()).unwrap_or_default(),
        open_since: Some(timestamp(effect.first_permitted())),
        last_deadline: Some(timestamp(last)),
        settle_horizon: Some(duration(effect.settle_horizon)),
        provable_time: Some(timestamp(last.after(effect.settle_horizon))),
        slot: effect.slot.as_str().to_owned(),
        provider: effect.provider.as_str().to_owned(),
        provider_key: effect.provider_key.clone().map(String::from).unwrap_or_default(),
        dedup_window: effect.dedup_window.map(time::retention),
        request: Some(content(effect.request.clone())),
        permits: effect.permits.iter().copied().map(permit).collect(),
        ..v1::Effect::default()
    };
    with_findings(shown, &effect.findings)
}

fn with_findings(shown: v1::Effect, findings: &Findings) -> v1::Effect {
    let state = match (findings.open(), findings.committed()) {
        (true, _) => v1::EffectState::Open,
        (false, true) => v1::EffectState::Committed,
        (false, false) => v1::EffectState::NotCommitted,
    };
    v1::Effect {
        state: state.into(),
        settlement: findings.settlement.as_ref().map(settlement),
        conflict: findings.conflict,
        contradictions: findings.contradictions.iter().map(settlement).collect(),
        ..shown
    }
}

/// Reads all effects of the field `field` of an answer.
pub(super) fn read_journal(
    faults: &mut Faults,
    field: &str,
    wire: Vec<v1::Effect>,
) -> Option<Journal> {
    let mut journal = Journal::default();
    let mut sound = true;
    for (at, effect) in wire.into_iter().enumerate() {
        let parent = format!("{field}[{at}]");
        let read = match effect.kind() {
            v1::EffectKind::Work => {
                faults.absorb_in(&parent, read_work(effect)).map(|work| journal.works.push(work))
            }
            v1::EffectKind::Recorded => faults
                .absorb_in(&parent, read_recorded(effect))
                .map(|effect| journal.effects.push(effect)),
            v1::EffectKind::Unspecified => {
                let fix = "upgrade the client to one that knows it";
                faults.take_in(&parent, Err(unknown("kind", effect.kind, fix)))
            }
        };
        sound &= read.is_some();
    }
    sound.then_some(journal)
}

/// Reads what the holder of an EXECUTE claim has to know of earlier grants.
pub(super) fn read_inherited(
    faults: &mut Faults,
    on_lapse: i32,
    effects: Vec<v1::Effect>,
) -> (Option<Option<OnLapse>>, Option<Journal>) {
    let on_lapse = match on_lapse {
        0 => Some(None),
        wire => faults.take(enums::read_on_lapse(wire)).map(Some),
    };
    (on_lapse, read_journal(faults, "effects", effects))
}

fn read_work(mut wire: v1::Effect) -> Result<Work, Faults> {
    let mut faults = Faults::default();
    let cause = match wire.cause() {
        v1::OpenCause::Lapsed => Some(OpenCause::Lapsed),
        v1::OpenCause::ReleasedUnknown => Some(OpenCause::ReleasedUnknown),
        v1::OpenCause::Interrupted => Some(OpenCause::Interrupted),
        v1::OpenCause::Unspecified => None,
    };
    let findings = read_findings(&mut faults, &mut wire);
    let attempt_id = faults.take(AttemptId::parse(wire.attempt_id));
    let owner = faults.take(OwnerLabel::parse(wire.owner));
    let since = faults.need_timestamp("open_since", wire.open_since);
    let deadline = faults.need_timestamp("last_deadline", wire.last_deadline);
    let settle_horizon = faults.need_duration("settle_horizon", wire.settle_horizon);
    let build = || {
        Some(Work {
            epoch: Epoch(wire.epoch),
            attempt_id: attempt_id?,
            owner: owner?,
            cause,
            since: since?,
            deadline: deadline?,
            settle_horizon: settle_horizon?,
            note: wire.note,
            findings: findings?,
        })
    };
    let built = build();
    faults.finish(built)
}

fn read_recorded(mut wire: v1::Effect) -> Result<Effect, Faults> {
    let mut faults = Faults::default();
    let findings = read_findings(&mut faults, &mut wire);
    let id = faults.take(EffectUid::parse(&wire.uid)).and_then(|uid| match uid.name {
        EffectName::Effect(id) => Some(id),
        EffectName::Work(_) => {
            faults.note("uid", "is that of work", "upgrade the client to one that knows it");
            None
        }
    });
    let slot = faults.take(SlotName::parse(wire.slot));
    let provider = faults.take(ProviderName::parse(wire.provider));
    let provider_key = faults.optional(wire.provider_key, ProviderKey::parse);
    let dedup_window = wire
        .dedup_window
        .and_then(|window| faults.take(time::read_retention("dedup_window", window)));
    let settle_horizon = faults.need_duration("settle_horizon", wire.settle_horizon);
    let mut permits = Vec::new();
    for (at, permit) in wire.permits.iter().enumerate() {
        permits.extend(faults.absorb_in(&format!("permits[{at}]"), read_permit(permit)));
    }
    let request = stored_content(wire.request.unwrap_or_default());
    let build = || {
        Some(Effect {
            id: id?,
            slot: slot?,
            provider: provider?,
            provider_key: provider_key?,
            dedup_window,
            request,
            permits,
            settle_horizon: settle_horizon?,
            findings: findings?,
        })
    };
    let built = build();
    faults.finish(built)
}

/// Takes the findings out of an effect.
fn read_findings(faults: &mut Faults, wire: &mut v1::Effect) -> Option<Findings> {
    let settlement = match wire.settlement.take() {
        None => None,
        Some(wire) => Some(faults.absorb_in("settlement", read_settlement(wire))?),
    };
    let mut contradictions = Vec::new();
    for (at, one) in std::mem::take(&mut wire.contradictions).into_iter().enumerate() {
        let read = faults.absorb_in(&format!("contradictions[{at}]"), read_settlement(one));
        contradictions.extend(read);
    }
    Some(Findings { settlement, conflict: wire.conflict, contradictions })
}
