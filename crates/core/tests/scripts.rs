//! Runs every script under `tests/scripts/` against the contract.
//!
//! A script is a list of commands and, below each `---`, what they printed. Regenerate with
//! `UPDATE_GOLDENFILES=1 cargo test -p firstclaim-core --test scripts`, then read the diff: a
//! changed line is a changed contract. Times and durations are in seconds. `at` lets time pass as in
//! a healthy cluster, `stall` without a stamp in between, `elect` starts a new term. The commands from
//! `batch` to `end` are one entry of the log.

#[path = "support/show.rs"]
mod show;
mod support;
#[path = "support/told.rs"]
mod told;

use std::error::Error;
use std::path::Path;

use firstclaim_core::command::{
    Admission, Claim, Complete, CompleteWith, DeleteNamespace, DeleteTenant, Dispatch,
    ExtendExisting, Holder, Purge, PutMode, PutNamespace, PutTenant, RecordEffect, Release,
    ReleaseKind, Renew, Reserve, Resolve, Resolved, Revoke, Settle, SettleEffect, Sweep,
};
use firstclaim_core::effect::Verdict;
use firstclaim_core::name::{EffectId, Principal, ProviderKey, ProviderName, Region, SlotName};
use firstclaim_core::policy::{DuplicateIntent, OnLapse, ReplayWindow, Requirement, Retention};
use firstclaim_core::record::{Disposition, Epoch, ResultBody, State};
use firstclaim_core::{
    Answer, AttemptId, Command, Content, EffectName, EffectUid, Fingerprint, FingerprintSet,
    IdempotencyKey, Labels, Millis, NamespaceName, OwnerLabel, PolicyPatch, RecordId, RecordRef,
    Scheme, Slot, Stamp, Store, TenantName, Timestamp, apply, decide,
};
use goldenscript::Context;

use crate::show::{expiry, secs, show_answer, show_completion, show_journal, show_refusal};
use crate::support::MemoryStore;

type Failure = Box<dyn Error>;
type Line = goldenscript::Command;

test_each_file::test_each_path! { in "crates/core/tests/scripts" as clause => run_script }

fn run_script(path: &Path) {
    goldenscript::run(&mut Runner::new(), path).expect("script failed");
}

/// One tenant `t` with one namespace `n`, unless the script makes others.
struct Runner {
    store: MemoryStore,
    now: Timestamp,
    term: u64,
    index: u64,
    /// The commands since `batch`: `end` sends them as one entry.
    entry: Option<Vec<(String, Command)>>,
}

impl goldenscript::Runner for Runner {
    type Command = Line;

    fn run(&mut self, line: &Line, _: &Context) -> Result<String, Failure> {
        let mut args = Args(line.consume_args());
        let output = match line.name.as_str() {
            "at" => {
                self.pass_until(Timestamp(args.millis()?.0));
                String::new()
            }
            "stall" => {
                self.now = Timestamp(args.millis()?.0);
                String::new()
            }
            "elect" => {
                self.term += 1;
                String::new()
            }
            "show" => self.show(&args.word()?)?,
            "local" => self.local(&mut args)?,
            "unfinished" => told::unfinished(&mut self.store, &args.word()?)?,
            "history" => told::history(&mut self.store, &args.word()?)?,
            "batch" => {
                self.entry = Some(Vec::new());
                String::new()
            }
            "end" => {
                let (labels, commands): (Vec<_>, Vec<_>) =
                    self.entry.take().ok_or("end without batch")?.into_iter().unzip();
                let answers = labels.into_iter().zip(self.apply_all(&commands));
                answers.map(|(label, answer)| format!("{label} → {answer}\n")).collect()
            }
            name => {
                let (label, command) = self.command(name, &mut args)?;
                if let Some(entry) = &mut self.entry {
                    entry.push((label, command));
                    String::new()
                } else {
                    format!("{label} → {}\n", self.apply(command))
                }
            }
        };
        args.0.reject_next()?;
        Ok(output)
    }
}

impl Runner {
    fn new() -> Self {
        let mut runner = Self {
            store: MemoryStore::default(),
            now: Timestamp(0),
            term: 1,
            index: 0,
            entry: None,
        };
        let tenant = TenantName::parse("t").expect("name");
        let mode = PutMode::Create { members_applied: 0 };
        // The same request under many keys is no fault here, unless a script is about that.
        let off = DuplicateIntent::Off;
        let policy = PolicyPatch { duplicate_intent: Some(off), ..PolicyPatch::default() };
        runner.apply(Command::PutTenant(PutTenant {
            tenant: tenant.clone(),
            policy,
            mode,
            validate_only: false,
        }));
        runner.apply(Command::PutNamespace(PutNamespace {
            tenant,
            namespace: NamespaceName::parse("n").expect("name"),
            policy: PolicyPatch::default(),
            mode,
            validate_only: false,
        }));
        runner
    }

    /// Lets time pass as in a healthy cluster, which stamps every five seconds. A long time passes
    /// in one stall, but so early that its grace is over by the end.
    fn pass_until(&mut self, end: Timestamp) {
        if end.since(self.now) > Millis::from_secs(10_000) {
            self.now = end.before(Millis::from_secs(20));
            self.apply(Command::Tick);
        }
        while end.since(self.now) > Millis::from_secs(5) {
            self.now = self.now.after(Millis::from_secs(5));
            self.apply(Command::Tick);
        }
        self.now = end;
    }

    fn apply(&mut self, command: Command) -> String {
        self.apply_all(&[command]).concat()
    }

    fn apply_all(&mut self, commands: &[Command]) -> Vec<String> {
        self.index += 1;
        let stamp = Stamp { term: self.term, index: self.index, time: self.now };
        let outcomes = apply(&mut self.store, stamp, commands).expect("infallible");
        let shown = outcomes.iter().map(|outcome| match &outcome.result {
            Ok(answer) => show_answer(answer),
            Err(refusal) => show_refusal(refusal),
        });
        shown.collect()
    }

    /// What a replica whose latest possible store time is `latest=` answers a claim on its own.
    fn local(&mut self, args: &mut Args<'_>) -> Result<String, Failure> {
        let latest = args.secs("latest")?.map(|latest| Timestamp(latest.0));
        let (label, command) = claim(args)?;
        let Command::Claim(claim) = command else { return Err("not a claim".into()) };
        let slot = self.store.namespace(&claim.record.tenant, &claim.record.namespace)?;
        let namespace = slot.and_then(Slot::live).ok_or("no namespace")?;
        let tenant = self.store.tenant(&claim.record.tenant)?;
        let policy = namespace.effective(&tenant.and_then(Slot::live).ok_or("no tenant")?);
        let id = RecordId { namespace: namespace.id, key: claim.record.key.clone() };
        let applied = self.store.cluster()?.clock.now();
        let replay = self.store.record(&id)?.and_then(|record| {
            decide::local_replay(&policy, &record, &claim, applied, latest.unwrap_or(applied))
        });
        let answer =
            replay.map_or("nothing".to_owned(), |it| show_answer(&Answer::Replay(Box::new(it))));
        Ok(format!("local {label} → {answer}\n"))
    }

    fn show(&mut self, key: &str) -> Result<String, Failure> {
        let target = record(key)?;
        let slot = self.store.namespace(&target.tenant, &target.namespace)?;
        let Some(namespace) = slot.and_then(Slot::live) else {
            return Ok(format!("{key} = no namespace\n"));
        };
        let id = RecordId { namespace: namespace.id, key: target.key };
        let Some(record) = self.store.record(&id)? else {
            return Ok(format!("{key} = not stored\n"));
        };
        let clock = self.store.cluster()?.clock;
        let logical = record.logical(&clock);
        let logical = logical.map_or("forgotten".to_owned(), |it| format!("{it:?}").to_lowercase());
        let stored = match &record.state {
            State::Reserved { .. } => "reserved".to_owned(),
            State::Claimed => {
                let deadline = record.deadline(&clock).unwrap_or_default();
                let expire = record.grant.as_ref().map(|grant| grant.lease_expire_time);
                format!(
                    "claimed lease={} deadline={}",
                    secs(expire.unwrap_or_default()),
                    secs(deadline)
                )
            }
            State::Unresolved { since } => format!("unresolved since={}", secs(*since)),
            State::Retryable { not_before, identity_expire_time } => {
                let until = expiry(*identity_expire_time);
                format!("retryable not_before={} identity={until}", secs(*not_before))
            }
            State::Unbound { identity_expire_time, .. } => {
                format!("unbound identity={}", expiry(*identity_expire_time))
            }
            State::Completed(completion) => show_completion(completion),
        };
        Ok(format!(
            "{key} = {logical}: {stored} epoch={} grants={} evidence={}{}\n",
            record.epoch.0,
            record.execute_grants,
            record.evidence.len(),
            show_journal(&record.journal(&clock)),
        ))
    }
}

/// Consumes the arguments of a line.
struct Args<'a>(goldenscript::ArgumentConsumer<'a>);

impl Args<'_> {
    fn word(&mut self) -> Result<String, Failure> {
        Ok(self.0.next_pos().ok_or("an argument is missing")?.to_owned())
    }

    fn millis(&mut self) -> Result<Millis, Failure> {
        parse_secs(&self.word()?)
    }

    fn key(&mut self, key: &str) -> Option<String> {
        self.0.take_key(key).map(str::to_owned)
    }

    fn secs(&mut self, key: &str) -> Result<Option<Millis>, Failure> {
        self.key(key).map(|text| parse_secs(&text)).transpose()
    }

    fn number(&mut self, key: &str) -> Result<Option<u64>, Failure> {
        Ok(self.key(key).map(|text| text.parse()).transpose()?)
    }

    /// Whether one of the remaining words is `word`; all remaining words are taken.
    fn flags(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.0.next_pos().map(str::to_owned)).collect()
    }
}

/// Decimal seconds, to the millisecond.
fn parse_secs(text: &str) -> Result<Millis, Failure> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let whole: u64 = whole.parse()?;
    Ok(Millis(whole * 1000 + format!("{part:0<3}").parse::<u64>()?))
}

/// `key`, or `namespace/key`, in tenant `t`.
fn record(name: &str) -> Result<RecordRef, Failure> {
    let (namespace, key) = name.split_once('/').unwrap_or(("n", name));
    Ok(RecordRef {
        tenant: TenantName::parse("t")?,
        namespace: NamespaceName::parse(namespace)?,
        key: IdempotencyKey::parse(key)?,
    })
}

/// `fp=1`, `fp=1,other:2` or `fp=none`: digests of one repeated byte, scheme `s` unless named.
fn fingerprints(text: &str) -> Result<FingerprintSet, Failure> {
    if text == "none" {
        return Ok(FingerprintSet::default());
    }
    let mut all = Vec::new();
    for one in text.split(',') {
        let (scheme, rest) = one.split_once(':').unwrap_or(("s", one));
        let mut words = rest.split('+');
        let byte = words.next().unwrap_or_default().parse()?;
        let mut parts = std::collections::BTreeMap::new();
        for part in words {
            let (name, byte) = part.split_once('.').ok_or("write a part as name.byte")?;
            parts.insert(name.to_owned(), vec![byte.parse()?; 32]);
        }
        all.push(Fingerprint::new(Scheme::parse(scheme)?, vec![byte; 32], parts)?);
    }
    Ok(FingerprintSet::new(all)?)
}

impl Runner {
    /// The life of a key at this time; 0 if there is none.
    fn life(&mut self, target: &RecordRef) -> Result<u64, Failure> {
        let slot = self.store.namespace(&target.tenant, &target.namespace)?;
        let Some(namespace) = slot.and_then(Slot::live) else { return Ok(0) };
        let id = RecordId { namespace: namespace.id, key: target.key.clone() };
        Ok(self.store.record(&id)?.map_or(0, |record| record.life))
    }

    fn command(&mut self, name: &str, args: &mut Args<'_>) -> Result<(String, Command), Failure> {
        match name {
            "complete" | "fail" => {
                let (label, holder) = holder(args)?;
                let life = self.life(&holder.record)?;
                complete(label, holder, life, args, name == "fail")
            }
            "settle" => {
                let (key, record) = target(args)?;
                let life = self.life(&record)?;
                settle_effect(&key, record, life, args)
            }
            "resolve" => {
                let (key, record) = target(args)?;
                let life = self.life(&record)?;
                resolve(&key, record, life, args)
            }
            name => command(name, args),
        }
    }
}

/// `ID` or `@EPOCH`, of the key's present life or of `life=`.
fn effect_uid(text: &str, life: u64) -> Result<EffectUid, Failure> {
    let separator = if text.starts_with('@') { "" } else { "/" };
    Ok(EffectUid::parse(&format!("{life}{separator}{text}"))?)
}

fn command(name: &str, args: &mut Args<'_>) -> Result<(String, Command), Failure> {
    match name {
        "claim" => claim(args),
        "renew" => {
            let (key, holder) = holder(args)?;
            let lease = args.secs("lease")?;
            Ok((format!("renew {key}"), Command::Renew(Renew { holder, lease })))
        }
        "release" => release(args),
        "effect" => effect(args),
        "revoke" => {
            let (key, record) = target(args)?;
            let epoch = Epoch(args.number("epoch")?.ok_or("epoch= is missing")?);
            let revoke = Revoke { record, epoch, reason: "stuck".into(), principal: operator()? };
            Ok((format!("revoke {key}"), Command::Revoke(revoke)))
        }
        "purge" => {
            let (key, record) = target(args)?;
            let expected_epoch = Epoch(args.number("epoch")?.ok_or("epoch= is missing")?);
            let reason = "asked to".into();
            let purge = Purge { record, expected_epoch, reason, principal: operator()? };
            Ok((format!("purge {key}"), Command::Purge(purge)))
        }
        "reserve" | "admit" => reserve(args, name == "admit"),
        "report" => told::report(args),
        "extend" => {
            let extend = ExtendExisting {
                tenant: TenantName::parse("t")?,
                namespace: NamespaceName::parse(args.word()?)?,
                after: args.key("after").map(IdempotencyKey::parse).transpose()?,
                limit: u32::try_from(args.number("limit")?.unwrap_or(512))?,
                principal: operator()?,
            };
            Ok(("extend".into(), Command::ExtendExisting(extend)))
        }
        "tenant" | "namespace" => put(name, args),
        "delete" => delete(args),
        "sweep" => {
            let limit = u32::try_from(args.number("limit")?.unwrap_or(512))?;
            Ok(("sweep".into(), Command::Sweep(Sweep { limit })))
        }
        "tick" => Ok(("tick".into(), Command::Tick)),
        other => Err(format!("no such command: {other}").into()),
    }
}

fn claim(args: &mut Args<'_>) -> Result<(String, Command), Failure> {
    let key = args.word()?;
    let attempt = args.word()?;
    let owner = args.key("owner").unwrap_or_else(|| format!("worker-{attempt}"));
    let fingerprints = fingerprints(&args.key("fp").unwrap_or_else(|| "1".into()))?;
    let effects = match args.key("effects") {
        Some(ids) => ids.split(',').map(|id| dispatch(id, args)).collect::<Result<_, _>>()?,
        None => Vec::new(),
    };
    let done = |disposition, text: String| CompleteWith {
        disposition,
        result: ResultBody::inline(text.into_bytes(), "text/plain".into()),
    };
    let succeeded = args.key("done").map(|text| done(Disposition::Succeeded, text));
    let failed = args.key("failed").map(|text| done(Disposition::Failed, text));
    let (lease, intent_time) =
        (args.secs("lease")?, args.secs("born")?.map(|born| Timestamp(born.0)));
    let flags = args.flags();
    let claim = Claim {
        record: record(&key)?,
        attempt_id: AttemptId::parse(attempt.clone())?,
        owner: OwnerLabel::parse(owner)?,
        fingerprints,
        lease,
        intent_time,
        labels: Labels::default(),
        accept_recovery: flags.contains(&"recover".to_owned()),
        region: Region::unknown(),
        effects,
        complete_with: succeeded.or(failed),
        allow_duplicate_intent: flags.contains(&"another".to_owned()),
    };
    Ok((format!("{key} {attempt}"), Command::Claim(claim)))
}

fn operator() -> Result<Principal, Failure> {
    Ok(Principal::parse("operator")?)
}

fn target(args: &mut Args<'_>) -> Result<(String, RecordRef), Failure> {
    let key = args.word()?;
    let record = record(&key)?;
    Ok((key, record))
}

/// The dispatch of an effect: of provider `bank` by the key `ID-key`, which is good for a day, in a
/// slot of its own name, unless said otherwise; `none` stands for no key or no window.
fn dispatch(id: &str, args: &mut Args<'_>) -> Result<Dispatch, Failure> {
    let given = |text: Option<String>, default: Option<String>| match text.as_deref() {
        Some("none") => None,
        Some(text) => Some(text.to_owned()),
        None => default,
    };
    let provider_key = given(args.key("pkey"), Some(format!("{id}-key")));
    let window = given(args.key("window"), Some("86400".into()));
    Ok(Dispatch {
        id: EffectId::parse(id)?,
        number: u32::try_from(args.number("n")?.unwrap_or(1))?,
        slot: SlotName::parse(args.key("slot").unwrap_or_else(|| id.to_owned()))?,
        provider: ProviderName::parse(args.key("provider").unwrap_or_else(|| "bank".into()))?,
        provider_key: provider_key.map(ProviderKey::parse).transpose()?,
        dedup_window: window.map(|text| retention(&text)).transpose()?,
        request: Content::new(args.key("request").unwrap_or_default().into_bytes(), String::new()),
        within: args.secs("within")?,
    })
}

fn effect(args: &mut Args<'_>) -> Result<(String, Command), Failure> {
    let (label, holder) = holder(args)?;
    let id = args.word()?;
    let dispatch = dispatch(&id, args)?;
    let label = format!("{label} {id} n={}", dispatch.number);
    Ok((label, Command::RecordEffect(RecordEffect { holder, dispatch })))
}

/// `committed`, `refused`, `refused=STATUS`, `notfound=AS_OF` or `override`.
fn verdict(text: &str) -> Result<Verdict, Failure> {
    let (word, value) = text.split_once('=').unwrap_or((text, ""));
    match word {
        "committed" => Ok(Verdict::Committed),
        "refused" if value.is_empty() => Ok(Verdict::Refused { status: None }),
        "refused" => Ok(Verdict::Refused { status: Some(value.parse()?) }),
        "notfound" => Ok(Verdict::NotFound { as_of: Timestamp(parse_secs(value)?.0) }),
        "override" => Ok(Verdict::Overridden),
        other => Err(format!("no such verdict: {other}").into()),
    }
}

/// A settlement of an effect by the provider and key that [`dispatch`] gives it.
fn settle(
    uid: EffectUid,
    verdict_text: &str,
    evidence: &str,
    args: &mut Args<'_>,
) -> Result<Settle, Failure> {
    let (provider, key) = match &uid.name {
        EffectName::Effect(id) => (Some("bank".to_owned()), Some(format!("{id}-key"))),
        EffectName::Work(_) => (None, None),
    };
    let given = |text: Option<String>, default: Option<String>| match text.as_deref() {
        Some("none") => None,
        Some(text) => Some(text.to_owned()),
        None => default,
    };
    Ok(Settle {
        uid,
        provider: given(args.key("provider"), provider).map(ProviderName::parse).transpose()?,
        provider_key: given(args.key("pkey"), key).map(ProviderKey::parse).transpose()?,
        verdict: verdict(verdict_text)?,
        evidence: Content::new(evidence.as_bytes().to_vec(), "text/plain".into()),
    })
}

fn settle_effect(
    key: &str,
    record: RecordRef,
    life: u64,
    args: &mut Args<'_>,
) -> Result<(String, Command), Failure> {
    let name = args.word()?;
    let uid = effect_uid(&name, args.number("life")?.unwrap_or(life))?;
    let mut verdict = args.word()?;
    for value in ["status", "as_of"] {
        if let Some(value) = args.key(value) {
            verdict = format!("{verdict}={value}");
        }
    }
    let evidence = args.key("evidence").unwrap_or_default();
    let settle = settle(uid, &verdict, &evidence, args)?;
    let principal = operator()?;
    let command = SettleEffect { record, settle, principal };
    Ok((format!("settle {key} {name}"), Command::SettleEffect(command)))
}

fn resolve(
    key: &str,
    record: RecordRef,
    life: u64,
    args: &mut Args<'_>,
) -> Result<(String, Command), Failure> {
    let attempt_id = AttemptId::parse(args.word()?)?;
    let expected_epoch = Epoch(args.number("epoch")?.ok_or("epoch= is missing")?);
    let result = ResultBody::inline(
        args.key("result").unwrap_or_default().into_bytes(),
        "text/plain".into(),
    );
    let retry_after = args.secs("after")?.unwrap_or_default();
    let state = match args.word()?.as_str() {
        "completed" => {
            Resolved::Completed(CompleteWith { disposition: Disposition::Succeeded, result })
        }
        "failed" => Resolved::Completed(CompleteWith { disposition: Disposition::Failed, result }),
        "retryable" => Resolved::Retryable { retry_after },
        other => return Err(format!("no such state: {other}").into()),
    };
    let mut verdicts = Vec::new();
    for word in args.flags() {
        let (name, text) = word.split_once(':').ok_or("write a verdict as NAME:VERDICT")?;
        verdicts.push((effect_uid(name, life)?, verdict(text)?));
    }
    let command = Resolve {
        record,
        expected_epoch,
        attempt_id,
        verdicts,
        evidence: Content::new(b"ticket 1".to_vec(), "text/plain".into()),
        reason: "looked at the bank".into(),
        principal: operator()?,
        state,
    };
    Ok((format!("resolve {key}"), Command::Resolve(command)))
}

fn reserve(args: &mut Args<'_>, admit: bool) -> Result<(String, Command), Failure> {
    let (key, record) = target(args)?;
    let fingerprints = fingerprints(&args.key("fp").unwrap_or_else(|| "1".into()))?;
    let intent_time = args.secs("born")?.map(|born| Timestamp(born.0));
    let admission = Admission { principal: operator()?, reason: "never sent".into() };
    let command = Reserve {
        record,
        fingerprints,
        intent_time,
        labels: Labels::default(),
        allow_duplicate_intent: args.flags().contains(&"another".to_owned()),
        admit: admit.then_some(admission),
    };
    let label = if admit { "admit" } else { "reserve" };
    Ok((format!("{label} {key}"), Command::Reserve(command)))
}

fn holder(args: &mut Args<'_>) -> Result<(String, Holder), Failure> {
    let key = args.word()?;
    let attempt_id = AttemptId::parse(args.word()?)?;
    let epoch = Epoch(args.number("epoch")?.ok_or("epoch= is missing")?);
    Ok((format!("{key} {attempt_id}"), Holder { record: record(&key)?, epoch, attempt_id }))
}

fn complete(
    label: String,
    holder: Holder,
    life: u64,
    args: &mut Args<'_>,
    failed: bool,
) -> Result<(String, Command), Failure> {
    let bytes = match args.number("bytes")? {
        Some(count) => vec![b'x'; usize::try_from(count)?],
        None => args.key("result").unwrap_or_default().into_bytes(),
    };
    let disposition = if failed { Disposition::Failed } else { Disposition::Succeeded };
    let reference = args.key("reference");
    let mut result = ResultBody::inline(bytes, "text/plain".into());
    if reference.is_some() {
        result = ResultBody { reference, ..result.without_bytes() };
    }
    let mut settlements = Vec::new();
    for word in args.flags() {
        let (name, rest) = word.split_once(':').ok_or("write NAME:VERDICT:EVIDENCE")?;
        let (verdict, evidence) = rest.split_once(':').unwrap_or((rest, ""));
        settlements.push(settle(effect_uid(name, life)?, verdict, evidence, args)?);
    }
    Ok((label, Command::Complete(Complete { holder, disposition, result, settlements })))
}

fn release(args: &mut Args<'_>) -> Result<(String, Command), Failure> {
    let (label, holder) = holder(args)?;
    let retry_after = args.secs("after")?.unwrap_or_default();
    let kind = match args.word()?.as_str() {
        "retry" => ReleaseKind::Retry { retry_after },
        "unbind" => ReleaseKind::Unbind,
        "unknown" => ReleaseKind::Unknown { note: "no answer".into() },
        other => return Err(format!("no such release: {other}").into()),
    };
    Ok((label, Command::Release(Release { holder, kind })))
}

fn retention(text: &str) -> Result<Retention, Failure> {
    Ok(if text == "forever" { Retention::Forever } else { Retention::For(parse_secs(text)?) })
}

fn patch(args: &mut Args<'_>) -> Result<PolicyPatch, Failure> {
    let requirement = |text: String| {
        if text == "required" { Requirement::Required } else { Requirement::Optional }
    };
    let window = |text: String| -> Result<Vec<ReplayWindow>, Failure> {
        Ok(vec![ReplayWindow { name: "redrive".into(), window: parse_secs(&text)? }])
    };
    Ok(PolicyPatch {
        lease_default: args.secs("lease")?,
        lease_max: args.secs("lease_max")?,
        takeover_delay: args.secs("takeover_delay")?,
        on_lapse: args
            .key("on_lapse")
            .map(|text| if text == "takeover" { OnLapse::Takeover } else { OnLapse::Recover }),
        result_retention: args.secs("result")?,
        identity_retention: args.key("identity").map(|text| retention(&text)).transpose()?,
        replay_windows: args.key("window").map(window).transpose()?,
        intent_time: args.key("intent_time").map(requirement),
        intent_time_skew: args.secs("skew")?,
        fingerprint: args.key("fingerprint").map(requirement),
        max_attempts: args.number("max_attempts")?.map(u32::try_from).transpose()?,
        result_bytes_max: args.number("result_bytes")?.map(u32::try_from).transpose()?,
        settle_horizon: args.secs("horizon")?,
        reserve: args.key("reserve").map(requirement),
        records_max: args.number("records")?,
        duplicate_intent: args.key("duplicates").map(|text| match text.as_str() {
            "off" => DuplicateIntent::Off,
            "block" => DuplicateIntent::Block,
            _ => DuplicateIntent::Warn,
        }),
        duplicate_intent_window: args.secs("duplicates_window")?,
        ..PolicyPatch::default()
    })
}

fn put(what: &str, args: &mut Args<'_>) -> Result<(String, Command), Failure> {
    let name = args.word()?;
    let policy = patch(args)?;
    let create = args.number("applied")?;
    let flags = args.flags();
    let mode = if flags.contains(&"create".to_owned()) {
        PutMode::Create { members_applied: create.unwrap_or(0) }
    } else {
        PutMode::Update { expected: None }
    };
    let validate_only = flags.contains(&"validate".to_owned());
    let command = if what == "tenant" {
        let tenant = TenantName::parse(name.clone())?;
        Command::PutTenant(PutTenant { tenant, policy, mode, validate_only })
    } else {
        let (tenant, namespace) = (TenantName::parse("t")?, NamespaceName::parse(name.clone())?);
        Command::PutNamespace(PutNamespace { tenant, namespace, policy, mode, validate_only })
    };
    Ok((format!("{what} {name}"), command))
}

fn delete(args: &mut Args<'_>) -> Result<(String, Command), Failure> {
    let what = args.word()?;
    let name = args.word()?;
    let force = args.flags().contains(&"force".to_owned());
    let command = if what == "tenant" {
        let tenant = TenantName::parse(name.clone())?;
        Command::DeleteTenant(DeleteTenant { tenant, expected: None, force })
    } else {
        let (tenant, namespace) = (TenantName::parse("t")?, NamespaceName::parse(name.clone())?);
        Command::DeleteNamespace(DeleteNamespace { tenant, namespace, expected: None, force })
    };
    Ok((format!("delete {what} {name}"), command))
}
