//! `firstclaim tenant`: who owns records, and by which policy.

use clap::Subcommand;
use firstclaim_client::{Client, v1};
use serde_json::json;

use super::owner::{
    self, Calls, CreateArgs, DeleteArgs, NameArgs, Owner, PAGE, SetArgs, Update, Written,
};
use crate::context::Context;
use crate::failure::Failure;

/// What to do with tenants.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Create a tenant
    Create(CreateArgs),
    /// Show a tenant and its policy
    Show(NameArgs),
    /// List all tenants
    List,
    /// Change the policy of a tenant; fields that are not named stay
    Set(SetArgs),
    /// Delete a tenant with its namespaces and records
    Delete(DeleteArgs),
}

pub(crate) async fn run(context: &Context, action: Action) -> Result<u8, Failure> {
    let client = context.client()?;
    let named = |name: Option<&str>| -> Result<Tenants, Failure> {
        Ok(Tenants { client: client.clone(), name: context.tenant(name)? })
    };
    match action {
        Action::Create(args) => {
            let tenant = named(args.name.as_deref())?;
            owner::create(context, &tenant, &args.policy, args.dry_run).await
        }
        Action::Show(args) => owner::show(context, &named(args.name.as_deref())?).await,
        Action::List => {
            let all = Tenants { client, name: String::new() };
            owner::list(context, &all, ("tenants", json!({}))).await
        }
        Action::Set(args) => owner::set(context, &named(args.name.as_deref())?, args).await,
        Action::Delete(args) => {
            let tenant = context.tenant(args.name.as_deref())?;
            let request = v1::DeleteTenantRequest {
                tenant: tenant.clone(),
                etag: args.etag.unwrap_or_default(),
                force: args.force,
            };
            let response = client.delete_tenant(request).await?;
            let data = json!({ "tenant": tenant, "namespaces": response.namespaces });
            let line = format!("{tenant} with {} namespaces", response.namespaces);
            owner::deleted::<Tenants>(context, data, line)
        }
    }
}

/// The calls about tenants.
struct Tenants {
    client: Client,
    name: String,
}

fn owned(tenant: v1::Tenant) -> Owner {
    Owner {
        tenant: None,
        name: tenant.name,
        policy: tenant.policy,
        effective: tenant.effective_policy,
        etag: tenant.etag,
        created: tenant.create_time,
        changed: tenant.update_time,
    }
}

impl Tenants {
    fn message(&self, policy: v1::Policy, etag: String) -> v1::Tenant {
        let name = self.name.clone();
        v1::Tenant { name, policy: Some(policy), etag, ..v1::Tenant::default() }
    }
}

impl Calls for Tenants {
    const KIND: &'static str = "Tenant";
    const INHERITED: &'static str = "default";

    async fn create(&self, policy: v1::Policy, validate_only: bool) -> Result<Written, Failure> {
        let tenant = Some(self.message(policy, String::new()));
        let request = v1::CreateTenantRequest { tenant, validate_only };
        let response = self.client.create_tenant(request).await?;
        let (owner, warnings) = (response.tenant.map(owned), response.warnings);
        Ok(Written { owner, changes: Vec::new(), warnings })
    }

    async fn read(&self) -> Result<Option<Owner>, Failure> {
        let request = v1::GetTenantRequest { tenant: self.name.clone() };
        Ok(self.client.get_tenant(request).await?.tenant.map(owned))
    }

    async fn page(&self, page_token: String) -> Result<(Vec<Owner>, String), Failure> {
        let request = v1::ListTenantsRequest { page_size: PAGE, page_token };
        let page = self.client.list_tenants(request).await?;
        Ok((page.tenants.into_iter().map(owned).collect(), page.next_page_token))
    }

    async fn update(&self, update: Update) -> Result<Written, Failure> {
        let request = v1::UpdateTenantRequest {
            tenant: Some(self.message(update.policy, update.etag)),
            update_mask: Some(update.mask),
            validate_only: update.validate_only,
        };
        let response = self.client.update_tenant(request).await?;
        let owner = response.tenant.map(owned);
        Ok(Written { owner, changes: response.changes, warnings: response.warnings })
    }
}
