//! What `build.rs` generates from the `.proto` files, and the lints that generated code is spared.

#![expect(
    missing_docs,
    unused_qualifications,
    clippy::allow_attributes_without_reason,
    clippy::large_enum_variant,
    clippy::missing_errors_doc,
    clippy::too_many_lines,
    reason = "generated; the .proto files carry the documentation"
)]

use firstclaim_core::limits;

use crate::weigh::{Part, Shape, Shaped};

include!(concat!(env!("OUT_DIR"), "/shapes.rs"));

/// The public services and messages.
pub mod v1 {
    include!(concat!(env!("OUT_DIR"), "/firstclaim.v1.rs"));
}

/// What replicas say to each other.
pub mod peer {
    /// Version 1.
    pub mod v1 {
        include!(concat!(env!("OUT_DIR"), "/firstclaim.peer.v1.rs"));
    }
}
