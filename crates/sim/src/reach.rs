//! What has to happen now and then: a batch of seeds that never gets somewhere shows nothing about it.

macro_rules! markers {
    ($($marker:ident $text:literal)*) => {
        /// A place that a batch of seeds must come by.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Marker { $(#[doc = $text] $marker,)* }

        impl Marker {
            /// Every marker.
            pub const ALL: &'static [Self] = &[$(Self::$marker,)*];

            /// Where that is.
            #[must_use]
            pub const fn says(self) -> &'static str {
                match self { $(Self::$marker => $text,)* }
            }
        }
    };
}

markers! {
    Worked "unjournaled work was done"
    Sent "an effect was sent"
    SentAgain "an effect was sent once more"
    ToldByKey "a provider told a repeat by its key"
    RefusedAgain "a provider refused a repeat of what it had refused"
    WithoutKey "an effect went to a provider without keys"
    ArrivedAfterLease "a request arrived after the lease that it was sent under"
    SentAfterTakeover "a request arrived when another epoch was current"
    FirstClaim "FIRST"
    RecoveryResume "RECOVERY, RESUME"
    RecoveryReconcile "RECOVERY, RECONCILE"
    Takeover "TAKEOVER"
    Retry "RETRY"
    Rebound "REBOUND"
    AlreadyHeld "ALREADY_HELD"
    Replayed "Replay to an honest worker"
    ReplayDropped "Replay without its bytes"
    LateReplay "LATE_REPLAY to an honest worker"
    RiseHeard "a worker heard of its rise"
    LateComplete "a Complete after the lease"
    StaleCompletes "a superseded Complete completed the record"
    Reconciled "a reconciler without a claim settled"
    OperatorResolved "an operator resolved"
    OperatorOverrode "an operator overrode"
    NamespaceDeleted "a namespace of honest workers was deleted"
    GraceHeld "a claim was live by grace alone"
    AtDeadline "a claim came in the millisecond of a deadline"
    Swept "the sweeper removed a record"
    Unswept "a forgotten record stood in the way, unswept"
    Compared "a replica without a sweeper was compared"
    Installed "a replica took a snapshot"
    LocalReplay "a replica that lags answered Replay on its own"
    Raced "two workers asked for a key at once"
    NotApplied "a call was refused before the log"
    EffectsOfTwoSlots "an intent had an effect in both slots"
}

/// How many there are.
const COUNT: usize = Marker::ALL.len();

/// How often each place was reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach([u64; COUNT]);

impl Default for Reach {
    fn default() -> Self {
        Self([0; COUNT])
    }
}

impl Reach {
    pub(crate) fn hit(&mut self, marker: Marker) {
        self.0[marker as usize] += 1;
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (sum, more) in self.0.iter_mut().zip(other.0) {
            *sum += more;
        }
    }

    /// How often one was reached.
    #[must_use]
    pub fn of(&self, marker: Marker) -> u64 {
        self.0[marker as usize]
    }
}
