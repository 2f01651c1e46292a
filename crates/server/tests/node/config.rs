//! The configuration: every fault is told with its place, all of them at once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use firstclaim_server::Config;
use firstclaim_server::config::{FlagSetting, Sources};

const GOOD: &str = r#"[cluster]
id = "c"
expected_rtt = "80ms"
[[cluster.members]]
id = 1
region = "eu-west"
peer = "127.0.0.1:4362"
client = "http://127.0.0.1:4360"
[node]
id = 1
data_dir = "/tmp/x"
"#;

struct Loaded {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Loaded {
    fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("firstclaim.toml");
        std::fs::write(&path, text).expect("written");
        Self { _folder: folder, path }
    }

    fn sources(&self) -> Sources {
        Sources { file: Some(self.path.clone()), ..Sources::default() }
    }
}

/// The faults of a file, without its folder.
fn faults(text: &str) -> Vec<String> {
    let file = Loaded::new(text);
    faults_of(&file, &file.sources())
}

fn faults_of(file: &Loaded, sources: &Sources) -> Vec<String> {
    let folder = format!("{}/", file.path.parent().expect("a folder").display());
    let error = Config::load(sources).expect_err("faults");
    error.faults.iter().map(|fault| fault.to_string().replace(&folder, "")).collect()
}

#[test]
fn a_good_file_loads() {
    let config = Config::load(&Loaded::new(GOOD).sources()).expect("no fault");
    assert_eq!(config.region(), "eu-west");
    assert_eq!(config.listen.grpc.to_string(), "127.0.0.1:4360");
    assert_eq!(config.expected_rtt.0, 80);
}

#[test]
fn unknown_keys_are_named_with_their_place_and_a_suggestion() {
    let text = GOOD
        .replace("data_dir", "data_dri")
        .replace("region =", "regoin =")
        .replace("[cluster]\n", "colour = 1\n[cluster]\n");
    assert_eq!(
        faults(&text),
        [
            "firstclaim.toml:1:1: unknown key \"colour\"; the keys here are cluster, node, listen, \
             log",
            "firstclaim.toml:7:1: unknown key \"cluster.members.regoin\"; did you mean \"region\"?",
            "firstclaim.toml:12:1: unknown key \"node.data_dri\"; did you mean \"data_dir\"?",
        ]
    );
}

#[test]
fn a_wrong_type_and_broken_syntax_have_a_place() {
    let wrong = faults(&GOOD.replace("[node]\nid = 1", "[node]\nid = \"one\""));
    assert_eq!(wrong.len(), 1);
    assert!(wrong[0].starts_with("firstclaim.toml:10:6: invalid type: string"), "{wrong:?}");
    let broken = faults("[cluster\nid = 1\n");
    assert!(broken[0].starts_with("firstclaim.toml:1:9: "), "{broken:?}");
}

#[test]
fn relations_are_checked_and_all_faults_come_at_once() {
    let text = GOOD
        .replace("80ms", "soon")
        .replace("[node]\nid = 1", "[node]\nid = 7")
        .replace("\"127.0.0.1:4362\"", "\"nowhere\"");
    let text = format!(
        "{text}[listen]\ngrpc = \"0.0.0.0:4360\"\nhttp = \"127.0.0.1:1\"\npeer = \"127.0.0.1:1\"\n\
         [log]\nlevel = \"loud\"\n"
    );
    let found = faults(&text);
    let expect = [
        "firstclaim.toml:3:16: cluster.expected_rtt is \"soon\"; write a duration such as \"80ms\"",
        "firstclaim.toml:7:8: cluster.members[0].peer is \"nowhere\"; write \"host:port\"",
        "firstclaim.toml:17:9: log.level is \"loud\"; use one of error, warn, info, debug, trace",
        "firstclaim.toml:10:6: node.id is 7, which is not among cluster.members (1); set it to the \
         id of this node",
        "firstclaim.toml:15:8: listen.peer is 127.0.0.1:1, like listen.http; give each listener \
         its port",
        "firstclaim.toml:13:8: listen.grpc is 0.0.0.0:4360, which others can reach, and this \
         version cannot check who they are; listen on 127.0.0.1, or accept that anyone who reaches \
         the port can claim, complete and delete: --insecure-no-auth",
    ];
    assert_eq!(found, expect);
}

#[test]
fn what_is_missing_is_named() {
    let found = faults("");
    for name in ["cluster.id", "node.id", "node.data_dir", "cluster.members"] {
        assert!(found.iter().any(|fault| fault.starts_with(name)), "{name}: {found:?}");
    }
    let error = Config::load(&Sources {
        file: Some(PathBuf::from("/nonexistent/firstclaim.toml")),
        ..Sources::default()
    })
    .expect_err("no file");
    assert!(error.to_string().contains("/nonexistent/firstclaim.toml: cannot be read"), "{error}");
}

#[test]
fn environment_and_flags_win_over_the_file_in_that_order() {
    let file = Loaded::new(GOOD);
    let environment = BTreeMap::from([
        ("FIRSTCLAIM_NODE__DATA_DIR".to_owned(), "/tmp/env".to_owned()),
        ("FIRSTCLAIM_LOG__LEVEL".to_owned(), "debug".to_owned()),
        ("FIRSTCLAIM_ENDPOINT".to_owned(), "http://127.0.0.1:1".to_owned()),
        ("HOME".to_owned(), "/".to_owned()),
    ]);
    let data_dir = |value: &str| FlagSetting {
        key: "node.data_dir",
        flag: "--data-dir",
        value: value.to_owned(),
    };
    let sources = Sources { environment, flags: vec![data_dir("/tmp/flag")], ..file.sources() };
    let config = Config::load(&sources).expect("no fault");
    assert_eq!(config.data_dir, Path::new("/tmp/flag"));
    assert_eq!(config.log.level, "debug");
}

#[test]
fn an_unknown_variable_is_refused_with_a_suggestion() {
    let file = Loaded::new(GOOD);
    let environment = BTreeMap::from([
        ("FIRSTCLAIM_NODE_DATA_DIR".to_owned(), "/tmp/env".to_owned()),
        ("FIRSTCLAIM_NODE__ID".to_owned(), "one".to_owned()),
    ]);
    let sources = Sources { environment, ..file.sources() };
    assert_eq!(
        faults_of(&file, &sources),
        [
            "environment variable FIRSTCLAIM_NODE_DATA_DIR: is no setting of firstclaim; did you \
             mean FIRSTCLAIM_NODE__DATA_DIR?",
            "environment variable FIRSTCLAIM_NODE__ID: \"one\" is not a whole number: invalid digit \
             found in string",
        ]
    );
}

#[test]
fn the_example_of_each_region_loads_and_they_are_one_cluster() {
    let folder = Path::new("../../deploy/config");
    let mut members = Vec::new();
    for (at, region) in ["eu-west", "us-east", "ap-south"].into_iter().enumerate() {
        let file = folder.join(format!("{region}.toml"));
        let config = Config::load(&Sources { file: Some(file), ..Sources::default() })
            .expect("the example loads");
        assert_eq!(config.region(), region);
        let port = 4360 + 10 * u16::try_from(at).expect("small");
        let ports = config.listen.all().map(|(_, addr)| addr.port());
        assert_eq!(ports, [port, port + 1, port + 2]);
        members.push(config.members);
    }
    assert!(members.windows(2).all(|pair| pair[0] == pair[1]));
}
