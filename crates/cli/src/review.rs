//! The twelve questions of an idempotency review, answered as far as the store knows.
//!
//! "If one of those answers is *we assume*, the guarantee is unfinished": what the store cannot know
//! is said as an assumption of whoever relies on it, never as a fact.
//!
//! Pure: the same policy, facts and cluster, the same answers.

use std::time::Duration;

use firstclaim_client::v1;

use crate::diagnose::{Cause, Diagnosis};
use crate::duration::{about, format};
use crate::metered::Metered;
use crate::observed::Observed;
use crate::policy_check::{Kept, Level, Ruling, identity, length};

/// One question with what is known and what is only assumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) title: &'static str,
    pub(crate) question: &'static str,
    pub(crate) known: Vec<String>,
    /// What does not hold, or may not.
    pub(crate) concerns: Vec<String>,
    pub(crate) assumed: Vec<String>,
}

/// What the answers are drawn from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sources<'a> {
    /// The policy in effect.
    pub(crate) policy: &'a v1::Policy,
    pub(crate) facts: &'a Observed,
    pub(crate) diagnosis: &'a Diagnosis,
    pub(crate) rulings: &'a [Ruling],
    pub(crate) members: &'a [v1::Member],
    /// None if no node was asked for its metrics.
    pub(crate) metered: Option<&'a Metered>,
}

/// Answers all twelve.
pub(crate) fn review(sources: &Sources<'_>) -> Vec<Answer> {
    vec![
        sources.intent(),
        sources.generation(),
        sources.propagation(),
        sources.fingerprint(),
        sources.concurrency(),
        sources.completion(),
        sources.ambiguity(),
        sources.retention(),
        sources.scope(),
        sources.failover(),
        recovery(),
        testing(),
    ]
}

impl Answer {
    fn new(title: &'static str, question: &'static str) -> Self {
        Self { title, question, known: Vec::new(), concerns: Vec::new(), assumed: Vec::new() }
    }

    fn known(mut self, text: impl Into<String>) -> Self {
        self.known.push(text.into());
        self
    }

    fn known_if(mut self, text: Option<String>) -> Self {
        self.known.extend(text);
        self
    }

    fn concern_if(mut self, applies: bool, text: impl Into<String>) -> Self {
        if applies {
            self.concerns.push(text.into());
        }
        self
    }

    fn assumed(mut self, text: impl Into<String>) -> Self {
        self.assumed.push(text.into());
        self
    }
}

fn required(requirement: v1::Requirement) -> bool {
    requirement == v1::Requirement::Required
}

impl Sources<'_> {
    fn found(&self, cause: Cause) -> u64 {
        let found = self.diagnosis.findings.iter().find(|finding| finding.cause == cause);
        found.map_or(0, |finding| finding.count)
    }

    fn counted(&self, text: impl Fn(&Metered) -> String) -> Option<String> {
        self.metered.map(|metered| format!("metrics: {}", text(metered)))
    }

    fn metered(&self, count: impl Fn(&Metered) -> u64) -> u64 {
        self.metered.map_or(0, count)
    }

    fn intent(&self) -> Answer {
        let (minted, reused) = (self.found(Cause::KeyPerAttempt), self.found(Cause::KeyReused));
        Answer::new("Intent", "What exact business decision does the key identify?")
            .known(format!("{} records were looked at", self.facts.records))
            .concern_if(minted > 0, format!("{minted} keys carry a request that has another key"))
            .concern_if(reused > 0, format!("{reused} claims came with another request under a key"))
            .assumed("that each key names one business decision, not a request, a delivery or an attempt")
    }

    fn generation(&self) -> Answer {
        let answer = Answer::new(
            "Generation",
            "Where is the key created, and is it persisted before retries begin?",
        );
        let minted = self.found(Cause::KeyPerAttempt);
        let twice = self.metered(|metered| metered.duplicate_intents);
        let answer = answer
            .concern_if(twice > 0, format!("metrics: {twice} requests came under a second key"))
            .known(format!(
                "{} of {} records were reserved by a producer",
                self.facts.reserved, self.facts.records
            ))
            .concern_if(
                minted > 0,
                format!("{minted} keys look minted per attempt; see firstclaim diagnose"),
            );
        if required(self.policy.reserve()) {
            return answer.known(
                "reserve is REQUIRED: a key that was not bound to its request at the producer runs nothing",
            );
        }
        answer
            .assumed("that the key is made, and stored, before the first try (reserve is OPTIONAL)")
    }

    fn propagation(&self) -> Answer {
        let facts = self.facts;
        Answer::new("Propagation", "Does the same key reach every side-effecting dependency?")
            .known(format!(
                "{} executions recorded their effects first, {} recorded none",
                facts.journaled, facts.unjournaled
            ))
            .known(format!(
                "{} recorded effects name a provider key, {} name none",
                facts.keyed_effects, facts.keyless_effects
            ))
            .concern_if(
                facts.unjournaled > 0,
                "what executions did that recorded no effect, the store cannot know",
            )
            .assumed("that the provider gets the key that was recorded, and tells repeats by it for as long as was said")
    }

    fn fingerprint(&self) -> Answer {
        let schemes: Vec<&str> = self.facts.schemes.iter().map(String::as_str).collect();
        let answer = Answer::new(
            "Fingerprint",
            "Which fields are bound to the key, and what happens if they change?",
        );
        answer
            .known("a claim with another fingerprint is refused (FINGERPRINT_MISMATCH), in every state")
            .known_if(self.counted(|it| format!("refused: {}", Metered::words(&it.refusals))))
            .known(format!("schemes: {}", if schemes.is_empty() { "none seen".to_owned() } else { schemes.join(", ") }))
            .concern_if(
                !required(self.policy.fingerprint()),
                format!(
                    "fingerprint is OPTIONAL; {} of {} records have none",
                    self.facts.without_fingerprint, self.facts.records
                ),
            )
            .assumed("that the fields that matter, and no others, go into the fingerprint")
    }

    fn concurrency(&self) -> Answer {
        let lease = length(self.policy.lease_default.as_ref());
        Answer::new("Concurrency", "What happens when two matching requests overlap?")
            .known("one is granted the claim; the others are told who holds it and when to come back")
            .known(format!("seen: {} claims turned away while another held it", self.facts.outcomes("PENDING")))
            .known_if(self.counted(|it| format!("fenced calls: {}", Metered::words(&it.fenced))))
            .known(format!(
                "a claim holds for {} unless renewed; each grant has a higher epoch, and calls of older ones are refused",
                format(lease)
            ))
            .assumed("that workers send nothing after their permit or lease has ended")
    }

    fn completion(&self) -> Answer {
        let kept = length(self.policy.result_retention.as_ref());
        let facts = self.facts;
        Answer::new("Completion", "Is the original result stored and returned on duplicate requests?")
            .known(format!("results are kept for {}, up to {} bytes each", format(kept), self.policy.result_bytes_max.unwrap_or(0)))
            .known(format!(
                "seen: {} completed, {} replays",
                facts.in_state(v1::RecordState::Completed),
                facts.outcomes("REPLAY")
            ))
            .known_if(self.counted(|it| format!("claims: {}", Metered::words(&it.claims))))
            .concern_if(
                facts.results_dropped > 0,
                format!("{} completed records have lost their result already; they still say that it is done", facts.results_dropped),
            )
            .assumed("that callers use the stored result, and do not take a replay for a failure")
    }

    fn ambiguity(&self) -> Answer {
        let facts = self.facts;
        let horizon = length(self.policy.settle_horizon.as_ref());
        let open = facts.in_state(v1::RecordState::Unresolved);
        let takeover = self.policy.on_lapse() == v1::OnLapse::Takeover;
        let known = if takeover {
            "a lapse with nothing recorded is executed again (TAKEOVER); recorded effects stay open until settled"
        } else {
            "a lapse means that the work may have happened (RECOVER): nobody repeats it before that is settled"
        };
        let oldest = facts.oldest_unresolved.as_ref();
        Answer::new(
            "Ambiguity",
            "How do you reconcile a crash after the external effect but before local completion?",
        )
        .known(known)
        .known(format!(
            "\"not found at the provider\" counts {} after the last permit",
            format(horizon)
        ))
        .known(format!("{open} records are unresolved now"))
        .concern_if(
            self.metered(|metered| metered.effects_contradicted) > 0,
            "metrics: settlements contradict each other; look at firstclaim unresolved list",
        )
        .concern_if(
            takeover && facts.unjournaled > 0,
            format!("{} executions under TAKEOVER recorded no effect", facts.unjournaled),
        )
        .concern_if(
            open > 0,
            oldest.map_or_else(String::new, |seen| {
                format!("the oldest ({}) has waited for {}", seen.key, about(seen.length))
            }),
        )
        .assumed(
            "that somebody looks at firstclaim unresolved list, and that the provider can be asked",
        )
    }

    fn retention(&self) -> Answer {
        let kept = identity(self.policy);
        let oldest = self.facts.oldest_repeat.as_ref().map_or_else(
            || "no repeat was seen".to_owned(),
            |seen| {
                format!(
                    "the oldest repeat seen came {} after its intent ({})",
                    about(seen.length),
                    seen.key
                )
            },
        );
        let mut answer = Answer::new(
            "Retention",
            "Is the record kept longer than the longest automated or manual replay horizon?",
        )
        .known(format!("keys are kept for {}", kept.text()))
        .known(oldest)
        .known_if(self.replay_age())
        .concern_if(
            self.metered(|metered| metered.intent_times_moved) > 0,
            "metrics: repeats came with another intent time than the first claim: that voids the replay horizon",
        );
        let about_retention = ["declared windows", "oldest repeat seen", "late replays"];
        for ruling in self.rulings.iter().filter(|ruling| about_retention.contains(&ruling.rule)) {
            let text = format!("{}: {}", ruling.rule, ruling.text);
            if ruling.level == Level::Fine {
                answer = answer.known(text);
            } else {
                answer = answer.concern_if(true, text);
            }
        }
        match kept {
            Kept::Forever => answer,
            Kept::For(_) => answer.assumed(
                "that no replay comes from anywhere that the declared windows do not name",
            ),
        }
    }

    fn replay_age(&self) -> Option<String> {
        let below = self.metered?.replays_below?;
        let text = Duration::try_from_secs_f64(below).map_or_else(
            |_infinite| "older than is counted".to_owned(),
            |it| format!("at most {} after the completion", about(it)),
        );
        Some(format!("metrics: replays came {text}"))
    }

    fn scope(&self) -> Answer {
        let regions: Vec<&str> = self.facts.regions.iter().map(String::as_str).collect();
        let regions = if regions.is_empty() { "none yet".to_owned() } else { regions.join(", ") };
        Answer::new(
            "Scope",
            "Is deduplication per process, account, tenant, queue, Availability Zone, Region, or global?",
        )
        .known("per tenant, namespace and key, over all regions of the cluster")
        .known(format!("claims came in at {regions}"))
        .assumed("that every caller of this operation uses this tenant and this namespace")
    }

    fn failover(&self) -> Answer {
        let voters: Vec<&v1::Member> = self.members.iter().filter(|member| member.voter).collect();
        let mut regions: Vec<&str> = voters.iter().map(|member| member.region.as_str()).collect();
        regions.sort_unstable();
        regions.dedup();
        let count = voters.len();
        let spare = count.saturating_sub(1) / 2;
        let gone = voters.iter().filter(|member| member.reachable == Some(false)).count();
        Answer::new("Failover", "Can two Regions both accept the first claim?")
            .known("no: every first claim is decided by one replicated log; a minority answers NO_QUORUM")
            .known(format!(
                "{count} voters in {} regions ({}); {spare} can be lost",
                regions.len(),
                regions.join(", ")
            ))
            .concern_if(count < 3, "fewer than three voters: losing one stops all claims")
            .concern_if(
                count >= 3 && regions.len() < 3,
                "fewer than three regions: losing one may stop all claims",
            )
            .concern_if(gone > 0, format!("{gone} voters cannot be reached now"))
    }
}

fn recovery() -> Answer {
    Answer::new(
        "Recovery",
        "Do backups restore the business data and its deduplication history to a compatible point?",
    )
    .known("an acknowledged write is on the disks of a majority of the regions")
    .assumed("that nobody restores business data to a point from which intents would be replayed whose keys this cluster has forgotten, or an old copy of this cluster's data beside newer business data")
}

fn testing() -> Answer {
    Answer::new(
        "Testing",
        "Have you injected timeouts before and after the effect, lost acknowledgements, concurrent retries, expired keys, DLQ redrives, and regional failover?",
    )
    .known("firstclaim drill injects them against this cluster, with a fake queue and a fake provider")
    .assumed("that your own workers do with the answers what the drill's workers do")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::diagnose;

    fn answers(policy: &v1::Policy, facts: &Observed, members: &[v1::Member]) -> Vec<Answer> {
        let rulings = crate::policy_check::check(policy, facts);
        let diagnosis = diagnose(&[]);
        let metered = None;
        review(&Sources {
            policy,
            facts,
            diagnosis: &diagnosis,
            rulings: &rulings,
            members,
            metered,
        })
    }

    fn member(region: &str) -> v1::Member {
        v1::Member { region: region.to_owned(), voter: true, ..v1::Member::default() }
    }

    #[test]
    fn there_are_twelve_answers_and_each_says_something() {
        let all = answers(&v1::Policy::default(), &Observed::default(), &[]);
        assert_eq!(all.len(), 12);
        assert!(all.iter().all(|it| !it.known.is_empty() && it.question.ends_with('?')));
        let assumed = all.iter().filter(|answer| !answer.assumed.is_empty()).count();
        assert!(assumed >= 10, "what the store cannot know is called an assumption: {assumed}");
    }

    #[test]
    fn failover_counts_voters_and_regions() {
        let facts = Observed::default();
        let policy = v1::Policy::default();
        let three = [member("a"), member("b"), member("c")];
        let sound = answers(&policy, &facts, &three).swap_remove(9);
        assert!(sound.concerns.is_empty() && sound.assumed.is_empty(), "{sound:?}");
        assert!(sound.known[1].contains("3 voters in 3 regions (a, b, c); 1 can be lost"));
        let one_region = [member("a"), member("a"), member("a")];
        assert_eq!(answers(&policy, &facts, &one_region)[9].concerns.len(), 1);
        let gone = v1::Member { reachable: Some(false), ..member("b") };
        assert_eq!(answers(&policy, &facts, &[member("a"), gone])[9].concerns.len(), 2);
    }

    #[test]
    fn metrics_are_told_where_they_were_asked_for() {
        let policy = v1::Policy::default();
        let facts = Observed::default();
        let diagnosis = diagnose(&[]);
        let metered = Metered {
            nodes: 1,
            claims: [("first".to_owned(), 3)].into(),
            duplicate_intents: 2,
            replays_below: Some(3600.0),
            ..Metered::default()
        };
        let told = review(&Sources {
            policy: &policy,
            facts: &facts,
            diagnosis: &diagnosis,
            rulings: &[],
            members: &[],
            metered: Some(&metered),
        });
        let all = format!("{told:?}");
        for words in ["claims: 3 first", "2 requests came under a second key", "at most 1h after"] {
            assert!(all.contains(words), "{words}: {all}");
        }
    }

    #[test]
    fn a_policy_that_demands_it_turns_an_assumption_into_a_fact() {
        let facts = Observed::default();
        let open = &answers(&v1::Policy::default(), &facts, &[])[1];
        assert_eq!(open.assumed.len(), 1);
        let reserved =
            v1::Policy { reserve: v1::Requirement::Required.into(), ..v1::Policy::default() };
        let closed = &answers(&reserved, &facts, &[])[1];
        assert!(closed.assumed.is_empty() && closed.known.len() == 2, "{closed:?}");
    }
}
