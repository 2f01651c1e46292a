//! Runs every script under `tests/scripts/` against the contract.
//!
//! A script is a list of commands and, below each `---`, what they printed. Regenerate with
//! `UPDATE_GOLDENFILES=1 cargo test -p firstclaim-core --test scripts`, then read the diff: a
//! changed line is a changed contract. Times and durations are in seconds. `at` lets time pass as in
//! a healthy cluster, `stall` without a stamp in between, `elect` starts a new term.

mod support;

use std::error::Error;
use std::path::Path;

use firstclaim_core::command::{
    Claim, Complete, DeleteNamespace, DeleteTenant, Holder, PutMode, PutNamespace, PutTenant,
    Release, ReleaseKind, Renew, Sweep,
};
use firstclaim_core::outcome::{Acquired, Completed, Released, ReleasedState};
use firstclaim_core::policy::{OnLapse, ReplayWindow, Requirement, Retention};
use firstclaim_core::record::{Completion, Disposition, Epoch, OpenWork, ResultBody, State};
use firstclaim_core::{
    Answer, AttemptId, Command, Expiry, Fingerprint, FingerprintSet, IdempotencyKey, Labels,
    Millis, NamespaceName, OwnerLabel, PolicyPatch, RecordId, RecordRef, Refusal, Scheme, Slot,
    Stamp, Store, TenantName, Timestamp, apply,
};
use goldenscript::Context;

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
            name => {
                let (label, command) = command(name, &mut args)?;
                format!("{label} → {}\n", self.apply(command))
            }
        };
        args.0.reject_next()?;
        Ok(output)
    }
}

impl Runner {
    fn new() -> Self {
        let mut runner =
            Self { store: MemoryStore::default(), now: Timestamp(0), term: 1, index: 0 };
        let tenant = TenantName::parse("t").expect("name");
        let mode = PutMode::Create { members_applied: 0 };
        let policy = PolicyPatch::default();
        runner.apply(Command::PutTenant(PutTenant {
            tenant: tenant.clone(),
            policy: policy.clone(),
            mode,
            validate_only: false,
        }));
        runner.apply(Command::PutNamespace(PutNamespace {
            tenant,
            namespace: NamespaceName::parse("n").expect("name"),
            policy,
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
        self.index += 1;
        let stamp = Stamp { term: self.term, index: self.index, time: self.now };
        let outcomes = apply(&mut self.store, stamp, &[command]).expect("infallible");
        match &outcomes[0].result {
            Ok(answer) => show_answer(answer),
            Err(refusal) => show_refusal(refusal),
        }
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
            show_open(&record.open_works(&clock)),
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

fn command(name: &str, args: &mut Args<'_>) -> Result<(String, Command), Failure> {
    match name {
        "claim" => claim(args),
        "renew" => {
            let (key, holder) = holder(args)?;
            let lease = args.secs("lease")?;
            Ok((format!("renew {key}"), Command::Renew(Renew { holder, lease })))
        }
        "complete" | "fail" => complete(args, name == "fail"),
        "release" => release(args),
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
    let claim = Claim {
        record: record(&key)?,
        attempt_id: AttemptId::parse(attempt.clone())?,
        owner: OwnerLabel::parse(owner)?,
        fingerprints,
        lease: args.secs("lease")?,
        intent_time: args.secs("born")?.map(|born| Timestamp(born.0)),
        labels: Labels::default(),
        accept_recovery: args.flags().contains(&"recover".to_owned()),
    };
    Ok((format!("{key} {attempt}"), Command::Claim(claim)))
}

fn holder(args: &mut Args<'_>) -> Result<(String, Holder), Failure> {
    let key = args.word()?;
    let attempt_id = AttemptId::parse(args.word()?)?;
    let epoch = Epoch(args.number("epoch")?.ok_or("epoch= is missing")?);
    Ok((format!("{key} {attempt_id}"), Holder { record: record(&key)?, epoch, attempt_id }))
}

fn complete(args: &mut Args<'_>, failed: bool) -> Result<(String, Command), Failure> {
    let (label, holder) = holder(args)?;
    let bytes = match args.number("bytes")? {
        Some(count) => vec![b'x'; usize::try_from(count)?],
        None => args.key("result").unwrap_or_default().into_bytes(),
    };
    let disposition = if failed { Disposition::Failed } else { Disposition::Succeeded };
    let result = ResultBody::inline(bytes, "text/plain".into());
    Ok((label, Command::Complete(Complete { holder, disposition, result })))
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

fn patch(args: &mut Args<'_>) -> Result<PolicyPatch, Failure> {
    let retention = |text: String| -> Result<Retention, Failure> {
        Ok(if text == "forever" { Retention::Forever } else { Retention::For(parse_secs(&text)?) })
    };
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
        identity_retention: args.key("identity").map(retention).transpose()?,
        replay_windows: args.key("window").map(window).transpose()?,
        intent_time: args.key("intent_time").map(requirement),
        intent_time_skew: args.secs("skew")?,
        fingerprint: args.key("fingerprint").map(requirement),
        max_attempts: args.number("max_attempts")?.map(u32::try_from).transpose()?,
        result_bytes_max: args.number("result_bytes")?.map(u32::try_from).transpose()?,
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

fn secs(time: Timestamp) -> String {
    let (whole, part) = (time.0 / 1000, time.0 % 1000);
    if part == 0 { whole.to_string() } else { format!("{whole}.{part:03}") }
}

fn expiry(expiry: Expiry) -> String {
    match expiry {
        Expiry::At(time) => secs(time),
        Expiry::Never => "never".into(),
    }
}

fn show_open(open: &[OpenWork]) -> String {
    let show = |work: &OpenWork| {
        format!(
            " open=work({} {:?} since={} deadline={} by={})",
            work.epoch.0,
            work.cause,
            secs(work.since),
            secs(work.deadline),
            work.owner
        )
    };
    open.iter().map(show).collect()
}

fn show_completion(completion: &Completion) -> String {
    let result = match &completion.result.bytes {
        Some(bytes) => format!("{:?}", String::from_utf8_lossy(bytes)),
        None => format!("{} bytes gone", completion.result.length),
    };
    format!(
        "completed {:?} {result} at={} by={}{}{} result={} identity={}",
        completion.disposition,
        secs(completion.completed_time),
        completion.epoch.0,
        if completion.late { " late" } else { "" },
        if completion.by_evidence { " by_evidence" } else { "" },
        expiry(completion.result_expire_time),
        expiry(completion.identity_expire_time)
    )
}

fn show_acquired(acquired: &Acquired) -> String {
    format!(
        "acquired {:?} epoch={} {:?} until={} on_lapse={:?}{}{}{}",
        acquired.kind,
        acquired.epoch.0,
        acquired.mode,
        secs(acquired.lease_expire_time),
        acquired.on_lapse,
        if acquired.horizon_checked { " horizon_checked" } else { "" },
        if acquired.intent_time_differs { " intent_time_differs" } else { "" },
        show_open(&acquired.open)
    )
}

fn show_answer(answer: &Answer) -> String {
    match answer {
        Answer::Acquired(acquired) => show_acquired(acquired),
        Answer::Replay(replay) => format!(
            "replay {}{}{} age={}",
            show_completion(&replay.completion),
            if replay.by_this_attempt { " by_this_attempt" } else { "" },
            if replay.result_dropped { " result_dropped" } else { "" },
            secs(Timestamp(replay.age.0))
        ),
        Answer::Pending(pending) => format!(
            "pending {:?} holder={} until={} retry_after={}",
            pending.reason,
            pending.holder.as_ref().map_or("-", OwnerLabel::as_str),
            secs(pending.until),
            secs(Timestamp(pending.retry_after.0))
        ),
        Answer::Unresolved(unresolved) => format!(
            "unresolved epoch={} since={}{}",
            unresolved.epoch.0,
            secs(unresolved.since),
            show_open(&unresolved.open)
        ),
        Answer::Renewed(renewed) => {
            format!("renewed {:?} until={}", renewed.mode, secs(renewed.lease_expire_time))
        }
        Answer::Completed(completed) => show_completed(completed),
        Answer::Released(released) => show_released(released),
        Answer::Tenant(put) => format!("ok warnings={:?}", put.warnings),
        Answer::Namespace(put) => format!("ok warnings={:?}", put.warnings),
        Answer::Deleted(deleted) => {
            format!("deleted namespaces={} forced={}", deleted.namespaces, deleted.forced)
        }
        Answer::Swept(swept) => {
            format!(
                "removed={} dropped={} more={}",
                swept.removed, swept.results_dropped, swept.more
            )
        }
        Answer::Ticked => "ticked".into(),
    }
}

fn show_completed(completed: &Completed) -> String {
    let repeated = if completed.repeated { " repeated" } else { "" };
    format!("{}{repeated}", show_completion(&completed.completion))
}

fn show_released(released: &Released) -> String {
    match released.state {
        ReleasedState::Retryable { not_before, identity_expire_time } => format!(
            "retryable not_before={} identity={}",
            secs(not_before),
            expiry(identity_expire_time)
        ),
        ReleasedState::Unbound { identity_expire_time } => {
            format!("unbound identity={}", expiry(identity_expire_time))
        }
        ReleasedState::Unresolved { since } => format!("unresolved since={}", secs(since)),
    }
}

fn show_refusal(refusal: &Refusal) -> String {
    let detail = match refusal {
        Refusal::Invalid(faults) => {
            faults.iter().map(ToString::to_string).collect::<Vec<_>>().join(" | ")
        }
        Refusal::FingerprintMismatch { scheme, parts, first_seen_time } => {
            format!("scheme={scheme} parts={parts:?} first_seen={}", secs(*first_seen_time))
        }
        Refusal::FingerprintIncomparable { bound, sent, .. } => {
            format!("bound={bound:?} sent={sent:?}")
        }
        Refusal::AttemptIdReused { owner } => format!("owner={owner}"),
        Refusal::AttemptSpent { epoch } => format!("epoch={}", epoch.0),
        Refusal::AttemptsExhausted { execute_grants, max_attempts } => {
            format!("grants={execute_grants} max={max_attempts}")
        }
        Refusal::StaleEpoch { epoch, evidence_kept, completed_record } => format!(
            "epoch={}{}{}",
            epoch.map_or("-".into(), |epoch| epoch.0.to_string()),
            if *evidence_kept { " evidence_kept" } else { "" },
            if *completed_record { " completed_record" } else { "" }
        ),
        Refusal::LeaseExpired { lease_expire_time } => secs(*lease_expire_time),
        Refusal::AlreadyCompleted { epoch, evidence_kept, .. } => {
            let kept = if *evidence_kept { " evidence_kept" } else { "" };
            format!("by={}{kept}", epoch.0)
        }
        Refusal::UnsettledEffects { open } => show_open(open).trim_start().to_owned(),
        Refusal::EffectNotAllowed { problem } => problem.clone(),
        Refusal::StillInUse { example } => format!("example={}", example.key),
        Refusal::NameInDeletion { free_time, .. } => format!("free={}", secs(*free_time)),
        Refusal::LateReplay { intent_time } => {
            format!("born={}", intent_time.map_or("-".into(), secs))
        }
        Refusal::IntentTimeInFuture { .. }
        | Refusal::TenantNotFound
        | Refusal::NamespaceNotFound
        | Refusal::RecordNotFound
        | Refusal::AlreadyExists { .. }
        | Refusal::EtagMismatch { .. }
        | Refusal::Revoked
        | Refusal::ResultConflict { .. } => String::new(),
    };
    format!("{} {detail}", refusal.reason().as_str()).trim_end().to_owned()
}
