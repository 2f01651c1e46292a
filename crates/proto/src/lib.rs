//! The wire of firstclaim: generated types and their conversion to and from the domain.

pub mod codec;
pub mod convert;
pub mod error;
mod generated;
pub mod weigh;

pub use generated::{peer, v1};

/// The descriptors of `firstclaim.v1`, as served by reflection. The peer service is not in it.
pub const FILE_DESCRIPTOR_SET: &[u8] =
    include_bytes!(concat!(env!("OUT_DIR"), "/firstclaim.v1.bin"));
