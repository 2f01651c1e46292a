//! From what is written to what is meant: types, and the relations between settings.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use firstclaim_core::Millis;
use firstclaim_core::name::Region;
use firstclaim_replica::Member;
use jiff::SignedDuration;

use super::fault::{ConfigError, Fault};
use super::raw::RawMember;
use super::source::Merged;
use super::{Config, Listen, LogConfig, LogFormat};

/// A setting's name, and what is wrong with it.
type Problem = (String, String);

const CLUSTER_ID_BYTES_MAX: usize = 63;
const MEMBERS_MAX: usize = 9;
const EXPECTED_RTT_MAX: Millis = Millis::from_secs(5);
const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];

/// Turns what was read into a configuration, or into all of its faults.
pub(super) fn typed(merged: Merged) -> Result<Config, ConfigError> {
    let Merged { raw, origins, .. } = merged;
    let mut parse = Parse::default();
    let listen = Listen::default();
    let config = Config {
        cluster_id: parse.required("cluster.id", raw.cluster.id),
        expected_rtt: parse.duration("cluster.expected_rtt", raw.cluster.expected_rtt),
        members: parse.members(raw.cluster.members),
        node_id: parse.required("node.id", raw.node.id),
        data_dir: PathBuf::from(parse.required("node.data_dir", raw.node.data_dir)),
        listen: Listen {
            grpc: parse.address("listen.grpc", raw.listen.grpc, listen.grpc),
            http: parse.address("listen.http", raw.listen.http, listen.http),
            peer: parse.address("listen.peer", raw.listen.peer, listen.peer),
            insecure_no_auth: raw.listen.insecure_no_auth.unwrap_or_default(),
        },
        log: LogConfig {
            format: parse.format(raw.log.format.as_deref()),
            level: parse.level(raw.log.level),
        },
    };
    let mut problems = parse.problems;
    for (key, problem) in relations(&config) {
        if !problems.iter().any(|(known, _)| *known == key) {
            problems.push((key, problem));
        }
    }
    if problems.is_empty() {
        return Ok(config);
    }
    let faults = problems.into_iter().map(|(key, problem)| match origins.get(&key) {
        Some(origin) => Fault { place: origin.to_string(), problem: format!("{key} {problem}") },
        None => Fault { place: key, problem },
    });
    Err(ConfigError { faults: faults.collect() })
}

#[derive(Default)]
struct Parse {
    problems: Vec<Problem>,
}

impl Parse {
    fn fault(&mut self, key: impl Into<String>, problem: impl Into<String>) {
        self.problems.push((key.into(), problem.into()));
    }

    fn required<T: Default>(&mut self, key: &str, value: Option<T>) -> T {
        value.unwrap_or_else(|| {
            self.fault(key, "is missing; set it in the file");
            T::default()
        })
    }

    fn duration(&mut self, key: &str, text: Option<String>) -> Millis {
        let Some(text) = text else { return Config::EXPECTED_RTT_DEFAULT };
        let millis = text.parse::<SignedDuration>().ok().map(|duration| duration.as_millis());
        match millis.and_then(|millis| u64::try_from(millis).ok()) {
            Some(millis) => Millis(millis),
            None => {
                self.fault(key, format!("is {text:?}; write a duration such as \"80ms\""));
                Config::EXPECTED_RTT_DEFAULT
            }
        }
    }

    fn address(&mut self, key: &str, text: Option<String>, default: SocketAddr) -> SocketAddr {
        let Some(text) = text else { return default };
        text.parse().unwrap_or_else(|_| {
            self.fault(key, format!("is {text:?}; write an IP address and a port: \"{default}\""));
            default
        })
    }

    fn format(&mut self, text: Option<&str>) -> LogFormat {
        match text {
            None | Some("auto") => LogFormat::Auto,
            Some("text") => LogFormat::Text,
            Some("json") => LogFormat::Json,
            Some(other) => {
                self.fault("log.format", format!("is {other:?}; use auto, text or json"));
                LogFormat::Auto
            }
        }
    }

    fn level(&mut self, text: Option<String>) -> String {
        let level = text.unwrap_or_else(|| LogConfig::default().level);
        if !LEVELS.contains(&level.as_str()) {
            self.fault("log.level", format!("is {level:?}; use one of {}", LEVELS.join(", ")));
        }
        level
    }

    fn members(&mut self, raw: Vec<RawMember>) -> BTreeMap<u64, Member> {
        let mut members = BTreeMap::new();
        for (at, one) in raw.into_iter().enumerate() {
            let key = |field: &str| format!("cluster.members[{at}].{field}");
            if host_and_port(&one.peer).is_none() {
                self.fault(key("peer"), format!("is {:?}; write \"host:port\"", one.peer));
            }
            let bare = one.client.strip_prefix("http://").unwrap_or(&one.client);
            if host_and_port(bare).is_none() {
                let problem = format!("is {:?}; write \"http://host:port\"", one.client);
                self.fault(key("client"), problem);
            }
            if one.region.trim().is_empty() {
                self.fault(key("region"), "is empty; name the region");
            } else if let Err(fault) = Region::parse(one.region.as_str()) {
                self.fault(key("region"), format!("{}; {}", fault.problem, fault.fix));
            }
            let member = Member {
                region: one.region,
                peer_addr: one.peer,
                client_addr: format!("http://{bare}"),
            };
            if members.insert(one.id, member).is_some() {
                let problem = format!("is {}, like that of another member; ids differ", one.id);
                self.fault(key("id"), problem);
            }
        }
        members
    }
}

fn host_and_port(text: &str) -> Option<(&str, u16)> {
    let authority: http::uri::Authority = text.parse().ok()?;
    let port = authority.port_u16()?;
    let host = text.rsplit_once(':')?.0;
    (!host.is_empty() && !host.contains('@')).then_some((host, port))
}

/// What contradicts itself.
pub(super) fn relations(config: &Config) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut fault = |key: &str, problem: String| problems.push((key.to_owned(), problem));
    let id = &config.cluster_id;
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if id.is_empty() || id.len() > CLUSTER_ID_BYTES_MAX || !id.chars().all(allowed) {
        let max = CLUSTER_ID_BYTES_MAX;
        fault("cluster.id", format!("is {id:?}; use 1 to {max} of a-z, 0-9 and -"));
    }
    let rtt = config.expected_rtt;
    if rtt.0 == 0 || rtt > EXPECTED_RTT_MAX {
        let problem = format!("is {} ms; use 1 to {} ms", rtt.0, EXPECTED_RTT_MAX.0);
        fault("cluster.expected_rtt", problem);
    }
    if config.data_dir.as_os_str().is_empty() {
        fault("node.data_dir", "is empty; name the folder for this node's data".to_owned());
    }
    member_relations(config, &mut fault);
    listen_relations(&config.listen, &mut fault);
    problems
}

fn member_relations(config: &Config, fault: &mut impl FnMut(&str, String)) {
    let members = &config.members;
    if members.is_empty() || members.len() > MEMBERS_MAX {
        let problem = format!(
            "has {} entries; list all members, 1 to {MEMBERS_MAX}, as [[cluster.members]]",
            members.len()
        );
        fault("cluster.members", problem);
        return;
    }
    if members.contains_key(&0) {
        fault("cluster.members", "has a member with id 0; number them from 1".to_owned());
    }
    if !members.contains_key(&config.node_id) {
        let ids: Vec<String> = members.keys().map(ToString::to_string).collect();
        let problem = format!(
            "is {}, which is not among cluster.members ({}); set it to the id of this node",
            config.node_id,
            ids.join(", ")
        );
        fault("node.id", problem);
    }
    let addresses = members.iter().flat_map(|(id, member)| {
        let client = member.client_addr.trim_start_matches("http://");
        [(id, member.peer_addr.as_str()), (id, client)]
    });
    let mut seen: BTreeMap<&str, &u64> = BTreeMap::new();
    for (id, address) in addresses {
        if address.ends_with(":0") {
            continue;
        }
        if let Some(other) = seen.insert(address, id) {
            let problem = format!(
                "has {address} twice, at members {other} and {id}; every address is used once"
            );
            fault("cluster.members", problem);
        }
    }
}

fn listen_relations(listen: &Listen, fault: &mut impl FnMut(&str, String)) {
    let all = listen.all();
    for (at, (name, addr)) in all.iter().enumerate() {
        if let Some((other, _)) =
            all[..at].iter().find(|(_, seen)| seen == addr && addr.port() != 0)
        {
            let problem = format!("is {addr}, like listen.{other}; give each listener its port");
            fault(&format!("listen.{name}"), problem);
        }
    }
    if listen.insecure_no_auth {
        return;
    }
    for (name, addr) in listen.exposed() {
        let problem = format!(
            "is {addr}, which others can reach, and this version cannot check who they are; \
             listen on 127.0.0.1, or accept that anyone who reaches the port can claim, complete \
             and delete: --insecure-no-auth"
        );
        fault(&format!("listen.{name}"), problem);
    }
}
