//! Invariants of semantics §10 that need no network and no crash: I1, I2, I3, I5, I6, I8, I11.
//!
//! Random commands over two keys, five attempts, two fingerprints and small steps of time, so that
//! leases, delays and retentions all end within one run. A failure prints the commands.

mod support;

use std::collections::BTreeMap;

use firstclaim_core::command::{
    Claim, Complete, Holder, PutMode, PutNamespace, PutTenant, Release, ReleaseKind, Renew, Sweep,
};
use firstclaim_core::effect::Work;
use firstclaim_core::name::Region;
use firstclaim_core::outcome::AcquiredKind;
use firstclaim_core::policy::{OnLapse, Retention};
use firstclaim_core::record::{Disposition, Epoch, Mode, ResultBody, State};
use firstclaim_core::{
    Answer, AttemptId, Command, Expiry, Fingerprint, FingerprintSet, IdempotencyKey, Labels,
    Millis, NamespaceName, Outcome, OwnerLabel, PolicyPatch, Record, RecordId, RecordRef, Scheme,
    Stamp, Store, TenantName, Timestamp, apply,
};
use proptest::prelude::*;

use crate::support::MemoryStore;

/// One step of a run.
#[derive(Clone, Debug)]
enum Step {
    Pass(u64),
    Elect,
    Claim { key: u8, attempt: u8, fingerprint: u8, lease: u64, recover: bool },
    Renew { key: u8, back: u64 },
    Complete { key: u8, back: u64, result: u8, failed: bool },
    Release { key: u8, back: u64, kind: u8 },
    Policy { takeover: bool, retention: u64, delay: u64, cap: u32 },
}

fn step() -> impl Strategy<Value = Step> {
    let key = || 0..2u8;
    prop_oneof![
        4 => (1..12_000u64).prop_map(Step::Pass),
        1 => Just(Step::Elect),
        8 => (key(), 0..5u8, 0..8u8, 1..6u64, any::<bool>()).prop_map(
            |(key, attempt, fingerprint, lease, recover)| Step::Claim {
                key,
                attempt,
                fingerprint: u8::from(fingerprint == 0),
                lease,
                recover
            }
        ),
        2 => (key(), 0..3u64).prop_map(|(key, back)| Step::Renew { key, back }),
        3 => (key(), 0..3u64, 0..2u8, 0..4u8).prop_map(|(key, back, result, failed)| {
            Step::Complete { key, back, result, failed: failed == 0 }
        }),
        3 => (key(), 0..3u64, 0..3u8)
            .prop_map(|(key, back, kind)| Step::Release { key, back, kind }),
        1 => (any::<bool>(), 6..40u64, 0..4u64, 0..4u32).prop_map(
            |(takeover, retention, delay, cap)| Step::Policy { takeover, retention, delay, cap }
        ),
    ]
}

/// A state under commands, and who was granted what.
struct Run {
    store: MemoryStore,
    now: u64,
    term: u64,
    index: u64,
    /// Attempts by epoch, as the caller of a later step knows them.
    granted: BTreeMap<u8, Vec<(Epoch, AttemptId)>>,
}

impl Run {
    fn new() -> Self {
        let mut run = Self {
            store: MemoryStore::default(),
            now: 1_000_000,
            term: 1,
            index: 0,
            granted: BTreeMap::new(),
        };
        run.apply(Command::PutTenant(PutTenant {
            tenant: tenant(),
            policy: PolicyPatch::default(),
            mode: PutMode::Create { members_applied: 0 },
            validate_only: false,
        }));
        run.put_policy(PutMode::Create { members_applied: 0 }, (false, 20, 0, 0));
        run
    }

    fn put_policy(&mut self, mode: PutMode, (takeover, secs, delay, cap): (bool, u64, u64, u32)) {
        let on_lapse = if takeover { OnLapse::Takeover } else { OnLapse::Recover };
        let policy = PolicyPatch {
            on_lapse: Some(on_lapse),
            takeover_delay: Some(Millis::from_secs(delay)),
            result_retention: Some(Millis::from_secs(secs / 2)),
            identity_retention: Some(Retention::For(Millis::from_secs(secs))),
            max_attempts: Some(cap),
            ..PolicyPatch::default()
        };
        let namespace = namespace();
        self.apply(Command::PutNamespace(PutNamespace {
            tenant: tenant(),
            namespace,
            policy,
            mode,
            validate_only: false,
        }));
    }

    fn apply(&mut self, command: Command) -> Outcome {
        self.index += 1;
        let stamp = Stamp { term: self.term, index: self.index, time: Timestamp(self.now) };
        apply(&mut self.store, stamp, &[command]).expect("infallible").remove(0)
    }

    fn record(&mut self, key: u8) -> Option<Record> {
        let slot = self.store.namespace(&tenant(), &namespace()).expect("infallible");
        let namespace = slot?.live()?.id;
        self.store.record(&RecordId { namespace, key: name(key) }).expect("infallible")
    }

    /// What a caller that holds the `back`-last grant of a key would send.
    fn holder(&self, key: u8, back: u64) -> Option<Holder> {
        let granted = self.granted.get(&key)?;
        let at = granted.len().checked_sub(1 + usize::try_from(back).ok()?)?;
        let (epoch, attempt_id) = granted[at].clone();
        Some(Holder { record: target(key), epoch, attempt_id })
    }

    /// Takes one step; nothing for steps that are no command.
    fn take(&mut self, step: &Step) -> Option<(u8, Command, Outcome)> {
        let (key, command) = match step.clone() {
            Step::Pass(millis) => {
                self.now += millis;
                return None;
            }
            Step::Elect => {
                self.term += 1;
                return None;
            }
            Step::Policy { takeover, retention, delay, cap } => {
                let mode = PutMode::Update { expected: None };
                self.put_policy(mode, (takeover, retention, delay, cap));
                return None;
            }
            Step::Claim { key, attempt, fingerprint, lease, recover } => {
                (key, Command::Claim(claim(key, attempt, fingerprint, lease, recover)))
            }
            Step::Renew { key, back } => {
                (key, Command::Renew(Renew { holder: self.holder(key, back)?, lease: None }))
            }
            Step::Complete { key, back, result, failed } => {
                let holder = self.holder(key, back)?;
                let disposition = if failed { Disposition::Failed } else { Disposition::Succeeded };
                let result = ResultBody::inline(vec![result], String::new());
                let settlements = Vec::new();
                (key, Command::Complete(Complete { holder, disposition, result, settlements }))
            }
            Step::Release { key, back, kind } => {
                let holder = self.holder(key, back)?;
                let kind = match kind {
                    0 => ReleaseKind::Retry { retry_after: Millis(500) },
                    1 => ReleaseKind::Unbind,
                    _ => ReleaseKind::Unknown { note: String::new() },
                };
                (key, Command::Release(Release { holder, kind }))
            }
        };
        let outcome = self.apply(command.clone());
        if let (Command::Claim(claim), Ok(Answer::Acquired(acquired))) = (&command, &outcome.result)
            && acquired.kind != AcquiredKind::AlreadyHeld
        {
            let granted = (acquired.epoch, claim.attempt_id.clone());
            self.granted.entry(key).or_default().push(granted);
        }
        Some((key, command, outcome))
    }
}

fn tenant() -> TenantName {
    TenantName::parse("t").expect("name")
}

fn namespace() -> NamespaceName {
    NamespaceName::parse("n").expect("name")
}

fn name(key: u8) -> IdempotencyKey {
    IdempotencyKey::parse(format!("k{key}")).expect("key")
}

fn target(key: u8) -> RecordRef {
    RecordRef { tenant: tenant(), namespace: namespace(), key: name(key) }
}

fn claim(key: u8, attempt: u8, fingerprint: u8, lease: u64, recover: bool) -> Claim {
    let scheme = Scheme::parse("s").expect("scheme");
    let fingerprint = Fingerprint::new(scheme, vec![fingerprint; 32], BTreeMap::new());
    Claim {
        record: target(key),
        attempt_id: AttemptId::parse(format!("a{attempt}")).expect("attempt"),
        owner: OwnerLabel::parse(format!("w{attempt}")).expect("owner"),
        fingerprints: FingerprintSet::new(vec![fingerprint.expect("digest")]).expect("set"),
        lease: Some(Millis::from_secs(lease)),
        intent_time: None,
        labels: Labels::default(),
        accept_recovery: recover,
        region: Region::unknown(),
        effects: Vec::new(),
        complete_with: None,
        allow_duplicate_intent: false,
    }
}

/// When the record may be forgotten at the earliest, by its own frozen deadlines.
fn forgotten(record: &Record) -> Expiry {
    match &record.state {
        State::Reserved { identity_expire_time }
        | State::Retryable { identity_expire_time, .. }
        | State::Unbound { identity_expire_time, .. } => *identity_expire_time,
        State::Completed(completion) => completion.identity_expire_time,
        State::Unresolved { .. } => Expiry::Never,
        State::Claimed if may_have_happened(record) => Expiry::Never,
        State::Claimed => {
            let lease = record.grant.as_ref().expect("claimed").lease_expire_time;
            record.frozen.identity_retention.from(lease.max(record.last_write_time))
        }
    }
}

/// Whether a lapse leaves something open: earlier work, or that of an EXECUTE grant under RECOVER.
fn may_have_happened(record: &Record) -> bool {
    let executes = record.grant.as_ref().is_some_and(|grant| grant.mode == Mode::Execute);
    record.noted_open() || (executes && record.frozen.on_lapse == OnLapse::Recover)
}

/// What a record says apart from what people may read in it.
fn bare(record: &Record) -> Record {
    // Evidence may be written down with the work that it speaks of; but until the end work that is open
    // stays open.
    let done = matches!(record.state, State::Completed(_));
    let open = |work: &&Work| !done && work.findings.settlement.is_none();
    let works = record.works.iter().filter(open).cloned().collect();
    let (evidence, last_write_time) = (Vec::new(), Timestamp(0));
    Record { evidence, works, last_write_time, revision: 0, ..record.clone() }
}

/// Runs of each property: few by default, `PROPTEST_CASES` of them if that is set. A failure prints
/// the shortest commands that show it.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(1500)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases()) })]

    /// I1, I2, I6, I8 and I11 along one run.
    /// Reported elsewhere: case 13, case 22, case 68, case 85.
    #[test]
    fn grants_and_results_keep_their_promises(steps in prop::collection::vec(step(), 1..80)) {
        let mut run = Run::new();
        let mut last_epoch = Epoch::NONE;
        let mut epochs: BTreeMap<(u64, AttemptId), Epoch> = BTreeMap::new();
        let mut digests: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        let mut firsts: BTreeMap<u64, u32> = BTreeMap::new();
        for step in &steps {
            let before: Vec<_> = (0..2).map(|key| run.record(key)).collect();
            let Some((key, command, outcome)) = run.take(step) else { continue };
            let after = run.record(key);
            if let (Command::Claim(claim), Ok(Answer::Acquired(acquired))) =
                (&command, &outcome.result)
            {
                let life = after.as_ref().expect("granted").life;
                if acquired.kind == AcquiredKind::First {
                    *firsts.entry(life).or_default() += 1;
                    prop_assert_eq!(firsts[&life], 1, "I1");
                    if let Some(old) = &before[usize::from(key)] {
                        prop_assert!(forgotten(old).has_come(outcome.store_time), "I11: {:?}", old);
                    }
                }
                if acquired.kind != AcquiredKind::AlreadyHeld {
                    prop_assert!(acquired.epoch > last_epoch, "I2");
                    last_epoch = acquired.epoch;
                }
                let known = epochs.entry((life, claim.attempt_id.clone())).or_insert(acquired.epoch);
                prop_assert_eq!(*known, acquired.epoch, "I6");
            }
            if let Some(record) = &after
                && let State::Completed(completion) = &record.state
            {
                let digest = digests
                    .entry(record.life)
                    .or_insert_with(|| completion.result.digest.clone());
                prop_assert_eq!(&*digest, &completion.result.digest, "I8");
            }
        }
    }

    /// I3: a superseded epoch changes nothing, unless its success completes the record.
    /// Reported elsewhere: case 25.
    #[test]
    fn superseded_epochs_change_nothing(steps in prop::collection::vec(step(), 1..80)) {
        let mut run = Run::new();
        for step in &steps {
            let before: Vec<_> = (0..2).map(|key| run.record(key)).collect();
            let Some((key, command, outcome)) = run.take(step) else { continue };
            let holder = match &command {
                Command::Renew(renew) => &renew.holder,
                Command::Complete(complete) => &complete.holder,
                Command::Release(release) => &release.holder,
                Command::Claim(_)
                | Command::PutTenant(_)
                | Command::PutNamespace(_)
                | Command::DeleteTenant(_)
                | Command::DeleteNamespace(_)
                | Command::Sweep(_)
                | Command::Tick
                | Command::RecordEffect(_)
                | Command::SettleEffect(_)
                | Command::Reserve(_)
                | Command::Resolve(_)
                | Command::Revoke(_)
                | Command::Purge(_)
                | Command::ExtendExisting(_)
                | Command::Report(_) => continue,
            };
            let before = &before[usize::from(key)];
            let Some(record) = before else {
                prop_assert!(outcome.result.is_err());
                continue;
            };
            if holder.epoch >= record.epoch {
                continue;
            }
            prop_assert!(outcome.result.is_err(), "I3: {:?}", outcome);
            let after = run.record(key).expect("still there");
            let completed_by_evidence = matches!(
                &after.state,
                State::Completed(completion) if completion.by_evidence
                    && completion.epoch == holder.epoch
                    && completion.disposition == Disposition::Succeeded
            );
            if !completed_by_evidence {
                prop_assert_eq!(bare(record), bare(&after), "I3");
            }
        }
    }

    /// I5: the sweeper changes no answer, whenever it comes by.
    /// Reported elsewhere: case 40.
    #[test]
    fn sweeping_changes_no_answer(
        steps in prop::collection::vec((step(), any::<bool>()), 1..80),
        limit in 1..3u32,
    ) {
        let (mut never, mut often) = (Run::new(), Run::new());
        for (step, sweep) in &steps {
            if *sweep {
                // A tick on the other side: the same stamps on both.
                never.apply(Command::Tick);
                often.apply(Command::Sweep(Sweep { limit }));
            }
            let one = never.take(step).map(|(_, _, outcome)| outcome);
            let other = often.take(step).map(|(_, _, outcome)| outcome);
            prop_assert_eq!(one, other, "I5");
        }
    }

    /// I5: the same log gives the same state.
    /// Reported elsewhere: case 38, case 88.
    #[test]
    fn replaying_the_log_gives_the_same_state(steps in prop::collection::vec(step(), 1..60)) {
        let (mut one, mut other) = (Run::new(), Run::new());
        for step in &steps {
            one.take(step);
        }
        for step in &steps {
            other.take(step);
        }
        prop_assert_eq!(one.store, other.store);
    }
}
