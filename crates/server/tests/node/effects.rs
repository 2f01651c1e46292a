//! Effects over real gRPC: permits, settlements, one-shot completions, reservations, and what people
//! decide about what nobody knows.

use crate::three::{
    Three, acquired, claim, committed, complete, content, dispatch, info, seconds, settlement,
};
use firstclaim_proto::v1;
use firstclaim_proto::v1::claim_response::Outcome;
use tonic::Code;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_effect_is_permitted_settled_and_its_record_completed_by_any_node() {
    let three = Three::start().await;
    let (leader, follower) = (three.leader().await, three.follower().await);
    three.seed(follower).await;
    let granted = effects_with_the_claim(&three, follower).await;
    permits(&three, follower, &granted).await;
    settlements(&three, follower, &granted).await;
    one_shot(&three, leader).await;
    one_shot(&three, follower).await;
    reserved(&three, follower).await;
    three.stop().await;
}

/// A claim records its first effect in the same round; the second one in its slot is refused.
async fn effects_with_the_claim(three: &Three, node: u64) -> v1::Acquired {
    let mut request = claim("pay-1", "one");
    request.effects = vec![
        dispatch("payment"),
        v1::Dispatch { slot: "payment".to_owned(), ..dispatch("second-payment") },
    ];
    let answer = three.claims(node).claim(request.clone()).await.expect("an answer").into_inner();
    let granted = acquired(answer);
    assert_eq!(granted.kind(), v1::AcquiredKind::First);
    let outcomes: Vec<_> = granted.dispatches.iter().map(|one| one.outcome.clone()).collect();
    let Some(v1::dispatch_answer::Outcome::Permit(permit)) = &outcomes[0] else {
        panic!("not permitted: {outcomes:?}")
    };
    assert_eq!(permit.uid, format!("{}/payment", granted.life));
    assert_eq!((permit.provider_key.as_str(), permit.repeated), ("pk-payment", false));
    let Some(v1::dispatch_answer::Outcome::Failure(failure)) = &outcomes[1] else {
        panic!("permitted beside an open effect: {outcomes:?}")
    };
    assert_eq!((failure.reason.as_str(), failure.code), ("EFFECT_OPEN", 9));
    assert_eq!(failure.metadata["uid"], permit.uid);
    assert_eq!(failure.metadata["applied"], "decided");

    // The same claim again, at another node: the same grant, the same permit.
    let leader = three.leader().await;
    let again = three.claims(leader).claim(request).await.expect("an answer").into_inner();
    let again = acquired(again);
    assert_eq!((again.kind(), again.epoch), (v1::AcquiredKind::AlreadyHeld, granted.epoch));
    let Some(v1::dispatch_answer::Outcome::Permit(same)) = again.dispatches[0].outcome.clone()
    else {
        panic!("not permitted again")
    };
    assert!(same.repeated && same.permit == permit.permit, "{same:?}");
    granted
}

fn record_effect(granted: &v1::Acquired, dispatch: v1::Dispatch) -> v1::RecordEffectRequest {
    v1::RecordEffectRequest {
        tenant: "acme".to_owned(),
        namespace: "payouts".to_owned(),
        key: "pay-1".to_owned(),
        attempt_id: "one".to_owned(),
        epoch: granted.epoch,
        dispatch: Some(dispatch),
    }
}

async fn permits(three: &Three, node: u64, granted: &v1::Acquired) {
    let mut claims = three.claims(node);
    let mail = record_effect(granted, dispatch("mail"));
    let permit = claims.record_effect(mail.clone()).await.expect("permitted").into_inner();
    assert!(permit.store_time.is_some());
    let permit = permit.permit.expect("a permit");
    assert_eq!(permit.uid, format!("{}/mail", granted.life));
    let again = claims.record_effect(mail).await.expect("permitted").into_inner();
    assert!(again.permit.expect("a permit").repeated);

    // The next dispatch of it has number 2; any other number says so.
    let third = v1::Dispatch { number: 3, ..dispatch("mail") };
    let error = claims.record_effect(record_effect(granted, third)).await.expect_err("not next");
    let told = info(&error);
    assert_eq!(
        (error.code(), told.reason.as_str()),
        (Code::FailedPrecondition, "EFFECT_NOT_ALLOWED")
    );
    assert_eq!(told.metadata["next_number"], "2");
    let second = v1::Dispatch { number: 2, ..dispatch("mail") };
    claims.record_effect(record_effect(granted, second)).await.expect("permitted once more");

    let other = v1::Dispatch { request: content("pay 13.00"), ..dispatch("mail") };
    let error = claims.record_effect(record_effect(granted, other)).await.expect_err("differs");
    let told = info(&error);
    assert_eq!((error.code(), told.reason.as_str()), (Code::Aborted, "EFFECT_MISMATCH"));
    assert_eq!(told.metadata["field"], "request");

    let mut stranger = record_effect(granted, dispatch("other"));
    stranger.epoch += 1000;
    let error = claims.record_effect(stranger).await.expect_err("another epoch");
    assert_eq!(info(&error).reason, "STALE_EPOCH");

    let mut missing = record_effect(granted, dispatch("x"));
    missing.dispatch = None;
    let error = claims.record_effect(missing).await.expect_err("no dispatch");
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(error.message().contains("dispatch: is missing"), "{}", error.message());
}

async fn settlements(three: &Three, node: u64, granted: &v1::Acquired) {
    let mut claims = three.claims(node);
    let settle = |uid: String, verdict| v1::SettleEffectRequest {
        tenant: "acme".to_owned(),
        namespace: "payouts".to_owned(),
        key: "pay-1".to_owned(),
        settlement: Some(settlement(&uid, verdict)),
        principal: "reconciler".to_owned(),
    };
    let uid = |name: &str| format!("{}/{name}", granted.life);

    // Nothing that was sent a moment ago can be proved not to have arrived.
    let not_found = v1::Verdict {
        kind: Some(v1::verdict::Kind::NotFound(v1::NotFound { as_of: granted.first_seen_time })),
    };
    let early = claims.settle_effect(settle(uid("mail"), Some(not_found))).await;
    let error = early.expect_err("too early");
    let told = info(&error);
    assert_eq!(
        (error.code(), told.reason.as_str()),
        (Code::FailedPrecondition, "NOT_YET_PROVABLE")
    );
    assert!(told.metadata.contains_key("provable_time"));
    assert!(tonic_types::StatusExt::get_details_retry_info(&error).is_some());

    let error = claims.settle_effect(settle(uid("nothing"), committed())).await;
    let error = error.expect_err("no such effect");
    assert_eq!((error.code(), info(&error).reason.as_str()), (Code::NotFound, "EFFECT_NOT_FOUND"));
    let mut wrong = settle(uid("mail"), committed());
    if let Some(settlement) = &mut wrong.settlement {
        settlement.provider_key = "another".to_owned();
    }
    let error = claims.settle_effect(wrong).await.expect_err("another provider key");
    assert_eq!(info(&error).reason, "EFFECT_MISMATCH");

    let told = claims.settle_effect(settle(uid("payment"), committed())).await.expect("settled");
    let told = told.into_inner();
    assert!(!told.repeated && !told.completed_record, "{told:?}");
    assert_eq!((told.state(), told.open.len()), (v1::RecordState::Claimed, 1));
    let again = claims.settle_effect(settle(uid("payment"), committed())).await.expect("known");
    assert!(again.into_inner().repeated);

    // What is settled is not sent again, and the mail hinders the end until it is settled, too.
    let error = claims.record_effect(record_effect(granted, dispatch("payment"))).await;
    let error = error.expect_err("it happened");
    let refused = info(&error);
    assert_eq!(refused.reason, "EFFECT_SETTLED");
    assert_eq!(refused.metadata["verdict"], "COMMITTED");
    let mut done = complete("pay-1", "one", granted.epoch, b"paid");
    let error = claims.complete(done.clone()).await.expect_err("the mail is open");
    assert_eq!(info(&error).metadata["open"], uid("mail"));
    done.settlements = vec![settlement(&uid("mail"), committed())];
    let completed = claims.complete(done).await.expect("completed").into_inner();
    assert!(!completed.repeated);

    let get = v1::GetRequest {
        tenant: "acme".to_owned(),
        namespace: "payouts".to_owned(),
        key: "pay-1".to_owned(),
        ..v1::GetRequest::default()
    };
    let record = claims.get(get).await.expect("found").into_inner().record.expect("a record");
    assert_eq!(record.state(), v1::RecordState::Completed);
    let states: Vec<_> =
        record.effects.iter().map(|one| (one.state(), one.permits.len())).collect();
    assert_eq!(states, [(v1::EffectState::Committed, 1), (v1::EffectState::Committed, 2)]);
    assert_eq!(record.attempts.len(), 1);
    assert_eq!(record.attempts[0].ending(), v1::Ending::Succeeded);
    assert!(record.attempts[0].journaled);
}

/// A consumer that commits with its own transaction claims and completes at once.
async fn one_shot(three: &Three, node: u64) {
    let mut claims = three.claims(node);
    let mut request = claim(&format!("consumed-{node}"), "one");
    request.complete_with = Some(v1::CompleteWith {
        disposition: v1::Disposition::Succeeded.into(),
        result: Some(v1::Result {
            body: Some(v1::result::Body::Inline(b"row 12".to_vec())),
            ..v1::Result::default()
        }),
    });
    let granted = acquired(claims.claim(request.clone()).await.expect("an answer").into_inner());
    let completion = granted.completion.expect("a completion");
    assert_eq!(completion.epoch, granted.epoch);
    assert_eq!(completion.result.expect("a result").body, None);
    let again = claims.claim(request.clone()).await.expect("an answer").into_inner();
    let Some(Outcome::Replay(replay)) = again.outcome else { panic!("not a replay: {again:?}") };
    assert!(replay.by_this_attempt);
    request.effects = vec![dispatch("payment")];
    let error = claims.claim(request).await.expect_err("both at once");
    assert_eq!(error.code(), Code::InvalidArgument);
}

/// Where the policy demands it, only keys that their producer reserved run anything.
async fn reserved(three: &Three, node: u64) {
    let policy = v1::Policy {
        reserve: v1::Requirement::Required.into(),
        intent_time: v1::Requirement::Optional.into(),
        ..v1::Policy::default()
    };
    three.namespace(node, "reserved", policy).await;
    let mut claims = three.claims(node);
    let mut request = claim("order-1", "one");
    request.namespace = "reserved".to_owned();
    let error = claims.claim(request.clone()).await.expect_err("nobody reserved it");
    assert_eq!(
        (error.code(), info(&error).reason.as_str()),
        (Code::FailedPrecondition, "KEY_NOT_RESERVED")
    );
    let reserve = v1::ReserveRequest {
        tenant: "acme".to_owned(),
        namespace: "reserved".to_owned(),
        key: "order-1".to_owned(),
        fingerprints: request.fingerprints.clone(),
        labels: [("order".to_owned(), "1".to_owned())].into(),
        ..v1::ReserveRequest::default()
    };
    let made = claims.reserve(reserve.clone()).await.expect("reserved").into_inner();
    assert!(made.created && made.identity_expire_time.is_some(), "{made:?}");
    assert_eq!((made.state(), made.epoch), (v1::RecordState::Reserved, 0));
    let again = claims.reserve(reserve.clone()).await.expect("known").into_inner();
    assert!(!again.created);
    let mut other = reserve;
    other.fingerprints[0].digest = vec![9; 32];
    let error = claims.reserve(other).await.expect_err("another request");
    assert_eq!(info(&error).reason, "FINGERPRINT_MISMATCH");
    let granted = acquired(claims.claim(request).await.expect("an answer").into_inner());
    assert_eq!(granted.kind(), v1::AcquiredKind::First);
}

/// Reported elsewhere: case 95.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn people_end_what_nobody_else_can_and_are_asked_who_and_why() {
    let three = Three::start().await;
    let (leader, follower) = (three.leader().await, three.follower().await);
    three.seed(leader).await;
    resolved(&three, follower).await;
    revoked(&three, follower).await;
    purged(&three, follower).await;
    admitted(&three, follower).await;
    extended(&three, follower).await;
    three.stop().await;
}

/// Leaves `key` unresolved and returns its epoch and its life.
async fn unresolved(three: &Three, node: u64, key: &str) -> v1::Acquired {
    let mut claims = three.claims(node);
    let granted = acquired(claims.claim(claim(key, "one")).await.expect("an answer").into_inner());
    let release = v1::ReleaseRequest {
        tenant: "acme".to_owned(),
        namespace: "payouts".to_owned(),
        key: key.to_owned(),
        attempt_id: "one".to_owned(),
        epoch: granted.epoch,
        intent: Some(v1::release_request::Intent::Unknown(v1::ReleaseUnknown {
            note: "the bank timed out".to_owned(),
        })),
    };
    claims.release(release).await.expect("released");
    granted
}

async fn resolved(three: &Three, node: u64) {
    let granted = unresolved(three, node, "lost").await;
    let answer = three.claims(node).claim(claim("lost", "two")).await.expect("an answer");
    let Some(Outcome::Unresolved(open)) = answer.into_inner().outcome else {
        panic!("not unresolved")
    };
    let uid = open.open[0].uid.clone();
    assert_eq!(uid, format!("{}@{}", granted.life, granted.epoch));
    assert_eq!(open.open[0].note, "the bank timed out");

    let mut records = three.records(node);
    let mut request = v1::ResolveRequest {
        tenant: "acme".to_owned(),
        namespace: "payouts".to_owned(),
        key: "lost".to_owned(),
        expected_epoch: granted.epoch,
        attempt_id: "ann-1".to_owned(),
        evidence: content("statement of the bank"),
        reason: "the bank has no such payment".to_owned(),
        principal: "ann".to_owned(),
        state: Some(v1::resolve_request::State::Retryable(v1::ReleaseRetry::default())),
        ..v1::ResolveRequest::default()
    };
    let error = records.resolve(request.clone()).await.expect_err("a verdict is missing");
    assert_eq!(info(&error).metadata["open"], uid);
    request.verdicts = vec![v1::ResolveVerdict {
        uid: uid.clone(),
        verdict: Some(v1::Verdict { kind: Some(v1::verdict::Kind::Overridden(v1::Overridden {})) }),
    }];
    // Before the lease of the work has ended, nobody can answer for it.
    let early = records.resolve(request.clone()).await;
    let error = early.expect_err("the work may still be under way");
    assert_eq!(info(&error).reason, "NOT_YET_PROVABLE", "{error:?}");

    // Somebody found it at the bank after all.
    request.verdicts[0].verdict = committed();
    let error = records.resolve(request.clone()).await.expect_err("it happened");
    assert_eq!(info(&error).reason, "EVIDENCE_CONFLICT");
    request.state = Some(v1::resolve_request::State::Completed(v1::CompleteWith {
        disposition: v1::Disposition::Succeeded.into(),
        result: None,
    }));
    let done = records.resolve(request.clone()).await.expect("resolved").into_inner();
    assert_eq!((done.state(), done.repeated), (v1::RecordState::Completed, false));
    assert!(done.epoch > granted.epoch);
    let again = records.resolve(request.clone()).await.expect("resolved").into_inner();
    assert!(again.repeated && again.epoch == done.epoch);
    request.attempt_id = "ben-1".to_owned();
    let error = records.resolve(request.clone()).await.expect_err("done already");
    assert_eq!(info(&error).reason, "ALREADY_COMPLETED");
    request.reason = " ".to_owned();
    let error = records.resolve(request).await.expect_err("no reason");
    assert_eq!(error.code(), Code::InvalidArgument);
}

async fn revoked(three: &Three, node: u64) {
    let mut claims = three.claims(node);
    let granted =
        acquired(claims.claim(claim("stuck", "one")).await.expect("an answer").into_inner());
    let revoke = v1::RevokeRequest {
        tenant: "acme".to_owned(),
        namespace: "payouts".to_owned(),
        key: "stuck".to_owned(),
        epoch: granted.epoch,
        reason: "the host is gone".to_owned(),
        principal: "ann".to_owned(),
    };
    let done = three.records(node).revoke(revoke).await.expect("revoked").into_inner();
    assert!(!done.repeated && done.epoch == granted.epoch);
    let renew = v1::RenewRequest {
        tenant: "acme".to_owned(),
        namespace: "payouts".to_owned(),
        key: "stuck".to_owned(),
        attempt_id: "one".to_owned(),
        epoch: granted.epoch,
        lease: None,
    };
    let error = claims.renew(renew).await.expect_err("revoked");
    assert_eq!((error.code(), info(&error).reason.as_str()), (Code::Aborted, "REVOKED"));
}

async fn purged(three: &Three, node: u64) {
    let mut claims = three.claims(node);
    let granted =
        acquired(claims.claim(claim("personal", "one")).await.expect("an answer").into_inner());
    let mut purge = v1::PurgeRecordRequest {
        tenant: "acme".to_owned(),
        namespace: "payouts".to_owned(),
        key: "personal".to_owned(),
        expected_epoch: granted.epoch,
        reason: "asked to be forgotten".to_owned(),
        principal: "ann".to_owned(),
    };
    let error = three.records(node).purge_record(purge.clone()).await.expect_err("not completed");
    assert_eq!(info(&error).reason, "NOT_PURGEABLE");
    claims.complete(complete("personal", "one", granted.epoch, b"a name")).await.expect("done");
    purge.key = "nothing".to_owned();
    let error = three.records(node).purge_record(purge.clone()).await.expect_err("absent");
    assert_eq!(error.code(), Code::NotFound);
    purge.key = "personal".to_owned();
    three.records(node).purge_record(purge).await.expect("purged");
    for node in 1..=3 {
        let again = three.claims(node).claim(claim("personal", "two")).await.expect("an answer");
        let Some(Outcome::Replay(replay)) = again.into_inner().outcome else {
            panic!("a purged record is executed again")
        };
        let completion = replay.completion.expect("a completion");
        // A node that has not applied the purge yet may still show what was there.
        if completion.purged {
            assert!(replay.result_dropped);
            assert_eq!(completion.result.expect("a result").body, None);
        }
    }
}

/// A key of which a record may have been forgotten is refused, unless somebody answers for it.
async fn admitted(three: &Three, node: u64) {
    let policy = v1::Policy {
        identity_retention: Some(v1::IdentityRetention {
            kind: Some(v1::identity_retention::Kind::Duration(prost_types::Duration {
                seconds: 2,
                nanos: 0,
            })),
        }),
        result_retention: seconds(1),
        intent_time_skew: seconds(1),
        ..v1::Policy::default()
    };
    three.namespace(node, "short", policy).await;
    tokio::time::sleep(std::time::Duration::from_millis(2500)).await;
    let mut request = claim("old", "one");
    request.namespace = "short".to_owned();
    request.intent_time = Some(prost_types::Timestamp { seconds: 1_600_000_000, nanos: 0 });
    let error = three.claims(node).claim(request.clone()).await.expect_err("too late");
    assert_eq!(info(&error).reason, "LATE_REPLAY");
    let admit = v1::AdmitRequest {
        reserve: Some(v1::ReserveRequest {
            tenant: "acme".to_owned(),
            namespace: "short".to_owned(),
            key: "old".to_owned(),
            fingerprints: request.fingerprints.clone(),
            intent_time: request.intent_time,
            ..v1::ReserveRequest::default()
        }),
        reason: "the queue was stopped; it never ran".to_owned(),
        principal: "ann".to_owned(),
    };
    let made = three.records(node).admit(admit).await.expect("admitted").into_inner();
    assert!(made.created && !made.horizon_checked, "{made:?}");
    let answer = three.claims(node).claim(request).await.expect("an answer").into_inner();
    assert_eq!(acquired(answer).kind(), v1::AcquiredKind::First);
}

async fn extended(three: &Three, node: u64) {
    let mut request = v1::ExtendExistingRequest {
        tenant: "acme".to_owned(),
        namespace: "payouts".to_owned(),
        principal: "ann".to_owned(),
        ..v1::ExtendExistingRequest::default()
    };
    let page = three.records(node).extend_existing(request.clone()).await.expect("extended");
    let page = page.into_inner();
    assert!(page.seen >= 3 && page.next_page_token.is_empty(), "{page:?}");
    request.namespace = "nowhere".to_owned();
    let error = three.records(node).extend_existing(request).await.expect_err("no namespace");
    assert_eq!(info(&error).reason, "NAMESPACE_NOT_FOUND");
}
