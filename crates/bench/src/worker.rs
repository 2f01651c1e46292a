//! One of the concurrent callers, and what it does with a key.

use std::time::Duration;

use firstclaim_client::v1::claim_response::Outcome;
use firstclaim_client::v1::dispatch_answer::Outcome as Dispatched;
use firstclaim_client::v1::{Acquired, AcquiredKind, ClaimResponse, PendingReason};
use firstclaim_client::{
    ClaimRequest, Client, Completion, EffectRequest, Error, Finding, Settlement, fingerprint,
};
use tokio::time::Instant;

use crate::config::{BenchConfig, Journal, Work};
use crate::drive::Clock;
use crate::keys::Keys;
use crate::tally::Tally;

/// Names how the request of a key is made, so that all workers agree on its fingerprint.
const SCHEME: &str = "bench/1";
const CONTENT_TYPE: &str = "application/octet-stream";
const EFFECT: &str = "payment";
const PROVIDER: &str = "bench";
/// How long the provider that is not called tells repeats by their key.
const WINDOW: Duration = Duration::from_secs(86_400);

/// The claim of a key.
pub(crate) fn request(config: &BenchConfig, key: &str) -> ClaimRequest {
    ClaimRequest::new(&config.tenant, &config.namespace, key)
        .fingerprint(fingerprint::sha256(SCHEME, key.as_bytes()))
}

/// One of the concurrent callers.
pub(crate) struct Worker {
    client: Client,
    owner: String,
    keys: Keys,
    config: BenchConfig,
    payload: Vec<u8>,
    tally: Tally,
    /// Rounds so far, so that ways can take turns.
    rounds: u64,
}

impl Worker {
    pub(crate) fn new(client: Client, keys: Keys, config: &BenchConfig, number: usize) -> Self {
        Self {
            client,
            owner: format!("bench-{:016x}-{number}", config.seed),
            keys,
            config: config.clone(),
            payload: vec![b'x'; config.payload_bytes],
            tally: Tally::default(),
            rounds: number as u64,
        }
    }

    /// Works until the clock says that it is over.
    pub(crate) async fn run(mut self, clock: Clock) -> Tally {
        let operations = match self.config.work {
            Work::Batch => self.config.batch_size,
            Work::Claim | Work::ClaimAndComplete | Work::Effects(_) => 1,
        };
        while clock.goes_on(operations) {
            self.rounds += 1;
            match self.config.work {
                Work::Claim => drop(self.claim_next(&clock).await),
                Work::ClaimAndComplete => {
                    if let Some((request, acquired)) = self.claim_next(&clock).await {
                        let completion = self.completion();
                        self.complete(&request, acquired.epoch, completion, &clock).await;
                    }
                }
                Work::Effects(Journal::Apart) => self.effect_apart(&clock).await,
                Work::Effects(Journal::InClaim) => self.effect_in_claim(&clock).await,
                Work::Effects(Journal::Both) if self.rounds.is_multiple_of(2) => {
                    self.effect_apart(&clock).await;
                }
                Work::Effects(Journal::Both) => self.effect_in_claim(&clock).await,
                Work::Batch => self.batch(&clock).await,
            }
        }
        self.tally
    }

    fn next_request(&mut self) -> ClaimRequest {
        let key = self.keys.next();
        request(&self.config, &key).owner(self.owner.as_str())
    }

    fn completion(&self) -> Completion {
        Completion::succeeded(CONTENT_TYPE, self.payload.clone())
    }

    async fn claim_next(&mut self, clock: &Clock) -> Option<(ClaimRequest, Acquired)> {
        let request = self.next_request();
        let acquired = self.claim(&request, clock).await?;
        Some((request, acquired))
    }

    /// Claims, and returns the grant if there is one.
    async fn claim(&mut self, request: &ClaimRequest, clock: &Clock) -> Option<Acquired> {
        let began = Instant::now();
        let answer = self.client.claim_once(request).await;
        let ended = Instant::now();
        let measured = clock.measures(began, ended);
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                self.failed("claim", &error, measured);
                return None;
            }
        };
        if measured {
            self.tally.claimed(outcome(&answer), ended - began);
            if self.config.duplicate_ratio > 0.0 {
                let replayed = matches!(answer.outcome, Some(Outcome::Replay(_)));
                let name = if replayed { "claim: replays" } else { "claim: others" };
                self.tally.took(name, ended - began);
            }
        }
        acquired(answer)
    }

    async fn complete(
        &mut self,
        request: &ClaimRequest,
        epoch: u64,
        completion: Completion,
        clock: &Clock,
    ) {
        let began = Instant::now();
        let answer = self.client.complete(&request.holder(epoch), completion).await;
        let ended = Instant::now();
        let measured = clock.measures(began, ended);
        match answer {
            Ok(_stored) => {
                if measured {
                    self.tally.completed(ended - began);
                }
            }
            Err(error) => self.failed("complete", &error, measured),
        }
    }

    fn effect(&self, key: &str) -> EffectRequest {
        EffectRequest::new(EFFECT, PROVIDER)
            .provider_key(key, WINDOW)
            .request(CONTENT_TYPE, self.payload.clone())
    }

    /// The effect has a call of its own: three rounds an intent.
    async fn effect_apart(&mut self, clock: &Clock) {
        let began = Instant::now();
        let Some((request, acquired)) = self.claim_next(clock).await else { return };
        let (effect, holder) = (self.effect(&request.key), request.holder(acquired.epoch));
        let asked = Instant::now();
        let permit = self.client.record_effect(&holder, &effect).await;
        let ended = Instant::now();
        let measured = clock.measures(asked, ended);
        match permit {
            Ok(permit) => {
                if measured {
                    self.tally.took("record effect", ended - asked);
                }
                let completion = self
                    .completion()
                    .settling(permit.settlement(Finding::Committed).evidence(CONTENT_TYPE, "sent"));
                self.complete(&request, acquired.epoch, completion, clock).await;
                self.round("whole, effect apart", began, clock);
            }
            Err(error) => self.failed("record effect", &error, measured),
        }
    }

    /// The claim carries the effect: two rounds an intent.
    async fn effect_in_claim(&mut self, clock: &Clock) {
        let began = Instant::now();
        let request = self.next_request();
        let effect = self.effect(&request.key);
        let request = request.effect(effect);
        let Some(acquired) = self.claim(&request, clock).await else { return };
        let answer = acquired.dispatches.into_iter().next().and_then(|answer| answer.outcome);
        match answer {
            Some(Dispatched::Permit(permit)) => {
                let settlement = Settlement {
                    uid: permit.uid,
                    provider: PROVIDER.to_owned(),
                    provider_key: permit.provider_key,
                    finding: Finding::Committed,
                    evidence: None,
                };
                let settlement = settlement.evidence(CONTENT_TYPE, "sent");
                let completion = self.completion().settling(settlement);
                self.complete(&request, acquired.epoch, completion, clock).await;
                self.round("whole, effect in claim", began, clock);
            }
            Some(Dispatched::Failure(failure)) if clock.measures(began, Instant::now()) => {
                self.tally.failed("effect in claim", &failure.reason);
            }
            Some(Dispatched::Failure(_)) | None => {}
        }
    }

    /// Takes in a whole round.
    fn round(&mut self, name: &'static str, began: Instant, clock: &Clock) {
        let ended = Instant::now();
        if clock.measures(began, ended) {
            self.tally.took(name, ended - began);
        }
    }

    async fn batch(&mut self, clock: &Clock) {
        let requests: Vec<_> = (0..self.config.batch_size).map(|_| self.next_request()).collect();
        let began = Instant::now();
        let answers = self.client.claim_batch(&self.config.tenant, &requests).await;
        let ended = Instant::now();
        let measured = clock.measures(began, ended);
        let answers = match answers {
            Ok(answers) => answers,
            Err(error) => return self.failed("claim batch", &error, measured),
        };
        if measured {
            self.tally.took("claim batch", ended - began);
        }
        let mut completions = Vec::new();
        for (request, answer) in requests.iter().zip(answers) {
            match answer {
                Ok(answer) => {
                    if measured {
                        self.tally.count(outcome(&answer), 1);
                    }
                    if let Some(acquired) = acquired(answer) {
                        completions.push((request.holder(acquired.epoch), self.completion()));
                    }
                }
                Err(error) => self.failed("claim batch, item", &error, measured),
            }
        }
        if !completions.is_empty() {
            self.complete_batch(completions, clock).await;
        }
    }

    async fn complete_batch(
        &mut self,
        completions: Vec<(firstclaim_client::HolderRef, Completion)>,
        clock: &Clock,
    ) {
        let began = Instant::now();
        let answers = self.client.complete_batch(&self.config.tenant, completions).await;
        let ended = Instant::now();
        let measured = clock.measures(began, ended);
        let answers = match answers {
            Ok(answers) => answers,
            Err(error) => return self.failed("complete batch", &error, measured),
        };
        if measured {
            self.tally.took("complete batch", ended - began);
        }
        for answer in answers {
            match answer {
                Ok(_stored) if measured => {
                    self.tally.count("completed", 1);
                    self.tally.intents += 1;
                }
                Ok(_stored) => {}
                Err(error) => self.failed("complete batch, item", &error, measured),
            }
        }
    }

    fn failed(&mut self, call: &str, error: &Error, measured: bool) {
        if measured {
            self.tally.failed(call, error.reason_text());
        }
    }
}

/// The grant, if the answer is one.
fn acquired(answer: ClaimResponse) -> Option<Acquired> {
    match answer.outcome {
        Some(Outcome::Acquired(acquired)) => Some(acquired),
        Some(Outcome::Replay(_) | Outcome::Pending(_) | Outcome::Unresolved(_)) | None => None,
    }
}

/// The name that an answer is counted under.
fn outcome(answer: &ClaimResponse) -> &'static str {
    match &answer.outcome {
        Some(Outcome::Acquired(acquired)) => match acquired.kind() {
            AcquiredKind::First => "first",
            AcquiredKind::AlreadyHeld => "already held",
            AcquiredKind::Recovery => "recovery",
            AcquiredKind::Takeover => "takeover",
            AcquiredKind::Retry => "retry",
            AcquiredKind::Rebound => "rebound",
            AcquiredKind::Unspecified => "acquired (of a kind unknown here)",
        },
        Some(Outcome::Replay(_)) => "replay",
        Some(Outcome::Pending(pending)) => match pending.reason() {
            PendingReason::Held => "pending",
            PendingReason::TakeoverDelayed => "pending (takeover delayed)",
            PendingReason::Backoff => "pending (backoff)",
            PendingReason::Unspecified => "pending (of a kind unknown here)",
        },
        Some(Outcome::Unresolved(_)) => "unresolved",
        None => "unknown here",
    }
}
