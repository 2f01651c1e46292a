//! What must hold of a history and of the state that was read back after it.
//!
//! The rules know nothing of how the server decides. They follow from the contract alone: one first
//! claim, epochs that only grow, one result, nothing lost that was acknowledged, nothing applied that
//! was said not to be. Keys are independent, so each is judged by itself; only epochs are compared
//! over all of them.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{Answer, Ask, Call, Grant};

/// A record as it was read back in the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Whether it is completed.
    pub completed: bool,
    /// By that epoch.
    pub epoch: u64,
    /// By that attempt.
    pub attempt: String,
    /// With a result of that digest.
    pub digest: Vec<u8>,
    /// Whether a superseded holder's word completed it, whoever held it then.
    pub by_evidence: bool,
    /// How many EXECUTE grants there were.
    pub grants: u32,
}

/// A history, and what it is judged by.
#[derive(Debug)]
pub struct Evidence<'a> {
    /// The calls, by the time of their sending.
    pub calls: &'a [Call],
    /// The records, by key.
    pub stored: &'a BTreeMap<String, Stored>,
    /// Keys whose first holder went away on purpose: only these may be claimed by a later one.
    pub abandoned: &'a BTreeSet<String>,
}

/// What happened to one key.
struct Story<'a> {
    calls: Vec<&'a Call>,
    stored: Option<&'a Stored>,
    abandoned: bool,
}

type Rule = (&'static str, fn(&Story<'_>) -> Option<String>);

/// The rules for one key.
const RULES: [Rule; 9] = [
    ("exactly one first claim", exactly_one_first),
    ("a later claim has a higher epoch", epochs_grow),
    ("one stored result", one_result),
    ("the stored result was sent by the epoch that stored it", result_was_sent),
    ("no acknowledged write is lost", nothing_lost),
    ("what is done stays done", done_stays_done),
    ("what was not applied never shows up", not_applied_stays_out),
    ("every grant was somebody's", grants_are_known),
    ("nobody takes over from a living holder", no_takeover_from_the_living),
];

/// Everything that is wrong.
#[must_use]
pub fn faults(evidence: &Evidence<'_>) -> Vec<String> {
    let mut stories: BTreeMap<&str, Story<'_>> = BTreeMap::new();
    for call in evidence.calls {
        let story = stories.entry(&call.key).or_insert_with(|| Story {
            calls: Vec::new(),
            stored: evidence.stored.get(&call.key),
            abandoned: evidence.abandoned.contains(&call.key),
        });
        story.calls.push(call);
    }
    let mut faults = one_attempt_an_epoch(evidence.calls);
    for (key, story) in &stories {
        for (name, rule) in RULES {
            if let Some(fault) = rule(story) {
                faults.push(format!("{key}: {name}: {fault}"));
            }
        }
    }
    if stories.is_empty() {
        faults.push("the history is empty".to_owned());
    }
    faults
}

impl Story<'_> {
    fn grants(&self) -> impl Iterator<Item = (&Call, Grant, u64)> {
        self.calls.iter().filter_map(|call| match call.answer {
            Answer::Granted { grant, epoch } => Some((*call, grant, epoch)),
            Answer::Replayed { .. }
            | Answer::Waiting { .. }
            | Answer::Stored { .. }
            | Answer::Refused(_)
            | Answer::NotApplied
            | Answer::Unknown => None,
        })
    }

    /// The results that were shown, with the call that showed them.
    fn results(&self) -> impl Iterator<Item = (&Call, u64, &[u8])> {
        self.calls.iter().filter_map(|call| match &call.answer {
            Answer::Replayed { epoch, digest } | Answer::Stored { epoch, digest } => {
                Some((*call, *epoch, digest.as_slice()))
            }
            Answer::Granted { .. }
            | Answer::Waiting { .. }
            | Answer::Refused(_)
            | Answer::NotApplied
            | Answer::Unknown => None,
        })
    }

    fn claims_of<'a>(&'a self, attempt: &'a str) -> impl Iterator<Item = &'a Call> {
        let of = move |call: &&Call| call.ask == Ask::Claim && call.attempt == attempt;
        self.calls.iter().copied().filter(of)
    }
}

/// An epoch is granted to one attempt at one key of the whole cluster.
fn one_attempt_an_epoch(calls: &[Call]) -> Vec<String> {
    let mut holders: BTreeMap<u64, (&str, &str)> = BTreeMap::new();
    let mut faults = Vec::new();
    for call in calls {
        let Answer::Granted { epoch, .. } = call.answer else { continue };
        let holder = (call.key.as_str(), call.attempt.as_str());
        let first = *holders.entry(epoch).or_insert(holder);
        if first != holder {
            faults.push(format!("epoch {epoch} was granted to {first:?} and to {holder:?}"));
        }
    }
    faults
}

/// FIRST is answered once. If its answer was lost on the way, the attempt that holds the lowest epoch
/// has a claim without an answer; or another one has, whose holder was gone when it might have asked again.
fn exactly_one_first(story: &Story<'_>) -> Option<String> {
    let firsts: Vec<_> = story.grants().filter(|(_, grant, _)| *grant == Grant::First).collect();
    match firsts.as_slice() {
        [(_, _, first)] => {
            let lower = story.grants().find(|(_, _, epoch)| epoch < first);
            lower.map(|(call, _, epoch)| {
                format!("epoch {epoch} of {} is lower than that of FIRST, {first}", call.attempt)
            })
        }
        [] => {
            let lowest = story.grants().min_by_key(|(_, _, epoch)| *epoch);
            let lost = lowest.is_some_and(|(call, grant, _)| {
                let unknown = |claim: &Call| claim.answer == Answer::Unknown;
                let claims = story.calls.iter().filter(|call| call.ask == Ask::Claim);
                match grant {
                    Grant::First => false,
                    Grant::Held => story.claims_of(&call.attempt).any(unknown),
                    Grant::Later => {
                        let mut others = claims.filter(|claim| claim.attempt != call.attempt);
                        story.abandoned && others.any(|claim| unknown(claim))
                    }
                }
            });
            (!lost).then(|| "nobody got FIRST".to_owned())
        }
        many => {
            let who: Vec<String> =
                many.iter().map(|(call, _, epoch)| format!("{} ({epoch})", call.attempt)).collect();
            Some(format!("FIRST was answered {} times: {}", many.len(), who.join(", ")))
        }
    }
}

/// A grant that was asked for after an epoch was known has a higher one.
fn epochs_grow(story: &Story<'_>) -> Option<String> {
    for (later, grant, epoch) in story.grants() {
        if grant == Grant::Held {
            continue;
        }
        for (earlier, _, known) in story.grants() {
            let before = earlier.returned.is_some_and(|returned| returned < later.sent);
            if before && known >= epoch {
                return Some(format!("{epoch} was granted after {known} was known"));
            }
        }
    }
    None
}

/// Every answer about the result, and the state, show the same one.
fn one_result(story: &Story<'_>) -> Option<String> {
    let mut shown: BTreeSet<(u64, &[u8])> =
        story.results().map(|(_, epoch, digest)| (epoch, digest)).collect();
    if let Some(stored) = story.stored.filter(|stored| stored.completed) {
        shown.insert((stored.epoch, &stored.digest));
    }
    (shown.len() > 1).then(|| format!("{} results were shown: {shown:02x?}", shown.len()))
}

fn result_was_sent(story: &Story<'_>) -> Option<String> {
    let stored = story.stored.filter(|stored| stored.completed)?;
    let sent = story.calls.iter().any(|call| {
        let ask = Ask::Complete { epoch: stored.epoch, digest: stored.digest.clone() };
        call.ask == ask && call.attempt == stored.attempt && call.answer != Answer::NotApplied
    });
    (!sent).then(|| format!("nobody sent what epoch {} has stored", stored.epoch))
}

fn nothing_lost(story: &Story<'_>) -> Option<String> {
    let Some(stored) = story.stored else { return Some("there is no record".to_owned()) };
    if !stored.completed {
        return Some("the record is not completed".to_owned());
    }
    let newer = story.grants().find(|(_, _, epoch)| *epoch > stored.epoch && !stored.by_evidence);
    if let Some((call, _, epoch)) = newer {
        return Some(format!(
            "epoch {epoch} was granted to {}, and the record has only {}",
            call.attempt, stored.epoch
        ));
    }
    let lost = story.calls.iter().find(|call| match &call.answer {
        Answer::Stored { epoch, digest } => (*epoch, digest) != (stored.epoch, &stored.digest),
        Answer::Granted { .. }
        | Answer::Replayed { .. }
        | Answer::Waiting { .. }
        | Answer::Refused(_)
        | Answer::NotApplied
        | Answer::Unknown => false,
    });
    lost.map(|call| format!("the completion that {} had acknowledged is gone", call.attempt))
}

/// A claim that was sent after a completion was known is answered with it.
fn done_stays_done(story: &Story<'_>) -> Option<String> {
    let done = story.results().filter_map(|(call, _, _)| call.returned).min()?;
    let late = story.calls.iter().find(|call| {
        call.ask == Ask::Claim
            && call.sent > done
            && match call.answer {
                Answer::Granted { .. } | Answer::Waiting { .. } | Answer::Refused(_) => true,
                Answer::Replayed { .. }
                | Answer::Stored { .. }
                | Answer::NotApplied
                | Answer::Unknown => false,
            }
    });
    late.map(|call| format!("{} was answered {:?} after it was done", call.attempt, call.answer))
}

/// An attempt whose claims were all "not applied" holds nothing.
fn not_applied_stays_out(story: &Story<'_>) -> Option<String> {
    let stored = story.stored?;
    let mut claims = story.claims_of(&stored.attempt).peekable();
    claims.peek()?;
    claims
        .all(|claim| claim.answer == Answer::NotApplied)
        .then(|| format!("{} completed it, but was told that it never claimed", stored.attempt))
}

/// The record counts no more grants than the attempts saw or may have missed.
fn grants_are_known(story: &Story<'_>) -> Option<String> {
    let stored = story.stored?;
    let seen: BTreeSet<u64> = story.grants().map(|(_, _, epoch)| epoch).collect();
    let granted: BTreeSet<&str> =
        story.grants().map(|(call, _, _)| call.attempt.as_str()).collect();
    let missed: BTreeSet<&str> = story
        .calls
        .iter()
        .filter(|call| call.ask == Ask::Claim && call.answer == Answer::Unknown)
        .map(|call| call.attempt.as_str())
        .filter(|attempt| !granted.contains(attempt))
        .collect();
    let counted = usize::try_from(stored.grants).unwrap_or(usize::MAX);
    (counted < seen.len() || counted > seen.len() + missed.len()).then(|| {
        format!("{counted} grants are counted, {} were seen, {} missed", seen.len(), missed.len())
    })
}

/// Where nobody goes away, one grant is enough and the log has nothing to refuse.
fn no_takeover_from_the_living(story: &Story<'_>) -> Option<String> {
    if story.abandoned {
        return None;
    }
    story.calls.iter().find_map(|call| match &call.answer {
        Answer::Granted { grant: Grant::Later, epoch } => {
            Some(format!("{} got epoch {epoch}", call.attempt))
        }
        Answer::Refused(reason) => Some(format!("{} was refused: {reason}", call.attempt)),
        Answer::Granted { grant: Grant::First | Grant::Held, .. }
        | Answer::Replayed { .. }
        | Answer::Waiting { .. }
        | Answer::Stored { .. }
        | Answer::NotApplied
        | Answer::Unknown => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A history of one key, as short as it can be written.
    struct Tale {
        calls: Vec<Call>,
        stored: BTreeMap<String, Stored>,
        abandoned: BTreeSet<String>,
    }

    impl Tale {
        /// Two workers race; one is first, completes, and the other sees its result.
        fn good() -> Self {
            let mut tale =
                Self { calls: Vec::new(), stored: BTreeMap::new(), abandoned: BTreeSet::new() };
            tale.claim("a", Answer::Granted { grant: Grant::First, epoch: 5 });
            tale.claim("b", Answer::Waiting { epoch: 5 });
            tale.complete("a", 5, 1, done(5, 1));
            tale.claim("b", Answer::Replayed { epoch: 5, digest: vec![1] });
            tale.state("a", 5, 1, 1);
            tale
        }

        /// The first holder goes away, another one takes over.
        fn taken_over() -> Self {
            let mut tale = Self::good();
            tale.abandoned.insert("k".to_owned());
            tale.calls.remove(2);
            tale.calls.remove(2);
            tale.claim("b", Answer::Granted { grant: Grant::Later, epoch: 7 });
            tale.complete("b", 7, 2, done(7, 2));
            tale.state("b", 7, 2, 2);
            tale
        }

        fn call(&mut self, attempt: &str, ask: Ask, answer: Answer) {
            let sent = u64::try_from(self.calls.len()).expect("short") * 2 + 100;
            let returned = (answer != Answer::Unknown).then_some(sent + 1);
            let (key, attempt) = ("k".to_owned(), attempt.to_owned());
            self.calls.push(Call { key, attempt, node: 1, ask, sent, returned, answer });
        }

        fn claim(&mut self, attempt: &str, answer: Answer) {
            self.call(attempt, Ask::Claim, answer);
        }

        fn complete(&mut self, attempt: &str, epoch: u64, result: u8, answer: Answer) {
            self.call(attempt, Ask::Complete { epoch, digest: vec![result] }, answer);
        }

        fn state(&mut self, attempt: &str, epoch: u64, result: u8, grants: u32) {
            let attempt = attempt.to_owned();
            let digest = vec![result];
            let by_evidence = false;
            let stored = Stored { completed: true, epoch, attempt, digest, by_evidence, grants };
            self.stored.insert("k".to_owned(), stored);
        }

        fn faults(&self) -> Vec<String> {
            let Self { calls, stored, abandoned } = self;
            faults(&Evidence { calls, stored, abandoned })
        }

        #[track_caller]
        fn breaks(&self, rule: &str) {
            let faults = self.faults();
            assert!(faults.iter().any(|fault| fault.contains(rule)), "{rule}: {faults:?}");
        }
    }

    fn done(epoch: u64, result: u8) -> Answer {
        Answer::Stored { epoch, digest: vec![result] }
    }

    #[test]
    fn good_histories_pass() {
        assert_eq!(Tale::good().faults(), [""; 0]);
        assert_eq!(Tale::taken_over().faults(), [""; 0]);

        // The answers of the first claim and of the completion are lost, and both are sent again.
        let mut tale = Tale::good();
        tale.calls[0].answer = Answer::Unknown;
        tale.calls[0].returned = None;
        tale.calls.truncate(1);
        tale.claim("a", Answer::Granted { grant: Grant::Held, epoch: 5 });
        tale.complete("a", 5, 1, Answer::Unknown);
        tale.complete("a", 5, 1, done(5, 1));
        assert_eq!(tale.faults(), [""; 0]);

        // A claim is granted, but nobody ever hears of it, and its lease ends.
        let mut tale = Tale::taken_over();
        tale.claim("c", Answer::Unknown);
        tale.state("b", 7, 2, 3);
        assert_eq!(tale.faults(), [""; 0]);
    }

    /// Both were seen under faults of real processes, where a lease of the abandoned is short.
    #[test]
    fn what_slow_holders_leave_behind_passes() {
        // One is taken over, too, and comes back with what it has done: that completes the record.
        let mut tale = Tale::taken_over();
        tale.claim("c", Answer::Granted { grant: Grant::Later, epoch: 9 });
        tale.calls[3].answer = Answer::Refused("STALE_EPOCH".to_owned());
        tale.state("b", 7, 2, 3);
        tale.breaks("no acknowledged write is lost: epoch 9");
        tale.stored.get_mut("k").expect("stored").by_evidence = true;
        assert_eq!(tale.faults(), [""; 0]);

        // Whoever was first never heard of it, and was too late to ask again.
        let mut tale = Tale::taken_over();
        tale.calls[0].answer = Answer::Unknown;
        tale.calls[0].returned = None;
        assert_eq!(tale.faults(), [""; 0]);
        tale.abandoned.clear();
        tale.breaks("exactly one first claim: nobody got FIRST");
    }

    #[test]
    fn an_empty_history_is_no_success() {
        let mut tale = Tale::good();
        tale.calls.clear();
        tale.breaks("the history is empty");
    }

    #[test]
    fn two_first_claims_are_found() {
        let mut tale = Tale::good();
        tale.calls[1].answer = Answer::Granted { grant: Grant::First, epoch: 6 };
        tale.breaks("exactly one first claim: FIRST was answered 2 times");
    }

    #[test]
    fn a_missing_first_claim_is_found() {
        let mut tale = Tale::good();
        tale.calls[0].answer = Answer::Granted { grant: Grant::Held, epoch: 5 };
        tale.breaks("exactly one first claim: nobody got FIRST");
        let mut tale = Tale::taken_over();
        tale.calls[0].answer = Answer::Granted { grant: Grant::Later, epoch: 5 };
        tale.breaks("exactly one first claim");
    }

    #[test]
    fn an_epoch_below_the_first_is_found() {
        let mut tale = Tale::taken_over();
        tale.calls[2].answer = Answer::Granted { grant: Grant::Later, epoch: 4 };
        tale.breaks("is lower than that of FIRST");
        tale.breaks("a later claim has a higher epoch");
    }

    #[test]
    fn an_epoch_given_twice_is_found() {
        let mut tale = Tale::taken_over();
        tale.calls[2].answer = Answer::Granted { grant: Grant::Later, epoch: 5 };
        tale.breaks("a later claim has a higher epoch");
        tale.breaks("epoch 5 was granted to");
    }

    #[test]
    fn two_results_are_found() {
        let mut tale = Tale::good();
        tale.calls[3].answer = Answer::Replayed { epoch: 5, digest: vec![9] };
        tale.breaks("one stored result");
        let mut tale = Tale::good();
        tale.state("a", 5, 9, 1);
        tale.breaks("one stored result");
        tale.breaks("no acknowledged write is lost");
    }

    #[test]
    fn a_result_that_nobody_sent_is_found() {
        let mut tale = Tale::good();
        tale.calls[2].ask = Ask::Complete { epoch: 5, digest: vec![8] };
        tale.breaks("the stored result was sent by the epoch that stored it");
    }

    #[test]
    fn a_lost_completion_is_found() {
        let mut tale = Tale::good();
        tale.stored.clear();
        tale.breaks("no acknowledged write is lost: there is no record");
        let mut tale = Tale::good();
        tale.stored.get_mut("k").expect("stored").completed = false;
        tale.breaks("no acknowledged write is lost: the record is not completed");
    }

    #[test]
    fn a_lost_grant_is_found() {
        let mut tale = Tale::taken_over();
        tale.claim("c", Answer::Granted { grant: Grant::Later, epoch: 9 });
        tale.breaks("no acknowledged write is lost: epoch 9");
    }

    #[test]
    fn work_that_comes_back_is_found() {
        let mut tale = Tale::good();
        tale.claim("c", Answer::Waiting { epoch: 6 });
        tale.breaks("what is done stays done");
    }

    #[test]
    fn a_claim_that_was_not_applied_and_counts_is_found() {
        let mut tale = Tale::good();
        tale.calls[0].answer = Answer::NotApplied;
        tale.breaks("what was not applied never shows up");
    }

    #[test]
    fn a_grant_that_nobody_got_is_found() {
        let mut tale = Tale::good();
        tale.state("a", 5, 1, 2);
        tale.breaks("every grant was somebody's");
        let mut tale = Tale::taken_over();
        tale.state("b", 7, 2, 1);
        tale.breaks("every grant was somebody's");
    }

    #[test]
    fn a_takeover_from_the_living_is_found() {
        let mut tale = Tale::taken_over();
        tale.abandoned.clear();
        tale.breaks("nobody takes over from a living holder");
        let mut tale = Tale::good();
        tale.claim("c", Answer::Refused("STALE_EPOCH".to_owned()));
        tale.breaks("was refused: STALE_EPOCH");
    }
}
