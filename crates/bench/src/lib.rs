//! The closed-loop load driver behind firstclaim bench.
