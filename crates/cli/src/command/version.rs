//! `firstclaim version`: which program this is, and from which tree it was built.

use serde_json::json;

use crate::context::Context;
use crate::exit;
use crate::failure::Failure;
use crate::output::Shown;

/// The identity of the source tree that this program was built from.
pub(crate) const BUILD_ID: &str = env!("FIRSTCLAIM_BUILD_ID");
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Shows the version.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print only the identity of the source tree
    #[arg(long)]
    build_id: bool,
}

pub(crate) fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    if args.build_id {
        context.out.text(&format!("{BUILD_ID}\n"))?;
        return Ok(exit::DONE);
    }
    let data =
        json!({ "version": VERSION, "buildId": BUILD_ID, "server": cfg!(feature = "server") });
    let shown = Shown::Fields(vec![
        ("firstclaim".to_owned(), VERSION.to_owned()),
        ("build".to_owned(), BUILD_ID.to_owned()),
    ]);
    context.out.data("Version", data, &shown)?;
    Ok(exit::DONE)
}
