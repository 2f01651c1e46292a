//! The client: one method per call, all of them over the same pool and the same rules of repeating.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use firstclaim_core::limits;
use tokio::time::Instant;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

use crate::claim::{Claim, Term};
use crate::config::{ClientConfig, ConfigError};
use crate::endpoints::Pool;
use crate::error::Error;
use crate::outcome::{ClaimOutcome, Completion};
use crate::request::{ClaimRequest, HolderRef};
use crate::retry::{self, Answer, Budget, Repeat};
use crate::{renew, time, v1};

/// Sends one method of a generated client with our message limits.
macro_rules! method {
    ($client:path, $method:ident) => {
        |channel, request| async move {
            <$client>::new(channel)
                .max_decoding_message_size(firstclaim_core::limits::CLIENT_MESSAGE_BYTES_MAX)
                .max_encoding_message_size(firstclaim_core::limits::CLIENT_MESSAGE_BYTES_MAX)
                .$method(request)
                .await
        }
    };
}
pub(crate) use method;

type ClaimService = v1::claim_service_client::ClaimServiceClient<Channel>;

const _: () = assert!(limits::COMMAND_BYTES_MAX < limits::CLIENT_MESSAGE_BYTES_MAX);

/// Speaks to a cluster through whichever of its nodes answers. Cheap to clone; clones share their
/// connections.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    pool: Pool,
    config: ClientConfig,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("endpoints", &self.endpoints()).finish_non_exhaustive()
    }
}

impl Client {
    /// A client that connects when it is first used. Call it inside a tokio runtime.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if an endpoint is no address, or if there is none.
    pub fn lazy(config: ClientConfig) -> Result<Self, ConfigError> {
        let pool = Pool::new(&config)?;
        Ok(Self { inner: Arc::new(Inner { pool, config }) })
    }

    /// A client that has reached at least one node.
    ///
    /// # Errors
    ///
    /// When no node answers in time, or when the settings are wrong (INVALID_ARGUMENT).
    pub async fn connect(config: ClientConfig) -> Result<Self, Error> {
        let client = Self::lazy(config).map_err(|error| Error::settings(&error))?;
        client.status().await?;
        Ok(client)
    }

    /// The addresses that it knows: the configured ones, then those learned from hints.
    #[must_use]
    pub fn endpoints(&self) -> Vec<String> {
        self.inner.pool.names()
    }

    /// The owner label of claims that name none.
    #[must_use]
    pub fn owner(&self) -> &str {
        &self.inner.config.owner
    }

    /// The settings.
    #[must_use]
    pub fn config(&self) -> &ClientConfig {
        &self.inner.config
    }

    /// Asks for the right to act. Repeating it with the same request is safe: the attempt that holds
    /// the claim gets the same grant again.
    ///
    /// A claim that is acquired is renewed in the background until its guard is dropped.
    ///
    /// # Errors
    ///
    /// See [`Error`]. Only what the store decided as data is `Ok`.
    ///
    /// # Cancel safety
    ///
    /// The claim may have been granted. Claim again with the same request, or let the lease lapse.
    pub async fn claim(&self, request: ClaimRequest) -> Result<ClaimOutcome, Error> {
        use v1::claim_response::Outcome;
        let answer = self.claim_answer(request.message(self.owner())).await?;
        match answer.message.outcome {
            Some(Outcome::Acquired(acquired)) if acquired.completion.is_some() => {
                Ok(ClaimOutcome::Completed(acquired))
            }
            Some(Outcome::Acquired(acquired)) => {
                let (expire, safe) = (acquired.lease_expire_time, acquired.safe_to_dispatch_until);
                let term = Term::new(answer.sent, answer.message.store_time, expire, safe)?;
                let term = self.refresh(&request, acquired.epoch, term).await;
                Ok(ClaimOutcome::Acquired(Claim::start(self.clone(), request, acquired, &term)?))
            }
            Some(Outcome::Replay(replay)) => Ok(ClaimOutcome::Replay(replay)),
            Some(Outcome::Pending(pending)) => Ok(ClaimOutcome::Pending(pending)),
            Some(Outcome::Unresolved(unresolved)) => Ok(ClaimOutcome::Unresolved(unresolved)),
            None => Err(Error::malformed("the outcome of the claim")),
        }
    }

    /// Claims without a guard: nothing is renewed, and the answer is as it came. For callers that
    /// hand the grant to another process.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn claim_once(&self, request: &ClaimRequest) -> Result<v1::ClaimResponse, Error> {
        self.claim_answer(request.message(self.owner())).await.map(|answer| answer.message)
    }

    /// Makes a lease longer.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn renew(
        &self,
        holder: &HolderRef,
        lease: Option<Duration>,
    ) -> Result<v1::RenewResponse, Error> {
        let within = self.inner.config.timeout;
        self.renew_within(holder, lease, within).await.map(|answer| answer.message)
    }

    /// Ends the intent for good. Repeating it with the same result gives the same answer.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn complete(
        &self,
        holder: &HolderRef,
        completion: Completion,
    ) -> Result<v1::CompleteResponse, Error> {
        self.call(Repeat::Safe, holder.complete(completion), method!(ClaimService, complete)).await
    }

    /// Gives a claim back with what the holder knows about the work.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn release(
        &self,
        holder: &HolderRef,
        intent: v1::release_request::Intent,
    ) -> Result<v1::ReleaseResponse, Error> {
        self.call(Repeat::Safe, holder.release(intent), method!(ClaimService, release)).await
    }

    /// Reads a record.
    ///
    /// # Errors
    ///
    /// RECORD_NOT_FOUND if the key is absent or forgotten; see [`Error`].
    pub async fn get(
        &self,
        (tenant, namespace, key): (&str, &str, &str),
        consistency: v1::Consistency,
    ) -> Result<v1::GetResponse, Error> {
        let request = v1::GetRequest {
            tenant: tenant.to_owned(),
            namespace: namespace.to_owned(),
            key: key.to_owned(),
            consistency: consistency.into(),
        };
        self.call(Repeat::Safe, request, method!(ClaimService, get)).await
    }

    /// A claim that waited was sent long before it was granted, and all that is known is that it was
    /// granted after that. A renewal says when its lease ends, counted from now.
    async fn refresh(&self, request: &ClaimRequest, epoch: u64, term: Term) -> Term {
        if request.wait.is_zero() || term.sent.elapsed() < term.lease / 4 {
            return term;
        }
        let within = self.inner.config.timeout;
        let renewed = self.renew_within(&request.holder(epoch), request.lease, within).await;
        match renewed.and_then(|answer| renew::term(&answer)) {
            Ok(term) => term,
            Err(error) => {
                tracing::debug!(reason = error.reason_text(), "renew a claim that waited");
                term
            }
        }
    }

    async fn claim_answer(
        &self,
        request: v1::ClaimRequest,
    ) -> Result<Answer<v1::ClaimResponse>, Error> {
        let asked = request.wait.as_ref().and_then(time::from_wire).unwrap_or_default();
        // A longer wait is refused, and a time that far away may not exist.
        let wait = asked.min(Duration::from_millis(limits::WAIT_MAX.0));
        let until = Instant::now() + wait;
        let budget = self.budget().and(wait);
        let claim = method!(ClaimService, claim);
        let send = |channel, mut request: Request<v1::ClaimRequest>| {
            if asked == wait {
                // A repeat waits for what is left, not for the whole time again.
                let left = until.saturating_duration_since(Instant::now());
                request.get_mut().wait = (!left.is_zero()).then(|| time::to_wire(left));
            }
            claim(channel, request)
        };
        retry::call(&self.inner.pool, budget, Repeat::Safe, request, send).await
    }

    pub(crate) async fn renew_within(
        &self,
        holder: &HolderRef,
        lease: Option<Duration>,
        overall: Duration,
    ) -> Result<Answer<v1::RenewResponse>, Error> {
        let budget = Budget { overall, ..self.budget() };
        let send = method!(ClaimService, renew);
        retry::call(&self.inner.pool, budget, Repeat::Safe, holder.renew(lease), send).await
    }

    pub(crate) async fn call<Q, R, F, Fut>(
        &self,
        repeat: Repeat,
        request: Q,
        send: F,
    ) -> Result<R, Error>
    where
        Q: Clone + Send,
        F: Fn(Channel, Request<Q>) -> Fut + Send,
        Fut: Future<Output = Result<Response<R>, Status>> + Send,
    {
        self.ask(repeat, request, send).await.map(|answer| answer.message)
    }

    /// The same with the moment at which the request that got the answer was sent.
    pub(crate) async fn ask<Q, R, F, Fut>(
        &self,
        repeat: Repeat,
        request: Q,
        send: F,
    ) -> Result<Answer<R>, Error>
    where
        Q: Clone + Send,
        F: Fn(Channel, Request<Q>) -> Fut + Send,
        Fut: Future<Output = Result<Response<R>, Status>> + Send,
    {
        retry::call(&self.inner.pool, self.budget(), repeat, request, send).await
    }

    /// Sends a call to one node and no other, once.
    pub(crate) async fn call_at<Q, R, F, Fut>(
        &self,
        endpoint: &str,
        request: Q,
        send: F,
    ) -> Result<R, Error>
    where
        Q: Clone + Send,
        F: Fn(Channel, Request<Q>) -> Fut + Send,
        Fut: Future<Output = Result<Response<R>, Status>> + Send,
    {
        let endpoint =
            self.inner.pool.endpoint(endpoint).map_err(|error| Error::settings(&error))?;
        retry::once(&endpoint, self.inner.config.try_timeout, request, &send).await
    }

    fn budget(&self) -> Budget {
        let config = &self.inner.config;
        Budget {
            per_try: config.try_timeout,
            overall: config.timeout,
            unreachable: config.unreachable_timeout,
        }
    }
}
