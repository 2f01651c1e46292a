//! The end of the drill: one row per scenario, the four numbers apart, and all that is wrong.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::audit::Verdict;
use super::scenario::Scenario;
use super::scene::Scene;
use crate::output::Shown;

/// How one scenario went.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    scenario: &'static Scenario,
    intents: usize,
    deliveries: u64,
    dispatches: u64,
    effects: u64,
    unresolved: usize,
    refused: usize,
    answers: BTreeMap<String, u64>,
    faults: Vec<String>,
}

/// How the drill went.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) tenant: String,
    pub(crate) rows: Vec<Row>,
    pub(crate) elapsed: Duration,
}

impl Row {
    pub(crate) fn new(scene: &Scene, verdicts: &[Verdict]) -> Self {
        let answers = scene.seen.counts();
        let mut faults: Vec<String> = verdicts.iter().filter_map(fault).collect();
        faults.extend(scene.seen.violations());
        faults.extend(missing(scene.scenario, &answers));
        let references = || scene.messages.iter().map(|message| &message.intent.reference);
        let count = |verdict: &Verdict| verdicts.iter().filter(|it| *it == verdict).count();
        Self {
            scenario: scene.scenario,
            intents: scene.messages.len(),
            deliveries: scene.queue.deliveries(),
            dispatches: references().map(|reference| scene.ledger.dispatches(reference)).sum(),
            effects: references().map(|it| scene.ledger.entries(it).len() as u64).sum(),
            unresolved: count(&Verdict::Listed),
            refused: count(&Verdict::Refused),
            answers,
            faults,
        }
    }

    /// The answers that the scenario is there to show, with how often they came.
    fn shown_by(&self) -> String {
        let seen = self.scenario.must.iter().flat_map(|choice| choice.iter());
        let seen = seen.filter_map(|name| Some((name, self.answers.get(*name)?)));
        seen.map(|(name, count)| format!("{count} {name}")).collect::<Vec<_>>().join(", ")
    }

    fn json(&self) -> Value {
        json!({
            "name": self.scenario.name,
            "story": self.scenario.story,
            "intents": self.intents,
            "deliveries": self.deliveries,
            "dispatchAttempts": self.dispatches,
            "providerEffects": self.effects,
            "unresolved": self.unresolved,
            "refused": self.refused,
            "answers": self.answers,
            "faults": self.faults,
        })
    }
}

fn fault(verdict: &Verdict) -> Option<String> {
    match verdict {
        Verdict::Fault(fault) => Some(fault.clone()),
        Verdict::Done | Verdict::Forgotten | Verdict::Refused | Verdict::Listed => None,
    }
}

/// What a scenario was there to show and did not: then it has tested nothing.
fn missing(scenario: &Scenario, answers: &BTreeMap<String, u64>) -> Vec<String> {
    let lacks = |choice: &&&[&str]| !choice.iter().any(|name| answers.contains_key(*name));
    let lacking = scenario.must.iter().filter(lacks);
    lacking.map(|choice| format!("{} never saw {}", scenario.name, choice.join(" or "))).collect()
}

impl Report {
    /// Everything that should not be, one line each.
    pub(crate) fn faults(&self) -> Vec<&str> {
        self.rows.iter().flat_map(|row| row.faults.iter().map(String::as_str)).collect()
    }

    /// Whether no intent had two effects, and none was lost or is stuck without being listed.
    pub(crate) fn passed(&self) -> bool {
        self.rows.iter().all(|row| row.faults.is_empty())
    }

    fn totals(&self) -> (usize, u64, u64, u64, usize) {
        self.rows.iter().fold((0, 0, 0, 0, 0), |total, row| {
            (
                total.0 + row.intents,
                total.1 + row.deliveries,
                total.2 + row.dispatches,
                total.3 + row.effects,
                total.4 + row.unresolved,
            )
        })
    }

    pub(crate) fn json(&self) -> Value {
        let (intents, deliveries, dispatches, effects, unresolved) = self.totals();
        json!({
            "tenant": self.tenant,
            "passed": self.passed(),
            "elapsedSeconds": self.elapsed.as_secs_f64(),
            "totals": {
                "intents": intents,
                "deliveries": deliveries,
                "dispatchAttempts": dispatches,
                "providerEffects": effects,
                "unresolved": unresolved,
            },
            "scenarios": self.rows.iter().map(Row::json).collect::<Vec<_>>(),
            "faults": self.faults(),
        })
    }

    pub(crate) fn shown(&self) -> Shown {
        let header = vec![
            "SCENARIO",
            "INTENTS",
            "DELIVERED",
            "SENT",
            "EFFECTS",
            "UNRESOLVED",
            "",
            "WHAT THE STORE SAID",
        ];
        let line = |row: &Row| {
            vec![
                row.scenario.name.to_owned(),
                row.intents.to_string(),
                row.deliveries.to_string(),
                row.dispatches.to_string(),
                row.effects.to_string(),
                row.unresolved.to_string(),
                if row.faults.is_empty() { "ok" } else { "FAILED" }.to_owned(),
                row.shown_by(),
            ]
        };
        let mut rows: Vec<Vec<String>> = self.rows.iter().map(line).collect();
        let (intents, deliveries, dispatches, effects, unresolved) = self.totals();
        rows.push(vec![
            "all".to_owned(),
            intents.to_string(),
            deliveries.to_string(),
            dispatches.to_string(),
            effects.to_string(),
            unresolved.to_string(),
            if self.passed() { "ok" } else { "FAILED" }.to_owned(),
            String::new(),
        ]);
        Shown::Rows { header, rows }
    }
}

#[cfg(test)]
mod tests {
    use super::super::scenario::TABLE;
    use super::*;

    fn played(verdicts: &[Verdict], answers: &[&str]) -> Report {
        let scene = Scene::new(&TABLE[0], ("drill-x", &[]), 1, std::time::UNIX_EPOCH);
        for answer in answers {
            scene.seen.note(answer);
        }
        scene.ledger.dispatched("lease-expires-before-send:1");
        scene.ledger.enter("lease-expires-before-send:1", 10_001, "w");
        let rows = vec![Row::new(&scene, verdicts)];
        Report { tenant: "drill-x".to_owned(), rows, elapsed: Duration::from_secs(1) }
    }

    fn all() -> Vec<&'static str> {
        TABLE[0].must.iter().map(|choice| choice[0]).collect()
    }

    #[test]
    fn a_drill_passes_only_if_it_saw_what_it_was_there_to_see() {
        let report = played(&[Verdict::Done], &all());
        assert!(report.passed(), "{:?}", report.faults());
        assert_eq!(report.json()["totals"]["providerEffects"], 1);
        let report = played(&[Verdict::Done], &["RECOVERY RESUME"]);
        assert!(!report.passed());
        assert!(report.faults()[0].contains("never saw"), "{:?}", report.faults());
    }

    #[test]
    fn a_fault_of_one_intent_fails_the_drill() {
        let report = played(&[Verdict::Fault("x was paid 2 times".to_owned())], &all());
        assert_eq!((report.passed(), report.faults()), (false, vec!["x was paid 2 times"]));
        let Shown::Rows { rows, .. } = report.shown() else { panic!("rows") };
        assert_eq!(rows[0][6], "FAILED");
        assert_eq!(rows.last().unwrap()[0], "all");
    }

    #[test]
    fn what_is_listed_as_unresolved_is_counted_and_is_no_fault() {
        let report = played(&[Verdict::Listed], &all());
        assert!(report.passed());
        assert_eq!(report.json()["totals"]["unresolved"], 1);
    }
}
