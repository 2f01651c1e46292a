//! SettleEffect: what became of an effect, as a caller tells it.

use firstclaim_core::command::{Settle, SettleEffect};
use firstclaim_core::effect::{Journal, Settlement};
use firstclaim_core::name::{Principal, ProviderKey, ProviderName};
use firstclaim_core::policy::OnLapse;
use firstclaim_core::record::{Logical, Mode};
use firstclaim_core::{Answer, EffectUid, Timestamp, limits};

use super::effect::{self, content, read_verdict, verdict};
use super::enums::{self, read_state};
use super::time::timestamp;
use super::{Faults, WrongAnswer};
use crate::v1;

/// Reads a settlement.
///
/// # Errors
///
/// Every fault of it.
pub fn read_settlement(wire: v1::EffectSettlement) -> Result<Settle, Faults> {
    let mut faults = Faults::default();
    let uid = faults.take(EffectUid::parse(&wire.uid));
    let provider = faults.optional(wire.provider, ProviderName::parse);
    let provider_key = faults.optional(wire.provider_key, ProviderKey::parse);
    let verdict = faults.take(read_verdict(wire.verdict));
    let evidence = faults.content("evidence", wire.evidence, limits::EVIDENCE_BYTES_MAX);
    let build = || {
        Some(Settle {
            uid: uid?,
            provider: provider?,
            provider_key: provider_key?,
            verdict: verdict?,
            evidence: evidence?,
        })
    };
    let built = build();
    faults.finish(built)
}

/// A settlement on the wire.
#[must_use]
pub fn settlement(settle: Settle) -> v1::EffectSettlement {
    v1::EffectSettlement {
        uid: settle.uid.to_string(),
        provider: settle.provider.map(String::from).unwrap_or_default(),
        provider_key: settle.provider_key.map(String::from).unwrap_or_default(),
        verdict: Some(verdict(settle.verdict)),
        evidence: Some(content(settle.evidence)),
    }
}

/// Reads the settlements that a completion carries.
pub(super) fn read_settlements(
    faults: &mut Faults,
    wire: Vec<v1::EffectSettlement>,
) -> Vec<Settle> {
    if wire.len() > limits::EFFECTS_PER_CALL_MAX {
        let fix = format!("send at most {}", limits::EFFECTS_PER_CALL_MAX);
        faults.note("settlements", format!("has {} entries", wire.len()), fix);
        return Vec::new();
    }
    let mut read = Vec::new();
    for (at, one) in wire.into_iter().enumerate() {
        read.extend(faults.absorb_in(&format!("settlements[{at}]"), read_settlement(one)));
    }
    read
}

/// Reads a statement about an effect.
///
/// # Errors
///
/// Every fault of the request.
pub fn read(request: v1::SettleEffectRequest) -> Result<SettleEffect, Faults> {
    let mut faults = Faults::default();
    let record = faults.record_ref(request.tenant, request.namespace, request.key);
    let settle = faults
        .need("settlement", request.settlement)
        .and_then(|wire| faults.absorb_in("settlement", read_settlement(wire)));
    let principal = faults.take(Principal::parse(request.principal));
    let build = || Some(SettleEffect { record: record?, settle: settle?, principal: principal? });
    let built = build();
    faults.finish(built)
}

/// The request of a statement about an effect.
#[must_use]
pub fn request(command: SettleEffect) -> v1::SettleEffectRequest {
    v1::SettleEffectRequest {
        tenant: command.record.tenant.into(),
        namespace: command.record.namespace.into(),
        key: command.record.key.into(),
        settlement: Some(settlement(command.settle)),
        principal: command.principal.into(),
    }
}

/// The response of a statement about an effect.
///
/// # Errors
///
/// [`WrongAnswer`] if the answer is not a settlement.
pub fn response(
    answer: &Answer,
    store_time: Timestamp,
) -> Result<v1::SettleEffectResponse, WrongAnswer> {
    let Answer::Settled(settled) = answer else {
        return Err(WrongAnswer::to("settlement", answer));
    };
    let mode = settled.mode.map_or(v1::Mode::Unspecified, enums::mode);
    let (on_lapse, effects) = effect::inherited(settled.inherited.as_ref());
    Ok(v1::SettleEffectResponse {
        settlement: settled.findings.settlement.as_ref().map(effect::settlement),
        repeated: settled.repeated,
        conflict: settled.findings.conflict,
        state: enums::state(settled.state, !settled.open.is_empty()).into(),
        mode: mode.into(),
        open: effect::journal(settled.uid.life, &settled.open, &[]),
        completed_record: settled.completed_record,
        store_time: Some(timestamp(store_time)),
        on_lapse: on_lapse.into(),
        effects,
    })
}

/// What a settlement changed, as a client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettleAnswer {
    /// What is known about the effect now; none if there was nothing to settle.
    pub settlement: Option<Settlement>,
    /// Whether nothing changed.
    pub repeated: bool,
    /// Whether it contradicts an earlier NOT_COMMITTED, so that nobody may act.
    pub conflict: bool,
    /// What the record is now.
    pub state: Logical,
    /// The mode of a live claim now.
    pub mode: Option<Mode>,
    /// What is still open.
    pub open: Journal,
    /// Whether the settlement completed the record.
    pub completed_record: bool,
    /// If a live claim may execute after others: what a lapse of its grant means.
    pub on_lapse: Option<OnLapse>,
    /// If a live claim may execute after others: what happened and what did not.
    pub journal: Journal,
    /// The store's time.
    pub store_time: Timestamp,
}

/// Reads the answer to a statement about an effect.
///
/// # Errors
///
/// What is missing or newer than this client.
pub fn read_response(response: v1::SettleEffectResponse) -> Result<SettleAnswer, Faults> {
    let mut faults = Faults::default();
    let settlement = match response.settlement {
        None => Some(None),
        Some(wire) => faults.absorb_in("settlement", effect::read_settlement(wire)).map(Some),
    };
    let state = faults.take(read_state(response.state));
    let mode = faults.mode(response.mode);
    let open = effect::read_journal(&mut faults, "open", response.open);
    let store_time = faults.need_timestamp("store_time", response.store_time);
    let (on_lapse, journal) =
        effect::read_inherited(&mut faults, response.on_lapse, response.effects);
    let build = || {
        Some(SettleAnswer {
            settlement: settlement?,
            repeated: response.repeated,
            conflict: response.conflict,
            state: state?,
            mode,
            open: open?,
            completed_record: response.completed_record,
            on_lapse: on_lapse?,
            journal: journal?,
            store_time: store_time?,
        })
    };
    let built = build();
    faults.finish(built)
}
