//! Lets calls in while the node serves, and none once it goes down.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::status::Failure;

/// Calls under way at once; each holds at most one message.
const CALLS_MAX: usize = 16_384;

/// The door.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    draining: CancellationToken,
    calls: TaskTracker,
}

impl Gate {
    /// Lets a call in; it is under way until the token is dropped.
    pub(crate) fn enter(&self) -> Result<TaskTrackerToken, Failure> {
        if self.is_draining() {
            return Err(Failure::draining());
        }
        if self.calls.len() >= CALLS_MAX {
            return Err(Failure::overloaded("too many calls are under way"));
        }
        Ok(self.calls.token())
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.is_cancelled()
    }

    /// Ends once nothing is let in any more: for calls that would go on for long.
    pub(crate) async fn closing(&self) {
        self.draining.cancelled().await;
    }

    /// Lets nothing in any more, and waits until what is under way has ended, but not for ever.
    /// Returns how many calls were left.
    pub(crate) async fn drain(&self, at_most: Duration) -> usize {
        self.draining.cancel();
        self.calls.close();
        match tokio::time::timeout(at_most, self.calls.wait()).await {
            Ok(()) => 0,
            Err(_elapsed) => self.calls.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn draining_refuses_new_calls_and_waits_for_those_under_way() {
        let gate = Gate::default();
        let token = gate.enter().expect("open");
        assert_eq!(gate.drain(Duration::from_millis(20)).await, 1);
        assert!(gate.enter().is_err());
        drop(token);
        assert_eq!(gate.drain(Duration::from_millis(20)).await, 0);
    }
}
