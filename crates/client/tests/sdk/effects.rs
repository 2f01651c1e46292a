//! Effects: permits that end by this process's clock, rises of the mode, and the journaled round.

use std::time::Duration;

use crate::fake::{NOW, Running, Step, acquired, at, start};
use firstclaim_client::v1::claim_response::Outcome;
use firstclaim_client::{
    AsOf, Claim, ClaimOutcome, ClaimRequest, Client, ClientConfig, Completion, EffectRequest,
    ExecuteError, Executed, Execution, Finding, Permit, Reason, Sent, execute_journaled, v1,
};
use tokio::time::Instant;

const LEASE: Duration = Duration::from_secs(30);

fn client(node: &Running) -> Client {
    let config = ClientConfig {
        try_timeout: Duration::from_millis(300),
        ..ClientConfig::new([node.endpoint()])
    };
    Client::lazy(config).unwrap()
}

fn request() -> ClaimRequest {
    ClaimRequest::new("acme", "payouts", "payout:847").owner("worker-7")
}

fn payment(number: u32) -> EffectRequest {
    let id = if number == 1 { "payment".to_owned() } else { format!("payment-{number}") };
    EffectRequest::new(id, "bank")
        .provider_key(format!("pay-847-{number}"), Duration::from_secs(86_400))
        .request("text/plain", "847 120.00 EUR")
}

/// A grant in that mode that knows of those effects.
fn grant(mode: v1::Mode, effects: Vec<v1::Effect>) -> v1::Acquired {
    let kind = v1::AcquiredKind::Recovery;
    v1::Acquired { mode: mode.into(), effects, ..acquired(kind, 11, LEASE, &[]) }
}

fn claimed(acquired: v1::Acquired) -> Step {
    Step::Claimed(Box::new(Outcome::Acquired(acquired)))
}

fn effect(id: &str, state: v1::EffectState) -> v1::Effect {
    v1::Effect {
        kind: v1::EffectKind::Recorded.into(),
        state: state.into(),
        uid: format!("7/{id}"),
        slot: "default".to_owned(),
        provider: "bank".to_owned(),
        provider_key: "pay-847-1".to_owned(),
        permits: vec![v1::Permit { number: 1, ..v1::Permit::default() }],
        ..v1::Effect::default()
    }
}

/// The refusal of an effect that is settled.
fn settled() -> v1::DispatchAnswer {
    let failure = v1::Failure {
        code: 9,
        reason: "EFFECT_SETTLED".to_owned(),
        metadata: [("applied".to_owned(), "decided".to_owned())].into(),
        ..v1::Failure::default()
    };
    v1::DispatchAnswer { outcome: Some(v1::dispatch_answer::Outcome::Failure(failure)) }
}

/// The journaled round of one payment.
async fn journaled<F, Fut>(
    node: &Running,
    request: ClaimRequest,
    send: F,
) -> Result<Executed, ExecuteError>
where
    F: FnOnce(Claim, Permit) -> Fut,
    Fut: Future<Output = Sent>,
{
    execute_journaled(&client(node), request, Execution::default(), payment, send).await
}

/// A send that must not be made.
async fn never(_claim: Claim, _permit: Permit) -> Sent {
    panic!("it was sent")
}

async fn acquire(client: &Client, request: ClaimRequest) -> Claim {
    let outcome = client.claim(request).await.unwrap();
    let ClaimOutcome::Acquired(claim) = outcome else { panic!("not acquired: {outcome:?}") };
    claim
}

#[tokio::test]
async fn effects_of_a_claim_come_back_as_permits_by_position() {
    let node = start([Step::Grant { epoch: 11, lease: LEASE }]).await;
    let before = Instant::now();
    let request = request().effect(payment(1)).effect(payment(2).slot("mail"));
    let claim = acquire(&client(&node), request).await;
    let after = Instant::now();
    let permits: Vec<_> = claim.permits().iter().map(|permit| permit.clone().unwrap()).collect();
    assert_eq!(
        permits.iter().map(|permit| permit.uid()).collect::<Vec<_>>(),
        ["7/payment", "7/payment-2"]
    );
    assert_eq!(permits[0].provider_key(), "pay-847-1");
    assert!(permits[0].send_before() >= before + LEASE);
    assert!(permits[0].send_before() <= after + LEASE);
    assert_eq!(permits[0].check(Duration::from_secs(29)), Ok(()));
    assert!(permits[0].check(Duration::from_secs(31)).is_err());
    assert_eq!(node.node.claims()[0].effects[1].slot, "mail");
}

#[tokio::test]
async fn a_permit_is_asked_for_again_with_the_same_number() {
    let left = Duration::from_millis(1_200);
    let node =
        start([Step::Grant { epoch: 11, lease: LEASE }, Step::Silence, Step::Permit { left }]);
    let node = node.await;
    let claim = acquire(&client(&node), request()).await;
    let permit = claim.record_effect(&payment(1)).await.unwrap();
    assert_eq!((permit.number(), permit.provider()), (1, "bank"));
    let numbers: Vec<_> = node.node.dispatches().iter().map(|sent| sent.number).collect();
    assert_eq!(numbers, [1, 1]);
    let left = permit.send_before().saturating_duration_since(Instant::now());
    assert!(left <= Duration::from_millis(1_200), "{left:?}");
}

#[tokio::test]
async fn a_claim_rises_only_when_its_own_renewal_says_so() {
    for (confirmed, step) in [
        (v1::Mode::Execute, Step::Risen(vec![effect("payment", v1::EffectState::NotCommitted)])),
        (v1::Mode::Reconcile, Step::Mode(v1::Mode::Reconcile)),
        (
            v1::Mode::Reconcile,
            Step::Fail { reason: "STALE_EPOCH", applied: "decided", leader: None },
        ),
    ] {
        let open = effect("payment", v1::EffectState::Open);
        let first = claimed(grant(v1::Mode::Reconcile, vec![open.clone()]));
        let node = start([first, Step::Mode(v1::Mode::Execute), step]).await;
        let claim = acquire(&client(&node), request()).await;
        assert!(claim.safe_to_dispatch(Duration::ZERO).is_err());
        let as_of = AsOf::written_down(at(NOW).unwrap());
        let settlement =
            firstclaim_client::Settlement::of(&open, Finding::NotFound(as_of)).evidence("t", "404");
        claim.settle(&settlement).await.unwrap();
        assert_eq!(claim.mode(), confirmed);
        let known = claim.effects()[0].state();
        let risen = confirmed == v1::Mode::Execute;
        let expected = if risen { v1::EffectState::NotCommitted } else { v1::EffectState::Open };
        assert_eq!(known, expected, "what a rise shows");
        assert_eq!(claim.safe_to_dispatch(Duration::ZERO).is_ok(), confirmed == v1::Mode::Execute);
        // The one who settles is the owner of the claim.
        assert_eq!(node.node.seen()[1].attempt_id, "worker-7");
    }
}

#[tokio::test]
async fn a_claim_that_completes_at_once_needs_no_guard() {
    let done = v1::Acquired {
        completion: Some(v1::Completion::default()),
        ..acquired(v1::AcquiredKind::First, 3, LEASE, &[])
    };
    let node = start([claimed(done)]).await;
    let with = Completion::succeeded("text/plain", "tx");
    let outcome = client(&node).claim(request().complete_with(with)).await.unwrap();
    assert!(matches!(outcome, ClaimOutcome::Completed(acquired) if acquired.epoch == 3));
    let sent = node.node.claims().remove(0).complete_with.unwrap();
    assert_eq!(sent.disposition(), v1::Disposition::Succeeded);
}

#[tokio::test]
async fn a_claim_that_waits_gets_the_time_for_it_and_waits_no_longer_in_all() {
    let node = start([Step::Silence, Step::Replay("tx")]).await;
    let wait = Duration::from_millis(400);
    let began = Instant::now();
    client(&node).claim(request().wait(wait)).await.unwrap();
    assert!(began.elapsed() >= Duration::from_millis(700), "the try was cut short");
    let waits: Vec<_> = node.node.claims().into_iter().map(|claim| claim.wait).collect();
    assert_eq!(waits.len(), 2);
    assert!(waits[0].is_some() && waits[1].is_none(), "{waits:?}");
}

#[tokio::test]
async fn a_claim_that_waited_longer_than_its_lease_is_not_born_dead() {
    let (after, lease) = (Duration::from_millis(1_500), Duration::from_millis(1_000));
    let node = start([Step::LateGrant { after, lease }, Step::Grant { epoch: 1, lease }]).await;
    let waiting = request().wait(Duration::from_secs(10)).effect(payment(1));
    let claim = acquire(&client(&node), waiting).await;
    assert_eq!(node.node.calls("renew"), 1);
    assert_eq!(claim.safe_to_dispatch(Duration::from_millis(500)), Ok(()));
    // The permit counts from the renewal too: it cannot have been decided earlier than that.
    let permit = claim.permits()[0].clone().unwrap();
    assert_eq!(permit.check(Duration::from_millis(500)), Ok(()));
}

#[tokio::test]
async fn a_committed_send_is_settled_and_completed_in_one_call() {
    let node = start([Step::Grant { epoch: 11, lease: LEASE }]).await;
    let send = |_claim, permit: Permit| async move {
        assert_eq!(permit.provider_key(), "pay-847-1");
        Sent::committed("text/plain", "tx_58123")
    };
    let executed = journaled(&node, request(), send).await.unwrap();
    assert!(matches!(executed, Executed::Completed(_)));
    let completion = node.node.completions().remove(0);
    assert_eq!(completion.disposition(), v1::Disposition::Succeeded);
    let settlement = &completion.settlements[0];
    assert_eq!((settlement.uid.as_str(), settlement.provider.as_str()), ("7/payment", "bank"));
    assert_eq!(settlement.evidence.as_ref().unwrap().data, b"tx_58123");
    assert_eq!(node.node.calls("record effect"), 0, "the permit came with the claim");
}

#[tokio::test]
async fn a_refused_send_fails_the_intent_and_a_lost_answer_leaves_it_open() {
    for (sent, call, disposition) in [
        (Sent::refused(Some(422), "text/plain", "closed"), "complete", v1::Disposition::Failed),
        (Sent::unknown("timed out"), "release unknown", v1::Disposition::Unspecified),
    ] {
        let node = start([Step::Grant { epoch: 11, lease: LEASE }]).await;
        journaled(&node, request(), |_claim, _permit| async { sent }).await.unwrap();
        assert_eq!(node.node.calls(call), 1, "{:?}", node.node.seen());
        let found = node.node.completions().first().map(v1::CompleteRequest::disposition);
        assert_eq!(found.unwrap_or_default(), disposition);
    }
}

#[tokio::test]
async fn what_may_have_been_sent_is_sent_again_under_the_next_number_or_handed_over() {
    let open = || vec![effect("payment", v1::EffectState::Open)];
    let node = start([claimed(grant(v1::Mode::Resume, open()))]).await;
    let send = |_claim, permit: Permit| async move {
        assert_eq!((permit.number(), permit.provider_key()), (2, "pay-847-1"));
        Sent::committed("text/plain", "tx")
    };
    let executed = journaled(&node, request().accept_recovery(), send).await.unwrap();
    assert!(matches!(executed, Executed::Completed(_)));

    let node = start([claimed(grant(v1::Mode::Reconcile, open()))]).await;
    let error = journaled(&node, request().accept_recovery(), never).await.unwrap_err();
    assert!(matches!(&error, ExecuteError::Reconcile(claim) if claim.epoch() == 11), "{error}");
}

#[tokio::test]
async fn evidence_that_it_happened_completes_the_record_without_a_send() {
    let mut known = effect("payment", v1::EffectState::Committed);
    let evidence = v1::Content { data: b"tx_1".to_vec(), ..v1::Content::default() };
    known.settlement =
        Some(v1::Settlement { evidence: Some(evidence), ..v1::Settlement::default() });
    let takeover =
        v1::Acquired { dispatches: vec![settled()], ..grant(v1::Mode::Execute, vec![known]) };
    let node = start([claimed(takeover)]).await;
    let executed = journaled(&node, request(), never).await.unwrap();
    assert!(matches!(executed, Executed::Completed(_)));
    let result = node.node.completions().remove(0).result.unwrap();
    assert_eq!(result.body, Some(v1::result::Body::Inline(b"tx_1".to_vec())));
}

#[tokio::test]
async fn what_did_not_happen_is_tried_as_another_effect() {
    let known = effect("payment", v1::EffectState::NotCommitted);
    let retry =
        v1::Acquired { dispatches: vec![settled()], ..grant(v1::Mode::Execute, vec![known]) };
    let node = start([claimed(retry)]).await;
    let send = |_claim, permit: Permit| async move {
        assert_eq!((permit.uid(), permit.provider_key()), ("7/payment-2", "pay-847-2"));
        Sent::committed("text/plain", "tx")
    };
    let executed = journaled(&node, request(), send).await.unwrap();
    assert!(matches!(executed, Executed::Completed(_)));
    assert_eq!(node.node.calls("record effect"), 1);
}

#[tokio::test]
async fn without_leave_to_send_nothing_is_sent_and_the_claim_is_given_back() {
    let known = effect("payment", v1::EffectState::NotCommitted);
    let refused =
        v1::Acquired { dispatches: vec![settled()], ..grant(v1::Mode::Execute, vec![known]) };
    let node = start([claimed(refused)]).await;
    // The caller names every try the same.
    let same = |_number| payment(1);
    let client = client(&node);
    let round = execute_journaled(&client, request(), Execution::default(), same, never);
    let error = round.await.unwrap_err();
    let ExecuteError::Effect(error) = error else { panic!("{error}") };
    assert_eq!(error.reason(), Reason::EffectSettled);
    assert_eq!(node.node.calls("release retry"), 1);
}
