//! The Rust SDK of firstclaim.
