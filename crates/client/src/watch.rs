//! Following records: one until it is completed, or those of a namespace in the order of the log.
//!
//! A watch survives the node that serves it. When its stream breaks it begins again, at the same or at
//! another node, where it left off: a revision names a place in the replicated log, not in a stream.

use std::time::Duration;

use tokio::time::sleep;
use tonic::transport::Channel;
use tonic::{Request, Status, Streaming};

use crate::client::{Client, method};
use crate::error::Error;
use crate::request::RecordRef;
use crate::retry::Repeat;
use crate::v1;

type RecordService = v1::record_service_client::RecordServiceClient<Channel>;

/// The pause before a stream that broke is begun again.
const PAUSE: Duration = Duration::from_millis(100);
/// Streams that may break one after the other without anything in between.
const BREAKS_MAX: u32 = 16;

/// Follows one record; see [`Client::watch_record`].
#[derive(Debug)]
pub struct RecordWatch {
    client: Client,
    record: RecordRef,
    stream: Option<Streaming<v1::WatchRecordResponse>>,
    /// The record as it was shown last.
    shown: Option<v1::Record>,
    breaks: u32,
}

/// Follows the records of a namespace; see [`Client::watch_records`].
#[derive(Debug)]
pub struct RecordsWatch {
    client: Client,
    tenant: String,
    namespace: String,
    stream: Option<Streaming<v1::WatchRecordsResponse>>,
    revision: u64,
    breaks: u32,
}

impl Client {
    /// Follows one record until it is completed or forgotten. The first answer is the record as it is.
    #[must_use]
    pub fn watch_record(&self, record: RecordRef) -> RecordWatch {
        RecordWatch { client: self.clone(), record, stream: None, shown: None, breaks: 0 }
    }

    /// Follows the records of a namespace from a revision on; 0 shows every record that exists first.
    ///
    /// Of several changes of one record only the latest may be shown; a completion always is, as long
    /// as the record exists. Write [`RecordsWatch::revision`] down together with what a change led to,
    /// and begin there after a restart.
    #[must_use]
    pub fn watch_records(
        &self,
        tenant: impl Into<String>,
        namespace: impl Into<String>,
        after_revision: u64,
    ) -> RecordsWatch {
        RecordsWatch {
            client: self.clone(),
            tenant: tenant.into(),
            namespace: namespace.into(),
            stream: None,
            revision: after_revision,
            breaks: 0,
        }
    }
}

impl RecordWatch {
    /// Waits for the next state of the record; none once it is completed (that was the answer before)
    /// or forgotten.
    ///
    /// # Errors
    ///
    /// When no node serves the watch any more, or when the store refuses it. It may be called again
    /// after that.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost: a state that was not returned is shown by the next call.
    pub async fn next(&mut self) -> Result<Option<v1::WatchRecordResponse>, Error> {
        loop {
            let stream = match &mut self.stream {
                Some(stream) => stream,
                None => self.stream.insert(open_record(&self.client, &self.record).await?),
            };
            match stream.message().await {
                Ok(Some(message)) => {
                    self.breaks = 0;
                    // A stream that was begun again shows first what was shown already.
                    if message.record.is_none() || message.record != self.shown {
                        self.shown.clone_from(&message.record);
                        return Ok(Some(message));
                    }
                }
                Ok(None) => return Ok(None),
                Err(status) => {
                    self.stream = None;
                    pause_after(&status, &mut self.breaks).await?;
                }
            }
        }
    }
}

impl RecordsWatch {
    /// Waits for the next changed record; none if the store ends the watch.
    ///
    /// # Errors
    ///
    /// When no node serves the watch any more, or when the store refuses it. It may be called again
    /// after that; it goes on where it left off.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost: a change that was not returned is shown by the next call.
    pub async fn next(&mut self) -> Result<Option<v1::WatchRecordsResponse>, Error> {
        loop {
            let stream = match &mut self.stream {
                Some(stream) => stream,
                None => {
                    let request = v1::WatchRecordsRequest {
                        tenant: self.tenant.clone(),
                        namespace: self.namespace.clone(),
                        after_revision: self.revision,
                    };
                    self.stream.insert(open_records(&self.client, request).await?)
                }
            };
            match stream.message().await {
                Ok(Some(message)) => {
                    self.breaks = 0;
                    self.revision = self.revision.max(message.revision);
                    return Ok(Some(message));
                }
                Ok(None) => return Ok(None),
                Err(status) => {
                    self.stream = None;
                    pause_after(&status, &mut self.breaks).await?;
                }
            }
        }
    }

    /// Where to go on: everything up to it was returned.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }
}

async fn open_record(
    client: &Client,
    record: &RecordRef,
) -> Result<Streaming<v1::WatchRecordResponse>, Error> {
    let record = record.clone();
    let request = v1::WatchRecordRequest {
        tenant: record.tenant,
        namespace: record.namespace,
        key: record.key,
    };
    let send = method!(RecordService, watch_record);
    client.call(Repeat::Safe, request, |channel, request| send(channel, unlimited(request))).await
}

async fn open_records(
    client: &Client,
    request: v1::WatchRecordsRequest,
) -> Result<Streaming<v1::WatchRecordsResponse>, Error> {
    let send = method!(RecordService, watch_records);
    client.call(Repeat::Safe, request, |channel, request| send(channel, unlimited(request))).await
}

/// The time for a try is the time until the stream begins; the stream itself has no end.
fn unlimited<T>(mut request: Request<T>) -> Request<T> {
    drop(request.metadata_mut().remove("grpc-timeout"));
    request
}

/// Waits before a stream that broke is begun again, unless that cannot help.
async fn pause_after(status: &Status, breaks: &mut u32) -> Result<(), Error> {
    let error = Error::from_status(status);
    *breaks += 1;
    if !error.is_transient() || *breaks > BREAKS_MAX {
        *breaks = 0;
        return Err(error);
    }
    tracing::debug!(reason = error.reason_text(), "begin a watch again");
    sleep(PAUSE.mul_f64(rand::random_range(1.0..=2.0))).await;
    Ok(())
}
