//! Values of the domain, as any caller or log might make them.

use std::collections::BTreeMap;

use firstclaim_core::command::{CompleteWith, Dispatch, Holder, Settle};
use firstclaim_core::effect::{
    Content, Effect, EffectName, Findings, Journal, OpenCause, Permit, Settlement, Verdict, Work,
};
use firstclaim_core::name::{EffectId, Principal, ProviderKey, ProviderName, SlotName};
use firstclaim_core::outcome::{
    Acquired, AcquiredKind, Inherited, Pending, PendingReason, Permitted, Released, ReleasedState,
    Replay, Unresolved,
};
use firstclaim_core::policy::{DuplicateIntent, OnLapse, ReplayWindow, Requirement, Retention};
use firstclaim_core::record::{Completion, Disposition, Logical, Mode, ResultBody};
use firstclaim_core::{
    Answer, AttemptId, EffectUid, Epoch, Expiry, Fingerprint, FingerprintSet, IdempotencyKey,
    Labels, Millis, NamespaceName, OwnerLabel, PolicyPatch, RecordRef, Scheme, TenantName,
    Timestamp, limits,
};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use prost::Message;

/// The same message after a trip over the wire.
pub(crate) fn sent<M: Message + Default>(message: &M) -> M {
    M::decode(message.encode_to_vec().as_slice()).expect("a message of the same type")
}

pub(crate) fn time() -> impl Strategy<Value = Timestamp> {
    (0..253_402_300_799_999_u64).prop_map(Timestamp)
}

pub(crate) fn length() -> impl Strategy<Value = Millis> {
    (0..315_576_000_000_000_u64).prop_map(Millis)
}

pub(crate) fn expiry() -> impl Strategy<Value = Expiry> {
    prop_oneof![time().prop_map(Expiry::At), Just(Expiry::Never)]
}

pub(crate) fn retention() -> impl Strategy<Value = Retention> {
    prop_oneof![length().prop_map(Retention::For), Just(Retention::Forever)]
}

pub(crate) fn epoch() -> impl Strategy<Value = Epoch> {
    (1..=u64::MAX).prop_map(Epoch)
}

pub(crate) fn record() -> impl Strategy<Value = RecordRef> {
    ("[a-z0-9-]{1,63}", "[a-z0-9._-]{1,128}", "[^\0]{0,40}[a-zé]").prop_map(
        |(tenant, namespace, key)| RecordRef {
            tenant: TenantName::parse(tenant).expect("a tenant"),
            namespace: NamespaceName::parse(namespace).expect("a namespace"),
            key: IdempotencyKey::parse(key).expect("a key"),
        },
    )
}

pub(crate) fn attempt() -> impl Strategy<Value = AttemptId> {
    "[!-~]{1,64}".prop_map(|text| AttemptId::parse(text).expect("an attempt id"))
}

pub(crate) fn owner() -> impl Strategy<Value = OwnerLabel> {
    "[ -~é]{1,60}".prop_map(|text| OwnerLabel::parse(text).expect("an owner"))
}

pub(crate) fn labels() -> impl Strategy<Value = Labels> {
    btree_map("[a-z]{1,20}", "[^\0]{0,10}", 0..8)
        .prop_map(|pairs| Labels::parse(pairs).expect("labels"))
}

pub(crate) fn fingerprints() -> impl Strategy<Value = FingerprintSet> {
    let digest = || vec(any::<u8>(), limits::DIGEST_BYTES_MIN..=limits::DIGEST_BYTES_MAX);
    let parts = btree_map("[a-z]{1,64}", digest(), 0..3);
    let named = ("[a-z0-9._/+-]{1,64}", digest(), parts).prop_map(|(scheme, digest, parts)| {
        let scheme = Scheme::parse(scheme).expect("a scheme");
        Fingerprint::new(scheme, digest, parts).expect("a fingerprint")
    });
    vec(named, 0..=limits::FINGERPRINTS_MAX)
        .prop_filter_map("a scheme twice", |all| FingerprintSet::new(all).ok())
}

pub(crate) fn holder() -> impl Strategy<Value = Holder> {
    (record(), epoch(), attempt()).prop_map(|(record, epoch, attempt_id)| Holder {
        record,
        epoch,
        attempt_id,
    })
}

pub(crate) fn result() -> impl Strategy<Value = ResultBody> {
    let content_type = || "[a-z/+.-]{0,128}";
    let digest = vec(any::<u8>(), limits::DIGEST_BYTES_MIN..=limits::DIGEST_BYTES_MAX);
    prop_oneof![
        (vec(any::<u8>(), 0..200), content_type())
            .prop_map(|(bytes, content_type)| ResultBody::inline(bytes, content_type)),
        (digest, any::<u64>(), content_type(), "[a-z:/]{1,60}").prop_map(
            |(digest, length, content_type, uri)| ResultBody {
                digest,
                length,
                content_type,
                reference: Some(uri),
                bytes: None,
                oversize: false,
            }
        ),
    ]
}

pub(crate) fn disposition() -> impl Strategy<Value = Disposition> {
    prop_oneof![Just(Disposition::Succeeded), Just(Disposition::Failed)]
}

pub(crate) fn completion() -> impl Strategy<Value = Completion> {
    let stored = prop_oneof![
        result(),
        result().prop_map(|result| result.without_bytes()),
        result().prop_map(|result| ResultBody { oversize: true, ..result.without_bytes() }),
    ];
    let who = (epoch(), attempt(), owner());
    let when = (time(), expiry(), expiry());
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    (disposition(), stored, who, when, flags).prop_map(
        |(disposition, result, (epoch, attempt_id, owner), when, (late, by_evidence, purged))| {
            let (completed_time, result_expire_time, identity_expire_time) = when;
            Completion {
                disposition,
                result,
                completed_time,
                epoch,
                attempt_id,
                owner,
                late,
                by_evidence,
                result_expire_time,
                identity_expire_time,
                purged,
            }
        },
    )
}

pub(crate) fn key() -> impl Strategy<Value = IdempotencyKey> {
    "[^\0]{0,40}[a-zé]".prop_map(|key| IdempotencyKey::parse(key).expect("a key"))
}

pub(crate) fn principal() -> impl Strategy<Value = Principal> {
    "[ -~é]{1,60}".prop_map(|text| Principal::parse(text).expect("a principal"))
}

pub(crate) fn effect_id() -> impl Strategy<Value = EffectId> {
    "[!-~]{1,64}".prop_map(|text| EffectId::parse(text).expect("an effect id"))
}

fn provider() -> impl Strategy<Value = ProviderName> {
    "[!-~]{1,128}".prop_map(|text| ProviderName::parse(text).expect("a provider"))
}

fn provider_key() -> impl Strategy<Value = ProviderKey> {
    "[!-~]{1,100}".prop_map(|text| ProviderKey::parse(text).expect("a provider key"))
}

fn slot() -> impl Strategy<Value = SlotName> {
    "[!-~]{1,64}".prop_map(|text| SlotName::parse(text).expect("a slot"))
}

pub(crate) fn uid() -> impl Strategy<Value = EffectUid> {
    let name =
        prop_oneof![effect_id().prop_map(EffectName::Effect), epoch().prop_map(EffectName::Work),];
    (any::<u64>(), name).prop_map(|(life, name)| EffectUid { life, name })
}

pub(crate) fn content() -> impl Strategy<Value = Content> {
    (vec(any::<u8>(), 0..100), "[a-z/+.-]{0,128}")
        .prop_map(|(bytes, content_type)| Content::new(bytes, content_type))
}

/// Content as it is kept: its bytes may have been purged, and a result may stand for it.
fn kept_content() -> impl Strategy<Value = Content> {
    let purged = (vec(any::<u8>(), 1..100), "[a-z/]{0,20}").prop_map(|(bytes, content_type)| {
        Content { bytes: None, ..Content::new(bytes, content_type) }
    });
    prop_oneof![content(), purged, Just(Content::default())]
}

pub(crate) fn verdict() -> impl Strategy<Value = Verdict> {
    prop_oneof![
        Just(Verdict::Committed),
        option::of(100_u16..600).prop_map(|status| Verdict::Refused { status }),
        time().prop_map(|as_of| Verdict::NotFound { as_of }),
        Just(Verdict::Overridden),
    ]
}

pub(crate) fn settlement() -> impl Strategy<Value = Settlement> {
    (verdict(), kept_content(), time(), principal()).prop_map(
        |(verdict, evidence, time, principal)| Settlement { verdict, evidence, time, principal },
    )
}

fn findings() -> impl Strategy<Value = Findings> {
    (option::of(settlement()), any::<bool>(), vec(settlement(), 0..2)).prop_map(
        |(settlement, conflict, contradictions)| Findings { settlement, conflict, contradictions },
    )
}

fn work() -> impl Strategy<Value = Work> {
    let cause = prop_oneof![
        Just(OpenCause::Lapsed),
        Just(OpenCause::ReleasedUnknown),
        Just(OpenCause::Interrupted),
    ];
    let who = (epoch(), attempt(), owner());
    let what = (option::of(cause), time(), time(), length(), "[^\0]{0,40}");
    (who, what, findings()).prop_map(|((epoch, attempt_id, owner), what, findings)| Work {
        epoch,
        attempt_id,
        owner,
        cause: what.0,
        since: what.1,
        deadline: what.2,
        settle_horizon: what.3,
        note: what.4,
        findings,
    })
}

fn permit() -> impl Strategy<Value = Permit> {
    (any::<u32>(), epoch(), time(), time()).prop_map(
        |(number, epoch, permitted_time, not_after)| Permit {
            number,
            epoch,
            permitted_time,
            not_after,
        },
    )
}

fn effect() -> impl Strategy<Value = Effect> {
    let sent = (provider(), option::of(provider_key()), option::of(retention()), kept_content());
    (effect_id(), slot(), sent, vec(permit(), 1..3), length(), findings()).prop_map(
        |(id, slot, sent, permits, settle_horizon, findings)| Effect {
            id,
            slot,
            provider: sent.0,
            provider_key: sent.1,
            dedup_window: sent.2,
            request: sent.3,
            permits,
            settle_horizon,
            findings,
        },
    )
}

pub(crate) fn journal() -> impl Strategy<Value = Journal> {
    (vec(work(), 0..3), vec(effect(), 0..3)).prop_map(|(works, effects)| Journal { works, effects })
}

pub(crate) fn inherited() -> impl Strategy<Value = Inherited> {
    let left = journal().prop_filter("nothing to inherit", |it| !it.is_empty());
    (any::<u64>(), on_lapse(), left).prop_map(|(life, on_lapse, journal)| Inherited {
        life,
        on_lapse,
        journal,
    })
}

pub(crate) fn dispatch() -> impl Strategy<Value = Dispatch> {
    let sent = (provider(), option::of(provider_key()), option::of(retention()), content());
    let within = option::of((1000_u64..86_400_000).prop_map(Millis));
    (effect_id(), 1_u32.., slot(), sent, within).prop_map(|(id, number, slot, sent, within)| {
        Dispatch {
            id,
            number,
            slot,
            provider: sent.0,
            provider_key: sent.1,
            dedup_window: sent.2,
            request: sent.3,
            within,
        }
    })
}

pub(crate) fn permitted() -> impl Strategy<Value = Permitted> {
    (uid(), option::of(provider_key()), permit(), any::<bool>()).prop_map(
        |(uid, provider_key, permit, repeated)| Permitted { uid, provider_key, permit, repeated },
    )
}

pub(crate) fn settle() -> impl Strategy<Value = Settle> {
    (uid(), option::of(provider()), option::of(provider_key()), verdict(), content()).prop_map(
        |(uid, provider, provider_key, verdict, evidence)| Settle {
            uid,
            provider,
            provider_key,
            verdict,
            evidence,
        },
    )
}

pub(crate) fn complete_with() -> impl Strategy<Value = CompleteWith> {
    (disposition(), result()).prop_map(|(disposition, result)| CompleteWith { disposition, result })
}

pub(crate) fn logical() -> impl Strategy<Value = Logical> {
    prop_oneof![
        Just(Logical::Reserved),
        Just(Logical::Live),
        Just(Logical::Lapsed),
        Just(Logical::Unresolved),
        Just(Logical::Retryable),
        Just(Logical::Unbound),
        Just(Logical::Completed),
    ]
}

pub(crate) fn mode() -> impl Strategy<Value = Mode> {
    prop_oneof![Just(Mode::Execute), Just(Mode::Resume), Just(Mode::Reconcile)]
}

fn on_lapse() -> impl Strategy<Value = OnLapse> {
    prop_oneof![Just(OnLapse::Recover), Just(OnLapse::Takeover)]
}

fn acquired() -> impl Strategy<Value = Acquired> {
    let kind = prop_oneof![
        Just(AcquiredKind::First),
        Just(AcquiredKind::AlreadyHeld),
        Just(AcquiredKind::Recovery),
        Just(AcquiredKind::Takeover),
        Just(AcquiredKind::Retry),
        Just(AcquiredKind::Rebound),
    ];
    let grant = (kind, epoch(), mode(), on_lapse(), any::<u32>());
    let kept = (length(), retention(), any::<u64>(), option::of(completion()));
    let times = (time(), time(), option::of(time()), any::<bool>(), any::<bool>());
    let similar = vec(key(), 0..3);
    (grant, kept, times, journal(), similar).prop_map(|(grant, kept, times, journal, similar)| {
        Acquired {
            kind: grant.0,
            epoch: grant.1,
            mode: grant.2,
            on_lapse: grant.3,
            result_retention: kept.0,
            identity_retention: kept.1,
            lease_expire_time: times.0,
            first_seen_time: times.1,
            intent_time: times.2,
            intent_time_differs: times.3,
            horizon_checked: times.4,
            execute_grants: grant.4,
            life: kept.2,
            journal,
            permits: Vec::new(),
            completion: kept.3,
            similar_keys: similar,
        }
    })
}

pub(crate) fn claim_answer() -> impl Strategy<Value = Answer> {
    let reason = prop_oneof![
        Just(PendingReason::Held),
        Just(PendingReason::TakeoverDelayed),
        Just(PendingReason::Backoff),
    ];
    let replay = (completion(), time(), any::<bool>(), any::<bool>(), length()).prop_map(
        |(completion, first_seen_time, by_this_attempt, result_dropped, age)| Replay {
            completion,
            first_seen_time,
            by_this_attempt,
            result_dropped,
            age,
        },
    );
    let pending = (reason, option::of(owner()), time(), length(), epoch()).prop_map(
        |(reason, holder, until, retry_after, epoch)| Pending {
            reason,
            holder,
            until,
            retry_after,
            epoch,
        },
    );
    let unresolved = (journal(), any::<u64>(), time(), epoch(), time()).prop_map(
        |(open, life, since, epoch, first_seen_time)| Unresolved {
            open,
            life,
            since,
            epoch,
            first_seen_time,
        },
    );
    prop_oneof![
        acquired().prop_map(|acquired| Answer::Acquired(Box::new(acquired))),
        replay.prop_map(|replay| Answer::Replay(Box::new(replay))),
        pending.prop_map(|pending| Answer::Pending(Box::new(pending))),
        unresolved.prop_map(|unresolved| Answer::Unresolved(Box::new(unresolved))),
    ]
}

pub(crate) fn released() -> impl Strategy<Value = Released> {
    let state = prop_oneof![
        (time(), expiry()).prop_map(|(not_before, identity_expire_time)| {
            ReleasedState::Retryable { not_before, identity_expire_time }
        }),
        expiry().prop_map(|identity_expire_time| ReleasedState::Unbound { identity_expire_time }),
        time().prop_map(|since| ReleasedState::Unresolved { since }),
    ];
    (epoch(), state).prop_map(|(epoch, state)| Released { epoch, state })
}

fn requirement() -> impl Strategy<Value = Requirement> {
    prop_oneof![Just(Requirement::Optional), Just(Requirement::Required)]
}

pub(crate) fn patch() -> impl Strategy<Value = PolicyPatch> {
    let duplicate = prop_oneof![
        Just(DuplicateIntent::Off),
        Just(DuplicateIntent::Warn),
        Just(DuplicateIntent::Block),
    ];
    let windows = btree_map("[a-z]{1,64}", length(), 0..=limits::REPLAY_WINDOWS_MAX).prop_map(
        |windows: BTreeMap<_, _>| {
            windows
                .into_iter()
                .map(|(name, window)| ReplayWindow { name, window })
                .collect::<Vec<_>>()
        },
    );
    let lengths = vec(option::of(length()), 7);
    let requirements = vec(option::of(requirement()), 3);
    let choices = (option::of(on_lapse()), option::of(retention()), option::of(duplicate));
    let numbers =
        (option::of(0_u32..), option::of(0_u32..), option::of(0_u64..), option::of(0_u32..));
    (lengths, requirements, choices, option::of(windows), numbers).prop_map(
        |(lengths, requirements, choices, replay_windows, numbers)| PolicyPatch {
            lease_default: lengths[0],
            lease_max: lengths[1],
            takeover_delay: lengths[2],
            on_lapse: choices.0,
            result_retention: lengths[3],
            identity_retention: choices.1,
            replay_windows,
            intent_time: requirements[0],
            intent_time_skew: lengths[4],
            fingerprint: requirements[1],
            duplicate_intent: choices.2,
            duplicate_intent_window: lengths[5],
            reserve: requirements[2],
            max_attempts: numbers.0,
            settle_horizon: lengths[6],
            result_bytes_max: numbers.1,
            records_max: numbers.2,
            claims_per_second: numbers.3,
        },
    )
}
