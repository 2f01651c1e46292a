//! The failure table: what goes wrong, what must be seen, and what each row is there to catch.
//!
//! # Which row notices which missing check
//!
//! The drill has to fail against a store that lacks one of its checks. Provider and answers are the
//! witnesses:
//!
//! * **No fingerprint check.** `two-requests-one-key`: the second request is answered with the first
//!   one's result, or is granted and paid under its key, instead of FINGERPRINT_MISMATCH. It is asked
//!   while the claim is live, after it has lapsed, and after completion at every endpoint, so that
//!   the check is needed on every path, local replay included.
//! * **No epoch check.** `lease-expires-before-send`, `both-alive` and `both-alive-unjournaled`: the
//!   attempt that comes back late renews, records, releases and completes under its old epoch, and
//!   each of these must be refused. In the last one the accepted word "I have done nothing" makes the
//!   record claimable while the successor is at work, and the provider, which takes no keys, pays
//!   twice.
//! * **No effect journal.** The claims of these namespaces lapse under TAKEOVER, so the journal is all
//!   that stands between a lapse and a second payment. `answer-lost` and `nobody-can-tell`: without
//!   the journal the successor is granted EXECUTE with nothing open and pays again (and nothing is
//!   listed as unresolved). `crash-after-effect`, `both-alive`: the provider key lives in the journal
//!   and nowhere else, so a successor that does not get it mints another one, and the provider pays
//!   again. `crash-before-completion`: without the settled effect the successor pays again.
//!   `answer-late`: without the rule of the slot a second effect is permitted beside the open one.

use std::time::Duration;

use firstclaim_client::{time, v1};

use super::fault::Fault;
use super::provider::{Offer, TAKES_LATE};

/// What the workers of a scenario rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protection {
    /// Effects are recorded before they are sent; a lapse with nothing recorded is free.
    Journal,
    /// Nothing is recorded; a lapse means that the work may have happened.
    Recover,
}

/// How the messages of a scenario come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Producer {
    /// One message an intent, one key.
    Plain,
    /// The same, and the message is delivered once more, 14 h after the intent was born, when the
    /// key is still known.
    RedrivesKept,
    /// The same, when the key has been forgotten.
    RedrivesForgotten,
    /// The worker mints a key per attempt. The store says that it has seen the request before.
    MintsKeysWarned,
    /// The same; the store refuses.
    MintsKeysBlocked,
    /// Two different requests under one key.
    ReusesKey,
}

/// A row of the failure table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    /// Names the row, and its namespace.
    pub(crate) name: &'static str,
    /// What goes wrong, in a few words.
    pub(crate) story: &'static str,
    pub(crate) protection: Protection,
    pub(crate) provider: Offer,
    pub(crate) producer: Producer,
    /// Strikes every message of the scenario once.
    pub(crate) fault: Fault,
    /// Answers that must have been seen, each entry a choice. A drill that did not see them has not
    /// tested what it says.
    pub(crate) must: &'static [&'static [&'static str]],
}

/// The refusals of an attempt that was superseded, by the name under which the drill counts them.
pub(crate) const FENCED: &str = "fenced";
/// A permit, renewal or dispatch that a worker did not use or get because its time was over.
pub(crate) const EXPIRED_PERMIT: &str = "permit not used";
pub(crate) const SIMILAR: &str = "similar keys named";

/// Longer than the provider ever takes, so that "not found" proves something soon.
const SETTLE_HORIZON: Duration = Duration::from_millis(900);
const _: () = assert!(TAKES_LATE.as_millis() < SETTLE_HORIZON.as_millis());

const ROW: Scenario = Scenario {
    name: "",
    story: "",
    protection: Protection::Journal,
    provider: Offer::LookUps,
    producer: Producer::Plain,
    fault: Fault::Nothing,
    must: &[],
};

/// The failure table.
pub(crate) const TABLE: &[Scenario] = &[
    Scenario {
        name: "lease-expires-before-send",
        story: "the lease ends between the permit and the send",
        provider: Offer::Keys,
        fault: Fault::StallsBeforeSend,
        must: &[&["RECOVERY RESUME"], &[EXPIRED_PERMIT], &[FENCED]],
        ..ROW
    },
    Scenario {
        name: "answer-late",
        story: "sent; the provider acts after the worker gave up waiting",
        provider: Offer::Keys,
        fault: Fault::AnswerComesLate,
        must: &[&["EFFECT_OPEN"], &["re-dispatched"]],
        ..ROW
    },
    Scenario {
        name: "answer-lost",
        story: "the provider has acted; the answer is lost and the worker dies",
        fault: Fault::AnswerIsLost,
        must: &[&["RECOVERY RECONCILE"], &["settled COMMITTED"]],
        ..ROW
    },
    Scenario {
        name: "request-lost",
        story: "the request never arrives and the worker dies",
        fault: Fault::RequestIsLost,
        must: &[&["RECOVERY RECONCILE"], &["settled NOT_COMMITTED"]],
        ..ROW
    },
    Scenario {
        name: "answer-unknown",
        story: "the answer is lost; the worker lives and says that it does not know",
        fault: Fault::AnswerIsUnknown,
        must: &[&["released UNKNOWN"], &["RECOVERY RECONCILE"], &["settled COMMITTED"]],
        ..ROW
    },
    Scenario {
        name: "both-alive",
        story: "a slow worker comes back after another took over",
        provider: Offer::Keys,
        fault: Fault::StallsAfterEffect,
        must: &[&["RECOVERY RESUME"], &[FENCED]],
        ..ROW
    },
    Scenario {
        name: "both-alive-unjournaled",
        story: "the same, with work that is not journaled",
        protection: Protection::Recover,
        fault: Fault::StallsBeforeWork,
        must: &[&["RECOVERY RECONCILE"], &["settled NOT_COMMITTED"], &[FENCED]],
        ..ROW
    },
    Scenario {
        name: "crash-before-effect",
        story: "claimed, then dead",
        fault: Fault::DiesBeforeEffect,
        must: &[&["TAKEOVER"]],
        ..ROW
    },
    Scenario {
        name: "crash-after-effect",
        story: "has the receipt, then dead",
        provider: Offer::Keys,
        fault: Fault::DiesAfterEffect,
        must: &[&["RECOVERY RESUME"], &["re-dispatched"]],
        ..ROW
    },
    Scenario {
        name: "crash-before-completion",
        story: "the effect is settled, then dead",
        fault: Fault::DiesBeforeCompletion,
        must: &[&["TAKEOVER"], &["completed by evidence"]],
        ..ROW
    },
    Scenario {
        name: "crash-before-ack",
        story: "completed, then dead before the acknowledgement",
        fault: Fault::DiesBeforeAcknowledgement,
        must: &[&["REPLAY"]],
        ..ROW
    },
    Scenario {
        name: "redrive-14h-kept",
        story: "redriven 14 h later; the key is still known",
        producer: Producer::RedrivesKept,
        must: &[&["REPLAY"]],
        ..ROW
    },
    Scenario {
        name: "redrive-14h-forgotten",
        story: "redriven 14 h later; the key is forgotten",
        producer: Producer::RedrivesForgotten,
        fault: Fault::RetentionIsShortened,
        must: &[&["LATE_REPLAY"]],
        ..ROW
    },
    Scenario {
        name: "key-per-attempt-warn",
        story: "the worker mints a key per attempt; duplicate_intent WARN",
        producer: Producer::MintsKeysWarned,
        fault: Fault::DiesBeforeAcknowledgement,
        must: &[&[SIMILAR]],
        ..ROW
    },
    Scenario {
        name: "key-per-attempt-block",
        story: "the same; duplicate_intent BLOCK",
        producer: Producer::MintsKeysBlocked,
        fault: Fault::DiesBeforeAcknowledgement,
        must: &[&["DUPLICATE_INTENT"]],
        ..ROW
    },
    Scenario {
        name: "two-requests-one-key",
        story: "two different requests under one key",
        producer: Producer::ReusesKey,
        fault: Fault::DiesBeforeEffect,
        must: &[&["FINGERPRINT_MISMATCH"]],
        ..ROW
    },
    Scenario {
        name: "nobody-can-tell",
        story: "the answer is lost at a provider with neither keys nor look-ups",
        provider: Offer::Nothing,
        fault: Fault::AnswerIsLost,
        must: &[&["UNRESOLVED"]],
        ..ROW
    },
];

/// The names of all rows.
pub(crate) fn names() -> Vec<&'static str> {
    TABLE.iter().map(|row| row.name).collect()
}

impl Scenario {
    /// Whether nobody can find out what happened, so that the only right end is to be listed.
    pub(crate) fn ends_unresolved(&self) -> bool {
        self.provider == Offer::Nothing
    }

    /// The policy of its namespaces.
    pub(crate) fn policy(&self) -> v1::Policy {
        let on_lapse = match self.protection {
            Protection::Journal => v1::OnLapse::Takeover,
            Protection::Recover => v1::OnLapse::Recover,
        };
        let duplicate_intent = match self.producer {
            Producer::MintsKeysBlocked => v1::DuplicateIntent::Block,
            Producer::Plain
            | Producer::RedrivesKept
            | Producer::RedrivesForgotten
            | Producer::MintsKeysWarned
            | Producer::ReusesKey => v1::DuplicateIntent::Warn,
        };
        v1::Policy {
            on_lapse: on_lapse.into(),
            duplicate_intent: duplicate_intent.into(),
            settle_horizon: Some(time::to_wire(SETTLE_HORIZON)),
            ..v1::Policy::default()
        }
    }

    /// Whether a worker mints a key for every attempt.
    pub(crate) fn mints_keys(&self) -> bool {
        matches!(self.producer, Producer::MintsKeysWarned | Producer::MintsKeysBlocked)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_fault_and_every_kind_of_producer_is_in_the_table() {
        let names: BTreeSet<&str> = TABLE.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), TABLE.len());
        let faults: BTreeSet<String> = TABLE.iter().map(|row| format!("{:?}", row.fault)).collect();
        assert_eq!(faults.len(), 13, "{faults:?}");
        let producers: BTreeSet<String> =
            TABLE.iter().map(|row| format!("{:?}", row.producer)).collect();
        assert_eq!(producers.len(), 6, "{producers:?}");
        assert!(TABLE.iter().all(|row| !row.must.is_empty() && !row.story.is_empty()));
    }
}
