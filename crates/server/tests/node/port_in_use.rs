//! A port that is taken: one clear error, nothing lost.

use std::collections::BTreeMap;

use firstclaim_core::Millis;
use firstclaim_replica::Member;
use firstclaim_server::config::{Config, Listen, LogConfig};
use firstclaim_server::{Server, StartError};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_taken_port_is_named_with_its_listener() {
    let folder = tempfile::tempdir().expect("a folder");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let busy = taken.local_addr().expect("bound");
    let free = "127.0.0.1:0".parse().expect("an address");
    for (name, listen) in [
        ("grpc", Listen { grpc: busy, http: free, peer: free, insecure_no_auth: false }),
        ("http", Listen { grpc: free, http: busy, peer: free, insecure_no_auth: false }),
        ("peer", Listen { grpc: free, http: free, peer: busy, insecure_no_auth: false }),
    ] {
        let member = Member {
            region: "eu-west".to_owned(),
            peer_addr: "127.0.0.1:1".to_owned(),
            client_addr: "http://127.0.0.1:2".to_owned(),
        };
        let config = Config {
            cluster_id: "test".to_owned(),
            expected_rtt: Millis(10),
            members: BTreeMap::from([(1, member)]),
            node_id: 1,
            data_dir: folder.path().join("data"),
            listen,
            log: LogConfig::default(),
        };
        let error = Server::start(config).await.expect_err("the port is taken");
        assert!(matches!(error, StartError::Listen(_)), "{error:?}");
        let text = error.to_string();
        let expect = format!("listen for {name} on {busy}: ");
        assert!(text.starts_with(&expect), "{text}");
        assert!(text.contains("in use"), "{text}");
        let advice =
            format!("stop the process that holds the port, or set listen.{name} to a free one");
        assert!(text.ends_with(&advice), "{text}");
    }
}

#[tokio::test]
async fn a_listener_off_loopback_needs_a_word() {
    let exposed = "0.0.0.0:0".parse().expect("an address");
    let config = Config {
        cluster_id: "test".to_owned(),
        expected_rtt: Millis(10),
        members: BTreeMap::new(),
        node_id: 1,
        data_dir: "unused".into(),
        listen: Listen { grpc: exposed, ..Listen::default() },
        log: LogConfig::default(),
    };
    let error = Server::start(config).await.expect_err("exposed");
    assert!(error.to_string().contains("--insecure-no-auth"), "{error}");
}
