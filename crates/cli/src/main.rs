//! The firstclaim binary.
fn main() {}
