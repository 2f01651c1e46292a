//! What happens in a run, said so that it still means something when other steps are left out: "the
//! present holder", "the first thing open", "five seconds ago".

use firstclaim_core::PolicyPatch;

/// A run: what the callers mean by an effect's name, the policies at its start, and the steps.
#[derive(Clone, Debug)]
pub(crate) struct Sequence {
    pub(crate) templates: [Template; 3],
    /// Of the tenant, and of each namespace.
    pub(crate) policies: [PolicyPatch; 3],
    pub(crate) steps: Vec<Step>,
}

/// What an effect's name stands for.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    pub(crate) slot: u8,
    pub(crate) provider: u8,
    pub(crate) keyed: bool,
    /// Milliseconds; for ever if `u64::MAX`.
    pub(crate) window: Option<u64>,
}

/// One step.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// The leader's clock goes on.
    Pass(u64),
    /// Another leader is elected.
    Elect,
    /// The next leader's clock is behind.
    ClockBack(u64),
    /// The same command once more, after that many others.
    Again(u8),
    Call(Call),
    Operate(Operation),
}

/// What producers, workers and those who look effects up send.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    Claim(Claiming),
    Renew { who: Who, lease: Option<u64> },
    Complete { who: Who, failed: bool, result: u8, told: Vec<Telling> },
    Release { who: Who, kind: Releasing },
    Record { who: Who, ask: Asking },
    Settle { key: u8, told: Telling },
    Reserve { key: u8, fingerprint: u8, tau: Option<Tau>, admit: bool, allow: bool },
}

/// What operators and the cluster itself send.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Resolve(Resolving),
    Revoke { key: u8, back: u8 },
    Purge { key: u8, back: u8 },
    Extend { namespace: u8, after: Option<u8>, limit: u32 },
    Put(Putting),
    Delete { of: u8, force: bool, etag: bool },
    Sweep(u32),
    Tick,
    Report { key: u8 },
}

/// A policy that is set: of the tenant (0), or of a namespace.
#[derive(Clone, Debug)]
pub(crate) struct Putting {
    pub(crate) of: u8,
    pub(crate) policy: Box<PolicyPatch>,
    pub(crate) mode: How,
    pub(crate) validate_only: bool,
}

/// A claim.
#[derive(Clone, Debug)]
pub(crate) struct Claiming {
    pub(crate) key: u8,
    pub(crate) attempt: u8,
    /// Whose attempt it is, if not its own owner's.
    pub(crate) stranger: bool,
    pub(crate) fingerprint: u8,
    pub(crate) lease: Option<u64>,
    pub(crate) tau: Option<Tau>,
    pub(crate) recover: bool,
    pub(crate) asks: Vec<Asking>,
    pub(crate) complete: Option<(bool, u8)>,
    pub(crate) allow: bool,
}

/// When an intent was born.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tau {
    /// That long after the start of the run.
    At(u64),
    /// That long before (or after) now.
    Ago(i64),
}

/// A caller that holds, or held, the claim of a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Who {
    pub(crate) key: u8,
    /// How many grants ago.
    pub(crate) back: u8,
    /// Whether it sends another attempt id.
    pub(crate) stranger: bool,
}

/// How a claim is given back.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Releasing {
    Retry(u64),
    Unbind,
    Unknown,
}

/// A dispatch that is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asking {
    pub(crate) id: u8,
    pub(crate) number: Numbering,
    pub(crate) within: Option<u64>,
    /// The field that differs from the template.
    pub(crate) twist: Option<u8>,
}

/// Which dispatch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Numbering {
    /// The one after the last permit.
    Next,
    /// The last one again.
    Last,
    Number(u32),
}

/// What somebody says about an effect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Telling {
    pub(crate) of: Of,
    pub(crate) say: Say,
    pub(crate) evidence: u8,
    /// Whether provider or provider key are wrong.
    pub(crate) twist: Option<bool>,
}

/// Which effect.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Of {
    /// That which is open, by its place.
    Open(u8),
    Effect(u8),
    /// The work of that many grants ago.
    Work(u8),
    /// An effect of the life before.
    Former(u8),
}

/// What is said.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Say {
    Committed,
    Refused(Option<u16>),
    /// Looked up that long ago; in the future if negative.
    NotFound(i64),
    Overridden,
}

/// A Resolve.
#[derive(Clone, Debug)]
pub(crate) struct Resolving {
    pub(crate) key: u8,
    pub(crate) back: u8,
    pub(crate) attempt: u8,
    /// What is said of everything open, in turn.
    pub(crate) says: Vec<Say>,
    /// Whether the last open thing is left out.
    pub(crate) short: bool,
    /// Whether something is named that is not open.
    pub(crate) extra: bool,
    pub(crate) evidence: u8,
    /// Completed (failed or not, with which result), or retryable after a pause.
    pub(crate) state: Result<(bool, u8), u64>,
}

/// Create or update.
#[derive(Clone, Copy, Debug)]
pub(crate) enum How {
    /// With the index that all members had applied: none, or all.
    Create {
        all: bool,
    },
    Update {
        etag: bool,
    },
}
