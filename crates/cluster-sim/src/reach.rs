//! What the runs must have come to see: a batch of seeds that misses one of these tests less than it says.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

macro_rules! marks {
    ($($mark:ident $says:literal)*) => {
        /// Something that has to happen now and then.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Mark { $(#[doc = $says] $mark,)* }

        /// All of them.
        pub const MARKS: &[Mark] = &[$(Mark::$mark,)*];

        impl Mark {
            /// What it is.
            #[must_use]
            pub const fn says(self) -> &'static str {
                match self { $(Self::$mark => $says,)* }
            }
        }
    };
}

marks! {
    MessageLost "a message was lost and sent again"
    MessageHeld "a message was held back by a cut"
    MessageTwice "a call arrived twice"
    AnswerLost "a call arrived and its answer was lost"
    ConnectionLost "a connection was lost"
    Partition "nodes were cut off in both directions"
    OneWayCut "one direction was cut and not the other"
    Bridge "two sides were joined by one node only"
    SlowNode "a node was slow"
    Killed "a process was killed"
    PowerCut "a machine lost its power"
    PowerCutOfAll "all machines lost their power at once"
    UnsyncedLost "a crash took unsynced writes away"
    UnsyncedKept "a crash left some unsynced writes and took others"
    Paused "a process stood still and went on"
    MajorityPaused "most of the processes stood still together"
    DiskError "a disk refused a write"
    DiskFull "a disk was full"
    EndedItself "a process ended itself because of its disk"
    ClockJumped "a wall clock jumped forwards"
    ClockSetBack "a wall clock was set back"
    Transfer "leadership was handed over on purpose"
    LeaderChange "another node came to lead"
    Snapshot "a snapshot was made"
    Purge "a log was purged"
    Install "a snapshot of another node was installed"
    FiveVoters "a cluster of five"
    Unknown "a call had an unknown outcome"
    UnknownApplied "a call with an unknown outcome turned out to be in the log"
    UnknownNeverApplied "a call with an unknown outcome turned out not to be in the log"
    NotProposed "a call was told that it was not proposed"
    Late "an answer came when nobody waited for it any more"
    Discarded "a leader lost an entry that it had taken on"
    NoQuorum "a leader without a majority took nothing on"
    LocalReplay "a duplicate was answered from a node's own state"
    LocalReplayOfFollower "a duplicate was answered by a node that did not lead"
    First "a first claim"
    AlreadyHeld "the same attempt came again"
    Takeover "a lapsed claim was taken over"
    Recovery "a claim was granted to find out what happened"
    Retried "a released claim was tried again"
    Pending "a claim was told to wait"
    Unresolved "a claim was told that something may have happened"
    Mismatch "another request came under a known key"
    StaleRefused "a superseded epoch was refused"
    Settled "something open was settled"
    ResultDropped "a result was gone when it was asked for"
    Forgotten "a key was forgotten and claimed anew"
    StaleRead "a linearizable read went through a node that does not lead"
}

/// How often each was seen.
#[derive(Clone, Debug, Default)]
pub struct Reached(Arc<Mutex<BTreeMap<Mark, u64>>>);

impl Reached {
    /// Notes one.
    pub fn mark(&self, mark: Mark) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(mark).or_default() += 1;
    }

    /// How often each was seen.
    pub fn counts(&self) -> BTreeMap<Mark, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
