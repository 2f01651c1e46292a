//! Calls of producers, operators and reconcilers about records that they do not hold.
//!
//! All of them may be repeated: reads change nothing, a Resolve is recognised by its attempt id, and
//! of the others the second one finds done what the first one did.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use tonic::transport::Channel;

use crate::client::{Client, method};
use crate::effects::{Finding, content};
use crate::error::Error;
use crate::outcome::Completion;
use crate::request::{ClaimRequest, RecordRef, mint_attempt_id};
use crate::retry::Repeat;
use crate::{time, v1};

type ClaimService = v1::claim_service_client::ClaimServiceClient<Channel>;
type RecordService = v1::record_service_client::RecordServiceClient<Channel>;

/// A key bound to its request where the intent is born, before anybody may claim it.
#[derive(Clone, Debug, PartialEq)]
pub struct Reservation {
    /// Which key.
    pub record: RecordRef,
    /// The request that it stands for.
    pub fingerprints: Vec<v1::Fingerprint>,
    /// When the intent was born, if known.
    pub intent_time: Option<SystemTime>,
    /// The order id and the like.
    pub labels: BTreeMap<String, String>,
    /// The same request under another key is another intent.
    pub allow_duplicate_intent: bool,
}

impl Reservation {
    /// Of that key.
    #[must_use]
    pub fn new(record: RecordRef) -> Self {
        Self {
            record,
            fingerprints: Vec::new(),
            intent_time: None,
            labels: BTreeMap::new(),
            allow_duplicate_intent: false,
        }
    }

    /// The same with a fingerprint more.
    #[must_use]
    pub fn fingerprint(mut self, fingerprint: v1::Fingerprint) -> Self {
        self.fingerprints.push(fingerprint);
        self
    }

    /// The same with the time at which the intent was born.
    #[must_use]
    pub fn intent_time(mut self, intent_time: SystemTime) -> Self {
        self.intent_time = Some(intent_time);
        self
    }

    /// The same with a label more.
    #[must_use]
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    fn message(&self) -> v1::ReserveRequest {
        let record = self.record.clone();
        v1::ReserveRequest {
            tenant: record.tenant,
            namespace: record.namespace,
            key: record.key,
            fingerprints: self.fingerprints.clone(),
            intent_time: self.intent_time.map(time::timestamp),
            labels: self.labels.clone(),
            allow_duplicate_intent: self.allow_duplicate_intent,
        }
    }
}

/// Who does something that needs a reason, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warrant {
    /// Who: a person or a service.
    pub principal: String,
    /// Why, for whoever reads it later.
    pub reason: String,
}

impl Warrant {
    /// Of that principal, for that reason.
    pub fn new(principal: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { principal: principal.into(), reason: reason.into() }
    }
}

/// What becomes of a record that is resolved.
#[derive(Clone, Debug, PartialEq)]
pub enum Resolved {
    /// It is done.
    Completed(Completion),
    /// It is to be tried again, not before that time has passed.
    Retryable(Duration),
}

/// The end of what nobody else can end.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolution {
    /// Which record.
    pub record: RecordRef,
    /// The epoch that the caller saw.
    pub expected_epoch: u64,
    /// This try; its repeats get the same answer. Minted by [`Resolution::new`].
    pub attempt_id: String,
    /// A verdict for everything that is open, by uid.
    pub verdicts: Vec<(String, Finding)>,
    /// What shows it.
    pub evidence: Option<v1::Content>,
    /// Who resolves, and why.
    pub warrant: Warrant,
    /// What becomes of the record.
    pub state: Resolved,
}

impl Resolution {
    /// Of a record that was seen in that epoch.
    #[must_use]
    pub fn new(record: RecordRef, expected_epoch: u64, warrant: Warrant, state: Resolved) -> Self {
        Self {
            record,
            expected_epoch,
            attempt_id: mint_attempt_id(),
            verdicts: Vec::new(),
            evidence: None,
            warrant,
            state,
        }
    }

    /// The same with a verdict more.
    #[must_use]
    pub fn verdict(mut self, uid: impl Into<String>, finding: Finding) -> Self {
        self.verdicts.push((uid.into(), finding));
        self
    }

    /// The same with what shows it.
    #[must_use]
    pub fn evidence(mut self, content_type: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        self.evidence = Some(content(content_type, bytes));
        self
    }

    fn message(&self) -> v1::ResolveRequest {
        use v1::resolve_request::State;
        let record = self.record.clone();
        let verdicts = self.verdicts.iter().map(|(uid, finding)| v1::ResolveVerdict {
            uid: uid.clone(),
            verdict: Some(finding.verdict()),
        });
        let state = match &self.state {
            Resolved::Completed(completion) => State::Completed(v1::CompleteWith {
                disposition: completion.disposition.into(),
                result: Some(completion.result.clone()),
            }),
            Resolved::Retryable(after) => State::Retryable(v1::ReleaseRetry {
                retry_after: (!after.is_zero()).then(|| time::to_wire(*after)),
            }),
        };
        v1::ResolveRequest {
            tenant: record.tenant,
            namespace: record.namespace,
            key: record.key,
            expected_epoch: self.expected_epoch,
            attempt_id: self.attempt_id.clone(),
            verdicts: verdicts.collect(),
            evidence: self.evidence.clone(),
            reason: self.warrant.reason.clone(),
            principal: self.warrant.principal.clone(),
            state: Some(state),
        }
    }
}

impl Client {
    /// Binds a key to its request where the intent is born, before the message is published.
    /// Repeating it changes nothing; `created` is false then.
    ///
    /// # Errors
    ///
    /// Those of a first claim; see [`Error`].
    pub async fn reserve(&self, reservation: &Reservation) -> Result<v1::ReserveResponse, Error> {
        self.call(Repeat::Safe, reservation.message(), method!(ClaimService, reserve)).await
    }

    /// Reserves a key that was refused as LATE_REPLAY but is known never to have run.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn admit(
        &self,
        reservation: &Reservation,
        warrant: Warrant,
    ) -> Result<v1::ReserveResponse, Error> {
        let request = v1::AdmitRequest {
            reserve: Some(reservation.message()),
            reason: warrant.reason,
            principal: warrant.principal,
        };
        self.call(Repeat::Safe, request, method!(RecordService, admit)).await
    }

    /// Ends what nobody else could end. The same resolution again, with its attempt id, gets the same
    /// answer.
    ///
    /// # Errors
    ///
    /// STILL_LIVE while a holder is at work, STALE_EPOCH if the record was granted again since,
    /// UNSETTLED_EFFECTS if a verdict is missing; see [`Error`].
    pub async fn resolve(&self, resolution: &Resolution) -> Result<v1::ResolveResponse, Error> {
        self.call(Repeat::Safe, resolution.message(), method!(RecordService, resolve)).await
    }

    /// Takes from a live holder the right to renew and to be given permits.
    ///
    /// # Errors
    ///
    /// LEASE_EXPIRED if the claim is not live, STALE_EPOCH if it is another one by now; see
    /// [`Error`].
    pub async fn revoke(
        &self,
        record: &RecordRef,
        epoch: u64,
        warrant: Warrant,
    ) -> Result<v1::RevokeResponse, Error> {
        let record = record.clone();
        let request = v1::RevokeRequest {
            tenant: record.tenant,
            namespace: record.namespace,
            key: record.key,
            epoch,
            reason: warrant.reason,
            principal: warrant.principal,
        };
        self.call(Repeat::Safe, request, method!(RecordService, revoke)).await
    }

    /// Drops the result of a completed record. The key still answers "done".
    ///
    /// # Errors
    ///
    /// NOT_PURGEABLE if it is not completed, or by another epoch; see [`Error`].
    pub async fn purge(
        &self,
        record: &RecordRef,
        expected_epoch: u64,
        warrant: Warrant,
    ) -> Result<v1::PurgeRecordResponse, Error> {
        let record = record.clone();
        let request = v1::PurgeRecordRequest {
            tenant: record.tenant,
            namespace: record.namespace,
            key: record.key,
            expected_epoch,
            reason: warrant.reason,
            principal: warrant.principal,
        };
        self.call(Repeat::Safe, request, method!(RecordService, purge_record)).await
    }

    /// Lists a page of a namespace's records by key. A page may be short and not be the last.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn list_records(
        &self,
        request: v1::ListRecordsRequest,
    ) -> Result<v1::ListRecordsResponse, Error> {
        self.call(Repeat::Safe, request, method!(RecordService, list_records)).await
    }

    /// Lists a page of what may have happened and nobody has said. A page may be short and not be
    /// the last.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn list_unresolved(
        &self,
        request: v1::ListUnresolvedRequest,
    ) -> Result<v1::ListUnresolvedResponse, Error> {
        self.call(Repeat::Safe, request, method!(RecordService, list_unresolved)).await
    }

    /// The attempts of one record, granted and turned away.
    ///
    /// # Errors
    ///
    /// RECORD_NOT_FOUND if the key is absent or forgotten; see [`Error`].
    pub async fn history(&self, record: &RecordRef) -> Result<v1::GetHistoryResponse, Error> {
        let record = record.clone();
        let request = v1::GetHistoryRequest {
            tenant: record.tenant,
            namespace: record.namespace,
            key: record.key,
        };
        self.call(Repeat::Safe, request, method!(RecordService, get_history)).await
    }

    /// Says which rule would decide a claim now, and by what. Nothing is claimed.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn explain(&self, claim: &ClaimRequest) -> Result<v1::ExplainResponse, Error> {
        let request = v1::ExplainRequest { claim: Some(claim.message(self.owner())) };
        self.call(Repeat::Safe, request, method!(RecordService, explain)).await
    }

    /// Makes a page of existing records be kept as long as the policy says now. Go on with the token
    /// of the answer until there is none.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn extend_existing(
        &self,
        request: v1::ExtendExistingRequest,
    ) -> Result<v1::ExtendExistingResponse, Error> {
        self.call(Repeat::Safe, request, method!(RecordService, extend_existing)).await
    }
}
