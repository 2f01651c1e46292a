//! Whole processes of firstclaim under test.
//!
//! * [`binary`] finds the binary and refuses one that was built from another tree.
//! * [`process`] runs it as a child that never outlives the test; [`cluster`] runs three of them.
//!   [`links`] slow down, cut and lose what they say to each other, between [`hosts`] of the test's own if
//!   the machine lets it; [`disks`] are [`forgetful`] when their power
//!   is cut, and full, failing or lying when told to.
//! * [`race`] lets workers at all nodes race for keys and writes down every call in a [`history`];
//!   [`check`] says what is wrong with one. [`readback`] asks the nodes themselves, and [`verdict`]
//!   does it all.
//! * [`cli`] runs the command line as a program does.
//! * [`raw`] sends and receives bytes that no client of ours would.
//! * [`document`] runs the console blocks of a page as they stand there.

pub mod binary;
pub mod check;
pub mod cli;
pub mod cluster;
pub mod disks;
pub mod document;
pub mod forgetful;
pub mod history;
pub mod hosts;
pub mod links;
pub mod process;
pub mod race;
pub mod raw;
pub mod readback;
pub mod seed;
pub mod transcript;
pub mod verdict;

/// Why a test could not go on, in words.
pub type Fault = Box<dyn std::error::Error + Send + Sync>;

/// What a step of a test comes to.
pub type Outcome<T> = Result<T, Fault>;

/// Writes a line that is seen even if the test passes.
pub fn say(line: &str) {
    use std::io::Write as _;
    // Nothing depends on it, and there is nowhere else to report to.
    drop(writeln!(std::io::stderr().lock(), "{line}"));
}
