//! `firstclaim tenant`: who owns records, and by which policy.

use clap::Subcommand;
use firstclaim_client::{Client, v1};
use serde_json::{Value, json};

use crate::context::Context;
use crate::exit;
use crate::failure::Failure;
use crate::output::Shown;
use crate::policy::{self, PolicyArgs};
use crate::view::Sheet;

/// Most entries that one page asks for.
pub(crate) const PAGE: u32 = 1000;

/// What to do with tenants.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Create a tenant
    Create {
        /// Its name
        name: Option<String>,
        #[command(flatten)]
        policy: Box<PolicyArgs>,
        /// Check, but change nothing
        #[arg(long, alias = "validate-only")]
        dry_run: bool,
    },
    /// Show a tenant and its policy
    Show {
        /// Its name
        name: Option<String>,
    },
    /// List all tenants
    List,
    /// Change the policy of a tenant; fields that are not named stay
    Set {
        /// Its name
        name: Option<String>,
        #[command(flatten)]
        policy: Box<PolicyArgs>,
        #[command(flatten)]
        change: ChangeArgs,
    },
    /// Delete a tenant with its namespaces and records
    Delete {
        /// Its name
        name: Option<String>,
        #[command(flatten)]
        delete: DeleteArgs,
    },
}

/// How a policy is changed.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ChangeArgs {
    /// A field that goes back to what it inherits; repeatable
    #[arg(long, value_parser = policy::field, value_name = "FIELD")]
    pub(crate) unset: Vec<String>,
    /// The version that the change is meant for; read if it is not given
    #[arg(long)]
    pub(crate) etag: Option<String>,
    /// Check and show the difference, but change nothing
    #[arg(long, alias = "validate-only")]
    pub(crate) dry_run: bool,
}

/// How something is deleted.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DeleteArgs {
    /// The version that is meant; whichever there is if it is not given
    #[arg(long)]
    pub(crate) etag: Option<String>,
    /// Also while records are live or open: they may be executed again later
    #[arg(long)]
    pub(crate) force: bool,
}

pub(crate) async fn run(context: &Context, action: Action) -> Result<u8, Failure> {
    let client = context.client()?;
    match action {
        Action::Create { name, policy, dry_run } => {
            let name = context.tenant(name.as_deref())?;
            let tenant =
                v1::Tenant { name, policy: Some(policy.message()), ..v1::Tenant::default() };
            let request = v1::CreateTenantRequest { tenant: Some(tenant), validate_only: dry_run };
            let response = client.create_tenant(request).await?;
            let change =
                Change { verb: "created", dry_run, changes: &[], warnings: &response.warnings };
            print(context, response.tenant.as_ref(), &change)
        }
        Action::Show { name } => {
            let tenant = context.tenant(name.as_deref())?;
            let response = client.get_tenant(v1::GetTenantRequest { tenant }).await?;
            print(context, response.tenant.as_ref(), &Change::NONE)
        }
        Action::List => list(context, &client).await,
        Action::Set { name, policy, change } => {
            set(context, &client, (&context.tenant(name.as_deref())?, &policy), change).await
        }
        Action::Delete { name, delete } => {
            let tenant = context.tenant(name.as_deref())?;
            let request = v1::DeleteTenantRequest {
                tenant: tenant.clone(),
                etag: delete.etag.unwrap_or_default(),
                force: delete.force,
            };
            let response = client.delete_tenant(request).await?;
            let data = json!({ "tenant": tenant, "namespaces": response.namespaces });
            let line = format!("{tenant} with {} namespaces", response.namespaces);
            deleted(context, "TenantDeletion", data, line)
        }
    }
}

/// Reads the present version, so that nobody else's change is overwritten, and changes it.
async fn set(
    context: &Context,
    client: &Client,
    (name, policy): (&str, &PolicyArgs),
    change: ChangeArgs,
) -> Result<u8, Failure> {
    let etag = match change.etag {
        Some(etag) => etag,
        None => {
            let request = v1::GetTenantRequest { tenant: name.to_owned() };
            client.get_tenant(request).await?.tenant.unwrap_or_default().etag
        }
    };
    let mask = policy.mask(&change.unset);
    require_change(&mask.paths)?;
    let tenant = v1::Tenant {
        name: name.to_owned(),
        policy: Some(policy.message()),
        etag,
        ..v1::Tenant::default()
    };
    let request = v1::UpdateTenantRequest {
        tenant: Some(tenant),
        update_mask: Some(mask),
        validate_only: change.dry_run,
    };
    let response = client.update_tenant(request).await?;
    let change = Change {
        verb: "changed",
        dry_run: change.dry_run,
        changes: &response.changes,
        warnings: &response.warnings,
    };
    print(context, response.tenant.as_ref(), &change)
}

async fn list(context: &Context, client: &Client) -> Result<u8, Failure> {
    let mut tenants = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = v1::ListTenantsRequest { page_size: PAGE, page_token };
        let page = client.list_tenants(request).await?;
        tenants.extend(page.tenants);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    let data = json!({ "tenants": tenants.iter().map(|tenant| Value::Object(sheet(tenant).data)).collect::<Vec<_>>() });
    let rows = tenants.iter().map(|tenant| {
        let effective = tenant.effective_policy.clone().unwrap_or_default();
        row(&tenant.name, &effective, &tenant.etag)
    });
    let shown = Shown::Rows { header: HEADER.to_vec(), rows: rows.collect() };
    context.out.data("TenantList", data, &shown)?;
    Ok(exit::DONE)
}

/// The columns of a list of tenants or namespaces.
pub(crate) const HEADER: [&str; 6] =
    ["NAME", "LEASE", "ON LAPSE", "RESULT KEPT", "KEY KEPT", "ETAG"];

pub(crate) fn row(name: &str, effective: &v1::Policy, etag: &str) -> Vec<String> {
    let fields: std::collections::BTreeMap<_, _> = policy::shown(effective).into_iter().collect();
    let field = |name: &str| fields.get(name).cloned().unwrap_or_default();
    vec![
        name.to_owned(),
        field("lease_default"),
        field("on_lapse"),
        field("result_retention"),
        field("identity_retention"),
        etag.to_owned(),
    ]
}

/// What a call changed, or would.
pub(crate) struct Change<'a> {
    pub(crate) verb: &'static str,
    pub(crate) dry_run: bool,
    pub(crate) changes: &'a [v1::PolicyChange],
    pub(crate) warnings: &'a [String],
}

impl Change<'_> {
    pub(crate) const NONE: Change<'static> =
        Change { verb: "", dry_run: false, changes: &[], warnings: &[] };

    /// Puts the difference and the warnings into the sheet, and says them.
    pub(crate) fn put(&self, context: &Context, name: &str, sheet: &mut Sheet) {
        let changes = self.changes.iter().map(|change| {
            json!({ "field": change.field, "before": change.before, "after": change.after })
        });
        sheet.value("changes", changes.collect());
        sheet.value("warnings", json!(self.warnings));
        if self.verb.is_empty() {
            return;
        }
        sheet.value("dryRun", json!(self.dry_run));
        if self.dry_run {
            context.out.say(&format!("{name} would be {}; nothing is changed", self.verb));
        } else {
            context.out.say(&format!("{name} is {}", self.verb));
        }
        for change in self.changes {
            let (before, after) = (&change.before, &change.after);
            context.out.say(&format!("  ~ {:<24} {before} -> {after}", change.field));
        }
        for warning in self.warnings {
            context.out.say(&format!("  ! {warning}"));
        }
    }
}

pub(crate) fn require_change(mask: &[String]) -> Result<(), Failure> {
    if mask.is_empty() {
        return Err(Failure::usage(
            "nothing to change; name a policy field, such as --result-retention 7d, or --unset FIELD",
        ));
    }
    Ok(())
}

pub(crate) fn deleted(
    context: &Context,
    kind: &str,
    data: Value,
    line: String,
) -> Result<u8, Failure> {
    let shown = Shown::Fields(vec![("deleted".to_owned(), line)]);
    context.out.data(kind, data, &shown)?;
    Ok(exit::DONE)
}

/// The lines of a policy: what is in effect, and where it comes from.
pub(crate) fn policies(
    sheet: &mut Sheet,
    set: Option<&v1::Policy>,
    effective: Option<&v1::Policy>,
    inherited: &str,
) {
    let set = set.cloned().unwrap_or_default();
    let effective = effective.cloned().unwrap_or_default();
    sheet.value("policy", policy::json(&set));
    sheet.value("effectivePolicy", policy::json(&effective));
    let own: Vec<&str> = policy::shown(&set).into_iter().map(|(name, _)| name).collect();
    for (name, value) in policy::shown(&effective) {
        let from = if own.contains(&name) { String::new() } else { format!("   ({inherited})") };
        sheet.line(name, format!("{value}{from}"));
    }
}

fn sheet(tenant: &v1::Tenant) -> Sheet {
    let mut sheet = Sheet::default();
    sheet.put("name", "tenant", &tenant.name);
    sheet.put("etag", "etag", &tenant.etag);
    sheet.time("createTime", "created", tenant.create_time.as_ref(), "");
    sheet.time("updateTime", "changed", tenant.update_time.as_ref(), "");
    policies(&mut sheet, tenant.policy.as_ref(), tenant.effective_policy.as_ref(), "default");
    sheet
}

fn print(
    context: &Context,
    tenant: Option<&v1::Tenant>,
    change: &Change<'_>,
) -> Result<u8, Failure> {
    let tenant = tenant.ok_or_else(|| Failure::lacks("the tenant"))?;
    let mut sheet = sheet(tenant);
    change.put(context, &format!("tenant {}", tenant.name), &mut sheet);
    context.out.data("Tenant", Value::Object(sheet.data), &Shown::Fields(sheet.lines))?;
    Ok(exit::DONE)
}
