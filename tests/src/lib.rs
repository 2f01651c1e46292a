//! Whole processes of firstclaim under test.

pub mod binary;
