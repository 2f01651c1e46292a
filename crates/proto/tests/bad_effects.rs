//! Every bad input about effects, decisions of people, lists and batches, by the field that its
//! fault names.

use firstclaim_core::command::Dispatch;
use firstclaim_core::limits;
use firstclaim_core::name::Region;
use firstclaim_proto::convert::{
    Faults, batch, claim, dispatch, holder, operator, reads, reserve, resolve, settle,
};
use firstclaim_proto::v1;
use prost_types::Duration;

fn secs(seconds: i64) -> Option<Duration> {
    Some(Duration { seconds, nanos: 0 })
}

/// What the faults say, one a line, without the remedy.
#[track_caller]
fn faults<T: std::fmt::Debug>(read: Result<T, Faults>) -> Vec<String> {
    let faults = read.expect_err("a refusal");
    for fault in faults.all() {
        assert!(!fault.fix.is_empty(), "{} has no remedy", fault.field);
    }
    faults.all().iter().map(|fault| format!("{} {}", fault.field, fault.problem)).collect()
}

fn content(length: usize) -> Option<v1::Content> {
    Some(v1::Content { data: vec![7; length], ..v1::Content::default() })
}

fn a_dispatch() -> v1::Dispatch {
    v1::Dispatch {
        effect_id: "payment".to_owned(),
        provider: "bank".to_owned(),
        ..v1::Dispatch::default()
    }
}

fn a_claim() -> v1::ClaimRequest {
    v1::ClaimRequest {
        tenant: "acme".to_owned(),
        namespace: "payouts".to_owned(),
        key: "invoice-1".to_owned(),
        attempt_id: "a-1".to_owned(),
        owner: "worker-1".to_owned(),
        ..v1::ClaimRequest::default()
    }
}

fn a_settlement() -> v1::EffectSettlement {
    v1::EffectSettlement {
        uid: "7/payment".to_owned(),
        provider: "bank".to_owned(),
        verdict: Some(verdict(v1::verdict::Kind::Committed(v1::Committed {}))),
        ..v1::EffectSettlement::default()
    }
}

fn verdict(kind: v1::verdict::Kind) -> v1::Verdict {
    v1::Verdict { kind: Some(kind) }
}

#[track_caller]
fn claim_faults(change: impl FnOnce(&mut v1::ClaimRequest)) -> Vec<String> {
    let mut request = a_claim();
    change(&mut request);
    faults(claim::read(request, Region::unknown()))
}

#[track_caller]
fn settle_faults(change: impl FnOnce(&mut v1::EffectSettlement)) -> Vec<String> {
    let mut settlement = a_settlement();
    change(&mut settlement);
    faults(settle::read_settlement(settlement))
}

#[test]
fn a_dispatch_has_a_number_and_a_slot_even_if_it_names_none() {
    let Dispatch { number, slot, provider_key, .. } =
        dispatch::read_dispatch(a_dispatch()).expect("a dispatch");
    assert_eq!((number, slot.as_str(), provider_key), (1, "default", None));
}

#[test]
fn dispatches_are_checked() {
    let read = |change: fn(&mut v1::Dispatch)| {
        let mut wire = a_dispatch();
        change(&mut wire);
        faults(dispatch::read_dispatch(wire))
    };
    assert_eq!(read(|it| it.effect_id.clear()), ["effect_id is empty"]);
    assert_eq!(read(|it| it.slot = "a b".to_owned()), ["slot holds ' '"]);
    assert_eq!(read(|it| it.provider.clear()), ["provider is empty"]);
    assert_eq!(read(|it| it.provider_key = "k".repeat(513)), ["provider_key is 513 bytes long"]);
    assert_eq!(read(|it| it.within = secs(0)), ["within is 0ms"]);
    let nearly = Some(Duration { seconds: 0, nanos: 999_000_000 });
    let mut wire = a_dispatch();
    wire.within = nearly;
    assert_eq!(faults(dispatch::read_dispatch(wire)), ["within is 999ms"]);
    assert_eq!(
        read(|it| it.dedup_window = Some(v1::IdentityRetention { kind: None })),
        ["dedup_window is empty"]
    );
    let most = limits::EFFECT_REQUEST_BYTES_MAX;
    let fits = v1::Dispatch { request: content(most), ..a_dispatch() };
    assert!(dispatch::read_dispatch(fits).is_ok());
    let over = v1::Dispatch { request: content(most + 1), ..a_dispatch() };
    assert_eq!(faults(dispatch::read_dispatch(over)), ["request.data is 16385 bytes long"]);
    let typed = v1::Content { content_type: "c".repeat(129), ..v1::Content::default() };
    let over = v1::Dispatch { request: Some(typed), ..a_dispatch() };
    assert_eq!(faults(dispatch::read_dispatch(over)), ["request.content_type is 129 bytes long"]);
}

#[test]
fn a_claim_waits_at_most_half_a_minute_and_ends_in_one_way() {
    let mut longest = a_claim();
    longest.wait = secs(30);
    assert!(claim::read(longest, Region::unknown()).is_ok());
    assert_eq!(claim_faults(|claim| claim.wait = secs(31)), ["wait is 31s"]);
    let both = claim_faults(|claim| {
        claim.effects = vec![a_dispatch()];
        claim.complete_with =
            Some(v1::CompleteWith { disposition: v1::Disposition::Succeeded.into(), result: None });
    });
    assert_eq!(both, ["complete_with is sent together with effects"]);
    assert_eq!(
        claim_faults(|claim| claim.complete_with = Some(v1::CompleteWith::default())),
        ["complete_with.disposition is not set"]
    );
    assert_eq!(
        claim_faults(|claim| claim.effects = vec![a_dispatch(); 33]),
        ["effects has 33 entries"]
    );
    let second = v1::Dispatch { provider: String::new(), ..a_dispatch() };
    assert_eq!(
        claim_faults(|claim| claim.effects = vec![a_dispatch(), second]),
        ["effects[1].provider is empty"]
    );
}

#[test]
fn a_settlement_says_of_what_and_what_was_found() {
    assert_eq!(settle_faults(|it| it.uid = "payment".to_owned()), ["uid is \"payment\""]);
    assert_eq!(settle_faults(|it| it.verdict = None), ["verdict is missing"]);
    let empty = Some(v1::Verdict { kind: None });
    assert_eq!(settle_faults(|it| it.verdict = empty), ["verdict is missing"]);
    let unasked = verdict(v1::verdict::Kind::NotFound(v1::NotFound { as_of: None }));
    assert_eq!(
        settle_faults(|it| it.verdict = Some(unasked)),
        ["verdict.not_found.as_of is missing"]
    );
    let odd = verdict(v1::verdict::Kind::Refused(v1::Refused { status: Some(70_000) }));
    assert_eq!(settle_faults(|it| it.verdict = Some(odd)), ["verdict.refused.status is 70000"]);
    assert_eq!(
        settle_faults(|it| it.evidence = content(limits::EVIDENCE_BYTES_MAX + 1)),
        ["evidence.data is 16385 bytes long"]
    );
    let request = v1::SettleEffectRequest {
        tenant: "acme".to_owned(),
        namespace: "payouts".to_owned(),
        key: "k".to_owned(),
        ..v1::SettleEffectRequest::default()
    };
    assert_eq!(faults(settle::read(request)), ["settlement is missing", "principal is empty"]);
    let complete = v1::CompleteRequest {
        tenant: "acme".to_owned(),
        namespace: "payouts".to_owned(),
        key: "k".to_owned(),
        attempt_id: "a".to_owned(),
        epoch: 1,
        disposition: v1::Disposition::Succeeded.into(),
        settlements: vec![a_settlement(); 33],
        ..v1::CompleteRequest::default()
    };
    assert_eq!(faults(holder::read_complete(complete)), ["settlements has 33 entries"]);
}

#[test]
fn who_decides_says_who_and_why() {
    let told = faults(resolve::read(v1::ResolveRequest {
        tenant: "acme".to_owned(),
        namespace: "payouts".to_owned(),
        key: "k".to_owned(),
        ..v1::ResolveRequest::default()
    }));
    assert_eq!(
        told,
        [
            "expected_epoch is 0",
            "attempt_id is empty",
            "reason is blank",
            "principal is empty",
            "state is missing"
        ]
    );
    let revoke = v1::RevokeRequest {
        tenant: "acme".to_owned(),
        namespace: "payouts".to_owned(),
        key: "k".to_owned(),
        reason: "r".repeat(1025),
        principal: "p".repeat(129),
        ..v1::RevokeRequest::default()
    };
    assert_eq!(
        faults(operator::read_revoke(revoke)),
        ["epoch is 0", "reason is 1025 bytes long", "principal is 129 bytes long"]
    );
    assert_eq!(
        faults(reserve::read_admit(v1::AdmitRequest::default())),
        ["reserve is missing", "reason is blank", "principal is empty"]
    );
    let purge = v1::PurgeRecordRequest {
        tenant: "acme".to_owned(),
        namespace: "payouts".to_owned(),
        key: "k".to_owned(),
        ..v1::PurgeRecordRequest::default()
    };
    assert_eq!(
        faults(operator::read_purge(purge)),
        ["expected_epoch is 0", "reason is blank", "principal is empty"]
    );
    let extend = v1::ExtendExistingRequest {
        tenant: "acme".to_owned(),
        namespace: "payouts".to_owned(),
        ..v1::ExtendExistingRequest::default()
    };
    assert_eq!(faults(operator::read_extend(extend)), ["principal is empty"]);
}

#[test]
fn a_resolution_is_bounded() {
    let one = v1::ResolveVerdict { uid: "7@12".to_owned(), verdict: None };
    let request = |verdicts| v1::ResolveRequest {
        tenant: "acme".to_owned(),
        namespace: "payouts".to_owned(),
        key: "k".to_owned(),
        expected_epoch: 1,
        attempt_id: "a".to_owned(),
        verdicts,
        reason: "looked".to_owned(),
        principal: "ann".to_owned(),
        state: Some(v1::resolve_request::State::Retryable(v1::ReleaseRetry {
            retry_after: secs(31 * 24 * 3600),
        })),
        ..v1::ResolveRequest::default()
    };
    assert_eq!(
        faults(resolve::read(request(vec![one.clone(); 65]))),
        ["verdicts has 65 entries", "retryable.retry_after is 31d"]
    );
    assert_eq!(
        faults(resolve::read(request(vec![one]))),
        ["verdicts[0].verdict is missing", "retryable.retry_after is 31d"]
    );
}

#[test]
fn a_batch_is_of_one_tenant_and_bounded() {
    let read = |tenant: &str, items| {
        let request = v1::ClaimBatchRequest { tenant: tenant.to_owned(), items };
        batch::read_claims(request, &Region::unknown())
    };
    assert_eq!(faults(read("acme", Vec::new())), ["items has 0 entries"]);
    assert_eq!(faults(read("acme", vec![a_claim(); 501])), ["items has 501 entries"]);
    assert!(read("acme", vec![a_claim(); 500]).is_ok());
    assert_eq!(faults(read("", vec![a_claim()])), ["tenant is empty"]);
    let other = v1::ClaimRequest { tenant: "other".to_owned(), ..a_claim() };
    assert_eq!(
        faults(read("acme", vec![a_claim(), other])),
        ["items[1].tenant is not that of the batch"]
    );

    // What is wrong with an item is its own.
    let unnamed = v1::ClaimRequest { tenant: String::new(), ..a_claim() };
    let blank = v1::ClaimRequest { key: " ".to_owned(), ..a_claim() };
    let waits = v1::ClaimRequest { wait: secs(1), ..a_claim() };
    let items = read("acme", vec![unnamed, blank, waits]).expect("a batch");
    assert!(items[0].is_ok());
    let told: Vec<_> = items.into_iter().skip(1).map(faults).collect();
    assert_eq!(told, [["key is blank"], ["wait is 1s"]]);

    let none = v1::CompleteBatchRequest { tenant: "acme".to_owned(), items: Vec::new() };
    assert_eq!(faults(batch::read_completions(none)), ["items has 0 entries"]);
}

#[test]
fn lists_take_known_states_and_their_own_tokens() {
    let list = v1::ListRecordsRequest {
        tenant: "acme".to_owned(),
        namespace: "payouts".to_owned(),
        states: vec![0, 7, 7, 99],
        older_than: secs(-1),
        key_prefix: "k".repeat(513),
        page_token: " ".to_owned(),
        ..v1::ListRecordsRequest::default()
    };
    assert_eq!(
        faults(reads::read_list_records(list)),
        [
            "states[0] is not set",
            "states[3] is 99, which is not known",
            "older_than is negative (-1 s, 0 ns)",
            "key_prefix is 513 bytes long",
            "page_token is blank"
        ]
    );
    let list = v1::ListUnresolvedRequest {
        tenant: "acme".to_owned(),
        page_token: "x".to_owned(),
        ..v1::ListUnresolvedRequest::default()
    };
    assert_eq!(faults(reads::read_list_unresolved(list)), ["page_token is not one of this list"]);
}

#[test]
fn a_report_of_another_node_is_checked_like_any_input() {
    let report = |records| reads::read_report(v1::ReportSightingsRequest { records });
    assert_eq!(faults(report(Vec::new())), ["records has 0 entries"]);
    assert_eq!(
        faults(report(vec![v1::RecordSightings::default(); 65])),
        ["records has 65 entries"]
    );
    let one = v1::RecordSightings {
        tenant: "acme".to_owned(),
        namespace: "payouts".to_owned(),
        key: "k".to_owned(),
        counts: [("GIBBERISH".to_owned(), 1)].into(),
        ..v1::RecordSightings::default()
    };
    let told = faults(report(vec![one]));
    assert_eq!(told, ["records[0].counts names no outcome of a claim"]);
}
