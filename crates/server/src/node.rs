//! What every service of one node shares: its replica, and the ways a call is answered by it.

use std::future::Future;
use std::sync::Arc;

use firstclaim_core::limits::COMMAND_BYTES_MAX;
use firstclaim_core::name::Region;
use firstclaim_core::{Command, Invalid, Outcome};
use firstclaim_proto::convert::{Faults, WrongAnswer};
use firstclaim_replica::{ProposeError, Replica, State, StoreError};
use prost::Message;
use tokio::time::Instant;
use tonic::{Request, Response, Status};

use crate::admission::Gate;
use crate::audit;
use crate::call::Call;
use crate::config::Config;
use crate::duplicates::DuplicateLines;
use crate::forward::Forwarder;
use crate::metrics::Metrics;
use crate::proposer::{Proposer, Unanswered};
use crate::rate::RateLimiter;
use crate::sightings::Sightings;
use crate::status::{Applied, Failure, LeaderHint};
use crate::tally::Tally;
use crate::waiting::Waiters;
use crate::watching::Watchers;

/// One node.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) config: Config,
    pub(crate) replica: Replica,
    pub(crate) proposer: Proposer,
    pub(crate) forwarder: Forwarder,
    pub(crate) gate: Gate,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) started: Instant,
    /// Where it is, as claims are labelled.
    pub(crate) region: Region,
    pub(crate) rate: RateLimiter,
    pub(crate) sightings: Sightings,
    pub(crate) duplicate_lines: DuplicateLines,
    pub(crate) waiters: Waiters,
    pub(crate) watchers: Watchers,
}

/// A method of a service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Method {
    /// Its name, as it is counted.
    pub(crate) name: &'static str,
    /// Its path, as it is forwarded.
    pub(crate) path: &'static str,
}

/// Why a call fails: by this node's word, or by the leader's that it was forwarded to.
#[derive(Debug)]
pub(crate) enum Fail {
    Here(Box<Failure>),
    There(Box<Status>),
}

impl From<Failure> for Fail {
    fn from(failure: Failure) -> Self {
        Self::Here(Box::new(failure))
    }
}

impl From<Faults> for Fail {
    fn from(faults: Faults) -> Self {
        Failure::invalid(faults.all(), Applied::No).into()
    }
}

impl From<WrongAnswer> for Fail {
    fn from(error: WrongAnswer) -> Self {
        tracing::error!(%error, "an answer does not fit its call");
        Failure::unknown("the node could not read its own answer").into()
    }
}

/// What came of a write.
#[derive(Debug)]
pub(crate) enum Written<R> {
    /// This node leads, and the log decided.
    Here(Box<Outcome>),
    /// The leader answered.
    There(Response<R>),
}

impl Node {
    /// Lets a call in, and counts how it went.
    pub(crate) async fn serve<M, R, F>(
        &self,
        method: Method,
        request: Request<M>,
        answer: impl FnOnce(Call, M) -> F,
    ) -> Result<Response<R>, Status>
    where
        F: Future<Output = Result<Response<R>, Fail>>,
    {
        let begun = Instant::now();
        let result = match self.gate.enter() {
            Ok(under_way) => {
                let call = Call::new(request.metadata());
                let result = answer(call, request.into_inner()).await;
                drop(under_way);
                result
            }
            Err(failure) => Err(failure.with_leader(self.leader().as_ref()).into()),
        };
        self.metrics.rpc(method.name, begun.elapsed().as_secs_f64());
        result.map_err(|fail| match fail {
            Fail::Here(failure) => {
                self.metrics.refusal(failure.reason());
                tracing::debug!(
                    method = method.name,
                    reason = failure.reason().as_str(),
                    "a call failed"
                );
                failure.into_status()
            }
            Fail::There(status) => *status,
        })
    }

    /// Where the leader is, if it is another node that is known here.
    pub(crate) fn leader(&self) -> Option<LeaderHint> {
        let (_, member) = self.replica.leader()?;
        Some(LeaderHint { region: member.region, endpoint: member.client_addr })
    }

    /// Carries out a write: here if this node leads, else at the leader, once.
    pub(crate) async fn write<M, R>(
        &self,
        method: Method,
        call: &Call,
        message: M,
        read: impl FnOnce(M) -> Result<Command, Faults>,
    ) -> Result<Written<R>, Fail>
    where
        M: Message + Send + Sync + 'static,
        R: Message + Default + Send + Sync + 'static,
    {
        if !self.replica.is_leader() {
            return self.forward(method, call, message).await.map(Written::There);
        }
        let bytes = message.encoded_len();
        let command = read(message)?;
        self.submit(call, command, bytes).await.map(|outcome| Written::Here(Box::new(outcome)))
    }

    /// Sends a call to the leader.
    pub(crate) async fn forward<M, R>(
        &self,
        method: Method,
        call: &Call,
        message: M,
    ) -> Result<Response<R>, Fail>
    where
        M: Message + Send + Sync + 'static,
        R: Message + Default + Send + Sync + 'static,
    {
        let leader = self.leader();
        let Some(hint) = leader.as_ref().filter(|_| !call.forwarded) else {
            let error = if leader.is_some() {
                ProposeError::NotLeader { leader: None }
            } else {
                ProposeError::NoLeader
            };
            return Err(Failure::unanswered(&error).with_leader(leader.as_ref()).into());
        };
        let answer = self.forwarder.forward(hint, method.path, call, message).await;
        answer.map_err(|status| Fail::There(Box::new(status)))
    }

    /// Puts a command into the log; `bytes` is the length of its request.
    pub(crate) async fn submit(
        &self,
        call: &Call,
        command: Command,
        bytes: usize,
    ) -> Result<Outcome, Fail> {
        check_size(bytes)?;
        let mut outcomes = self.submit_all(call, vec![command], bytes).await?;
        outcomes.pop().ok_or_else(|| Failure::unknown("the log gave no outcome").into())
    }

    /// Puts commands into the log that one entry decides in their order, and tells and counts what
    /// they come to. They must fit into one entry.
    pub(crate) async fn submit_all(
        &self,
        call: &Call,
        commands: Vec<Command>,
        bytes: usize,
    ) -> Result<Vec<Outcome>, Failure> {
        let told: Vec<_> =
            commands.iter().map(|one| (audit::Entry::of(one), Tally::of(one))).collect();
        let submitted = self.proposer.submit_all(commands, bytes, call.deadline).await;
        let outcomes = submitted.map_err(|unanswered| self.unanswered(call, &unanswered));
        match &outcomes {
            Ok(outcomes) => {
                for ((entry, tally), outcome) in told.iter().zip(outcomes) {
                    if let Some(entry) = entry {
                        entry.tell(outcome.result.as_ref().err().map(|it| it.reason().as_str()));
                    }
                    if let Some(tally) = tally {
                        tally.count(&self.metrics.records, outcome);
                    }
                }
            }
            Err(failure) => {
                for entry in told.iter().filter_map(|(entry, _)| entry.as_ref()) {
                    entry.tell(Some(failure.reason().as_str()));
                }
            }
        }
        outcomes
    }

    fn unanswered(&self, call: &Call, unanswered: &Unanswered) -> Failure {
        let failure = match unanswered {
            Unanswered::Overloaded => Failure::overloaded("too many calls wait for the log"),
            Unanswered::NotProposed => Failure::too_late(call.timeout.as_millis()),
            Unanswered::NotConfirmed => {
                Failure::unknown("no majority confirmed the call before its deadline")
            }
            Unanswered::Stopped => Failure::draining(),
            Unanswered::Failed(error) => Failure::unanswered(error),
        };
        failure.with_leader(self.leader().as_ref())
    }

    /// Waits until this node's state holds every write that was acknowledged before the call.
    pub(crate) async fn linearize(&self, call: &Call) -> Result<(), Fail> {
        let failure = match tokio::time::timeout_at(call.deadline, self.replica.linearize()).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => Failure::unread(&error),
            Err(_elapsed) => Failure::too_late(call.timeout.as_millis()),
        };
        Err(failure.with_leader(self.leader().as_ref()).into())
    }

    /// Reads this node's state.
    pub(crate) fn read<T>(
        &self,
        read: impl FnOnce(&mut State<'_>) -> Result<T, StoreError>,
    ) -> Result<(u64, T), Fail> {
        self.replica.read(read).map_err(|error| {
            tracing::error!(%error, "the state cannot be read");
            Failure::internal("read its state").into()
        })
    }
}

/// A command is bounded in its bytes.
pub(crate) fn check_size(bytes: usize) -> Result<(), Failure> {
    if bytes <= COMMAND_BYTES_MAX {
        return Ok(());
    }
    let problem = format!("is {bytes} bytes long");
    let fix = format!("send at most {COMMAND_BYTES_MAX} bytes");
    Err(Failure::invalid(&[Invalid::new("request", problem, fix)], Applied::No))
}
