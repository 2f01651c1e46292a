//! The sentence of each refusal: what happened, and what to do.

use std::fmt::Write as _;

use firstclaim_core::effect::Journal;
use firstclaim_core::record::Logical;
use firstclaim_core::{Epoch, IdempotencyKey, Millis, Reason, RecordRef, Refusal, Timestamp};
use firstclaim_proto::convert::enums;

use crate::status::{Applied, Failure};

mod effect;

/// Bytes of the keys that one failure names: a status is a header, and headers are small.
const KEYS_BYTES_MAX: usize = 2048;

/// The failure that a refusal leaves as. Every variable of the sentence is in its metadata.
#[expect(clippy::too_many_lines, reason = "a table: one arm a refusal")]
pub(crate) fn describe(refusal: &Refusal) -> Failure {
    let reason = refusal.reason();
    let say = |message: &str| Failure::new(reason, Applied::Decided, message);
    match refusal {
        Refusal::Invalid(faults) => Failure::invalid(faults, Applied::Decided),
        Refusal::IntentTimeInFuture { intent_time, skew } => {
            intent_time_in_future(reason, *intent_time, *skew)
        }
        Refusal::TenantNotFound => say("there is no tenant of this name; create it first \
             (firstclaim tenant create), or correct the name"),
        Refusal::NamespaceNotFound => say("there is no namespace of this name in the tenant; \
             create it first (firstclaim namespace create), or correct the name"),
        Refusal::RecordNotFound => {
            say("there is no record of this key: it was never claimed here, or is forgotten")
        }
        Refusal::AlreadyExists { etag } => say(&format!(
            "the name is taken, by the version with etag {etag}; update that one, or choose \
             another name"
        ))
        .with("etag", etag),
        Refusal::NameInDeletion { deleted_index, free_time } => {
            name_in_deletion(reason, *deleted_index, *free_time)
        }
        Refusal::EtagMismatch { etag } => say(&format!(
            "another version stands there now, with etag {etag}; read it, and repeat the change \
             on top of it"
        ))
        .with("etag", etag),
        Refusal::StillInUse { example } => still_in_use(reason, example),
        Refusal::FingerprintMismatch { scheme, parts, first_seen_time } => {
            fingerprint_mismatch(reason, scheme, parts, *first_seen_time)
        }
        Refusal::FingerprintIncomparable { bound, sent, first_seen_time } => {
            fingerprint_incomparable(reason, bound, sent, *first_seen_time)
        }
        Refusal::AttemptIdReused { owner } => say(&format!(
            "the attempt_id belongs to {owner}; mint a new attempt_id for every try of every \
             process, never derive it from the message"
        ))
        .with("owner", owner),
        Refusal::AttemptSpent { epoch } => attempt_spent(reason, *epoch),
        Refusal::AttemptsExhausted { execute_grants, max_attempts } => {
            attempts_exhausted(reason, *execute_grants, *max_attempts)
        }
        Refusal::LateReplay { intent_time } => late_replay(reason, *intent_time),
        Refusal::StaleEpoch { epoch, evidence_kept, completed_record } => {
            stale_epoch(reason, *epoch, *evidence_kept, *completed_record)
        }
        Refusal::LeaseExpired { lease_expire_time } => lease_expired(reason, *lease_expire_time),
        Refusal::Revoked => {
            say("an operator revoked the claim; dispatch nothing more, and claim again later")
        }
        Refusal::AlreadyCompleted { epoch, completed_time, evidence_kept } => {
            already_completed(reason, *epoch, *completed_time, *evidence_kept)
        }
        Refusal::ResultConflict { stored_digest, sent_digest } => {
            result_conflict(reason, stored_digest, sent_digest)
        }
        Refusal::UnsettledEffects { life, open } => unsettled_effects(reason, *life, open),
        Refusal::EffectNotAllowed { problem } => {
            say(&format!("the grant does not allow it: {problem}")).with("problem", problem)
        }
        Refusal::EffectNotFound { uid } => effect::not_found(reason, uid),
        Refusal::EffectOpen { uid } => effect::open(reason, uid),
        Refusal::EffectSettled { uid, findings } => effect::settled(reason, uid, findings),
        Refusal::EffectMismatch { uid, field } => effect::mismatch(reason, uid, field),
        Refusal::RedispatchUnsafe { uid, dedup_until } => {
            effect::unsafe_again(reason, uid, *dedup_until)
        }
        Refusal::DispatchNumber { uid, next } => effect::other_number(reason, uid, *next),
        Refusal::EvidenceConflict { uid, evidence_kept } => {
            effect::conflict(reason, uid, *evidence_kept)
        }
        Refusal::NotYetProvable { uid, provable_time } => {
            effect::not_yet_provable(reason, uid, *provable_time)
        }
        Refusal::StillLive { until } => still_live(reason, *until),
        Refusal::NotPurgeable { epoch, state } => not_purgeable(reason, *epoch, *state),
        Refusal::KeyNotReserved => say("the namespace serves only keys that a producer reserved, \
             and nobody reserved this one; claim the key that came with the message, and reserve \
             keys where the intent is born"),
        Refusal::DuplicateIntent { similar_keys } => duplicate_intent(reason, similar_keys),
        Refusal::RecordsExhausted { records_max } => say(&format!(
            "the namespace holds {records_max} records, all that its policy allows (records_max); \
             raise it, or wait until records are forgotten; holders are not affected"
        ))
        .with("records_max", records_max),
    }
}

/// A time as people and programs read it: RFC 3339.
pub(crate) fn time(time: Timestamp) -> String {
    i64::try_from(time.0)
        .ok()
        .and_then(|millis| jiff::Timestamp::from_millisecond(millis).ok())
        .map_or_else(|| format!("{} ms", time.0), |time| time.to_string())
}

pub(crate) fn decided(reason: Reason, message: impl Into<String>) -> Failure {
    Failure::new(reason, Applied::Decided, message)
}

fn intent_time_in_future(reason: Reason, intent_time: Timestamp, skew: Millis) -> Failure {
    let (born, skew) = (time(intent_time), skew.0);
    let message = format!(
        "intent_time: {born} is more than {skew} ms ahead of the store's clock; send the time at \
         which the intent was born, in UTC"
    );
    decided(reason, message).with("intent_time", born).with("skew_ms", skew)
}

fn name_in_deletion(reason: Reason, deleted_index: u64, free_time: Timestamp) -> Failure {
    let free = time(free_time);
    let message = format!(
        "the name was deleted at log index {deleted_index}, and not every member is known to have \
         applied that; it is free once all have, at the latest at {free}"
    );
    decided(reason, message).with("deleted_index", deleted_index).with("free_time", free)
}

fn still_in_use(reason: Reason, example: &RecordRef) -> Failure {
    let namespace = &example.namespace;
    let message = format!(
        "records are live or open, one of them in namespace {namespace}; let them end, or delete \
         with force, after which the same intents may be executed again"
    );
    decided(reason, message).with("namespace", namespace)
}

fn fingerprint_mismatch(
    reason: Reason,
    scheme: &str,
    parts: &[String],
    first_seen_time: Timestamp,
) -> Failure {
    let seen = time(first_seen_time);
    let differing = match parts {
        [] => String::new(),
        parts => format!(" (what differs: {})", parts.join(",")),
    };
    let message = format!(
        "the key is bound to another request since {seen}, compared by {scheme}{differing}; use a \
         new key for a new intent, or send the request of the first claim unchanged"
    );
    decided(reason, message)
        .with("scheme", scheme)
        .with("parts", parts.join(","))
        .with("first_seen_time", seen)
}

fn fingerprint_incomparable(
    reason: Reason,
    bound: &[String],
    sent: &[String],
    first_seen_time: Timestamp,
) -> Failure {
    let (bound, sent, seen) = (list(bound), list(sent), time(first_seen_time));
    let message = format!(
        "the key is bound to a request since {seen} by the schemes {bound}, and this call carries \
         {sent}: they cannot be compared; send one of the bound schemes"
    );
    decided(reason, message)
        .with("bound_schemes", bound)
        .with("sent_schemes", sent)
        .with("first_seen_time", seen)
}

fn attempt_spent(reason: Reason, epoch: Epoch) -> Failure {
    let epoch = epoch.0;
    let message = format!(
        "this attempt was granted epoch {epoch} and its claim has ended; mint a new attempt_id and \
         claim again"
    );
    decided(reason, message).with("epoch", epoch)
}

fn attempts_exhausted(reason: Reason, execute_grants: u32, max_attempts: u32) -> Failure {
    let message = format!(
        "the key was granted {execute_grants} times, and the policy allows {max_attempts}; raise \
         max_attempts, or settle the intent by hand"
    );
    decided(reason, message)
        .with("execute_grants", execute_grants)
        .with("max_attempts", max_attempts)
}

fn late_replay(reason: Reason, intent_time: Option<Timestamp>) -> Failure {
    let born = intent_time.map_or_else(|| "unknown".to_owned(), time);
    let message = format!(
        "an earlier record of this intent may have been forgotten (intent_time {born}), so it is \
         not executed again; find out at the provider whether it was done"
    );
    decided(reason, message).with("intent_time", born)
}

fn stale_epoch(
    reason: Reason,
    epoch: Option<Epoch>,
    evidence_kept: bool,
    completed_record: bool,
) -> Failure {
    let present = epoch.map_or_else(|| "none".to_owned(), |epoch| epoch.0.to_string());
    let kept = match (evidence_kept, completed_record) {
        (_, true) => "; what the call reported is kept and has completed the record",
        (true, false) => "; what the call reported is kept",
        (false, false) => "",
    };
    let message = format!(
        "the call's epoch and attempt do not hold the claim, whose present epoch is {present}; \
         stop the work{kept}"
    );
    decided(reason, message)
        .with("epoch", present)
        .with("evidence_kept", evidence_kept)
        .with("completed_record", completed_record)
}

fn lease_expired(reason: Reason, lease_expire_time: Timestamp) -> Failure {
    let ended = time(lease_expire_time);
    let message = format!(
        "the lease ended at {ended}; dispatch nothing more, and claim again with a new attempt_id, \
         or complete if the work is done"
    );
    decided(reason, message).with("lease_expire_time", ended)
}

fn already_completed(
    reason: Reason,
    epoch: Epoch,
    completed_time: Timestamp,
    evidence_kept: bool,
) -> Failure {
    let (done, epoch) = (time(completed_time), epoch.0);
    let kept = if evidence_kept { "; what the call reported is kept" } else { "" };
    let message = format!(
        "the intent was completed at {done} by epoch {epoch}; claim it to read the stored \
         result{kept}"
    );
    decided(reason, message)
        .with("epoch", epoch)
        .with("complete_time", done)
        .with("evidence_kept", evidence_kept)
}

fn result_conflict(reason: Reason, stored_digest: &[u8], sent_digest: &[u8]) -> Failure {
    let (stored, sent) = (hex(stored_digest), hex(sent_digest));
    let message = format!(
        "this epoch has completed the intent with another result (stored {stored}, sent {sent}), \
         and the stored one stays; find out why one grant came to two results"
    );
    decided(reason, message).with("stored_digest", stored).with("sent_digest", sent)
}

fn unsettled_effects(reason: Reason, life: u64, open: &Journal) -> Failure {
    let uids: Vec<String> = open.uids(life).iter().map(ToString::to_string).collect();
    let uids = uids.join(",");
    let message = format!(
        "{uids} may have happened, and nobody has said; find out and settle it, then complete, or \
         release UNKNOWN"
    );
    decided(reason, message).with("open", uids)
}

fn still_live(reason: Reason, until: Timestamp) -> Failure {
    let until = time(until);
    let message = format!(
        "a holder is at work, or its takeover delay runs, until {until}; wait, or revoke the claim"
    );
    decided(reason, message).with("until", until)
}

fn not_purgeable(reason: Reason, epoch: Epoch, state: Logical) -> Failure {
    let (epoch, state) = (epoch.0, enums::state(state, false).as_str_name());
    let state = state.trim_start_matches("RECORD_STATE_");
    let message = format!(
        "only a completed record of the expected epoch can be purged, and this one is {state} at \
         epoch {epoch}; read it again, and resolve it first if it is not completed"
    );
    decided(reason, message).with("epoch", epoch).with("state", state)
}

fn duplicate_intent(reason: Reason, similar_keys: &[IdempotencyKey]) -> Failure {
    let count = similar_keys.len();
    let message = format!(
        "the same request came under {count} other keys not long ago (similar_keys); use that key, \
         or set allow_duplicate_intent if this is another intent"
    );
    decided(reason, message).with("count", count).with("similar_keys", key_list(similar_keys))
}

/// Keys as a list that can be read back: a JSON array, cut where a header would become too large.
fn key_list(keys: &[IdempotencyKey]) -> String {
    let mut shown: Vec<&str> = Vec::new();
    let mut bytes = 0;
    for key in keys {
        bytes += key.as_str().len();
        if bytes > KEYS_BYTES_MAX && !shown.is_empty() {
            break;
        }
        shown.push(key.as_str());
    }
    serde_json::Value::from(shown).to_string()
}

fn list(schemes: &[String]) -> String {
    if schemes.is_empty() { "none".to_owned() } else { schemes.join(",") }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
