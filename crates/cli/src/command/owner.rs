//! One round over whatever owns a policy, a tenant or a namespace: create, show, list, set, delete.

use firstclaim_client::prost_types::{FieldMask, Timestamp};
use firstclaim_client::v1;
use serde_json::{Value, json};

use crate::context::Context;
use crate::exit;
use crate::failure::Failure;
use crate::output::Shown;
use crate::policy::{self, PolicyArgs};
use crate::view::Sheet;

/// Most entries that one page asks for.
pub(crate) const PAGE: u32 = 1000;

/// What is to be created.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CreateArgs {
    /// Its name
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) policy: Box<PolicyArgs>,
    /// Check, but change nothing
    #[arg(long, alias = "validate-only")]
    pub(crate) dry_run: bool,
}

/// Which one is meant.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct NameArgs {
    /// Its name
    pub(crate) name: Option<String>,
}

/// How a policy is changed.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct SetArgs {
    /// Its name
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) policy: Box<PolicyArgs>,
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
    /// Its name
    pub(crate) name: Option<String>,
    /// The version that is meant; whichever there is if it is not given
    #[arg(long)]
    pub(crate) etag: Option<String>,
    /// Also while records are live or open: they may be executed again later
    #[arg(long)]
    pub(crate) force: bool,
}

/// What owns a policy, as it is.
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    /// The tenant, if that is not the name.
    pub(crate) tenant: Option<String>,
    pub(crate) name: String,
    pub(crate) policy: Option<v1::Policy>,
    pub(crate) effective: Option<v1::Policy>,
    pub(crate) etag: String,
    pub(crate) created: Option<Timestamp>,
    pub(crate) changed: Option<Timestamp>,
}

/// The version of an owner that is to be written.
#[derive(Clone, Debug)]
pub(crate) struct Update {
    pub(crate) policy: v1::Policy,
    pub(crate) etag: String,
    pub(crate) mask: FieldMask,
    pub(crate) validate_only: bool,
}

/// What a call made of an owner, or would make.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) owner: Option<Owner>,
    pub(crate) changes: Vec<v1::PolicyChange>,
    pub(crate) warnings: Vec<String>,
}

/// One kind of owner, and the calls about it. A value of it names one owner, or the place where all
/// of them are listed.
pub(crate) trait Calls {
    /// Its name in JSON: `Tenant`.
    const KIND: &'static str;
    /// Where a value comes from that it does not set itself.
    const INHERITED: &'static str;

    async fn create(&self, policy: v1::Policy, validate_only: bool) -> Result<Written, Failure>;
    async fn read(&self) -> Result<Option<Owner>, Failure>;
    async fn page(&self, page_token: String) -> Result<(Vec<Owner>, String), Failure>;
    async fn update(&self, update: Update) -> Result<Written, Failure>;
}

pub(crate) async fn create<C: Calls>(
    context: &Context,
    calls: &C,
    policy: &PolicyArgs,
    dry_run: bool,
) -> Result<u8, Failure> {
    let written = calls.create(policy.message(), dry_run).await?;
    print::<C>(context, &written, Some(("created", dry_run)))
}

pub(crate) async fn show<C: Calls>(context: &Context, calls: &C) -> Result<u8, Failure> {
    let owner = calls.read().await?;
    let read = Written { owner, changes: Vec::new(), warnings: Vec::new() };
    print::<C>(context, &read, None)
}

/// Reads the present version, so that nobody else's change is overwritten, and changes it.
pub(crate) async fn set<C: Calls>(
    context: &Context,
    calls: &C,
    args: SetArgs,
) -> Result<u8, Failure> {
    let mask = args.policy.mask(&args.unset);
    if mask.paths.is_empty() {
        return Err(Failure::usage(
            "nothing to change; name a policy field, such as --result-retention 7d, or --unset FIELD",
        ));
    }
    let etag = match args.etag {
        Some(etag) => etag,
        None => calls.read().await?.map(|owner| owner.etag).unwrap_or_default(),
    };
    let policy = args.policy.message();
    let update = Update { policy, etag, mask, validate_only: args.dry_run };
    let written = calls.update(update).await?;
    print::<C>(context, &written, Some(("changed", args.dry_run)))
}

/// Lists all there are. `data` is what the JSON says besides them, under the name `plural`.
pub(crate) async fn list<C: Calls>(
    context: &Context,
    calls: &C,
    (plural, mut data): (&str, Value),
) -> Result<u8, Failure> {
    let mut owners = Vec::new();
    let mut page_token = String::new();
    loop {
        let (page, next) = calls.page(page_token).await?;
        owners.extend(page);
        page_token = next;
        if page_token.is_empty() {
            break;
        }
    }
    let all = owners.iter().map(|owner| Value::Object(sheet::<C>(owner).data));
    data[plural] = all.collect();
    let header = vec!["NAME", "LEASE", "ON LAPSE", "RESULT KEPT", "KEY KEPT", "ETAG"];
    let shown = Shown::Rows { header, rows: owners.iter().map(row).collect() };
    context.out.data(&format!("{}List", C::KIND), data, &shown)?;
    Ok(exit::DONE)
}

/// Says that something is deleted.
pub(crate) fn deleted<C: Calls>(
    context: &Context,
    data: Value,
    line: String,
) -> Result<u8, Failure> {
    let shown = Shown::Fields(vec![("deleted".to_owned(), line)]);
    context.out.data(&format!("{}Deletion", C::KIND), data, &shown)?;
    Ok(exit::DONE)
}

fn row(owner: &Owner) -> Vec<String> {
    let effective = owner.effective.clone().unwrap_or_default();
    let fields: std::collections::BTreeMap<_, _> = policy::shown(&effective).into_iter().collect();
    let field = |name: &str| fields.get(name).cloned().unwrap_or_default();
    vec![
        owner.name.clone(),
        field("lease_default"),
        field("on_lapse"),
        field("result_retention"),
        field("identity_retention"),
        owner.etag.clone(),
    ]
}

fn sheet<C: Calls>(owner: &Owner) -> Sheet {
    let mut sheet = Sheet::default();
    if let Some(tenant) = &owner.tenant {
        sheet.put("tenant", "tenant", tenant);
    }
    sheet.put("name", &C::KIND.to_lowercase(), &owner.name);
    sheet.put("etag", "etag", &owner.etag);
    sheet.time("createTime", "created", owner.created.as_ref(), "");
    sheet.time("updateTime", "changed", owner.changed.as_ref(), "");
    let set = owner.policy.clone().unwrap_or_default();
    let effective = owner.effective.clone().unwrap_or_default();
    sheet.value("policy", policy::json(&set));
    sheet.value("effectivePolicy", policy::json(&effective));
    // What is in effect, and where it comes from.
    let own: Vec<&str> = policy::shown(&set).into_iter().map(|(name, _)| name).collect();
    for (name, value) in policy::shown(&effective) {
        let from =
            if own.contains(&name) { String::new() } else { format!("   ({})", C::INHERITED) };
        sheet.line(name, format!("{value}{from}"));
    }
    sheet
}

/// Prints an owner, and what was done to it: the verb, and whether it was only tried.
fn print<C: Calls>(
    context: &Context,
    written: &Written,
    done: Option<(&str, bool)>,
) -> Result<u8, Failure> {
    let noun = C::KIND.to_lowercase();
    let owner = written.owner.as_ref().ok_or_else(|| Failure::lacks(&format!("the {noun}")))?;
    let mut sheet = sheet::<C>(owner);
    let changes = written.changes.iter().map(
        |change| json!({ "field": change.field, "before": change.before, "after": change.after }),
    );
    sheet.value("changes", changes.collect());
    sheet.value("warnings", json!(written.warnings));
    if let Some((verb, dry_run)) = done {
        sheet.value("dryRun", json!(dry_run));
        let path = owner.tenant.as_ref().map_or_else(String::new, |tenant| format!("{tenant}/"));
        let name = format!("{noun} {path}{}", owner.name);
        context.out.say(&if dry_run {
            format!("{name} would be {verb}; nothing is changed")
        } else {
            format!("{name} is {verb}")
        });
        for change in &written.changes {
            let (before, after) = (&change.before, &change.after);
            context.out.say(&format!("  ~ {:<24} {before} -> {after}", change.field));
        }
        for warning in &written.warnings {
            context.out.say(&format!("  ! {warning}"));
        }
    }
    context.out.data(C::KIND, Value::Object(sheet.data), &Shown::Fields(sheet.lines))?;
    Ok(exit::DONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fake;

    impl Calls for Fake {
        const KIND: &'static str = "Namespace";
        const INHERITED: &'static str = "inherited";

        async fn create(&self, _policy: v1::Policy, _dry: bool) -> Result<Written, Failure> {
            Err(Failure::usage("not asked for"))
        }

        async fn read(&self) -> Result<Option<Owner>, Failure> {
            Ok(Some(owner()))
        }

        async fn page(&self, page_token: String) -> Result<(Vec<Owner>, String), Failure> {
            let next = if page_token.is_empty() { "more" } else { "" };
            Ok((vec![owner()], next.to_owned()))
        }

        async fn update(&self, update: Update) -> Result<Written, Failure> {
            assert_eq!(update.etag, "0-7");
            assert_eq!(update.mask.paths, ["policy.lease_max"]);
            Ok(Written { owner: Some(owner()), changes: Vec::new(), warnings: Vec::new() })
        }
    }

    fn owner() -> Owner {
        Owner {
            tenant: Some("acme".to_owned()),
            name: "payouts".to_owned(),
            policy: Some(v1::Policy { max_attempts: Some(3), ..v1::Policy::default() }),
            effective: Some(v1::Policy {
                max_attempts: Some(3),
                records_max: Some(9),
                ..v1::Policy::default()
            }),
            etag: "0-7".to_owned(),
            created: None,
            changed: None,
        }
    }

    #[test]
    fn what_is_inherited_says_so() {
        let sheet = sheet::<Fake>(&owner());
        let line = |name: &str| {
            sheet.lines.iter().find(|(label, _)| label == name).map(|(_, value)| value.clone())
        };
        assert_eq!(line("max_attempts").as_deref(), Some("3"));
        assert_eq!(line("records_max").as_deref(), Some("9   (inherited)"));
        assert_eq!(line("namespace").as_deref(), Some("payouts"));
        assert_eq!(sheet.data["policy"], json!({ "maxAttempts": 3 }));
    }

    #[tokio::test]
    async fn a_change_is_meant_for_the_version_that_was_read() {
        use clap::Parser;
        let cli = crate::args::Cli::try_parse_from(["firstclaim", "version"]).unwrap();
        let context = Context::new(cli.global);
        let args = SetArgs {
            name: None,
            policy: Box::default(),
            unset: vec!["lease_max".to_owned()],
            etag: None,
            dry_run: true,
        };
        // The fake refuses any other version, and any other mask.
        assert_eq!(set(&context, &Fake, args.clone()).await.unwrap(), exit::DONE);
        let nothing = SetArgs { unset: Vec::new(), ..args };
        assert!(set(&context, &Fake, nothing).await.unwrap_err().to_string().contains("--unset"));
        assert_eq!(list(&context, &Fake, ("all", json!({}))).await.unwrap(), exit::DONE);
    }
}
