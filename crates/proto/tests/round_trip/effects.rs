//! Effects, settlements, reservations, resolutions, batches: both directions.

use firstclaim_core::command::{
    Admission, ExtendExisting, Purge, RecordEffect, RecordReport, Report, Reserve, Resolve,
    Resolved, Revoke, SettleEffect,
};
use firstclaim_core::effect::Findings;
use firstclaim_core::name::Region;
use firstclaim_core::outcome::{
    Acquired, AcquiredKind, Extended, Purged, Reserved, ResolvedAnswer, RevokedAnswer, Settled,
};
use firstclaim_core::policy::{OnLapse, Retention};
use firstclaim_core::record::{Logical, Mode};
use firstclaim_core::{
    Answer, Epoch, IdempotencyKey, Millis, Refusal, Sighting, Timestamp, limits,
};
use firstclaim_proto::convert::settle::SettleAnswer;
use firstclaim_proto::convert::{
    batch, claim, dispatch, operator, reads, reserve, resolve, settle,
};
use firstclaim_proto::v1;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

use crate::values::*;

fn reason() -> impl Strategy<Value = String> {
    "[a-zé ]{0,100}[a-z]"
}

proptest! {
    #[test]
    fn a_record_effect(holder in holder(), asked in dispatch(), given in permitted(), at in time()) {
        let asked = RecordEffect { holder, dispatch: asked };
        let wire = sent(&dispatch::record_effect_request(asked.clone()));
        prop_assert_eq!(dispatch::read_record_effect(wire), Ok(asked));
        let answer = Answer::Permitted(Box::new(given.clone()));
        let wire = dispatch::record_effect_response(&answer, at).expect("a permit");
        prop_assert_eq!(dispatch::read_record_effect_response(sent(&wire)), Ok((given, at)));
    }

    #[test]
    fn a_settlement(record in record(), settle in settle(), principal in principal()) {
        let asked = SettleEffect { record, settle, principal };
        prop_assert_eq!(settle::read(sent(&settle::request(asked.clone()))), Ok(asked));
    }

    #[test]
    fn an_answer_to_a_settlement(
        uid in uid(),
        told in option::of(settlement()),
        flags in (any::<bool>(), any::<bool>(), any::<bool>()),
        state in logical(),
        mode in option::of(mode()),
        open in journal(),
        inherited in option::of(inherited()),
        store_time in time(),
    ) {
        let findings =
            Findings { settlement: told, conflict: flags.0, contradictions: Vec::new() };
        let settled = Settled {
            uid, findings: findings.clone(), repeated: flags.1, state, mode, open: open.clone(),
            completed_record: flags.2, inherited: inherited.clone(),
        };
        let wire = settle::response(&Answer::Settled(Box::new(settled)), store_time);
        let read = settle::read_response(sent(&wire.expect("a settlement"))).expect("an answer");
        // A lapsed record that leaves something open is unresolved for everybody.
        let unresolved = state == Logical::Lapsed && !open.is_empty();
        let state = if unresolved { Logical::Unresolved } else { state };
        let expected = SettleAnswer {
            settlement: findings.settlement, repeated: flags.1, conflict: flags.0, state, mode, open,
            completed_record: flags.2, on_lapse: inherited.as_ref().map(|it| it.on_lapse),
            journal: inherited.map(|it| it.journal).unwrap_or_default(), store_time,
        };
        prop_assert_eq!(read, expected);
    }

    #[test]
    fn a_reservation(
        ids in (record(), fingerprints(), labels()),
        intent_time in option::of(time()),
        allow_duplicate_intent: bool,
        admission in (principal(), reason()),
    ) {
        let (record, fingerprints, labels) = ids;
        let asked = Reserve {
            record, fingerprints, intent_time, labels, allow_duplicate_intent, admit: None,
        };
        prop_assert_eq!(reserve::read(sent(&reserve::request(asked.clone()))), Ok(asked.clone()));
        let admission = Admission { principal: admission.0, reason: admission.1 };
        let wire = reserve::admit_request(asked.clone(), admission.clone());
        let admitted = Reserve { admit: Some(admission), ..asked };
        prop_assert_eq!(reserve::read_admit(sent(&wire)), Ok(admitted));
    }

    #[test]
    fn an_answer_to_a_reservation(
        state in logical(),
        epoch in epoch(),
        times in (time(), expiry(), option::of(time()), time()),
        flags in (any::<bool>(), any::<bool>(), any::<bool>()),
        similar_keys in vec(key(), 0..3),
    ) {
        let reserved = Reserved {
            created: flags.0,
            state,
            epoch,
            first_seen_time: times.0,
            identity_expire_time: (state == Logical::Reserved).then_some(times.1),
            intent_time: times.2,
            intent_time_differs: flags.1,
            horizon_checked: flags.2,
            similar_keys,
        };
        let answer = Answer::Reserved(Box::new(reserved.clone()));
        let wire = sent(&reserve::response(answer, times.3).expect("a reservation"));
        prop_assert_eq!(reserve::read_response(wire), Ok((reserved, times.3)));
    }

    #[test]
    fn a_resolution(
        ids in (record(), epoch(), attempt(), principal(), reason()),
        verdicts in vec((uid(), verdict()), 0..4),
        evidence in content(),
        state in prop_oneof![
            complete_with().prop_map(Resolved::Completed),
            (0..=limits::BACKOFF_MAX.0)
                .prop_map(|ms| Resolved::Retryable { retry_after: Millis(ms) }),
        ],
        answered in (epoch(), logical(), any::<bool>(), time()),
    ) {
        let (record, expected_epoch, attempt_id, principal, reason) = ids;
        let asked = Resolve {
            record, expected_epoch, attempt_id, verdicts, evidence, reason, principal, state,
        };
        prop_assert_eq!(resolve::read(sent(&resolve::request(asked.clone()))), Ok(asked));
        let (epoch, state, repeated, at) = answered;
        let resolved = ResolvedAnswer { epoch, state, repeated };
        let wire = resolve::response(&Answer::Resolved(resolved), at).expect("a resolution");
        prop_assert_eq!(resolve::read_response(sent(&wire)), Ok((resolved, at)));
    }

    #[test]
    fn what_operators_decide(
        ids in (record(), epoch(), principal(), reason()),
        after in option::of(key()),
        answered in (any::<bool>(), time(), time()),
        page in (any::<u32>(), any::<u32>(), option::of(key())),
    ) {
        let (record, epoch, principal, reason) = ids;
        let (repeated, lease_expire_time, at) = answered;
        let revoke = Revoke {
            record: record.clone(), epoch, reason: reason.clone(), principal: principal.clone(),
        };
        let wire = sent(&operator::revoke_request(revoke.clone()));
        prop_assert_eq!(operator::read_revoke(wire), Ok(revoke));
        let revoked = RevokedAnswer { epoch, lease_expire_time, repeated };
        let wire = operator::revoke_response(&Answer::Revoked(revoked), at).expect("a revocation");
        prop_assert_eq!(operator::read_revoke_response(&sent(&wire)), Ok((revoked, at)));

        let purge = Purge {
            record: record.clone(), expected_epoch: epoch, reason, principal: principal.clone(),
        };
        let wire = sent(&operator::purge_request(purge.clone()));
        prop_assert_eq!(operator::read_purge(wire), Ok(purge));
        let purged = Purged { epoch, repeated };
        let wire = operator::purge_response(&Answer::Purged(purged), at).expect("a purge");
        prop_assert_eq!(operator::read_purge_response(&sent(&wire)), Ok((purged, at)));

        let extend = ExtendExisting {
            tenant: record.tenant,
            namespace: record.namespace,
            after,
            limit: limits::SWEEP_RECORDS_MAX,
            principal,
        };
        let wire = sent(&operator::extend_request(extend.clone()));
        prop_assert_eq!(operator::read_extend(wire), Ok(extend));
        let extended = Extended { seen: page.0, extended: page.1, next: page.2 };
        let wire = operator::extend_response(Answer::Extended(extended.clone()), at);
        let wire = sent(&wire.expect("an extension"));
        prop_assert_eq!(operator::read_extend_response(wire), Ok((extended, at)));
    }

    #[test]
    fn what_nodes_saw(
        records in vec((record(), vec((time(), attempt(), owner(), labels()), 0..3)), 1..4),
        counts in btree_map(
            prop_oneof![Just("REPLAY".to_owned()), Just("ATTEMPT_SPENT".to_owned())],
            any::<u64>(),
            0..2,
        ),
    ) {
        let seen = |(time, attempt_id, owner, labels)| Sighting {
            time,
            outcome: "PENDING".to_owned(),
            attempt_id,
            owner,
            region: Region::unknown(),
            labels,
        };
        let one = |(record, sightings): (_, Vec<_>)| RecordReport {
            record,
            sightings: sightings.into_iter().map(seen).collect(),
            counts: counts.clone(),
        };
        let report = Report { records: records.into_iter().map(one).collect() };
        let wire = sent(&reads::report_request(report.clone()));
        prop_assert_eq!(reads::read_report(wire), Ok(report));
    }
}

fn acquired(permits: Vec<Result<firstclaim_core::outcome::Permitted, Refusal>>) -> Acquired {
    Acquired {
        kind: AcquiredKind::First,
        epoch: Epoch(7),
        mode: Mode::Execute,
        on_lapse: OnLapse::Recover,
        result_retention: Millis(1),
        identity_retention: Retention::Forever,
        lease_expire_time: Timestamp(1),
        first_seen_time: Timestamp(1),
        intent_time: None,
        intent_time_differs: false,
        horizon_checked: false,
        execute_grants: 1,
        life: 3,
        journal: firstclaim_core::effect::Journal::default(),
        permits,
        completion: None,
        similar_keys: Vec::new(),
    }
}

#[test]
fn each_effect_of_a_claim_is_answered_by_its_position() {
    let uid = firstclaim_core::EffectUid::parse("3/mail").expect("a uid");
    let refusals = vec![Err(Refusal::EffectOpen { uid }), Err(Refusal::Revoked)];
    let failure = |refusal: &Refusal| v1::Failure {
        reason: refusal.reason().as_str().to_owned(),
        ..v1::Failure::default()
    };
    let answer = Answer::Acquired(Box::new(acquired(refusals)));
    let wire = claim::response(answer, Timestamp(9), failure).expect("a claim's answer");
    let read = claim::read_response(sent(&wire)).expect("an answer");
    let reasons: Vec<_> = read
        .dispatches
        .iter()
        .map(|one| one.as_ref().expect_err("refused").reason.as_str())
        .collect();
    assert_eq!(reasons, ["EFFECT_OPEN", "REVOKED"]);
}

#[test]
fn a_batch_is_answered_item_by_item() {
    let answer = Answer::Acquired(Box::new(acquired(Vec::new())));
    let good = claim::response(answer, Timestamp(9), |_| v1::Failure::default());
    let items = vec![
        batch::claim_item(Ok(good.expect("a claim's answer"))),
        batch::claim_item(Err(v1::Failure { code: 9, ..v1::Failure::default() })),
    ];
    let response = sent(&v1::ClaimBatchResponse { items });
    let read = batch::read_claims_response(response.clone(), 2).expect("two answers");
    assert_eq!(read[0].as_ref().expect("an answer").store_time, Timestamp(9));
    assert_eq!(read[1].as_ref().expect_err("a failure").code, 9);
    // Too few answers are never taken for the others.
    let faults = batch::read_claims_response(response, 3).expect_err("one is missing");
    assert_eq!(faults.all()[0].field, "items");
}

#[test]
fn page_tokens_of_unresolved_records_name_where_to_go_on() {
    let key = IdempotencyKey::parse("a/b c").expect("a key");
    let record = firstclaim_core::RecordRef {
        tenant: firstclaim_core::TenantName::parse("acme").expect("a name"),
        namespace: firstclaim_core::NamespaceName::parse("payouts").expect("a name"),
        key: key.clone(),
    };
    let request = v1::ListUnresolvedRequest {
        tenant: "acme".to_owned(),
        page_token: reads::unresolved_token(&record),
        page_size: 9999,
        ..v1::ListUnresolvedRequest::default()
    };
    let read = reads::read_list_unresolved(request).expect("a list");
    assert_eq!(read.after, Some((record.namespace, key)));
    assert_eq!(read.size, 500);
    assert_eq!(read.namespace, None);
}
