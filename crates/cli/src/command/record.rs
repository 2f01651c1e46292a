//! `firstclaim record`: what is known about records, and what happened to them.

mod history;
mod watch;

use std::time::Duration;

use clap::Subcommand;
use firstclaim_client::prost_types::Timestamp;
use firstclaim_client::{time, v1};
use serde_json::{Value, json};

use super::get;
use super::holder::print;
use super::intent::parse_label;
use super::naming::{RecordArgs, WarrantArgs, text};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::Shown;
use crate::view::{self, Sheet};
use crate::{duration, exit};

/// Most entries that one page asks for.
pub(crate) const PAGE: u32 = 500;

/// What to do with records.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Show all that is known about a key
    #[command(after_help = "\
Example:
  firstclaim record show -t acme -n payouts payout:847")]
    Show(get::Args),
    /// Show who claimed a key, when, and what they were answered
    #[command(after_help = "\
Claims that were turned away may lag by a few seconds.

Example:
  firstclaim record history -t acme -n payouts payout:847")]
    History {
        #[command(flatten)]
        key: RecordArgs,
    },
    /// List the records of a namespace by key
    #[command(after_help = "\
Examples:
  firstclaim record list -t acme -n payouts --state unresolved --older-than 1h
  firstclaim record list -t acme -n payouts --prefix payout:2026- --label queue=eu --limit 0")]
    List(Filter),
    /// Follow one record until it is completed, or all of a namespace in the order of the log
    #[command(after_help = "\
Examples:
  firstclaim record watch -t acme -n payouts payout:847
  firstclaim record watch -t acme -n payouts --after 918204 -o json")]
    Watch(watch::Args),
    /// Drop the result of a completed record; the key still answers \"done\"
    #[command(after_help = "\
Example:
  firstclaim record purge -t acme -n payouts payout:847 --epoch E --reason 'erasure request 12'")]
    Purge {
        #[command(flatten)]
        key: RecordArgs,
        /// The epoch that you saw
        #[arg(long)]
        epoch: u64,
        #[command(flatten)]
        warrant: WarrantArgs,
    },
}

/// How much of a list is shown.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// Show at most so many; 0 for all
    #[arg(long, default_value_t = 100, value_name = "N")]
    limit: u32,
    /// Go on where an earlier list ended
    #[arg(long, value_name = "TOKEN")]
    page_token: Option<String>,
}

/// Which records are listed.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Filter {
    /// Only records in this state; repeatable
    #[arg(long, value_parser = state, value_name = "STATE")]
    state: Vec<v1::RecordState>,
    /// Only records first seen at least so long ago
    #[arg(long, value_parser = duration::parse, value_name = "DURATION")]
    older_than: Option<Duration>,
    /// Only records whose latest grant has this owner
    #[arg(long, value_parser = text("owner"))]
    owner: Option<String>,
    /// Only records with an attempt that has this label; repeatable
    #[arg(long, value_parser = parse_label, value_name = "NAME=VALUE")]
    label: Vec<(String, String)>,
    /// Only keys that start with this
    #[arg(long, value_parser = text("prefix"))]
    prefix: Option<String>,
    #[command(flatten)]
    list: ListArgs,
}

pub(crate) async fn run(context: &Context, action: Action) -> Result<u8, Failure> {
    match action {
        Action::Show(args) => get::run(context, args).await,
        Action::History { key } => history::run(context, key).await,
        Action::List(filter) => list(context, filter).await,
        Action::Watch(args) => watch::run(context, args).await,
        Action::Purge { key, epoch, warrant } => {
            let record = key.record(context)?;
            let answer = context.client()?.purge(&record, epoch, warrant.warrant()).await?;
            let mut sheet = Sheet::default();
            sheet.put("key", "key", &record.key);
            sheet.put("epoch", "epoch", answer.epoch.to_string());
            sheet.flag("repeated", "purged before", answer.repeated);
            print(context, "Purge", sheet, answer.store_time.as_ref())
        }
    }
}

fn state(text: &str) -> Result<v1::RecordState, String> {
    let name = format!("RECORD_STATE_{}", text.trim().to_ascii_uppercase().replace('-', "_"));
    let found = v1::RecordState::from_str_name(&name);
    found.filter(|state| *state != v1::RecordState::Unspecified).ok_or_else(|| {
        "is no state; use reserved, claimed, lapsed, unresolved, retryable, unbound or completed"
            .to_owned()
    })
}

async fn list(context: &Context, filter: Filter) -> Result<u8, Failure> {
    let (tenant, namespace) = (context.tenant(None)?, context.namespace(None)?);
    let client = context.client()?;
    let asked = v1::ListRecordsRequest {
        tenant,
        namespace,
        states: filter.state.iter().map(|state| i32::from(*state)).collect(),
        older_than: filter.older_than.map(time::to_wire),
        owner: filter.owner.unwrap_or_default(),
        labels: filter.label.into_iter().collect(),
        key_prefix: filter.prefix.unwrap_or_default(),
        page_size: 0,
        page_token: String::new(),
    };
    let mut listed = Listed::new(filter.list);
    while let Some(page_token) = listed.next() {
        let page_size = listed.wanted().min(PAGE);
        let request = v1::ListRecordsRequest { page_size, page_token, ..asked.clone() };
        let page = client.list_records(request).await?;
        listed.take(page.records, page.next_page_token, page.store_time);
    }
    let header = vec!["KEY", "STATE", "EPOCH", "OWNER", "AGE", "GRANTS", "LABELS"];
    let now = listed.store_time();
    let rows = listed.records().iter().map(|record| row(record, now)).collect();
    listed.print(context, "RecordList", header, rows)?;
    Ok(exit::DONE)
}

fn row(record: &v1::Record, now: Option<&Timestamp>) -> Vec<String> {
    vec![
        record.key.clone(),
        view::state(record.state()),
        record.epoch.to_string(),
        record.owner.clone(),
        view::age(now, record.first_seen_time.as_ref()),
        record.execute_grants.to_string(),
        view::labels(&record.labels),
    ]
}

/// Pages of records, put together up to a limit.
#[derive(Debug)]
pub(crate) struct Listed {
    limit: usize,
    /// Where to go on; none when the list is at its end.
    token: Option<String>,
    records: Vec<v1::Record>,
    store_time: Option<Timestamp>,
}

impl Listed {
    pub(crate) fn new(args: ListArgs) -> Self {
        let limit = if args.limit == 0 { usize::MAX } else { args.limit as usize };
        let token = Some(args.page_token.unwrap_or_default());
        Self { limit, token, records: Vec::new(), store_time: None }
    }

    /// The token of the next page, if one is wanted.
    pub(crate) fn next(&self) -> Option<String> {
        self.token.clone().filter(|_| self.wanted() > 0)
    }

    /// How many records are still wanted.
    pub(crate) fn wanted(&self) -> u32 {
        u32::try_from(self.limit.saturating_sub(self.records.len())).unwrap_or(u32::MAX)
    }

    /// Takes in a page. A short one is not the last one; one without a token is.
    pub(crate) fn take(
        &mut self,
        records: Vec<v1::Record>,
        token: String,
        store_time: Option<Timestamp>,
    ) {
        self.records.extend(records);
        self.token = (!token.is_empty()).then_some(token);
        self.store_time = store_time.or(self.store_time);
    }

    pub(crate) fn records(&self) -> &[v1::Record] {
        &self.records
    }

    pub(crate) fn store_time(&self) -> Option<&Timestamp> {
        self.store_time.as_ref()
    }

    pub(crate) fn print(
        &self,
        context: &Context,
        kind: &str,
        header: Vec<&'static str>,
        rows: Vec<Vec<String>>,
    ) -> Result<(), Failure> {
        let records = self.records.iter().map(|record| Value::Object(view::record(record).data));
        let data = json!({
            "records": records.collect::<Vec<_>>(),
            "nextPageToken": self.token,
            "storeTime": self.store_time.as_ref().map(view::rfc3339),
        });
        context.out.data(kind, data, &Shown::Rows { header, rows })?;
        if let Some(token) = &self.token {
            context.out.say(&format!("there may be more: --page-token {token}, or --limit 0"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(count: usize) -> Vec<v1::Record> {
        vec![v1::Record::default(); count]
    }

    #[test]
    fn short_and_empty_pages_do_not_end_a_list() {
        let mut listed = Listed::new(ListArgs { limit: 5, page_token: None });
        assert_eq!((listed.next().as_deref(), listed.wanted()), (Some(""), 5));
        listed.take(page(0), "a".to_owned(), None);
        listed.take(page(2), "b".to_owned(), None);
        assert_eq!((listed.next().as_deref(), listed.wanted()), (Some("b"), 3));
        listed.take(page(3), "c".to_owned(), None);
        assert_eq!(listed.next(), None);
        assert_eq!(listed.token.as_deref(), Some("c"));
        let mut all = Listed::new(ListArgs { limit: 0, page_token: Some("x".to_owned()) });
        assert_eq!(all.next().as_deref(), Some("x"));
        all.take(page(1), String::new(), None);
        assert_eq!(all.next(), None);
    }

    #[test]
    fn states_are_typed_as_they_are_shown() {
        assert_eq!(state("unresolved"), Ok(v1::RecordState::Unresolved));
        assert_eq!(state("COMPLETED"), Ok(v1::RecordState::Completed));
        for wrong in ["", "unspecified", "done"] {
            assert!(state(wrong).unwrap_err().contains("retryable"), "{wrong}");
        }
    }
}
