//! The seams that a simulator stands behind: what runs tasks, what carries calls, what keeps rows.
//!
//! Only the feature `simulated` has them. The code above the seams is that which serves.

pub use crate::runtime::Process;
pub use crate::store::memory::{Logged, LoggedPayload};
pub use crate::transport::{Answering, Call, Lane, Request, Response};

use std::fmt::Debug;
use std::time::Duration;

use tonic::Status;
use tonic::codegen::BoxFuture;

/// What a simulated process meets.
pub trait World: Debug + Send + Sync {
    /// A number that nobody can foresee, the same in every run of one seed.
    fn chance(&self) -> u64;

    /// How long a write of the log takes before it is on disk, and after that until it is told of.
    fn write_takes(&self, node: u64) -> (Duration, Duration);

    /// Makes a call to another replica.
    fn call(&self, call: Call, request: Request) -> BoxFuture<Response, Status>;

    /// A replica answers calls from now on; with none, it does so no longer.
    fn listen(&self, node: u64, answering: Option<Answering>);
}
