//! How scripts print what was answered, and what is stored.

use firstclaim_core::effect::{Effect, Findings, Journal, Work};
use firstclaim_core::name::ProviderKey;
use firstclaim_core::outcome::{
    Acquired, Completed, Inherited, Permitted, Released, ReleasedState, Reserved, Settled,
};
use firstclaim_core::record::Completion;
use firstclaim_core::{Answer, Expiry, IdempotencyKey, OwnerLabel, Refusal, Timestamp};

pub(crate) fn secs(time: Timestamp) -> String {
    let (whole, part) = (time.0 / 1000, time.0 % 1000);
    if part == 0 { whole.to_string() } else { format!("{whole}.{part:03}") }
}

pub(crate) fn expiry(expiry: Expiry) -> String {
    match expiry {
        Expiry::At(time) => secs(time),
        Expiry::Never => "never".into(),
    }
}

fn show_findings(findings: &Findings) -> String {
    let settled = match &findings.settlement {
        None => "open".to_owned(),
        Some(settlement) => {
            let evidence = settlement.evidence.bytes.as_deref().unwrap_or(b"-");
            format!("{:?} {:?}", settlement.verdict, String::from_utf8_lossy(evidence))
        }
    };
    let conflict = if findings.conflict { " conflict" } else { "" };
    let contradicted = match findings.contradictions.len() {
        0 => String::new(),
        count => format!(" contradicted={count}"),
    };
    format!("{settled}{conflict}{contradicted}")
}

fn show_work(work: &Work) -> String {
    format!(
        " work({} {} since={} deadline={} by={}: {})",
        work.epoch.0,
        work.cause.map_or("told".into(), |cause| format!("{cause:?}")),
        secs(work.since),
        secs(work.deadline),
        work.owner,
        show_findings(&work.findings)
    )
}

fn show_effect(effect: &Effect) -> String {
    let permits: Vec<_> = effect
        .permits
        .iter()
        .map(|permit| format!("{}@{}<{}", permit.number, permit.epoch.0, secs(permit.not_after)))
        .collect();
    format!(" effect({} {}: {})", effect.id, permits.join(","), show_findings(&effect.findings))
}

pub(crate) fn show_journal(journal: &Journal) -> String {
    let works = journal.works.iter().map(show_work);
    works.chain(journal.effects.iter().map(show_effect)).collect()
}

fn show_permitted(permitted: &Permitted) -> String {
    format!(
        "permit {} n={} not_after={} key={}{}",
        permitted.uid,
        permitted.permit.number,
        secs(permitted.permit.not_after),
        permitted.provider_key.as_ref().map_or("-", ProviderKey::as_str),
        if permitted.repeated { " repeated" } else { "" }
    )
}

fn show_settled(settled: &Settled) -> String {
    format!(
        "settled {}{} {:?}{}{} left:{}{}",
        show_findings(&settled.findings),
        if settled.repeated { " repeated" } else { "" },
        settled.state,
        settled.mode.map_or(String::new(), |mode| format!(" {mode:?}")),
        if settled.completed_record { " completed_record" } else { "" },
        if settled.open.is_empty() { " nothing".into() } else { show_journal(&settled.open) },
        show_inherited(settled.inherited.as_ref())
    )
}

fn show_inherited(inherited: Option<&Inherited>) -> String {
    inherited.map_or(String::new(), |it| {
        format!(" inherited: on_lapse={:?}{}", it.on_lapse, show_journal(&it.journal))
    })
}

fn show_reserved(reserved: &Reserved) -> String {
    format!(
        "reserved created={} {:?} epoch={} until={}{}{}{}",
        reserved.created,
        reserved.state,
        reserved.epoch.0,
        reserved.identity_expire_time.map_or("-".into(), expiry),
        if reserved.horizon_checked { " horizon_checked" } else { "" },
        if reserved.intent_time_differs { " intent_time_differs" } else { "" },
        show_similar(&reserved.similar_keys)
    )
}

fn show_similar(keys: &[IdempotencyKey]) -> String {
    if keys.is_empty() {
        return String::new();
    }
    let keys: Vec<_> = keys.iter().map(IdempotencyKey::as_str).collect();
    format!(" similar={}", keys.join(","))
}

pub(crate) fn show_completion(completion: &Completion) -> String {
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
    let permits: String = acquired
        .permits
        .iter()
        .map(|answer| match answer {
            Ok(permitted) => format!(" [{}]", show_permitted(permitted)),
            Err(refusal) => format!(" [{}]", show_refusal(refusal)),
        })
        .collect();
    format!(
        "acquired {:?} epoch={} {:?} until={} on_lapse={:?}{}{}{}{}{permits}{}",
        acquired.kind,
        acquired.epoch.0,
        acquired.mode,
        secs(acquired.lease_expire_time),
        acquired.on_lapse,
        if acquired.horizon_checked { " horizon_checked" } else { "" },
        if acquired.intent_time_differs { " intent_time_differs" } else { "" },
        show_journal(&acquired.journal),
        show_similar(&acquired.similar_keys),
        match &acquired.completion {
            Some(completion) => format!(" {}", show_completion(completion)),
            None => String::new(),
        }
    )
}

pub(crate) fn show_answer(answer: &Answer) -> String {
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
            show_journal(&unresolved.open)
        ),
        Answer::Renewed(renewed) => {
            format!(
                "renewed {:?} until={}{}",
                renewed.mode,
                secs(renewed.lease_expire_time),
                show_inherited(renewed.inherited.as_ref())
            )
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
        Answer::Permitted(permitted) => show_permitted(permitted),
        Answer::Settled(settled) => show_settled(settled),
        Answer::Reserved(reserved) => show_reserved(reserved),
        Answer::Resolved(it) => format!(
            "resolved {:?} epoch={}{}",
            it.state,
            it.epoch.0,
            if it.repeated { " repeated" } else { "" }
        ),
        Answer::Revoked(it) => format!(
            "revoked epoch={} until={}{}",
            it.epoch.0,
            secs(it.lease_expire_time),
            if it.repeated { " repeated" } else { "" }
        ),
        Answer::Purged(it) => {
            format!("purged epoch={}{}", it.epoch.0, if it.repeated { " repeated" } else { "" })
        }
        Answer::Extended(it) => format!(
            "extended {} of {} next={}",
            it.extended,
            it.seen,
            it.next.as_ref().map_or("-", IdempotencyKey::as_str)
        ),
        Answer::Reported => "reported".into(),
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

pub(crate) fn show_refusal(refusal: &Refusal) -> String {
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
        Refusal::UnsettledEffects { open, .. } => show_journal(open).trim_start().to_owned(),
        Refusal::EffectNotFound { uid } | Refusal::EffectOpen { uid } => uid.to_string(),
        Refusal::EffectSettled { uid, findings } => format!("{uid} {}", show_findings(findings)),
        Refusal::EffectMismatch { uid, field } => format!("{uid} {field}"),
        Refusal::RedispatchUnsafe { uid, dedup_until } => {
            format!("{uid} dedup_until={}", dedup_until.map_or("-".into(), expiry))
        }
        Refusal::DispatchNumber { uid, next } => format!("{uid} next={next}"),
        Refusal::EvidenceConflict { uid, evidence_kept } => {
            format!("{uid}{}", if *evidence_kept { " evidence_kept" } else { "" })
        }
        Refusal::NotYetProvable { uid, provable_time } => {
            format!("{uid} provable={}", secs(*provable_time))
        }
        Refusal::StillLive { until } => format!("until={}", secs(*until)),
        Refusal::NotPurgeable { epoch, state } => format!("epoch={} {state:?}", epoch.0),
        Refusal::DuplicateIntent { similar_keys } => show_similar(similar_keys).trim().to_owned(),
        Refusal::RecordsExhausted { records_max } => format!("max={records_max}"),
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
        | Refusal::KeyNotReserved
        | Refusal::ResultConflict { .. } => String::new(),
    };
    format!("{} {detail}", refusal.reason().as_str()).trim_end().to_owned()
}
