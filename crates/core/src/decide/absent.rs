//! What only an absent key has to pass, whoever asks: a first claim or a producer's reservation.

use crate::decide::Context;
use crate::fingerprint::FingerprintSet;
use crate::invalid::Invalid;
use crate::name::{IdempotencyKey, Labels};
use crate::outcome::Refusal;
use crate::planted::{self, Planted};
use crate::policy::{DuplicateIntent, Requirement};
use crate::record::{Epoch, Frozen, Record, State};
use crate::tenant::Namespace;
use crate::time::Timestamp;

/// A request for a key that nothing is known about.
pub(super) struct Newcomer<'a> {
    /// The request that the key stands for.
    pub(super) fingerprints: &'a FingerprintSet,
    /// When the intent was born.
    pub(super) intent_time: Option<Timestamp>,
    /// Whether only a reserved key will do.
    pub(super) needs_reservation: bool,
    /// Whether somebody answers for it that the intent never ran.
    pub(super) admitted: bool,
    /// Whether the same request under another key is another intent.
    pub(super) allow_duplicate_intent: bool,
}

/// The checks of an absent key, in the order of semantics §5.
pub(super) fn check(context: &Context<'_>, newcomer: &Newcomer<'_>) -> Result<(), Refusal> {
    let records_max = context.policy.records_max;
    if records_max > 0 && context.records >= records_max {
        return Err(Refusal::RecordsExhausted { records_max });
    }
    check_horizon(context, newcomer)?;
    if newcomer.needs_reservation {
        return Err(Refusal::KeyNotReserved);
    }
    check_duplicate(context, newcomer.allow_duplicate_intent)
}

/// Whether the same request under another key is refused.
pub(super) fn check_duplicate(context: &Context<'_>, allowed: bool) -> Result<(), Refusal> {
    let block = context.policy.duplicate_intent == DuplicateIntent::Block && !allowed;
    if block && !context.similar.is_empty() {
        return Err(Refusal::DuplicateIntent { similar_keys: similar_keys(context) });
    }
    Ok(())
}

/// Other keys with the same fingerprint.
pub(super) fn similar_keys(context: &Context<'_>) -> Vec<IdempotencyKey> {
    context.similar.to_vec()
}

/// A record that begins now. Nobody has claimed it.
pub(super) fn record(context: &mut Context<'_>, newcomer: &Newcomer<'_>) -> Record {
    let now = context.now();
    Record {
        life: context.cluster.next_id(),
        fingerprints: newcomer.fingerprints.clone(),
        first_seen_time: now,
        bound_time: now,
        intent_time: newcomer.intent_time,
        reserved: false,
        admitted: None,
        reserve_labels: Labels::default(),
        last_write_time: now,
        epoch: Epoch::NONE,
        grant: None,
        frozen: Frozen::from_policy(context.policy),
        execute_grants: 0,
        attempts: Vec::new(),
        works: Vec::new(),
        effects: Vec::new(),
        resolution: None,
        revision: 0,
        evidence: Vec::new(),
        unbound_epoch: Epoch::NONE,
        state: State::Reserved {
            identity_expire_time: context.policy.identity_retention.from(now),
        },
    }
}

/// Whether no record of the intent can have been forgotten.
fn check_horizon(context: &Context<'_>, newcomer: &Newcomer<'_>) -> Result<(), Refusal> {
    let now = context.now();
    let skew = context.policy.intent_time_skew;
    let intent_time = newcomer.intent_time;
    let predecessor = context.namespace.predecessor;
    let Some(born) = intent_time else {
        if context.policy.intent_time == Requirement::Required {
            return Err(Refusal::Invalid(vec![Invalid::new(
                "intent_time",
                "is missing, and the namespace requires it",
                "send when the intent was born, not when it is tried",
            )]));
        }
        let forgotten = predecessor.map(|grave| grave.forgotten);
        if !newcomer.admitted && forgotten.is_some_and(|expiry| !expiry.has_come(now)) {
            return Err(Refusal::LateReplay { intent_time });
        }
        return Ok(());
    };
    if born > now.after(skew) {
        return Err(Refusal::IntentTimeInFuture { intent_time: born, skew });
    }
    let predecessor = predecessor.filter(|_| !planted::is(Planted::DeletionForgotten));
    // A claim of the old life may have been let ahead of store time by the skew granted then; a clock
    // that is asked now may be off by the skew granted now.
    let of_predecessor = predecessor.is_some_and(|grave| {
        let granted_now = grave.deleted_time.after(skew);
        born <= if planted::is(Planted::DeletedSkewForgotten) {
            granted_now
        } else {
            granted_now.max(grave.intent_horizon)
        }
    });
    let late = of_predecessor || forgotten_by_version(context.namespace, born, now);
    if late && !newcomer.admitted && !planted::is(Planted::HorizonUnchecked) {
        return Err(Refusal::LateReplay { intent_time });
    }
    Ok(())
}

/// The replay horizon over every retention that the namespace ever had, each with its own skew.
fn forgotten_by_version(namespace: &Namespace, born: Timestamp, now: Timestamp) -> bool {
    namespace.versions.iter().any(|version| {
        let exact = planted::is(Planted::SkewIgnored);
        let start = if exact { born } else { born.before(version.skew) };
        let in_force = version.until.is_none_or(|until| start < until);
        let passed = |from: Timestamp| version.identity_retention.from(from).has_come(now);
        in_force && passed(version.from) && passed(start)
    })
}
