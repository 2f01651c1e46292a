//! Calls about tenants, namespaces and their policies.
//!
//! Those that change something carry no attempt id, so the log cannot recognise a repeat: when such a
//! call may have taken effect it fails as OUTCOME_UNKNOWN, and the caller reads before it asks again.

use tonic::transport::Channel;

use crate::client::{Client, method};
use crate::error::Error;
use crate::retry::Repeat;
use crate::v1;

type TenantService = v1::tenant_service_client::TenantServiceClient<Channel>;

impl Client {
    /// Creates a tenant.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn create_tenant(
        &self,
        request: v1::CreateTenantRequest,
    ) -> Result<v1::CreateTenantResponse, Error> {
        self.call(Repeat::Unsafe, request, method!(TenantService, create_tenant)).await
    }

    /// Reads a tenant.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn get_tenant(
        &self,
        request: v1::GetTenantRequest,
    ) -> Result<v1::GetTenantResponse, Error> {
        self.call(Repeat::Safe, request, method!(TenantService, get_tenant)).await
    }

    /// Lists a page of tenants.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn list_tenants(
        &self,
        request: v1::ListTenantsRequest,
    ) -> Result<v1::ListTenantsResponse, Error> {
        self.call(Repeat::Safe, request, method!(TenantService, list_tenants)).await
    }

    /// Changes the policy of a tenant.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn update_tenant(
        &self,
        request: v1::UpdateTenantRequest,
    ) -> Result<v1::UpdateTenantResponse, Error> {
        self.call(Repeat::Unsafe, request, method!(TenantService, update_tenant)).await
    }

    /// Deletes a tenant with its namespaces and records.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn delete_tenant(
        &self,
        request: v1::DeleteTenantRequest,
    ) -> Result<v1::DeleteTenantResponse, Error> {
        self.call(Repeat::Unsafe, request, method!(TenantService, delete_tenant)).await
    }

    /// Creates a namespace.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn create_namespace(
        &self,
        request: v1::CreateNamespaceRequest,
    ) -> Result<v1::CreateNamespaceResponse, Error> {
        self.call(Repeat::Unsafe, request, method!(TenantService, create_namespace)).await
    }

    /// Reads a namespace.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn get_namespace(
        &self,
        request: v1::GetNamespaceRequest,
    ) -> Result<v1::GetNamespaceResponse, Error> {
        self.call(Repeat::Safe, request, method!(TenantService, get_namespace)).await
    }

    /// Lists a page of namespaces.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn list_namespaces(
        &self,
        request: v1::ListNamespacesRequest,
    ) -> Result<v1::ListNamespacesResponse, Error> {
        self.call(Repeat::Safe, request, method!(TenantService, list_namespaces)).await
    }

    /// Changes what a namespace overrides of its tenant's policy.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn update_namespace(
        &self,
        request: v1::UpdateNamespaceRequest,
    ) -> Result<v1::UpdateNamespaceResponse, Error> {
        self.call(Repeat::Unsafe, request, method!(TenantService, update_namespace)).await
    }

    /// Deletes a namespace with its records.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn delete_namespace(
        &self,
        request: v1::DeleteNamespaceRequest,
    ) -> Result<v1::DeleteNamespaceResponse, Error> {
        self.call(Repeat::Unsafe, request, method!(TenantService, delete_namespace)).await
    }
}
