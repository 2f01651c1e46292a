//! Calls about the cluster itself. Each is answered by one node about that node.

use tonic::transport::Channel;

use crate::client::{Client, method};
use crate::error::Error;
use crate::retry::Repeat;
use crate::v1;

type ClusterService = v1::cluster_service_client::ClusterServiceClient<Channel>;

impl Client {
    /// The status of whichever node answers.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn status(&self) -> Result<v1::GetStatusResponse, Error> {
        let request = v1::GetStatusRequest {};
        self.call(Repeat::Safe, request, method!(ClusterService, get_status)).await
    }

    /// The status of the node at `endpoint`.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn status_at(&self, endpoint: &str) -> Result<v1::GetStatusResponse, Error> {
        let request = v1::GetStatusRequest {};
        self.call_at(endpoint, request, method!(ClusterService, get_status)).await
    }

    /// The members as whichever node answers knows them.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn members(&self) -> Result<v1::ListMembersResponse, Error> {
        let request = v1::ListMembersRequest {};
        self.call(Repeat::Safe, request, method!(ClusterService, list_members)).await
    }

    /// The members as the node at `endpoint` knows them; a leader adds how far each one is.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn members_at(&self, endpoint: &str) -> Result<v1::ListMembersResponse, Error> {
        let request = v1::ListMembersRequest {};
        self.call_at(endpoint, request, method!(ClusterService, list_members)).await
    }

    /// The hash over all replicated state of the node at `endpoint`.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn state_hash_at(&self, endpoint: &str) -> Result<v1::GetStateHashResponse, Error> {
        let request = v1::GetStateHashRequest {};
        self.call_at(endpoint, request, method!(ClusterService, get_state_hash)).await
    }

    /// Builds a snapshot on the node at `endpoint` now.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn snapshot_at(&self, endpoint: &str) -> Result<v1::TriggerSnapshotResponse, Error> {
        let request = v1::TriggerSnapshotRequest {};
        self.call_at(endpoint, request, method!(ClusterService, trigger_snapshot)).await
    }

    /// Drops log entries of the node at `endpoint` that its latest snapshot covers, up to and
    /// including `up_to_index`; 0 for all of them.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn purge_log_at(
        &self,
        endpoint: &str,
        up_to_index: u64,
    ) -> Result<v1::PurgeLogResponse, Error> {
        let request = v1::PurgeLogRequest { up_to_index };
        self.call_at(endpoint, request, method!(ClusterService, purge_log)).await
    }
}
