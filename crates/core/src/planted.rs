//! Bugs that can be put in on purpose, to see whether the simulators find them.
//!
//! The feature `planted` is off in every build that serves: there [`is`] is a constant `false`, and the
//! code behind it is gone. With it, at most one bug is chosen at run time. A new bug is one line in the
//! list below and one `if planted::is(…)` where it bites.

/// Whose code a bug is in, and so which simulator has to find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// This crate: found by the simulator of workers, providers and operators.
    Core,
    /// The replica: found by the simulator of a cluster.
    Replica,
}

macro_rules! planted {
    ($($place:ident { $($bug:ident $name:literal $says:literal)* })*) => {
        /// A bug.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Planted { $($(#[doc = $says] $bug,)*)* }

        /// Every bug.
        #[cfg(feature = "planted")]
        pub const ALL: &[Planted] = &[$($(Planted::$bug,)*)*];

        #[cfg(feature = "planted")]
        impl Planted {
            /// The name that it is chosen by.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $($(Self::$bug => $name,)*)* }
            }

            /// What it does.
            #[must_use]
            pub const fn says(self) -> &'static str {
                match self { $($(Self::$bug => $says,)*)* }
            }

            /// Whose code it is in.
            #[must_use]
            pub const fn place(self) -> Place {
                match self { $($(Self::$bug => Place::$place,)*)* }
            }
        }
    };
}

planted! {
    Core {
        LeaseInclusive "lease-inclusive" "A lease still holds at its deadline."
        RenewRevives "renew-revives" "A lapsed lease can be renewed."
        GraceAfterGap "grace-after-gap" "A lease that was written after a gap of stamps gets its grace."
        TimeGoesBack "time-goes-back" "Store time follows a stamp that is behind it."
        EpochRestarts "epoch-restarts" "Epochs start anew when a namespace is deleted."
        OldEpochCompletes "old-epoch-completes" "A superseded epoch completes the record."
        AttemptGrantedTwice "attempt-granted-twice" "An attempt whose claim has lapsed is granted another."
        ReplaySkipsFingerprint "replay-skips-fingerprint" "A completed record answers another request."
        HorizonUnchecked "horizon-unchecked" "A repeat of a forgotten intent is a first claim."
        OnLapseOfPolicy "on-lapse-of-policy" "A lapse means what the present policy says."
        DelayOfPolicy "delay-of-policy" "The takeover delay is that of the present policy."
        RetentionOfPolicy "retention-of-policy" "Retentions are those of the present policy."
        CapCountsRecovery "cap-counts-recovery" "A recovery grant counts towards the attempt cap."
        AgesFromDeadline "ages-from-deadline" "A lapsed claim ages from its deadline, whatever was said since."
        LapseForgetsWork "lapse-forgets-work" "The work of a lapsed claim is not open."
        ReleaseForgetsWork "release-forgets-work" "The work of a claim released UNKNOWN is not open."
        GrantForgetsWork "grant-forgets-work" "A grant forgets the open work of earlier epochs."
        WorkForgetsGrace "work-forgets-grace" "Work is held to be over at the stored deadline, grace aside."
        RetryWithOpen "retry-with-open" "A claim with an open effect can be released RETRY."
        SlotOpenToHolder "slot-open-to-holder" "The holder may send another effect of a slot with an open one."
        SlotOpenBesideCommitted "slot-open-beside-committed" "A slot with a committed effect takes another."
        ModeUnchecked "mode-unchecked" "A RESUME or RECONCILE claim may record new effects."
        NumberByServer "number-by-server" "A repeated dispatch number is taken for the next one."
        WindowOfLastPermit "window-of-last-permit" "The provider's window counts from the last permit."
        WindowUnchecked "window-unchecked" "An effect is sent again outside the provider's window."
        RevokedHolderSends "revoked-holder-sends" "A revoked holder gets permits."
        RevokeIgnoresPermits "revoke-ignores-permits" "A revoked lease ends although a permit is still good."
        ProviderUnchecked "provider-unchecked" "A settlement may name another provider."
        ProviderKeyUnchecked "provider-key-unchecked" "A settlement may name another provider key."
        LookUpJudgedWhenTold "look-up-judged-when-told" "A look-up counts from when it is told, not from when it began."
        HorizonOfLastGrant "horizon-of-last-grant" "An effect has the settle horizon of the last grant only."
        NotCommittedMovesLive "not-committed-moves-live" "NOT_COMMITTED frees a live EXECUTE claim."
        SecondNotCommittedReplaces "second-not-committed-replaces" "A second NOT_COMMITTED replaces the first."
        ConflictUnnoticed "conflict-unnoticed" "COMMITTED after NOT_COMMITTED is taken for a plain settlement."
        ResolveLive "resolve-live" "A live claim can be resolved."
        ResolveKeepsEpoch "resolve-keeps-epoch" "A resolution gives no new epoch."
        OverrideEarly "override-early" "An override counts while the effect may still be sent."
        TerminalChanges "terminal-changes" "A second Complete of the completing epoch replaces the result."
        SweepTakesLive "sweep-takes-live" "The sweeper removes claims by the age of their last write."
        ResultUntilSwept "result-until-swept" "A result is answered until the sweeper drops it."
        CompleteBesideOpen "complete-beside-open" "A record is completed beside an open effect."
        ExecuteBesideOpen "execute-beside-open" "A lapsed claim is executed again beside what is open."
        RiseWithOpen "rise-with-open" "A recovering claim rises while something is open."
        UnbindAfterEffect "unbind-after-effect" "A key is unbound although an effect was recorded under it."
        AnyStatusRefuses "any-status-refuses" "A refusal counts that the provider may take back."
        SkewIgnored "skew-ignored" "The replay horizon grants no skew."
        DeletionForgotten "deletion-forgotten" "A namespace made anew forgets that it was deleted."
        DeletedSkewForgotten "deleted-skew-forgotten" "A namespace made anew knows only its own skew."
    }
    Replica {
        FlushBeforeSync "flush-before-sync" "An entry is reported as flushed before it is synced."
        VoteNotSynced "vote-not-synced" "A vote is not synced."
        ApplyAheadOfFlush "apply-ahead-of-flush" "The state machine is ahead of the synced log."
        SnapshotMetadataOutsideView "snapshot-metadata-outside-view" "A snapshot's metadata is not of its own view."
        ForwardNotApplied "forward-reported-not-applied" "A forwarded call without an answer is reported as not applied."
        WallClockNotHeldBack "wall-clock-not-held-back" "A leader stamps a wall clock that is behind."
        LocalReplayWallClock "local-replay-wall-clock" "A local replay is judged by the wall clock."
        LocalReplayNoFingerprint "local-replay-no-fingerprint" "A local replay is given without the fingerprint check."
        StalePending "stale-node-answers-pending" "A node behind the log answers Pending from its own state."
        VoteForgotten "vote-forgotten" "A vote is not read when the log is opened."
        PurgeTooFar "purge-too-far" "The log is purged past what a snapshot covers."
        AppliedApart "applied-apart" "How far the state has come is written before the state is."
        ReadAsksNobody "read-asks-nobody" "A linearizable read takes the leader's word without a majority's."
        ReadDoesNotWait "read-does-not-wait" "A linearizable read does not wait for the entry that was confirmed."
        OutcomesOutOfOrder "outcomes-out-of-order" "The outcomes of an entry's commands change places."
        TimeoutNotApplied "timeout-reported-not-applied" "A proposal that had no answer in time is reported as not applied."
    }
}

#[cfg(feature = "planted")]
static CHOSEN: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(NONE);

#[cfg(feature = "planted")]
const NONE: u8 = u8::MAX;

/// Puts one bug in, or takes it out again, for the whole process.
#[cfg(feature = "planted")]
pub fn plant(bug: Option<Planted>) {
    let chosen = bug.map_or(NONE, |bug| bug as u8);
    CHOSEN.store(chosen, std::sync::atomic::Ordering::Relaxed);
}

/// The bug of that name.
#[cfg(feature = "planted")]
#[must_use]
pub fn named(name: &str) -> Option<Planted> {
    ALL.iter().copied().find(|bug| bug.name() == name)
}

/// Whether that bug was put in.
#[cfg(feature = "planted")]
#[inline]
#[must_use]
pub fn is(bug: Planted) -> bool {
    CHOSEN.load(std::sync::atomic::Ordering::Relaxed) == bug as u8
}

/// Whether that bug was put in: never, in this build.
#[cfg(not(feature = "planted"))]
#[inline]
#[must_use]
pub const fn is(_: Planted) -> bool {
    false
}

/// Nothing can be planted in a build without the feature: this is worked out by the compiler.
#[cfg(not(feature = "planted"))]
const _: () = assert!(!is(Planted::LeaseInclusive));
