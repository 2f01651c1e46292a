//! `firstclaim namespace`: what a group of operations overrides of its tenant's policy.

use clap::Subcommand;
use firstclaim_client::{Client, v1};
use serde_json::{Value, json};

use super::tenant::{
    Change, ChangeArgs, DeleteArgs, HEADER, PAGE, deleted, policies, require_change, row,
};
use crate::context::Context;
use crate::exit;
use crate::failure::Failure;
use crate::output::Shown;
use crate::policy::PolicyArgs;
use crate::view::Sheet;

/// What to do with namespaces.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Create a namespace
    Create {
        /// Its name
        name: Option<String>,
        #[command(flatten)]
        policy: Box<PolicyArgs>,
        /// Check, but change nothing
        #[arg(long, alias = "validate-only")]
        dry_run: bool,
    },
    /// Show a namespace and its policy
    Show {
        /// Its name
        name: Option<String>,
    },
    /// List the namespaces of a tenant
    List,
    /// Change what a namespace overrides; fields that are not named stay
    Set {
        /// Its name
        name: Option<String>,
        #[command(flatten)]
        policy: Box<PolicyArgs>,
        #[command(flatten)]
        change: ChangeArgs,
    },
    /// Delete a namespace with its records
    Delete {
        /// Its name
        name: Option<String>,
        #[command(flatten)]
        delete: DeleteArgs,
    },
}

pub(crate) async fn run(context: &Context, action: Action) -> Result<u8, Failure> {
    let client = context.client()?;
    let tenant = context.tenant(None)?;
    match action {
        Action::Create { name, policy, dry_run } => {
            let namespace = v1::Namespace {
                tenant,
                name: context.namespace(name.as_deref())?,
                policy: Some(policy.message()),
                ..v1::Namespace::default()
            };
            let request =
                v1::CreateNamespaceRequest { namespace: Some(namespace), validate_only: dry_run };
            let response = client.create_namespace(request).await?;
            let change =
                Change { verb: "created", dry_run, changes: &[], warnings: &response.warnings };
            print(context, response.namespace.as_ref(), &change)
        }
        Action::Show { name } => {
            let namespace = context.namespace(name.as_deref())?;
            let request = v1::GetNamespaceRequest { tenant, namespace };
            let response = client.get_namespace(request).await?;
            print(context, response.namespace.as_ref(), &Change::NONE)
        }
        Action::List => list(context, &client, &tenant).await,
        Action::Set { name, policy, change } => {
            let name = context.namespace(name.as_deref())?;
            set(context, &client, (&tenant, &name, &policy), change).await
        }
        Action::Delete { name, delete } => {
            let namespace = context.namespace(name.as_deref())?;
            let request = v1::DeleteNamespaceRequest {
                tenant: tenant.clone(),
                namespace: namespace.clone(),
                etag: delete.etag.unwrap_or_default(),
                force: delete.force,
            };
            client.delete_namespace(request).await?;
            let data = json!({ "tenant": tenant, "namespace": namespace });
            deleted(context, "NamespaceDeletion", data, format!("{tenant}/{namespace}"))
        }
    }
}

/// Reads the present version, so that nobody else's change is overwritten, and changes it.
async fn set(
    context: &Context,
    client: &Client,
    (tenant, name, policy): (&str, &str, &PolicyArgs),
    change: ChangeArgs,
) -> Result<u8, Failure> {
    let etag = match change.etag {
        Some(etag) => etag,
        None => {
            let request =
                v1::GetNamespaceRequest { tenant: tenant.to_owned(), namespace: name.to_owned() };
            client.get_namespace(request).await?.namespace.unwrap_or_default().etag
        }
    };
    let mask = policy.mask(&change.unset);
    require_change(&mask.paths)?;
    let namespace = v1::Namespace {
        tenant: tenant.to_owned(),
        name: name.to_owned(),
        policy: Some(policy.message()),
        etag,
        ..v1::Namespace::default()
    };
    let request = v1::UpdateNamespaceRequest {
        namespace: Some(namespace),
        update_mask: Some(mask),
        validate_only: change.dry_run,
    };
    let response = client.update_namespace(request).await?;
    let change = Change {
        verb: "changed",
        dry_run: change.dry_run,
        changes: &response.changes,
        warnings: &response.warnings,
    };
    print(context, response.namespace.as_ref(), &change)
}

async fn list(context: &Context, client: &Client, tenant: &str) -> Result<u8, Failure> {
    let mut namespaces = Vec::new();
    let mut page_token = String::new();
    loop {
        let request =
            v1::ListNamespacesRequest { tenant: tenant.to_owned(), page_size: PAGE, page_token };
        let page = client.list_namespaces(request).await?;
        namespaces.extend(page.namespaces);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    let all: Vec<Value> =
        namespaces.iter().map(|namespace| Value::Object(sheet(namespace).data)).collect();
    let rows = namespaces.iter().map(|namespace| {
        let effective = namespace.effective_policy.clone().unwrap_or_default();
        row(&namespace.name, &effective, &namespace.etag)
    });
    let shown = Shown::Rows { header: HEADER.to_vec(), rows: rows.collect() };
    context.out.data("NamespaceList", json!({ "tenant": tenant, "namespaces": all }), &shown)?;
    Ok(exit::DONE)
}

fn sheet(namespace: &v1::Namespace) -> Sheet {
    let mut sheet = Sheet::default();
    sheet.put("tenant", "tenant", &namespace.tenant);
    sheet.put("name", "namespace", &namespace.name);
    sheet.put("etag", "etag", &namespace.etag);
    sheet.time("createTime", "created", namespace.create_time.as_ref(), "");
    sheet.time("updateTime", "changed", namespace.update_time.as_ref(), "");
    let (set, effective) = (namespace.policy.as_ref(), namespace.effective_policy.as_ref());
    policies(&mut sheet, set, effective, "inherited");
    sheet
}

fn print(
    context: &Context,
    namespace: Option<&v1::Namespace>,
    change: &Change<'_>,
) -> Result<u8, Failure> {
    let namespace = namespace.ok_or_else(|| Failure::lacks("the namespace"))?;
    let mut sheet = sheet(namespace);
    let name = format!("namespace {}/{}", namespace.tenant, namespace.name);
    change.put(context, &name, &mut sheet);
    context.out.data("Namespace", Value::Object(sheet.data), &Shown::Fields(sheet.lines))?;
    Ok(exit::DONE)
}
