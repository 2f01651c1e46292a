//! Which program this is.

use std::sync::OnceLock;

/// The version of the program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

static BUILD_ID: OnceLock<&'static str> = OnceLock::new();

/// Says from which sources this binary was built, as status and metrics tell it. The first call
/// counts; the binary makes it before it starts a server.
pub fn set_build_id(build_id: &'static str) {
    if BUILD_ID.set(build_id).is_err() {
        tracing::debug!(build_id, "the build id is set already");
    }
}

/// The build id; empty if nobody said.
pub(crate) fn build_id() -> &'static str {
    BUILD_ID.get().copied().unwrap_or_default()
}
