//! The replicated log and the disk of firstclaim.
