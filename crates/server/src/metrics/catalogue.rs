//! The one list of metrics: names, types, labels and what they say. `docs/metrics.md` is made of it.
//!
//! Labels are bounded: fixed words, and pairs of tenant and namespace, of which
//! [`SCOPES_MAX`] have a name of their own. Never a key, an attempt or an owner.

/// Pairs of tenant and namespace with counters of their own; what comes later is counted under
/// `other`.
pub const SCOPES_MAX: usize = 512;

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A constant with labels.
    Info,
    /// Only ever rises while the process runs.
    Counter,
    /// Rises and falls.
    Gauge,
    /// Counts observations by size.
    Histogram,
}

impl Kind {
    /// Its name in the exposition format.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// One metric.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its name without the prefix `firstclaim_` and without the suffix of its kind.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Its labels, besides `le` of a histogram.
    pub labels: &'static [&'static str],
    /// What it says, without a full stop.
    pub help: &'static str,
}

impl Entry {
    /// Its name as it is scraped; a histogram adds `_bucket`, `_sum` and `_count` to it.
    #[must_use]
    pub fn scraped(&self) -> String {
        let suffix = match self.kind {
            Kind::Info => "_info",
            Kind::Counter => "_total",
            Kind::Gauge | Kind::Histogram => "",
        };
        format!("firstclaim_{}{suffix}", self.name)
    }
}

macro_rules! catalogue {
    ($($(#[$section:meta])* $id:ident = $name:literal $kind:ident [$($label:literal),*] $help:literal;)*) => {
        $(pub(super) const $id: Entry = Entry {
            name: $name,
            kind: Kind::$kind,
            labels: &[$($label),*],
            help: $help,
        };)*

        /// Every metric.
        pub const ALL: &[Entry] = &[$($id),*];
    };
}

catalogue! {
    BUILD = "build" Info ["version"] "The program that runs here";

    CLAIMS = "claims" Counter ["tenant", "namespace", "outcome"]
        "Claims that were decided, by what they came to: first, already_held, recovery, takeover, retry, rebound, replay, pending, unresolved, refused";
    CLAIM_REFUSALS = "claim_refusals" Counter ["tenant", "namespace", "reason"]
        "Claims and reservations that were refused, by reason: FINGERPRINT_MISMATCH is one key for two requests, LATE_REPLAY a repeat that is older than the memory";
    REPLAYS = "replays" Counter ["tenant", "namespace", "path"]
        "Duplicates that were answered with the stored result, by where it was read: local is this node's own state, log the leader";
    REPLAY_AGE = "replay_age_seconds" Histogram ["tenant", "namespace"]
        "How long before a duplicate came its intent was completed; what comes near the identity retention is soon executed again";
    DUPLICATE_INTENTS = "duplicate_intents" Counter ["tenant", "namespace", "outcome"]
        "Requests that came under a second key within the window, granted all the same (warned) or refused (blocked): a key that is minted per attempt protects nothing";
    INTENT_TIMES_MOVED = "intent_times_moved" Counter ["tenant", "namespace"]
        "Claims of a known key with another intent time than the first one: a worker that sends the time of sending voids the replay horizon";
    CLAIM_WAITERS = "claim_waiters" Gauge []
        "Claims that this node holds until they have another answer than Pending";

    COMPLETIONS = "completions" Counter ["tenant", "namespace", "disposition", "late"]
        "Records that were completed by their holder; late is after the lease had ended";
    FENCED_WRITES = "fenced_writes" Counter ["tenant", "namespace", "reason"]
        "Calls of holders that held the claim no more, and that changed nothing: STALE_EPOCH, LEASE_EXPIRED, REVOKED";

    EFFECTS_RECORDED = "effects_recorded" Counter ["tenant", "namespace"]
        "Effects that were permitted for the first time";
    DISPATCHES_PERMITTED = "dispatches_permitted" Counter ["tenant", "namespace"]
        "Permits to send an effect, repeats of the same effect included";
    EFFECTS_SETTLED = "effects_settled" Counter ["tenant", "namespace", "verdict"]
        "Effects and work that were settled, by verdict: committed or not_committed";
    EFFECTS_CONTRADICTED = "effects_contradicted" Counter ["tenant", "namespace"]
        "Settlements that contradict what was known: two systems disagree whether something happened";

    RECORDS = "records" Gauge ["tenant", "namespace"]
        "Records that are stored, as last sampled";
    UNRESOLVED_RECORDS = "unresolved_records" Gauge ["tenant", "namespace"]
        "Records of which nobody knows whether something happened, as last sampled";
    UNRESOLVED_OLDEST_AGE = "unresolved_oldest_age_seconds" Gauge ["tenant", "namespace"]
        "Since when the oldest unresolved record waits for somebody, as last sampled; 0 if there is none";
    PARKED_RECORDS = "parked_records" Gauge ["tenant", "namespace"]
        "Records whose EXECUTE grants are used up, as last sampled; only where max_attempts is set";
    SWEEP_LAG = "sweep_lag_seconds" Gauge []
        "For how long the record that is to be removed next has been past its retention, as last sampled";
    SWEPT_RECORDS = "swept_records" Counter [] "Forgotten records removed while leading";
    SWEPT_RESULTS = "swept_results" Counter [] "Expired results removed while leading";

    SIGHTINGS_REPORTED = "sightings_reported" Counter []
        "Claims that were not granted and are in the history of their record";
    SIGHTINGS_DROPPED = "sightings_dropped" Counter []
        "Claims that were not granted and are missing in the history: more came than are kept";
    WATCHES = "watches" Gauge [] "Watches of records and namespaces at this node";

    REFUSALS = "refusals" Counter ["reason"] "Calls refused or failed, items of batches included";
    FORWARDS = "forwards" Counter ["outcome"]
        "Calls forwarded to the leader: answered, not_sent, lost";
    RPC_DURATION = "rpc_duration_seconds" Histogram ["method"]
        "Time from request to answer, by method";

    QUEUE_COMMANDS = "proposer_queue_commands" Gauge [] "Commands that wait for a log entry";
    QUEUE_BYTES = "proposer_queue_bytes" Gauge []
        "Bytes of the commands that wait for a log entry";
    ENTRIES = "proposer_entries" Counter [] "Log entries proposed by this node";
    BATCH_COMMANDS = "proposer_batch_commands" Histogram []
        "Commands that travelled in one log entry";

    TERM = "raft_term" Gauge [] "Present term";
    IS_LEADER = "raft_is_leader" Gauge [] "1 while this node leads";
    HAS_LEADER = "raft_has_leader" Gauge [] "1 while this node knows a leader";
    LAST_INDEX = "raft_last_index" Gauge [] "Last entry in the log";
    COMMITTED_INDEX = "raft_committed_index" Gauge [] "Last committed entry";
    APPLIED_INDEX = "raft_applied_index" Gauge [] "Last applied entry";
    APPLY_LAG = "raft_apply_lag_entries" Gauge [] "Entries committed but not applied";
    SNAPSHOT_INDEX = "raft_snapshot_index" Gauge [] "Last entry in a snapshot";
    SNAPSHOT_INSTALLS = "raft_snapshot_installs" Gauge []
        "Snapshots taken over from a leader since the start";
    PEER_LAG = "raft_peer_lag_entries" Gauge ["peer"] "Entries that a member lacks, at the leader";
    STORE_TIME = "store_time_seconds" Gauge []
        "Store time as applied, in seconds since the Unix epoch";
}

/// The catalogue as a page: `docs/metrics.md` is exactly this.
#[must_use]
pub fn markdown() -> String {
    let mut page = String::from(HEAD);
    for entry in ALL {
        let labels: Vec<String> = entry.labels.iter().map(|label| format!("`{label}`")).collect();
        let labels = if labels.is_empty() { "–".to_owned() } else { labels.join(", ") };
        page.push_str(&format!(
            "| `{}` | {} | {labels} | {} |\n",
            entry.scraped(),
            entry.kind.as_str(),
            entry.help
        ));
    }
    page
}

const HEAD: &str = "\
# Metrics

Every node serves them at `/metrics` of its HTTP listener, in the OpenMetrics text format.

* A call is counted once: by the node that decided it, which is the leader, or the node that replayed it from its own state. Add the nodes up.
* Gauges with the label `namespace` are sampled from a node's own copy of the state every few seconds: take one node's, or the maximum. A look reads at most 10000 unfinished records a namespace.
* Pairs of tenant and namespace beyond the first 512 that a process sees are counted together, as `other`. No label ever names a key, an attempt or an owner.

| name | type | labels | what it says |
|---|---|---|---|
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_in_docs_is_this_catalogue() {
        // Tests run in the folder of their crate.
        let path = "../../docs/metrics.md";
        if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
            std::fs::write(path, markdown()).expect("written");
        }
        let page = std::fs::read_to_string(path).expect("docs/metrics.md");
        assert!(page == markdown(), "docs/metrics.md is not the catalogue; run `make fix`");
    }

    #[test]
    fn no_name_is_given_twice_and_none_says_nothing() {
        for (at, entry) in ALL.iter().enumerate() {
            assert!(ALL[..at].iter().all(|other| other.name != entry.name), "{}", entry.name);
            assert!(!entry.help.ends_with('.') && entry.help.len() > 10, "{}", entry.name);
            assert!(!entry.name.ends_with("_total"), "{}: the suffix is added", entry.name);
        }
    }
}
