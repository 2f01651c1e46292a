//! The sentences of the refusals about one effect.

use firstclaim_core::effect::{Findings, Settlement, Verdict};
use firstclaim_core::{EffectUid, Expiry, Reason, Timestamp};

use super::{decided, hex, time};
use crate::status::Failure;

fn named(reason: Reason, uid: &EffectUid, problem: &str) -> Failure {
    decided(reason, format!("{uid} {problem}")).with("uid", uid)
}

pub(super) fn not_found(reason: Reason, uid: &EffectUid) -> Failure {
    let problem = "is no effect of the record in its present life; take the uid from the answer of \
                   the claim";
    named(reason, uid, problem)
}

pub(super) fn open(reason: Reason, uid: &EffectUid) -> Failure {
    let problem = "is in the same slot and may have happened; settle it, or send that same effect \
                   again";
    named(reason, uid, problem)
}

pub(super) fn settled(reason: Reason, uid: &EffectUid, findings: &Findings) -> Failure {
    let Some(settlement) = &findings.settlement else {
        return named(reason, uid, "is settled; send nothing more in its slot");
    };
    let verdict = verdict(settlement);
    let told = time(settlement.time);
    let digest = hex(&settlement.evidence.digest);
    let problem = format!(
        "is settled as {verdict} since {told} (evidence {digest}); send it no more, and take what \
         the evidence says"
    );
    named(reason, uid, &problem)
        .with("verdict", verdict)
        .with("settle_time", told)
        .with("evidence_digest", digest)
        .with("principal", &settlement.principal)
}

fn verdict(settlement: &Settlement) -> &'static str {
    match settlement.verdict {
        Verdict::Committed => "COMMITTED",
        Verdict::Refused { .. } | Verdict::NotFound { .. } | Verdict::Overridden => "NOT_COMMITTED",
    }
}

pub(super) fn mismatch(reason: Reason, uid: &EffectUid, field: &str) -> Failure {
    let problem = format!(
        "is known with another {field}; send it exactly as it was recorded, or record another \
         effect under its own id"
    );
    named(reason, uid, &problem).with("field", field)
}

pub(super) fn unsafe_again(
    reason: Reason,
    uid: &EffectUid,
    dedup_until: Option<Expiry>,
) -> Failure {
    let until = match dedup_until {
        Some(Expiry::At(until)) => time(until),
        Some(Expiry::Never) => "for ever".to_owned(),
        None => "unknown".to_owned(),
    };
    let problem = format!(
        "may not be sent again: by the time that it might arrive, the provider may take it for \
         another one (it tells repeats until: {until}); look it up at the provider and settle it"
    );
    named(reason, uid, &problem).with("dedup_until", until)
}

pub(super) fn other_number(reason: Reason, uid: &EffectUid, next: u32) -> Failure {
    let problem = format!(
        "has {next} for its next dispatch number; another number is a permit of another epoch, or \
         none"
    );
    named(reason, uid, &problem).with("next_number", next)
}

pub(super) fn conflict(reason: Reason, uid: &EffectUid, evidence_kept: bool) -> Failure {
    let kept = if evidence_kept { "; the contradiction is kept for people" } else { "" };
    let problem =
        format!("is known to have happened, and this call contradicts that; look at both{kept}");
    named(reason, uid, &problem).with("evidence_kept", evidence_kept)
}

pub(super) fn not_yet_provable(
    reason: Reason,
    uid: &EffectUid,
    provable_time: Timestamp,
) -> Failure {
    let provable = time(provable_time);
    let problem = format!(
        "may still arrive at the provider: a look-up that begins before {provable} proves nothing; \
         get a store time after that, ask the provider again, and settle with it"
    );
    named(reason, uid, &problem).with("provable_time", provable)
}
