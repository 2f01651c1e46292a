//! The attempt that comes back after another has taken over. It is honest about what it did; every
//! call that needs the claim must be refused.

use std::time::Duration;

use firstclaim_client::{Completion, EffectRequest, Error, Finding, Permit, Reason, v1};

use super::scenario::FENCED;
use super::worker::{Fate, Held, TEXT, Worker};

/// Had a permit and did not use it in time. Sends nothing, and asks whether it may after all.
pub(crate) async fn before_send(
    worker: &Worker<'_>,
    held: &Held,
    effect: &EffectRequest,
    permit: &Permit,
) -> Fate {
    worker.message.stage.wait(|cues| cues.grants > 1).await;
    if let Some(Ok(_receipt)) = worker.send(permit).await {
        worker.violation("was sent under a permit that outlived its claim");
    }
    let next = EffectRequest { number: permit.number() + 1, ..effect.clone() };
    let recorded = worker.client.record_effect(&held.holder, &next).await;
    fenced(worker, "record another dispatch", recorded);
    fenced(worker, "renew", worker.client.renew(&held.holder, None).await);
    spoken(worker)
}

/// Has a receipt. The store hears of the effect from whoever knows, but the record is not its own any
/// more.
pub(crate) async fn after_effect(
    worker: &Worker<'_>,
    held: &Held,
    permit: &Permit,
    receipt: &str,
) -> Fate {
    worker.message.stage.wait(|cues| cues.grants > 1).await;
    let settlement = permit.settlement(Finding::Committed).evidence(TEXT, receipt);
    match worker.client.settle(&worker.record(held), &settlement, &worker.owner).await {
        Ok(_heard) => worker.note("evidence heard"),
        Err(error) => worker.note(error.reason_text()),
    }
    fenced(worker, "renew", worker.client.renew(&held.holder, None).await);
    let mail = EffectRequest::new("receipt-mail", "mailer").slot("mail");
    let recorded = worker.client.record_effect(&held.holder, &mail).await;
    fenced(worker, "record another effect", recorded);
    let completion = Completion::succeeded(TEXT, format!("{receipt}, says {}", worker.owner));
    fenced(worker, "complete", worker.client.complete(&held.holder, completion).await);
    spoken(worker)
}

/// Has done nothing under an unjournaled claim, and says so. If that were believed now, somebody else
/// could begin while the successor is at work.
pub(crate) async fn before_work(worker: &Worker<'_>, held: &Held) -> Fate {
    worker.message.stage.wait(|cues| cues.successor_sends).await;
    fenced(worker, "renew", worker.client.renew(&held.holder, None).await);
    let retry = v1::release_request::Intent::Retry(v1::ReleaseRetry { retry_after: None });
    fenced(worker, "give back", worker.client.release(&held.holder, retry).await);
    spoken(worker)
}

/// Lets the successor go on. The message goes back at once, as any worker would do that believes it
/// has done nothing: also then nobody may begin beside the successor.
fn spoken(worker: &Worker<'_>) -> Fate {
    worker.message.stage.give(|cues| cues.spoken = true);
    Fate::PutBack(Duration::ZERO)
}

/// A call under an epoch that was superseded has to be refused.
fn fenced<T>(worker: &Worker<'_>, what: &str, answer: Result<T, Error>) {
    match answer {
        Ok(_accepted) => worker
            .violation(&format!("could {what} under an epoch that another attempt had superseded")),
        Err(error) => {
            worker.note(error.reason_text());
            // Anything else, such as "your lease has ended", is not the fence.
            if matches!(error.reason(), Reason::StaleEpoch | Reason::AlreadyCompleted) {
                worker.note(FENCED);
            }
        }
    }
}
