//! The figures of a run, for people and for programs.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::config::{BenchConfig, Distribution, Work};
use crate::latency::Latencies;
use crate::tally::Tally;

/// Columns that the name of a call takes.
const WIDTH: usize = 24;

/// Figures of one kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CallReport {
    /// How many were answered in the measured time.
    pub count: u64,
    /// How many a second.
    pub per_second: f64,
    /// Mean latency.
    pub mean_ms: f64,
    /// Half of the calls took at most this long.
    pub p50_ms: f64,
    /// 95 of 100 took at most this long.
    pub p95_ms: f64,
    /// 99 of 100 took at most this long.
    pub p99_ms: f64,
    /// The longest.
    pub max_ms: f64,
}

impl CallReport {
    fn new(latencies: &Latencies, measured: Duration) -> Self {
        let count = latencies.count();
        Self {
            count,
            per_second: per_second(count, measured),
            mean_ms: millis(latencies.mean()),
            p50_ms: millis(latencies.percentile(50.0)),
            p95_ms: millis(latencies.percentile(95.0)),
            p99_ms: millis(latencies.percentile(99.0)),
            max_ms: millis(latencies.max()),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn per_second(count: u64, measured: Duration) -> f64 {
    let seconds = measured.as_secs_f64();
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// The figures of a run. [`fmt::Display`] prints them as a table; they serialize as JSON.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Version of this layout.
    #[serde(rename = "apiVersion")]
    pub api_version: &'static str,
    /// What was asked for.
    pub config: BenchConfig,
    /// How long was measured, without the warm-up.
    pub measured_seconds: f64,
    /// Claims.
    pub claim: CallReport,
    /// Completions; all zero when only claims were asked for.
    pub complete: CallReport,
    /// Other calls, and rounds of several calls, by name.
    pub others: BTreeMap<String, CallReport>,
    /// Intents that were completed.
    pub intents: u64,
    /// How many a second.
    pub intents_per_second: f64,
    /// Answers by name.
    pub outcomes: BTreeMap<String, u64>,
    /// Failures by call and reason.
    pub errors: BTreeMap<String, u64>,
}

impl Report {
    pub(crate) fn new(config: &BenchConfig, tally: Tally, measured: Duration) -> Self {
        Self {
            api_version: "firstclaim/bench.v1",
            config: config.clone(),
            measured_seconds: measured.as_secs_f64(),
            claim: CallReport::new(&tally.claims, measured),
            complete: CallReport::new(&tally.completes, measured),
            others: tally
                .others
                .iter()
                .map(|(name, took)| ((*name).to_owned(), CallReport::new(took, measured)))
                .collect(),
            intents: tally.intents,
            intents_per_second: per_second(tally.intents, measured),
            outcomes: tally.outcomes,
            errors: tally.errors,
        }
    }

    /// How many calls failed.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.errors.values().sum()
    }

    /// The report as indented JSON.
    ///
    /// # Errors
    ///
    /// What the serializer says; a report holds nothing that it refuses.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let config = &self.config;
        let keys = match config.distribution {
            Distribution::Sequential => "sequential keys".to_owned(),
            Distribution::Uniform | Distribution::Zipf => {
                format!("{} over {} keys", config.distribution, config.keys)
            }
        };
        let size = match config.work {
            Work::Batch => format!(" of {}", config.batch_size),
            Work::Claim | Work::ClaimAndComplete | Work::Effects(_) => String::new(),
        };
        writeln!(
            out,
            "{}{size}, concurrency {}, {keys}, {:.0} % repeats, {} B results, seed {}",
            config.work,
            config.concurrency,
            config.duplicate_ratio * 100.0,
            config.payload_bytes,
            config.seed
        )?;
        writeln!(
            out,
            "measured {:.1} s after {:.1} s of warm-up, {} endpoint(s)\n",
            self.measured_seconds,
            config.warm_up.as_secs_f64(),
            config.endpoints.len()
        )?;
        writeln!(
            out,
            "{:<WIDTH$}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}",
            "CALL", "COUNT", "PER S", "MEAN ms", "P50 ms", "P95 ms", "P99 ms", "MAX ms"
        )?;
        let calls = [("claim", &self.claim), ("complete", &self.complete)];
        let others = self.others.iter().map(|(name, call)| (name.as_str(), call));
        for (name, call) in calls.into_iter().chain(others).filter(|(_, call)| call.count > 0) {
            line(out, name, call)?;
        }
        if self.intents > 0 {
            let (intents, rate) = (self.intents, self.intents_per_second);
            writeln!(out, "\nintents   {intents} completed, {rate:.0} a second")?;
        }
        writeln!(out, "\noutcomes  {}", listed(&self.outcomes))?;
        write!(out, "errors    {}", listed(&self.errors))
    }
}

fn line(out: &mut fmt::Formatter<'_>, name: &str, call: &CallReport) -> fmt::Result {
    writeln!(
        out,
        "{name:<WIDTH$}{:>10}{:>10.0}{:>10.2}{:>10.2}{:>10.2}{:>10.2}{:>10.2}",
        call.count,
        call.per_second,
        call.mean_ms,
        call.p50_ms,
        call.p95_ms,
        call.p99_ms,
        call.max_ms
    )
}

fn listed(counts: &BTreeMap<String, u64>) -> String {
    if counts.is_empty() {
        return "none".to_owned();
    }
    let words: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
    words.join("   ")
}

#[cfg(test)]
mod tests {
    use super::{BenchConfig, Duration, Report, Tally};

    fn report() -> Report {
        let mut tally = Tally::default();
        for millis in 1..=100 {
            tally.claimed("first", Duration::from_millis(millis));
        }
        tally.failed("claim", "NO_QUORUM");
        Report::new(&BenchConfig::default(), tally, Duration::from_secs(4))
    }

    #[test]
    fn throughput_is_answers_over_measured_time() {
        let report = report();
        assert_eq!(report.claim.count, 100);
        assert!((report.claim.per_second - 25.0).abs() < 1e-9);
        assert!((report.claim.p95_ms - 95.0).abs() < 0.2);
        assert_eq!(report.failures(), 1);
    }

    #[test]
    fn the_table_has_every_figure_and_no_line_without_calls() {
        let text = report().to_string();
        assert!(text.contains("claim                          100        25"), "{text}");
        assert!(text.contains("outcomes  first 100"), "{text}");
        assert!(text.contains("errors    claim: NO_QUORUM 1"), "{text}");
        assert!(!text.contains("\ncomplete"), "{text}");
    }

    #[test]
    fn json_carries_the_version_and_the_figures() {
        let json: serde_json::Value = serde_json::from_str(&report().to_json().unwrap()).unwrap();
        assert_eq!(json["apiVersion"], "firstclaim/bench.v1");
        assert_eq!(json["claim"]["count"], 100);
        assert_eq!(json["config"]["distribution"], "sequential");
        assert_eq!(json["errors"]["claim: NO_QUORUM"], 1);
    }
}
