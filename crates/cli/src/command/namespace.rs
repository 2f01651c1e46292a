//! `firstclaim namespace`: what a group of operations overrides of its tenant's policy.

use clap::Subcommand;
use firstclaim_client::{Client, v1};
use serde_json::json;

use super::naming::PrincipalArgs;
use super::owner::{
    self, Calls, CreateArgs, DeleteArgs, NameArgs, Owner, PAGE, SetArgs, Update, Written,
};
use crate::context::Context;
use crate::exit;
use crate::failure::Failure;
use crate::output::Shown;
use crate::view;

/// What to do with namespaces.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Create a namespace
    Create(CreateArgs),
    /// Show a namespace and its policy
    Show(NameArgs),
    /// List the namespaces of a tenant
    List,
    /// Change what a namespace overrides; fields that are not named stay
    Set(SetArgs),
    /// Delete a namespace with its records
    Delete(DeleteArgs),
    /// Keep existing records as long as the policy says now
    #[command(after_help = "\
A longer retention holds for records that are granted, completed or released after it. This makes it
hold for those that exist. It never makes anything shorter, and it may be repeated.

Example:
  firstclaim namespace extend-existing payouts -t acme")]
    ExtendExisting {
        #[command(flatten)]
        name: NameArgs,
        #[command(flatten)]
        principal: PrincipalArgs,
    },
}

pub(crate) async fn run(context: &Context, action: Action) -> Result<u8, Failure> {
    let client = context.client()?;
    let tenant = context.tenant(None)?;
    let named = |name: Option<&str>| -> Result<Namespaces, Failure> {
        let name = context.namespace(name)?;
        Ok(Namespaces { client: client.clone(), tenant: tenant.clone(), name })
    };
    match action {
        Action::Create(args) => {
            let namespace = named(args.name.as_deref())?;
            owner::create(context, &namespace, &args.policy, args.dry_run).await
        }
        Action::Show(args) => owner::show(context, &named(args.name.as_deref())?).await,
        Action::List => {
            let data = json!({ "tenant": tenant });
            let all = Namespaces { client, tenant, name: String::new() };
            owner::list(context, &all, ("namespaces", data)).await
        }
        Action::Set(args) => owner::set(context, &named(args.name.as_deref())?, args).await,
        Action::Delete(args) => {
            let namespace = context.namespace(args.name.as_deref())?;
            let request = v1::DeleteNamespaceRequest {
                tenant: tenant.clone(),
                namespace: namespace.clone(),
                etag: args.etag.unwrap_or_default(),
                force: args.force,
            };
            client.delete_namespace(request).await?;
            let data = json!({ "tenant": tenant, "namespace": namespace });
            owner::deleted::<Namespaces>(context, data, format!("{tenant}/{namespace}"))
        }
        Action::ExtendExisting { name, principal } => {
            let namespace = named(name.name.as_deref())?;
            extend_existing(context, &namespace, principal.principal()).await
        }
    }
}

/// Goes through all records of the namespace, page by page.
async fn extend_existing(
    context: &Context,
    namespace: &Namespaces,
    principal: String,
) -> Result<u8, Failure> {
    let (mut seen, mut extended) = (0_u64, 0_u64);
    let mut page_token = String::new();
    let store_time = loop {
        let request = v1::ExtendExistingRequest {
            tenant: namespace.tenant.clone(),
            namespace: namespace.name.clone(),
            page_token,
            principal: principal.clone(),
        };
        let page = namespace.client.extend_existing(request).await?;
        seen += u64::from(page.seen);
        extended += u64::from(page.extended);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break page.store_time;
        }
    };
    let mut sheet = view::Sheet::default();
    sheet.put("tenant", "tenant", &namespace.tenant);
    sheet.put("namespace", "namespace", &namespace.name);
    sheet.number("seen", "records seen", seen);
    sheet.number("extended", "kept longer", extended);
    sheet.value("storeTime", json!(store_time.as_ref().map(view::rfc3339)));
    let data = serde_json::Value::Object(sheet.data);
    context.out.data("Extension", data, &Shown::Fields(sheet.lines))?;
    Ok(exit::DONE)
}

/// The calls about namespaces.
struct Namespaces {
    client: Client,
    tenant: String,
    name: String,
}

fn owned(namespace: v1::Namespace) -> Owner {
    Owner {
        tenant: Some(namespace.tenant),
        name: namespace.name,
        policy: namespace.policy,
        effective: namespace.effective_policy,
        etag: namespace.etag,
        created: namespace.create_time,
        changed: namespace.update_time,
    }
}

impl Namespaces {
    fn message(&self, policy: v1::Policy, etag: String) -> v1::Namespace {
        v1::Namespace {
            tenant: self.tenant.clone(),
            name: self.name.clone(),
            policy: Some(policy),
            etag,
            ..v1::Namespace::default()
        }
    }
}

impl Calls for Namespaces {
    const KIND: &'static str = "Namespace";
    const INHERITED: &'static str = "inherited";

    async fn create(&self, policy: v1::Policy, validate_only: bool) -> Result<Written, Failure> {
        let namespace = Some(self.message(policy, String::new()));
        let request = v1::CreateNamespaceRequest { namespace, validate_only };
        let response = self.client.create_namespace(request).await?;
        let (owner, warnings) = (response.namespace.map(owned), response.warnings);
        Ok(Written { owner, changes: Vec::new(), warnings })
    }

    async fn read(&self) -> Result<Option<Owner>, Failure> {
        let (tenant, namespace) = (self.tenant.clone(), self.name.clone());
        let request = v1::GetNamespaceRequest { tenant, namespace };
        Ok(self.client.get_namespace(request).await?.namespace.map(owned))
    }

    async fn page(&self, page_token: String) -> Result<(Vec<Owner>, String), Failure> {
        let tenant = self.tenant.clone();
        let request = v1::ListNamespacesRequest { tenant, page_size: PAGE, page_token };
        let page = self.client.list_namespaces(request).await?;
        Ok((page.namespaces.into_iter().map(owned).collect(), page.next_page_token))
    }

    async fn update(&self, update: Update) -> Result<Written, Failure> {
        let request = v1::UpdateNamespaceRequest {
            namespace: Some(self.message(update.policy, update.etag)),
            update_mask: Some(update.mask),
            validate_only: update.validate_only,
        };
        let response = self.client.update_namespace(request).await?;
        let owner = response.namespace.map(owned);
        Ok(Written { owner, changes: response.changes, warnings: response.warnings })
    }
}
