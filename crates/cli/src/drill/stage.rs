//! Cues between the attempts of one message, so that they meet where the scenario wants them to.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// How long an attempt waits for its cue. If none comes it goes on, and the scenario will lack what
/// it had to show.
pub(crate) const CUE_WITHIN: Duration = Duration::from_secs(15);

/// What has happened to a message so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cues {
    /// Grants of its claim to different attempts.
    pub(crate) grants: u32,
    /// Whether an attempt after the first has sent something.
    pub(crate) successor_sends: bool,
    /// Whether the attempt that came back late has said all that it had to say.
    pub(crate) spoken: bool,
}

/// The stage of one message.
#[derive(Debug, Default)]
pub(crate) struct Stage {
    cues: watch::Sender<Cues>,
}

impl Stage {
    /// Gives a cue.
    pub(crate) fn give(&self, change: impl FnOnce(&mut Cues)) {
        self.cues.send_modify(change);
    }

    /// Waits for a cue, but not for ever.
    pub(crate) async fn wait(&self, cue: impl FnMut(&Cues) -> bool) {
        let mut cues = self.cues.subscribe();
        // Both the end of the wait and the end of the stage mean: go on.
        let _waited = timeout(CUE_WITHIN, cues.wait_for(cue)).await.is_ok();
    }

    /// What has happened so far.
    pub(crate) fn cues(&self) -> Cues {
        *self.cues.borrow()
    }
}
