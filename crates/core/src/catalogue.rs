//! What every reason means and what to do about it: the one text behind the command line's errors
//! and `docs/errors.md`.

use crate::reason::Reason;

impl Reason {
    /// What happened, in one or two sentences for people.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        self.texts().0
    }

    /// What to do about it.
    #[must_use]
    pub const fn advice(self) -> &'static str {
        self.texts().1
    }

    #[expect(clippy::too_many_lines, reason = "a catalogue: one entry a reason")]
    const fn texts(self) -> (&'static str, &'static str) {
        match self {
            Self::InvalidArgument => (
                "A field of the request is wrong; the message names it. Nothing was stored.",
                "Correct the field and send the call again.",
            ),
            Self::IntentTimeInFuture => (
                "The intent time lies further ahead of the store's time than the policy's `intent_time_skew` allows. Nothing was stored.",
                "Send the time at which the intent was born, and check the clock of the machine that sets it.",
            ),
            Self::TenantNotFound => (
                "There is no tenant of that name.",
                "Check the spelling, or create it: `firstclaim tenant create NAME`.",
            ),
            Self::NamespaceNotFound => (
                "The tenant has no namespace of that name.",
                "Check the spelling, or create it: `firstclaim namespace create NAME -t TENANT`.",
            ),
            Self::RecordNotFound => (
                "Nothing is known about the key: it was never claimed, or it was forgotten at the end of its identity retention.",
                "Check tenant, namespace and key; keys are compared byte by byte.",
            ),
            Self::AlreadyExists => (
                "The name is taken.",
                "Use it as it is, change it with `set`, or choose another name.",
            ),
            Self::NameInDeletion => (
                "The name was deleted, and not every member has forgotten it yet.",
                "Wait until every member has applied the deletion, then create it again.",
            ),
            Self::EtagMismatch => (
                "Somebody else changed it since you read it. Nothing was changed.",
                "Read it again, look at what changed, and repeat the change with the new etag.",
            ),
            Self::StillInUse => (
                "A record in it is claimed, or may have happened and nobody has said. Nothing was deleted.",
                "Let the claims end and settle what is open, or delete with `--force`: what is claimed then may be executed again later.",
            ),
            Self::FingerprintMismatch => (
                "The key is bound to another request. Nothing was stored, and the stored result is not shown.",
                "Repeat the first request unchanged, or use a new key for a new intent.",
            ),
            Self::FingerprintIncomparable => (
                "The key is bound by other fingerprint schemes than those that were sent, so nobody can say whether it is the same request. Nothing was stored.",
                "Send a fingerprint of a scheme that the key is bound by; keep sending the old scheme beside a new one until the old records are forgotten.",
            ),
            Self::AttemptIdReused => (
                "The attempt id belongs to another owner. Nothing was stored.",
                "Mint an attempt id per try of one process; never derive it from the message.",
            ),
            Self::AttemptSpent => (
                "This attempt was granted the claim before, and that grant is over. It never gets a second one.",
                "Mint a new attempt id and claim again.",
            ),
            Self::AttemptsExhausted => (
                "The record had as many EXECUTE grants as the policy's `max_attempts` allows.",
                "Find out why the attempts fail; raise `max_attempts`, or complete the record as failed.",
            ),
            Self::LateReplay => (
                "A record of this intent may have been forgotten already, so it may have been executed before. Nothing was stored.",
                "Look the intent up at the provider. Make the identity retention longer than the oldest legitimate repeat.",
            ),
            Self::StaleEpoch => (
                "The epoch was superseded by a later grant, or this caller never held it. What it reported changed nothing; `evidence_kept` says whether the report is kept.",
                "Stop acting on this claim. Claim again with a new attempt id to see how the intent stands.",
            ),
            Self::LeaseExpired => (
                "The lease ended before this call was decided.",
                "Start nothing more under this claim. Report what happened (complete, or release as unknown), or claim again with a new attempt id.",
            ),
            Self::Revoked => (
                "An operator took away the right to renew this claim.",
                "Start nothing more, and report what happened.",
            ),
            Self::AlreadyCompleted => (
                "The record was completed already. What is stored stays.",
                "Claim the key to get the stored result.",
            ),
            Self::ResultConflict => (
                "The same epoch completed the record with another result. The stored one stays.",
                "Keep the stored result. A worker that completes twice with different results is faulty: look at why.",
            ),
            Self::UnsettledEffects => (
                "Something may have happened under an earlier grant, and nobody has said what. Nothing was changed.",
                "Find out what happened and settle it; complete as succeeded if it did happen.",
            ),
            Self::EffectNotAllowed => (
                "The grant, or the state of the key, does not allow this. Nothing was changed.",
                "Do what the mode of the grant allows; see the message.",
            ),
            Self::EffectNotFound => (
                "The record, in its present life, has no such effect. Nothing was changed.",
                "Take the uid from the answer of the claim, or list what is open: `firstclaim record show KEY`.",
            ),
            Self::EffectOpen => (
                "The slot has an effect that may have happened: a timeout is not a refusal. Nothing may be sent beside it.",
                "Settle that effect first, or send it again under its own id and provider key. Effects that do not exclude each other belong in different slots.",
            ),
            Self::EffectSettled => (
                "The effect is settled, or an effect of its slot happened already. It must not be sent again.",
                "Take the evidence that the answer carries, and complete the record with it.",
            ),
            Self::EffectMismatch => (
                "An effect of that uid is known, but with another content, provider or provider key. Nothing was changed.",
                "Send the effect exactly as it was recorded, or record another one under its own id.",
            ),
            Self::RedispatchUnsafe => (
                "By the time that a repeat might arrive, the provider may no longer know the first one, so it could happen twice.",
                "Look the effect up at the provider and settle it; give a provider key and its window when you record effects.",
            ),
            Self::EvidenceConflict => (
                "The evidence contradicts what is known about the effect. What was known stays; the contradiction is kept for people.",
                "Look at both pieces of evidence: `firstclaim record show KEY`. One of the two systems is wrong, or the effect happened twice.",
            ),
            Self::NotYetProvable => (
                "The provider was asked too early: what was sent may still arrive. Nothing was changed.",
                "Get a new store time after the provable time that the message names, ask the provider again, and settle with that.",
            ),
            Self::StillLive => (
                "A holder is at work, or its takeover delay still runs. Nothing was changed.",
                "Wait until the time that the message names, or revoke the claim first.",
            ),
            Self::NotPurgeable => (
                "Only a completed record can be purged, and only by the epoch that you expect. Nothing was changed.",
                "Read the record again; settle or resolve it first if it is not completed.",
            ),
            Self::KeyNotReserved => (
                "The namespace serves only keys that a producer reserved, and nobody reserved this one. Nothing was stored.",
                "Claim the key that came with the message. Reserve keys where the intent is born, never in the worker.",
            ),
            Self::DuplicateIntent => (
                "The same request came under another key not long ago. Nothing was stored.",
                "Use that key: it names the same intent. If it is another intent, say so with `allow_duplicate_intent`.",
            ),
            Self::RecordsExhausted => (
                "The namespace holds as many records as its policy's `records_max` allows. Nothing was stored; holders are not affected.",
                "Raise `records_max`, or wait until records are forgotten.",
            ),
            Self::RateLimited => (
                "The namespace gets more claims a second than its policy's `claims_per_second` allows. This one never reached the log; holders are not affected.",
                "Repeat the call after the pause that the answer names, or raise `claims_per_second`.",
            ),
            Self::Overloaded => (
                "Too many calls are under way. This one never reached the log.",
                "Repeat the call after a pause, or at another node; lower the concurrency if it persists.",
            ),
            Self::StorageFull => (
                "The disk of the node is full. Nothing was stored.",
                "Free space on the node; until then send calls to another one.",
            ),
            Self::NoQuorum => (
                "The leader reaches no majority of the members, so it cannot decide. Nothing was stored.",
                "Repeat the same call, with the same attempt id, when a majority of the regions is back.",
            ),
            Self::NoLeader => (
                "No leader is known at the moment; an election takes a second or two. Nothing was stored.",
                "Repeat the same call, with the same attempt id, here or at another node.",
            ),
            Self::NodeDraining => {
                ("The node is going down. Nothing was stored.", "Send the call to another node.")
            }
            Self::OutcomeUnknown => (
                "The call may or may not have taken effect: its answer was lost, or it was not confirmed in time.",
                "Repeat the same call with the same attempt id; the log recognises it, so this can do no harm. For a call without an attempt id, read first.",
            ),
            Self::DeadlineExceeded => (
                "The time for the call was over before it reached the log. Nothing was stored.",
                "Allow more time (`--timeout`), and look at the load and the network if it happens often.",
            ),
            Self::Internal => (
                "The node failed, or answered something that this version does not understand.",
                "Repeat the call at another node, and look at the log of the node that failed.",
            ),
            Self::Unreachable => (
                "No endpoint answered. Nothing was sent.",
                "Check the endpoints (`--endpoint`), that the nodes run, and the network between.",
            ),
        }
    }
}

/// The catalogue as a page: `docs/errors.md` is exactly this.
#[must_use]
pub fn markdown() -> String {
    let mut page = String::from(HEAD);
    for reason in Reason::ALL {
        page.push_str(&format!(
            "\n## {}\n\n{}\n\nWhat to do: {}\n",
            reason.as_str(),
            reason.meaning(),
            reason.advice()
        ));
    }
    page
}

const HEAD: &str = "\
# Errors

Every failure carries a `google.rpc.ErrorInfo` of the domain `firstclaim` with one of the reasons below.
Its metadata holds every value that the message names, and `applied`:

| applied | meaning |
|---|---|
| `no` | It did not take effect and never will. It may be sent to any node. |
| `maybe` | It may take effect yet. Repeat the same call with the same attempt id. |
| `decided` | The log refused it. Asking again would only repeat that. |

A `google.rpc.RetryInfo` is there exactly when the same call should be repeated.
`firstclaim error explain REASON` prints these texts; `firstclaim help exit-codes` lists the exit codes.

This page is written by a test from `crates/core/src/catalogue.rs`; `make fix` rewrites it.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_says_what_happened_and_what_to_do() {
        for reason in Reason::ALL {
            for text in [reason.meaning(), reason.advice()] {
                assert!(text.ends_with('.') || text.ends_with('`'), "{}: {text}", reason.as_str());
                assert!(text.len() > 15, "{}: {text}", reason.as_str());
            }
            assert_eq!(Reason::parse(reason.as_str()), Some(*reason));
        }
    }

    #[test]
    fn the_page_in_docs_is_this_catalogue() {
        // Tests run in the folder of their crate.
        let path = "../../docs/errors.md";
        if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
            std::fs::write(path, markdown()).unwrap();
        }
        let page = std::fs::read_to_string(path).unwrap();
        assert!(page == markdown(), "docs/errors.md is not the catalogue; run `make fix`");
    }
}
