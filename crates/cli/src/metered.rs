//! What the metrics of nodes say about one namespace. Counters are of each node since its start, so
//! they are added up over the nodes that are asked.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::failure::Failure;

/// How long one node may take.
const WITHIN: Duration = Duration::from_secs(5);
/// The longest answer that is read.
const BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The counts of one namespace, over all nodes that were asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Metered {
    /// Nodes that were asked.
    pub(crate) nodes: usize,
    /// By outcome.
    pub(crate) claims: BTreeMap<String, u64>,
    /// By reason.
    pub(crate) refusals: BTreeMap<String, u64>,
    /// By reason.
    pub(crate) fenced: BTreeMap<String, u64>,
    /// Requests under a second key, granted or refused.
    pub(crate) duplicate_intents: u64,
    pub(crate) intent_times_moved: u64,
    pub(crate) effects_contradicted: u64,
    /// The bound below which all replays came after their completion; infinite if one was older than
    /// the last bound that is counted.
    pub(crate) replays_below: Option<f64>,
}

/// Asks each node at its HTTP address.
pub(crate) async fn ask(
    addresses: &[String],
    scope: (&str, &str),
) -> Result<Option<Metered>, Failure> {
    let mut metered = Metered::default();
    for address in addresses {
        let text = match timeout(WITHIN, get(address)).await {
            Ok(Ok(text)) => text,
            Ok(Err(error)) => {
                return Err(Failure::other(format!("read the metrics of {address}: {error}")));
            }
            Err(_elapsed) => {
                let text = format!("read the metrics of {address}: no answer within {WITHIN:?}");
                return Err(Failure::other(text));
            }
        };
        metered.add(&text, scope);
    }
    Ok((!addresses.is_empty()).then_some(metered))
}

/// One request over a connection of its own; that is all that is needed of HTTP here.
async fn get(address: &str) -> io::Result<String> {
    let host = address.strip_prefix("http://").unwrap_or(address).trim_end_matches('/');
    let mut stream = TcpStream::connect(host).await?;
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut bytes = Vec::new();
    stream.take(BYTES_MAX).read_to_end(&mut bytes).await?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(|| wrong("is no HTTP answer"))?;
    let status = head.lines().next().unwrap_or_default();
    if !status.contains(" 200 ") {
        return Err(wrong(&format!("answers {status:?}")));
    }
    Ok(body.to_owned())
}

impl Metered {
    fn add(&mut self, text: &str, (tenant, namespace): (&str, &str)) {
        self.nodes += 1;
        let mut buckets: Vec<(f64, f64)> = Vec::new();
        for sample in text.lines().filter_map(Sample::read) {
            if sample.label("tenant") != tenant || sample.label("namespace") != namespace {
                continue;
            }
            let count = sample.count();
            let by = |counts: &mut BTreeMap<String, u64>, label: &str| {
                *counts.entry(sample.label(label).to_owned()).or_default() += count;
            };
            match sample.name {
                "firstclaim_claims_total" => by(&mut self.claims, "outcome"),
                "firstclaim_claim_refusals_total" => by(&mut self.refusals, "reason"),
                "firstclaim_fenced_writes_total" => by(&mut self.fenced, "reason"),
                "firstclaim_duplicate_intents_total" => self.duplicate_intents += count,
                "firstclaim_intent_times_moved_total" => self.intent_times_moved += count,
                "firstclaim_effects_contradicted_total" => self.effects_contradicted += count,
                "firstclaim_replay_age_seconds_bucket" => {
                    let bound = sample.label("le").parse().unwrap_or(f64::INFINITY);
                    buckets.push((bound, sample.value));
                }
                _ => {}
            }
        }
        let all = buckets.iter().map(|(_, count)| *count).fold(0.0, f64::max);
        let below = buckets.iter().filter(|(_, count)| *count >= all).map(|(bound, _)| *bound);
        if all > 0.0 {
            let below = below.fold(f64::INFINITY, f64::min);
            self.replays_below = Some(self.replays_below.map_or(below, |known| known.max(below)));
        }
    }

    /// The counts as words: `12 first, 3 replay`.
    pub(crate) fn words(counts: &BTreeMap<String, u64>) -> String {
        let seen = counts.iter().filter(|(_, count)| **count > 0);
        let words: Vec<String> = seen.map(|(name, count)| format!("{count} {name}")).collect();
        if words.is_empty() { "none".to_owned() } else { words.join(", ") }
    }
}

/// One line of the exposition format.
struct Sample<'a> {
    name: &'a str,
    labels: Vec<(&'a str, String)>,
    value: f64,
}

impl<'a> Sample<'a> {
    /// None for comments, empty lines, and what is no sample.
    fn read(line: &'a str) -> Option<Self> {
        if line.starts_with('#') {
            return None;
        }
        let (head, tail) = match line.find('{') {
            Some(at) => {
                let close = line.rfind('}')?;
                (&line[..at], (line.get(at + 1..close)?, line.get(close + 1..)?))
            }
            None => {
                let (name, value) = line.split_once(' ')?;
                (name, ("", value))
            }
        };
        let (labels, rest) = tail;
        let value = rest.split_whitespace().next()?.parse().ok()?;
        Some(Self { name: head, labels: read_labels(labels)?, value })
    }

    fn label(&self, name: &str) -> &str {
        let found = self.labels.iter().find(|(known, _)| *known == name);
        found.map_or("", |(_, value)| value)
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a counter is a whole number, and nobody counts to 2^53 here"
    )]
    fn count(&self) -> u64 {
        self.value.max(0.0) as u64
    }
}

fn read_labels(mut text: &str) -> Option<Vec<(&str, String)>> {
    let mut labels = Vec::new();
    while !text.is_empty() {
        let (name, rest) = text.split_once("=\"")?;
        let mut value = String::new();
        let mut letters = rest.char_indices();
        let end = loop {
            match letters.next()? {
                (at, '"') => break at,
                (_, '\\') => match letters.next()?.1 {
                    'n' => value.push('\n'),
                    other => value.push(other),
                },
                (_, letter) => value.push(letter),
            }
        };
        labels.push((name, value));
        text = rest.get(end + 1..)?.trim_start_matches(',');
    }
    Some(labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# HELP firstclaim_claims Claims.
# TYPE firstclaim_claims counter
firstclaim_claims_total{tenant=\"acme\",namespace=\"pay\",outcome=\"first\"} 12
firstclaim_claims_total{tenant=\"acme\",namespace=\"pay\",outcome=\"replay\"} 3
firstclaim_claims_total{tenant=\"acme\",namespace=\"mail\",outcome=\"replay\"} 90
firstclaim_fenced_writes_total{tenant=\"acme\",namespace=\"pay\",reason=\"STALE_EPOCH\"} 1
firstclaim_replay_age_seconds_bucket{le=\"1.0\",tenant=\"acme\",namespace=\"pay\"} 1
firstclaim_replay_age_seconds_bucket{le=\"60.0\",tenant=\"acme\",namespace=\"pay\"} 3
firstclaim_replay_age_seconds_bucket{le=\"+Inf\",tenant=\"acme\",namespace=\"pay\"} 3
firstclaim_odd_total{tenant=\"a\\\"c\\\\me\"} 1
firstclaim_raft_term 4
# EOF
";

    #[test]
    fn counts_of_one_namespace_are_added_up_over_nodes() {
        let mut metered = Metered::default();
        metered.add(TEXT, ("acme", "pay"));
        metered.add(TEXT, ("acme", "pay"));
        assert_eq!(Metered::words(&metered.claims), "24 first, 6 replay");
        assert_eq!((metered.nodes, metered.fenced["STALE_EPOCH"]), (2, 2));
        assert_eq!(metered.replays_below, Some(60.0));
        let mut other = Metered::default();
        other.add(TEXT, ("acme", "none"));
        assert_eq!(other, Metered { nodes: 1, ..Metered::default() });
        assert_eq!(Metered::words(&other.claims), "none");
    }

    #[test]
    fn lines_are_read_as_they_are_exposed() {
        let odd = Sample::read("firstclaim_odd_total{tenant=\"a\\\"c\\\\me\"} 1").unwrap();
        assert_eq!(odd.label("tenant"), "a\"c\\me");
        let bare = Sample::read("firstclaim_raft_term 4").unwrap();
        assert_eq!((bare.name, bare.count()), ("firstclaim_raft_term", 4));
        for none in ["", "# EOF", "name", "name{a=\"b} 1", "name{a=\"b\"} x"] {
            assert!(Sample::read(none).is_none(), "{none}");
        }
    }
}
