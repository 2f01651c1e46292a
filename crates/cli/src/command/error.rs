//! `firstclaim error`: the catalogue of reasons.

use clap::Subcommand;
use firstclaim_client::Reason;
use serde_json::{Value, json};

use crate::context::Context;
use crate::exit;
use crate::failure::{Failure, explain};
use crate::output::Shown;

/// What to explain.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// List all reasons
    List,
    /// Explain one reason: what happened, and what to do
    Explain {
        /// The reason, such as STALE_EPOCH
        reason: String,
    },
}

pub(crate) fn run(context: &Context, action: &Action) -> Result<u8, Failure> {
    match action {
        Action::List => {
            let all: Vec<Value> = Reason::ALL.iter().map(|reason| entry(*reason)).collect();
            let rows = Reason::ALL
                .iter()
                .map(|reason| vec![reason.as_str().to_owned(), reason.meaning().to_owned()]);
            let shown =
                Shown::Rows { header: vec!["REASON", "WHAT HAPPENED"], rows: rows.collect() };
            context.out.data("ReasonList", json!({ "reasons": all }), &shown)?;
        }
        Action::Explain { reason } => {
            let name = reason.trim().to_ascii_uppercase().replace('-', "_");
            let reason = Reason::parse(&name).ok_or_else(|| {
                let message =
                    format!("there is no reason {name:?}; `firstclaim error list` lists them");
                Failure::Other { message, code: exit::NOT_FOUND }
            })?;
            if context.out.format.is_json() {
                context.out.data("Reason", entry(reason), &Shown::Fields(Vec::new()))?;
            } else {
                context.out.text(&explain(reason))?;
            }
        }
    }
    Ok(exit::DONE)
}

fn entry(reason: Reason) -> Value {
    json!({
        "reason": reason.as_str(),
        "whatHappened": reason.meaning(),
        "whatToDo": reason.advice(),
    })
}
