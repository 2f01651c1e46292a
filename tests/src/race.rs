//! Workers at all nodes race for the same keys, and every call is written down.
//!
//! Each lane of keys has one worker at each node. They come to a key at about the same time: whoever
//! is first executes and completes, the others wait for its result. A worker whose node does not
//! answer asks the next one, with the same attempt. At one key in twenty the first holder goes away
//! without a word, and the others take over when its lease is over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use firstclaim_client::v1::claim_response::Outcome as Claimed;
use firstclaim_client::v1::claim_service_client::ClaimServiceClient;
use firstclaim_client::{mint_attempt_id, v1};
use rand::Rng as _;
use rand::rngs::StdRng;
use sha2::{Digest as _, Sha256};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tonic::transport::Channel;
use tonic::{ConnectError, Status};
use tonic_types::StatusExt as _;

use crate::cluster::Cluster;
use crate::history::{Answer, Ask, Call, Grant, History};
use crate::{Outcome, seed};

/// The tenant and the namespace of all keys.
pub const TENANT: &str = "race";
/// See [`TENANT`].
pub const NAMESPACE: &str = "payouts";

const TRY_WITHIN: Duration = Duration::from_secs(2);
const LEASE: i64 = 60;
const LEASE_OF_THE_ABANDONED: i64 = 1;
const ONE_ABANDONED_IN: u64 = 20;

/// A race under way.
#[derive(Debug)]
pub struct Race {
    shared: Arc<Shared>,
    workers: JoinSet<()>,
}

#[derive(Debug)]
struct Shared {
    seed: u64,
    lanes: u64,
    history: History,
    stopped: AtomicBool,
    done: AtomicU64,
}

/// A race that is over.
#[derive(Debug)]
pub struct Finish {
    /// Every call, by the time of its sending.
    pub calls: Vec<Call>,
    /// Every key that was asked for.
    pub keys: BTreeSet<String>,
    /// The keys for which at least two workers sent a claim.
    pub raced: usize,
    /// The keys whose first holder goes away.
    pub abandoned: BTreeSet<String>,
}

/// Creates the tenant and the namespace of the race. A lapsed claim may be taken over at once.
///
/// # Errors
///
/// When the cluster refuses.
pub async fn set_up(cluster: &Cluster) -> Outcome<()> {
    let client = cluster.client()?;
    let policy = v1::Policy { on_lapse: v1::OnLapse::Takeover.into(), ..v1::Policy::default() };
    let tenant = v1::Tenant { name: TENANT.to_owned(), policy: Some(policy), ..Default::default() };
    let request = v1::CreateTenantRequest { tenant: Some(tenant), validate_only: false };
    client.create_tenant(request).await?;
    let namespace = v1::Namespace {
        tenant: TENANT.to_owned(),
        name: NAMESPACE.to_owned(),
        ..Default::default()
    };
    let request = v1::CreateNamespaceRequest { namespace: Some(namespace), validate_only: false };
    client.create_namespace(request).await?;
    Ok(())
}

/// The fingerprint of the intent behind a key.
#[must_use]
pub fn fingerprint(key: &str) -> v1::Fingerprint {
    v1::Fingerprint {
        scheme: "race-v1".to_owned(),
        digest: Sha256::digest(key.as_bytes()).to_vec(),
        ..v1::Fingerprint::default()
    }
}

impl Race {
    /// Starts a worker at each node for each lane.
    #[must_use]
    pub fn start(cluster: &Cluster, seed: u64, lanes: u64) -> Self {
        let shared = Arc::new(Shared {
            seed,
            lanes,
            history: History::default(),
            stopped: AtomicBool::new(false),
            done: AtomicU64::new(0),
        });
        let mut race = Self { shared, workers: JoinSet::new() };
        for lane in 0..lanes {
            for (home, node) in cluster.nodes().iter().enumerate() {
                let owner = format!("worker-{lane}-{}", node.id);
                let worker = race.worker(cluster, home, (lane * 16 + node.id, owner));
                race.workers.spawn(worker.run(home, lane));
            }
        }
        race
    }

    /// How many keys a worker has seen the end of.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.shared.done.load(Ordering::Relaxed) / 3
    }

    /// Waits until so many keys more are done.
    ///
    /// # Errors
    ///
    /// When that takes too long.
    pub async fn progress(&self, keys: u64, within: Duration) -> Outcome<()> {
        let start = Instant::now();
        let from = self.done();
        while self.done() < from + keys {
            if start.elapsed() > within {
                let done = self.done() - from;
                return Err(format!("{done} of {keys} keys were done within {within:?}").into());
            }
            sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// Lets every worker end the key that it is at.
    ///
    /// # Errors
    ///
    /// When one of them cannot.
    pub async fn finish(&mut self, within: Duration) -> Outcome<()> {
        self.shared.stopped.store(true, Ordering::Relaxed);
        ended(&mut self.workers, within).await
    }

    /// Claims every key once more, at one node after the other, and writes that down as well.
    ///
    /// # Errors
    ///
    /// When a worker does not come to an end.
    pub async fn claim_again(&self, cluster: &Cluster, within: Duration) -> Outcome<()> {
        const WORKERS: usize = 24;
        let keys: Vec<String> = self.evidence().keys.into_iter().collect();
        let mut workers = JoinSet::new();
        for share in keys.chunks(keys.len().div_ceil(WORKERS).max(1)) {
            let at = workers.len() % cluster.nodes().len();
            let owner = format!("auditor-{}", workers.len());
            let mut worker = self.worker(cluster, at, (1 << 32, owner));
            let share = share.to_vec();
            workers.spawn(async move {
                for key in share {
                    worker.at = (worker.at + 1) % worker.nodes.len();
                    worker.intent(&key).await;
                }
            });
        }
        ended(&mut workers, within).await
    }

    /// What is known so far.
    #[must_use]
    pub fn evidence(&self) -> Finish {
        let calls = self.shared.history.calls();
        let mut racers: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for call in calls.iter().filter(|call| call.ask == Ask::Claim) {
            racers.entry(&call.key).or_default().insert(&call.attempt);
        }
        let raced = racers.values().filter(|attempts| attempts.len() > 1).count();
        let keys: BTreeSet<String> = racers.into_keys().map(str::to_owned).collect();
        let abandoned = keys.iter().filter(|key| self.shared.is_abandoned(key)).cloned().collect();
        Finish { calls, keys, raced, abandoned }
    }

    fn worker(&self, cluster: &Cluster, at: usize, (part, owner): (u64, String)) -> Worker {
        Worker {
            shared: Arc::clone(&self.shared),
            nodes: cluster.nodes().iter().map(|node| (node.id, node.channel())).collect(),
            at,
            owner,
            chance: seed::chance(self.shared.seed, part),
        }
    }
}

async fn ended(workers: &mut JoinSet<()>, within: Duration) -> Outcome<()> {
    let all = async {
        while let Some(ended) = workers.join_next().await {
            ended?;
        }
        Outcome::Ok(())
    };
    timeout(within, all)
        .await
        .map_err(|_elapsed| format!("some workers have not ended within {within:?}"))?
}

impl Shared {
    /// Whether the first holder of a key goes away.
    fn is_abandoned(&self, key: &str) -> bool {
        let number = key.bytes().fold(self.seed, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        (number >> 16).is_multiple_of(ONE_ABANDONED_IN)
    }
}

/// A worker, with a connection to each node.
struct Worker {
    shared: Arc<Shared>,
    nodes: Vec<(u64, Channel)>,
    at: usize,
    owner: String,
    chance: StdRng,
}

impl Worker {
    async fn run(mut self, home: usize, lane: u64) {
        let mut number = lane;
        while !self.shared.stopped.load(Ordering::Relaxed) {
            self.at = home;
            self.intent(&format!("payout-{number:06}")).await;
            self.shared.done.fetch_add(1, Ordering::Relaxed);
            number += self.shared.lanes;
        }
    }

    /// Sees one key to its end.
    async fn intent(&mut self, key: &str) {
        self.pause(0, 4).await;
        let mut attempt = mint_attempt_id();
        loop {
            match self.claim(key, &attempt).await {
                Answer::Granted { grant: Grant::First, .. } if self.shared.is_abandoned(key) => {
                    attempt = mint_attempt_id();
                }
                Answer::Granted { epoch, .. } => {
                    if self.complete(key, &attempt, epoch).await {
                        return;
                    }
                    attempt = mint_attempt_id();
                }
                Answer::Replayed { .. } => return,
                Answer::Waiting { .. } => self.pause(5, 30).await,
                Answer::Refused(_) => attempt = mint_attempt_id(),
                Answer::NotApplied | Answer::Unknown | Answer::Stored { .. } => {
                    self.elsewhere().await;
                }
            }
        }
    }

    async fn claim(&mut self, key: &str, attempt: &str) -> Answer {
        let lease = if self.shared.is_abandoned(key) { LEASE_OF_THE_ABANDONED } else { LEASE };
        let request = v1::ClaimRequest {
            tenant: TENANT.to_owned(),
            namespace: NAMESPACE.to_owned(),
            key: key.to_owned(),
            attempt_id: attempt.to_owned(),
            owner: self.owner.clone(),
            fingerprints: vec![fingerprint(key)],
            lease: Some(prost_types::Duration { seconds: lease, nanos: 0 }),
            ..v1::ClaimRequest::default()
        };
        let mut service = self.service();
        let send =
            async move { service.claim(request).await.map(|answer| claimed(&answer.into_inner())) };
        self.noted(key, attempt, Ask::Claim, send).await
    }

    /// Completes until there is an answer, and says whether it is stored.
    async fn complete(&mut self, key: &str, attempt: &str, epoch: u64) -> bool {
        let result = format!("{{\"by\":\"{attempt}\",\"epoch\":{epoch}}}").into_bytes();
        let digest = Sha256::digest(&result).to_vec();
        loop {
            let request = v1::CompleteRequest {
                tenant: TENANT.to_owned(),
                namespace: NAMESPACE.to_owned(),
                key: key.to_owned(),
                attempt_id: attempt.to_owned(),
                epoch,
                disposition: v1::Disposition::Succeeded.into(),
                result: Some(v1::Result {
                    content_type: "application/json".to_owned(),
                    body: Some(v1::result::Body::Inline(result.clone())),
                    ..v1::Result::default()
                }),
                ..v1::CompleteRequest::default()
            };
            let mut service = self.service();
            let send = async move {
                service.complete(request).await.map(|answer| stored(&answer.into_inner()))
            };
            let ask = Ask::Complete { epoch, digest: digest.clone() };
            match self.noted(key, attempt, ask, send).await {
                Answer::Stored { .. } => return true,
                Answer::NotApplied | Answer::Unknown => self.elsewhere().await,
                Answer::Refused(_)
                | Answer::Granted { .. }
                | Answer::Replayed { .. }
                | Answer::Waiting { .. } => return false,
            }
        }
    }

    /// Sends a call and writes it down.
    async fn noted(
        &self,
        key: &str,
        attempt: &str,
        ask: Ask,
        send: impl Future<Output = Result<Answer, Status>>,
    ) -> Answer {
        let sent = self.shared.history.now();
        let answer = match timeout(TRY_WITHIN, send).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(status)) => failed(&status),
            Err(_elapsed) => Answer::Unknown,
        };
        let returned = (answer != Answer::Unknown).then(|| self.shared.history.now());
        self.shared.history.note(Call {
            key: key.to_owned(),
            attempt: attempt.to_owned(),
            node: self.nodes[self.at].0,
            ask,
            sent,
            returned,
            answer: answer.clone(),
        });
        answer
    }

    fn service(&self) -> ClaimServiceClient<Channel> {
        ClaimServiceClient::new(self.nodes[self.at].1.clone())
    }

    async fn elsewhere(&mut self) {
        self.at = (self.at + 1) % self.nodes.len();
        self.pause(20, 80).await;
    }

    async fn pause(&mut self, from_ms: u64, to_ms: u64) {
        sleep(Duration::from_millis(self.chance.random_range(from_ms..=to_ms))).await;
    }
}

fn claimed(answer: &v1::ClaimResponse) -> Answer {
    match &answer.outcome {
        Some(Claimed::Acquired(acquired)) => {
            let grant = match acquired.kind() {
                v1::AcquiredKind::First => Grant::First,
                v1::AcquiredKind::AlreadyHeld => Grant::Held,
                v1::AcquiredKind::Unspecified
                | v1::AcquiredKind::Recovery
                | v1::AcquiredKind::Takeover
                | v1::AcquiredKind::Retry
                | v1::AcquiredKind::Rebound => Grant::Later,
            };
            Answer::Granted { grant, epoch: acquired.epoch }
        }
        Some(Claimed::Replay(replay)) => match result(replay.completion.as_ref()) {
            Some((epoch, digest)) => Answer::Replayed { epoch, digest },
            None => Answer::Refused("a replay without a completion".to_owned()),
        },
        Some(Claimed::Pending(pending)) => Answer::Waiting { epoch: pending.epoch },
        Some(Claimed::Unresolved(_)) => Answer::Refused("UNRESOLVED".to_owned()),
        None => Answer::Refused("an answer without an outcome".to_owned()),
    }
}

/// The epoch of a completion, and the digest of its result. If the bytes of the result are there,
/// their digest counts, not the one that is said to be theirs.
#[must_use]
pub fn result(completion: Option<&v1::Completion>) -> Option<(u64, Vec<u8>)> {
    let completion = completion?;
    let result = completion.result.as_ref()?;
    let digest = match &result.body {
        Some(v1::result::Body::Inline(bytes)) => Sha256::digest(bytes).to_vec(),
        Some(v1::result::Body::Reference(_)) | None => result.digest.clone(),
    };
    Some((completion.epoch, digest))
}

fn stored(answer: &v1::CompleteResponse) -> Answer {
    match result(answer.completion.as_ref()) {
        Some((epoch, digest)) => Answer::Stored { epoch, digest },
        None => Answer::Refused("an answer without a completion".to_owned()),
    }
}

/// What may be concluded from a failure.
fn failed(status: &Status) -> Answer {
    let details = status.get_error_details();
    if let Some(info) = details.error_info() {
        return match info.metadata.get("applied").map(String::as_str) {
            Some("no") => Answer::NotApplied,
            Some("decided") => Answer::Refused(info.reason.clone()),
            Some(_) | None => Answer::Unknown,
        };
    }
    let mut cause = std::error::Error::source(status);
    while let Some(error) = cause {
        if error.is::<ConnectError>() {
            return Answer::NotApplied;
        }
        cause = error.source();
    }
    Answer::Unknown
}
