//! What goes over the wire comes back the same, in both directions of a call.

use std::collections::BTreeMap;

use firstclaim_core::command::{Claim, Complete, Holder, Release, ReleaseKind, Renew};
use firstclaim_core::outcome::{
    Acquired, AcquiredKind, Completed, Pending, PendingReason, Released, ReleasedState, Renewed,
    Replay, Unresolved,
};
use firstclaim_core::policy::{DuplicateIntent, OnLapse, ReplayWindow, Requirement, Retention};
use firstclaim_core::record::{Completion, Disposition, Mode, OpenCause, OpenWork, ResultBody};
use firstclaim_core::{
    Answer, AttemptId, Epoch, Expiry, Fingerprint, FingerprintSet, IdempotencyKey, Labels, Millis,
    NamespaceName, OwnerLabel, Policy, PolicyPatch, RecordRef, Scheme, TenantName, Timestamp,
    limits,
};
use firstclaim_proto::convert::{claim, holder, policy};
use firstclaim_proto::v1;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use prost::Message;

/// The same message after a trip over the wire.
fn sent<M: Message + Default>(message: &M) -> M {
    M::decode(message.encode_to_vec().as_slice()).expect("a message of the same type")
}

fn time() -> impl Strategy<Value = Timestamp> {
    (0..253_402_300_799_999_u64).prop_map(Timestamp)
}

fn length() -> impl Strategy<Value = Millis> {
    (0..315_576_000_000_000_u64).prop_map(Millis)
}

fn expiry() -> impl Strategy<Value = Expiry> {
    prop_oneof![time().prop_map(Expiry::At), Just(Expiry::Never)]
}

fn retention() -> impl Strategy<Value = Retention> {
    prop_oneof![length().prop_map(Retention::For), Just(Retention::Forever)]
}

fn epoch() -> impl Strategy<Value = Epoch> {
    (1..=u64::MAX).prop_map(Epoch)
}

fn record() -> impl Strategy<Value = RecordRef> {
    ("[a-z0-9-]{1,63}", "[a-z0-9._-]{1,128}", "[^\0]{0,40}[a-zé]").prop_map(
        |(tenant, namespace, key)| RecordRef {
            tenant: TenantName::parse(tenant).expect("a tenant"),
            namespace: NamespaceName::parse(namespace).expect("a namespace"),
            key: IdempotencyKey::parse(key).expect("a key"),
        },
    )
}

fn attempt() -> impl Strategy<Value = AttemptId> {
    "[!-~]{1,64}".prop_map(|text| AttemptId::parse(text).expect("an attempt id"))
}

fn owner() -> impl Strategy<Value = OwnerLabel> {
    "[ -~é]{1,60}".prop_map(|text| OwnerLabel::parse(text).expect("an owner"))
}

fn labels() -> impl Strategy<Value = Labels> {
    btree_map("[a-z]{1,20}", "[^\0]{0,10}", 0..8)
        .prop_map(|pairs| Labels::parse(pairs).expect("labels"))
}

fn fingerprints() -> impl Strategy<Value = FingerprintSet> {
    let digest = || vec(any::<u8>(), limits::DIGEST_BYTES_MIN..=limits::DIGEST_BYTES_MAX);
    let parts = btree_map("[a-z]{1,64}", digest(), 0..3);
    let named = ("[a-z0-9._/+-]{1,64}", digest(), parts).prop_map(|(scheme, digest, parts)| {
        let scheme = Scheme::parse(scheme).expect("a scheme");
        Fingerprint::new(scheme, digest, parts).expect("a fingerprint")
    });
    vec(named, 0..=limits::FINGERPRINTS_MAX)
        .prop_filter_map("a scheme twice", |all| FingerprintSet::new(all).ok())
}

fn holder() -> impl Strategy<Value = Holder> {
    (record(), epoch(), attempt()).prop_map(|(record, epoch, attempt_id)| Holder {
        record,
        epoch,
        attempt_id,
    })
}

fn result() -> impl Strategy<Value = ResultBody> {
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

fn disposition() -> impl Strategy<Value = Disposition> {
    prop_oneof![Just(Disposition::Succeeded), Just(Disposition::Failed)]
}

fn completion() -> impl Strategy<Value = Completion> {
    let stored = prop_oneof![
        result(),
        result().prop_map(|result| result.without_bytes()),
        result().prop_map(|result| ResultBody { oversize: true, ..result.without_bytes() }),
    ];
    let who = (epoch(), attempt(), owner());
    let when = (time(), expiry(), expiry());
    (disposition(), stored, who, when, any::<bool>(), any::<bool>()).prop_map(
        |(disposition, result, (epoch, attempt_id, owner), when, late, by_evidence)| {
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
            }
        },
    )
}

fn work() -> impl Strategy<Value = OpenWork> {
    let cause = prop_oneof![Just(OpenCause::Lapsed), Just(OpenCause::ReleasedUnknown)];
    (epoch(), attempt(), owner(), cause, time(), time(), length(), "[^\0]{0,40}").prop_map(
        |(epoch, attempt_id, owner, cause, since, deadline, settle_horizon, note)| OpenWork {
            epoch,
            attempt_id,
            owner,
            cause,
            since,
            deadline,
            settle_horizon,
            note,
        },
    )
}

fn mode() -> impl Strategy<Value = Mode> {
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
    let kept = (length(), retention());
    let times = (time(), time(), option::of(time()), any::<bool>(), any::<bool>());
    (grant, kept, times, vec(work(), 0..3)).prop_map(|(grant, kept, times, open)| Acquired {
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
        open,
    })
}

fn claim_answer() -> impl Strategy<Value = Answer> {
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
    let unresolved = (vec(work(), 0..3), time(), epoch(), time()).prop_map(
        |(open, since, epoch, first_seen_time)| Unresolved { open, since, epoch, first_seen_time },
    );
    prop_oneof![
        acquired().prop_map(|acquired| Answer::Acquired(Box::new(acquired))),
        replay.prop_map(|replay| Answer::Replay(Box::new(replay))),
        pending.prop_map(|pending| Answer::Pending(Box::new(pending))),
        unresolved.prop_map(|unresolved| Answer::Unresolved(Box::new(unresolved))),
    ]
}

fn released() -> impl Strategy<Value = Released> {
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

fn patch() -> impl Strategy<Value = PolicyPatch> {
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

proptest! {
    #[test]
    fn a_claim(
        ids in (record(), attempt(), owner(), fingerprints(), labels()),
        lease in option::of((1000_u64..=86_400_000).prop_map(Millis)),
        intent_time in option::of(time()),
        accept_recovery: bool,
    ) {
        let (record, attempt_id, owner, fingerprints, labels) = ids;
        let asked = Claim {
            record, attempt_id, owner, fingerprints, lease, intent_time, labels, accept_recovery,
        };
        prop_assert_eq!(claim::read(sent(&claim::request(asked.clone()))), Ok(asked));
    }

    #[test]
    fn an_answer_to_a_claim(answer in claim_answer(), store_time in time()) {
        let wire = sent(&claim::response(answer.clone(), store_time).expect("a claim's answer"));
        prop_assert_eq!(claim::read_response(wire), Ok((answer, store_time)));
    }

    #[test]
    fn a_renewal(
        holder in holder(),
        lease in option::of((1000_u64..=86_400_000).prop_map(Millis)),
        answered in (epoch(), mode(), time(), time()),
    ) {
        let asked = Renew { holder, lease };
        prop_assert_eq!(holder::read_renew(sent(&holder::renew_request(asked.clone()))), Ok(asked));
        let (epoch, mode, lease_expire_time, store_time) = answered;
        let renewed = Renewed { epoch, mode, lease_expire_time };
        let wire = holder::renew_response(&Answer::Renewed(renewed), store_time).expect("a renewal");
        prop_assert_eq!(holder::read_renew_response(sent(&wire)), Ok((renewed, store_time)));
    }

    #[test]
    fn a_completion(holder in holder(), disposition in disposition(), result in result()) {
        let asked = Complete { holder, disposition, result };
        let wire = sent(&holder::complete_request(asked.clone()));
        prop_assert_eq!(holder::read_complete(wire), Ok(asked));
    }

    #[test]
    fn an_answer_to_a_completion(completion in completion(), repeated: bool, store_time in time()) {
        let completed = Completed { completion, repeated };
        let answer = Answer::Completed(Box::new(completed.clone()));
        let wire = holder::complete_response(answer, store_time).expect("a completion");
        prop_assert_eq!(holder::read_complete_response(sent(&wire)), Ok((completed, store_time)));
    }

    #[test]
    fn a_release(
        holder in holder(),
        kind in prop_oneof![
            (0..=limits::BACKOFF_MAX.0).prop_map(|ms| ReleaseKind::Retry { retry_after: Millis(ms) }),
            Just(ReleaseKind::Unbind),
            "[^\0]{0,100}".prop_map(|note| ReleaseKind::Unknown { note }),
        ],
        released in released(),
        store_time in time(),
    ) {
        let asked = Release { holder, kind };
        let wire = sent(&holder::release_request(asked.clone()));
        prop_assert_eq!(holder::read_release(wire), Ok(asked));
        let wire = holder::release_response(&Answer::Released(released), store_time).expect("a release");
        prop_assert_eq!(holder::read_release_response(sent(&wire)), Ok((released, store_time)));
    }

    #[test]
    fn a_policy(patch in patch()) {
        prop_assert_eq!(policy::read(sent(&policy::patch(&patch))), Ok(patch.clone()));
        // What is in effect is a patch that sets everything.
        let effective = Policy::default().with(&patch);
        let read = policy::read(sent(&policy::effective(&effective))).expect("a policy");
        prop_assert_eq!(Policy::default().with(&read), effective);
    }
}

#[test]
fn the_end_of_time_is_the_last_that_protobuf_holds() {
    let renewed =
        Renewed { epoch: Epoch(1), mode: Mode::Execute, lease_expire_time: Timestamp(u64::MAX) };
    let wire = holder::renew_response(&Answer::Renewed(renewed), Timestamp(0)).expect("a renewal");
    assert_eq!(wire.lease_expire_time.map(|time| time.seconds), Some(253_402_300_799));
}

#[test]
fn an_outcome_that_this_client_does_not_know_is_no_claim() {
    let response =
        v1::ClaimResponse { outcome: None, store_time: Some(prost_types::Timestamp::default()) };
    let faults = claim::read_response(response).expect_err("a refusal");
    assert_eq!(faults.all()[0].field, "outcome");
}

#[test]
fn an_answer_of_another_kind_is_a_fault_of_the_server() {
    let wrong = claim::response(Answer::Ticked, Timestamp(0)).expect_err("a fault");
    assert_eq!(wrong.to_string(), "a claim was answered as if it were a tick");
}

#[test]
fn reflection_serves_the_public_package_only() {
    let files = prost_types::FileDescriptorSet::decode(firstclaim_proto::FILE_DESCRIPTOR_SET)
        .expect("descriptors");
    let packages: Vec<_> = files.file.iter().map(|file| file.package()).collect();
    assert!(packages.contains(&"firstclaim.v1"));
    assert!(packages.iter().all(|one| ["firstclaim.v1", "google.protobuf"].contains(one)));
    let ours = files.file.iter().filter(|file| file.package() == "firstclaim.v1");
    assert!(ours.into_iter().all(|file| file.source_code_info.is_some()));
}
